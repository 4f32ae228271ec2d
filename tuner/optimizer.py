"""Optimizer: the general autotuner, by ask and tell, for evaluators of the user's own.

    tuner = Optimizer(space, objectives=["seconds"], budgets={"bytes": 4096}, seed=0)
    for point in tuner.ask(4):
        tuner.tell(point, {"seconds": 1.2, "bytes": 1024})      # or tell(point, failure="does not compile")

Points depend on what was told, in order, and on the seed alone: telling a kept history again resumes a search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from concurrent.futures import TimeoutError as Overdue
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from mapper.errors import InputError, StudyError
from studies.pareto import pareto_front
from tuner.given_numbers import number
from tuner.minimised_space import MinimisedSpace
from tuner.parameter_groups import Codes
from tuner.parameter_space import ParameterSpace, Point
from tuner.permutation_features import FloatArray
from tuner.proposer import History, propose
from tuner.quantities import Quantities, Values
from tuner.surrogate import Ingredients

PATIENCE = 3
"""Asks in a row whose regret estimate must be below the threshold."""

BROKEN = (BrokenExecutor, CancelledError)
"""What an executor raises that has gone: a pool whose process died, a cluster whose scheduler did."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One evaluation: ``values`` by name, or the ``failure``."""

    number: int
    point: Point
    values: dict[str, float] | None
    failure: str | None


