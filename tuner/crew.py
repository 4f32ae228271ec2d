"""Crew: the workers of one study, inline, in processes or on a Dask cluster, and what they are asked for.

Answers come in the order of the questions, whoever was first. A task whose worker dies is tried again when no other
runs: it may have died by chance, or as all together took too much memory. If it dies again, or is overdue, a simulation
is a failed one; any other task without a result is an error, after which the study may be resumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor, Future
from itertools import chain
from types import TracebackType
from typing import Any
from uuid import uuid4

from hwsim import Limits
from mapper.errors import InputError
from mapper.mapping import Mapping
from mapper.space import MappingSpace
from tuner.descent import Descent
from tuner.executors import InlineExecutor, Overdue, ProcessExecutor, WorkerLost
from tuner.work import DescentSettings, Screening, Simulation, Stop, Task, drop, hold

AT_ONCE = 4
"""Mappings screened by one task: each takes milliseconds."""


class Crew:
    """Workers that hold ``space`` and judge as ``over_inputs`` says: on the Dask ``scheduler`` if one is named, else
    this process if there is one worker, else ``workers`` processes. A simulation ends after ``seconds``, which takes a
    process that can be ended, if only one."""

    def __init__(
        self,
        space: MappingSpace,
        over_inputs: str,
        *,
        workers: int = 1,
        scheduler: str | None = None,
        seconds: float | None = None,
    ) -> None:
        self._session, self._seconds = uuid4().hex, seconds
        self._inline = scheduler is None and workers == 1 and seconds is None
        self._executor: Executor
        given = (self._session, space, over_inputs)
        if self._inline:
            hold(*given)
            self._executor = InlineExecutor()
        elif scheduler is None:
            self._executor = ProcessExecutor(workers, initializer=hold, initargs=given)
        else:
            try:
                from tuner.dask_executor import DaskExecutor
            except ModuleNotFoundError as error:
                raise InputError(f"a Dask scheduler needs {error.name}: pip install 'sparseloom[dask]'") from error
            self._executor = DaskExecutor(scheduler, workers, *given)

    def __enter__(self) -> Crew:
        self._executor.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inline:
            drop(self._session)
        self._executor.__exit__(kind, error, trace)

    def screen(self, mappings: Sequence[Mapping]) -> list[Screening]:
        """``Worker.screen`` of each."""
        chunks = [(mappings[n : n + AT_ONCE],) for n in range(0, len(mappings), AT_ONCE)]
        return list(chain.from_iterable(map(_succeeded, self._answers("screen_all", chunks))))

    def descend(self, descents: Sequence[Descent], settings: DescentSettings) -> list[dict[str, Any]]:
        """``Worker.descend`` of each."""
        return list(map(_succeeded, self._answers("descend", [(descent, settings) for descent in descents])))

    def simulate(
        self, mappings: Sequence[Mapping], limits: Limits, stops: Sequence[Stop | None] | None = None
    ) -> list[Simulation]:
        """``Worker.simulate`` of each with its stop."""
        questions = [(m, limits, stop) for m, stop in zip(mappings, stops or [None] * len(mappings), strict=True)]
        answers = self._answers("simulate", questions, self._seconds)
        return [Simulation(str(a), {}, None, 0.0) if isinstance(a, WorkerLost) else a for a in answers]

    def sample(self, mappings: Sequence[Mapping], limits: Limits, share: int) -> list[dict[str, list[float]] | None]:
        """``Worker.sample`` of each; None also for one that is overdue or whose worker dies."""
        answers = self._answers("sample", [(m, limits, share) for m in mappings], self._seconds)
        return [None if isinstance(a, WorkerLost) else a for a in answers]

    def _answers(self, method: str, questions: Sequence[tuple[Any, ...]], seconds: float | None = None) -> list[Any]:
        """Results of a method of workers, or the WorkerLost that came instead."""
        task = Task(self._session, method, seconds)
        futures = [self._executor.submit(task, *question) for question in questions]
        found = [_answer(future) for future in futures]
        for n, answer in enumerate(found):
            if isinstance(answer, WorkerLost) and not isinstance(answer, Overdue):
                found[n] = _answer(self._executor.submit(task, *questions[n]))
        return found


def _answer(future: Future[Any]) -> Any:
    try:
        return future.result()
    except WorkerLost as lost:
        return lost


def _succeeded(answer: Any) -> Any:
    if isinstance(answer, WorkerLost):
        raise answer
    return answer
