"""``tune`` in Python: the same study as ``sparseloom tune``, over tensors that the caller holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapper.errors import StudyError
from mapper.mapping import Mapping as MappingValue
from mapper.tensor import SparseTensor
from studies.frames import best, front, program_of, trials_frame, why_no_winner, winners_frame
from studies.records import StudyContents, TrialRecord
from studies.spec import spec_from_values
from tuner.problem import load_problem
from tuner.session import open_session, run_session

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Winner:
    """A simulated trial with its mapping."""

    trial: TrialRecord
    mapping: MappingValue
    words: str

    def explain(self) -> str:
        """The mapping in words, what it costs and what the model thinks limits it."""
        values = ", ".join(f"{name} = {value:,.0f}" for name, value in (self.trial.values or {}).items())
        return f"{self.words}\n{values}\nlimited by {(self.trial.estimate or {})['bottleneck']} (model)"


@dataclass(frozen=True, eq=False)
class Study:
    """A finished study; ``contents`` has every row."""

    contents: StudyContents
    reason: str

    def front(self) -> pd.DataFrame:
        """One row per Pareto-optimal mapping."""
        numbers = {t.number for t in front(self.contents)}
        table = trials_frame(self.contents)
        return table[table["number"].isin(numbers)].sort_values(self.contents.objectives[0])

    def winners(self) -> pd.DataFrame:
        """The default mapping and the best one per objective."""
        return winners_frame(self.contents)

    def best(self, objective: str | None = None) -> Winner:
        """The simulated mapping within the constraints with the least ``objective`` (default: the first). StudyError if
        there is none."""
        from mapper.describe import describe_mapping

        trial = best(self.contents, objective or self.contents.objectives[0])
        if trial is None or trial.mapping is None:
            raise StudyError(f"study {self.contents.handle.name!r} has no best mapping: {why_no_winner(self.contents)}")
        mapping = MappingValue.from_json(trial.mapping)
        return Winner(trial, mapping, describe_mapping(program_of(self.contents), mapping))


def tune(
    program: str,
    tensors: Mapping[str, Any],
    *,
    inputs: Mapping[str, Mapping[str, Any]] | None = None,
    machine: str | Mapping[str, Any] = "rda",
    objectives: Sequence[str] = ("latency_cycles", "traffic_bytes"),
    simulations: int = 60,
    seed: int = 0,
    name: str = "study",
    storage: str = "sqlite:///studies.db",
    mapping: Mapping[str, Any] | None = None,
    search: Mapping[str, Any] | None = None,
    show: bool = False,
    scheduler: str | None = None,
) -> Study:
    """Searches mappings of ``program`` (index notation) over ``tensors`` (scipy.sparse, numpy or SparseTensor).

    ``inputs``: by name, the tensors that differ between several inputs over which each mapping is judged.
    ``machine``, ``mapping`` and ``search`` take what the keys of a study file take. One worker process by default:
    ``search={"workers": n}`` for more needs a ``__main__`` guard, as for any process pool; ``scheduler`` names a Dask
    scheduler that has the workers. Raises the errors of
    ``load_spec`` for what does not fit; a stored study of the same name and content is resumed.
    """
    values = {
        "program": program,
        "tensors": {},
        "inputs": {name: {} for name in inputs or {}},
        "machine": dict(machine) if isinstance(machine, Mapping) else machine,
        "objectives": list(objectives),
        "mapping": dict(mapping or {}),
        "search": {"simulations": simulations, "seed": seed, "workers": 1, **(search or {})},
        "storage": storage,
    }
    held = {t: SparseTensor.from_any(data) for t, data in tensors.items()}
    for which, own in (inputs or {}).items():
        held |= {f"{t} of {which}": SparseTensor.from_any(data) for t, data in own.items()}
    spec = spec_from_values(values, folder=Path.cwd(), name=name, in_memory=held)
    session = open_session(load_problem(spec, held))
    try:
        reason = run_session(session, spec.search.workers, show, scheduler)
        return Study(session.store.load(session.study.name), reason)
    finally:
        session.store.close()