class Optimizer:
    """Searches ``space``.

    ``objectives``: names, or name -> ``minimize`` or ``maximize``. ``budgets``: upper limits on measured quantities,
    which need not be objectives and cannot be maximised. ``evaluations``: budget of evaluations, failed ones included.
    ``regret``: stop once the gain expected of the best unseen point (``Surrogate.gain``) has been below it in
    ``PATIENCE`` asks in a row. ``reference``: worst values of interest, the corner of the hypervolume. Raises
    InputError for what does not fit.
    """

    def __init__(
        self,
        space: ParameterSpace,
        *,
        objectives: Sequence[str] | Mapping[str, str] = ("value",),
        budgets: Mapping[str, float] | None = None,
        seed: int = 0,
        evaluations: int | None = None,
        regret: float | None = None,
        reference: Sequence[float] | None = None,
        ingredients: Ingredients | None = None,
    ) -> None:
        if not isinstance(space, ParameterSpace):
            raise InputError(f"space must be a ParameterSpace, got {space!r}")
        _check_whole("seed", seed, least=0)
        if evaluations is not None:
            _check_whole("evaluations", evaluations)
        gain = math.inf if regret is None else number(regret)
        if gain is None or not gain >= 0:
            raise InputError(f"regret must be a number, 0 or more, got {regret!r}")
        self.space, self.seed, self.evaluations, self.regret = space, seed, evaluations, regret
        self._measured = Quantities(objectives, budgets, reference)
        self.objectives, self.directions = self._measured.objectives, self._measured.directions
        self.quantities, self._goal = self._measured.names, self._measured.goal
        self._domain = MinimisedSpace(space, self._measured)
        self._ingredients = ingredients or Ingredients()
        self.trials: list[Trial] = []
        self.stopped: str | None = None
        self._codes: list[Codes] = []
        self._pending: list[Codes] = []
        self._calm = 0

    def ask(self, count: int = 1) -> list[Point]:
        """Up to ``count`` legal points never asked or told before. Fewer, in the end none, when the search is over:
        ``stopped`` then says why. None, too, while all points that are left were asked and are not told yet."""
        _check_whole("count of points to ask for", count)
        known = len(self.trials) + len(self._pending)
        if self.evaluations is not None:
            count = min(count, self.evaluations - known)
            if len(self.trials) >= self.evaluations:
                self._stop(f"budget of {self.evaluations} evaluations used")
        if self.stopped or count <= 0:
            return []
        rng = np.random.default_rng([self.seed, known])
        history = History(self._codes, self._outcomes(), tuple(self._pending))
        found = propose(self._domain, history, self._goal, self._ingredients, count, rng)
        if found and self.regret is not None and found[0].gain is not None:
            self._calm = self._calm + 1 if found[0].gain < self.regret else 0
            if self._calm >= PATIENCE:
                self._stop(f"expected gain {found[0].gain:.3g} below {self.regret:g} in {PATIENCE} asks in a row")
                return []
        if not found and not self._pending:
            self._stop(f"space exhausted after {len(self.trials)} points")
        self._pending += [self.space.settled(s.point) for s in found]
        return [self.space.point(s.point) for s in found]

    def tell(self, point: Mapping[str, Any], values: Values | None = None, *, failure: str | None = None) -> Trial:
        """Records what became of ``point``, asked or not: a number, numbers in the order of objectives and then other
        budgeted quantities, or numbers by name; or the reason of a failure. Values that are no finite numbers, or not
        as many as needed, are recorded as failures that say so. The point may come back from a text format: with lists
        for tuples, and reals a last digit off. Raises InputError for points that are not legal and for points told
        before."""
        codes, given = self.space.read(point)
        reason, measured = failure, None
        if failure is None:
            try:
                measured = self._measured.read(values)
            except InputError as error:
                reason = str(error)
        asked = next((c for c in self._pending if self.space.same(c, codes)), None)
        if asked is not None:
            self._pending.remove(asked)
        elif any(self.space.same(c, codes) for c in self._codes):
            raise InputError(f"the point {dict(point)} was told before")
        trial = Trial(len(self.trials), given, measured, reason)
        self.trials.append(trial)
        self._codes.append(codes)
        return trial

    def run(
        self,
        evaluate: Callable[[Point], Values],
        *,
        batch: int = 1,
        executor: Executor | None = None,
        timeout: float | None = None,
    ) -> str:
        """Asks, evaluates and tells until the search stops; returns the reason.

        Exceptions of ``evaluate`` are failures of their points. With an ``executor`` the points of a batch run at once,
        are told in the order asked, and one without a result after ``timeout`` seconds has failed. Raises StudyError if
        the executor itself breaks. After that and after an interrupt ``run`` may be called again: what was told is
        kept, and what was asked and not told is asked anew. Raises InputError for points that the caller has asked
        and not told, if nothing else is left to evaluate.
        """
        _check_whole("batch", batch)
        if timeout is not None and executor is None:
            raise InputError(
                f"timeout={timeout!r} needs an executor, as an evaluation in this thread cannot be given up: give one, "
                "such as tuner.executors.ProcessExecutor(workers, seconds=...), which also ends what is overdue"
            )
        if self.evaluations is None and self.regret is None and not math.isfinite(self.space.size):
            raise InputError("an infinite space needs a stopping rule: give evaluations or regret")
        while points := self.ask(batch):
            asked = self._pending[-len(points) :]
            try:
                if executor is None:
                    for point in points:
                        self._tell_result(point, partial(evaluate, point))
                else:
                    self._evaluate(points, evaluate, executor, timeout)
            finally:  # nobody evaluates what an interrupt has left
                self._pending = [c for c in self._pending if c not in asked]
        if self.stopped is None:
            raise InputError(
                f"{len(self._pending)} points were asked and not told, and nothing else is left: tell what became of "
                "them (a failure will do), then run again"
            )
        return self.stopped

    def _evaluate(
        self, points: list[Point], evaluate: Callable[[Point], Values], executor: Executor, timeout: float | None
    ) -> None:
        futures: list[Future[Values]] = []
        try:
            for point in points:
                try:
                    futures.append(executor.submit(evaluate, point))
                except (*BROKEN, RuntimeError) as error:  # the latter if it was shut down
                    raise self._broken(error) from error
            for point, future in zip(points, futures, strict=True):
                self._tell_result(point, partial(future.result, timeout), future, timeout)
        finally:
            for future in futures:
                future.cancel()

    def _tell_result(
        self,
        point: Point,
        result: Callable[[], Values],
        future: Future[Values] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Tells what ``result`` returns or raises: whatever a user's evaluator raises is a result."""
        try:
            values = result()
        except Exception as error:
            if future is not None and isinstance(error, BROKEN):
                raise self._broken(error) from error
            reason = f"raised {type(error).__name__}: {error}"
            if isinstance(error, Overdue) and future is not None and not future.done():
                future.cancel()  # those that wait behind it come sooner
                reason = f"no result within {timeout:g} s"
            self.tell(point, failure=reason)
        else:
            self.tell(point, values)

    def _broken(self, error: BaseException) -> StudyError:
        return StudyError(f"the executor broke ({error}): {len(self.trials)} told trials are kept")

    def front(self) -> list[Trial]:
        """Pareto-optimal trials within the budgets, by the first objective."""
        outcomes = self._outcomes()
        met = np.flatnonzero(self._goal.met(outcomes))
        values = outcomes[met][:, : self._goal.objectives]
        return [self.trials[met[n]] for n in pareto_front(values)]

    @property
    def best(self) -> Trial:
        """The trial with the best first objective within the budgets. Raises StudyError if there is none."""
        if not (front := self.front()):
            raise StudyError(f"none of {len(self.trials)} trials succeeded within the budgets")
        return front[0]

    def _outcomes(self) -> FloatArray:
        return self._measured.outcomes([t.values for t in self.trials])

    def _stop(self, reason: str) -> None:
        self.stopped = self.stopped or reason


def _check_whole(name: str, value: Any, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InputError(f"{name} must be a whole number, {least} or more, got {value!r}")
