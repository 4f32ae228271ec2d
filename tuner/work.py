"""What runs in workers: screening by legality, capacity and model, and simulation. Pure functions of their input.

A worker gets the space once, when it starts; tasks carry mappings as values and bring back plain records.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any

from costmodel import Statistics, estimate, screen
from costmodel.bounds import bounds
from hwsim import Limits
from mapper.canonical import plain
from mapper.errors import SparseLoomError, StudyError
from mapper.legality import violations
from mapper.mapping import Mapping
from mapper.space import MappingSpace
from mapper.workload import Workload
from studies.records import VerdictRecord
from studies.spec import OBJECTIVES
from tuner.descent import Descent, descend
from tuner.evaluate import TOO_SLOW, Evaluation, StorageCache, evaluate
from tuner.over_inputs import combined, joined
from tuner.selection import confident_verdicts
from tuner.sub_problem import sub_problem, within

FORBIDDEN = 1e6
"""Score of a mapping that may not be simulated: above every sum of log objectives."""


@dataclass(frozen=True, slots=True)
class Screening:
    """Verdicts that forbid a mapping, or its estimate."""

    verdicts: tuple[VerdictRecord, ...]
    estimate: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Stop:
    """A simulation of more than ``cycles`` cannot improve the front, because of a ``trial``."""

    cycles: int
    trial: int


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a simulation leaves: no tensors, so that it travels cheaply. ``stop``: what cut it short."""

    failure: str | None
    values: dict[str, float]
    summary: dict[str, Any] | None
    seconds: float
    stop: Stop | None = None


@dataclass(frozen=True, slots=True)
class DescentSettings:
    """What a descent minimises, and what forbids a mapping beside the rules of screening."""

    objectives: tuple[str, ...]
    budgets: tuple[tuple[str, float], ...]
    max_tokens: int | None


class Worker:
    """The state of one worker: the space and its caches."""

    def __init__(self, space: MappingSpace, over_inputs: str = "mean") -> None:
        self.space, self._over_inputs = space, over_inputs
        self._statistics, self._storage = Statistics(), StorageCache()
        self._parts: dict[tuple[str, int], Workload | None] = {}

    def screen(self, mapping: Mapping) -> Screening:
        """Legality, capacity, then the model and its lower bounds, for every input until one forbids the mapping."""
        found = self.estimate(mapping)
        if found.estimate is None:
            return found
        machine = self.space.machine_of(mapping)
        each = [plain(bounds(w, mapping, machine, statistics=self._statistics)) for w in self.space.inputs.values()]
        least = {objective: joined([own[objective] for own in each], self._over_inputs) for objective in each[0]}
        return Screening((), {**found.estimate, "bounds": least})

    def screen_all(self, mappings: Sequence[Mapping]) -> list[Screening]:
        """``screen`` of each."""
        return [self.screen(mapping) for mapping in mappings]

    def estimate(self, mapping: Mapping) -> Screening:
        """Legality, capacity, then the model, for every input until one forbids the mapping."""
        machine, estimates = self.space.machine_of(mapping), {}
        for name, workload in self.space.inputs.items():
            if found := screen(workload, mapping, machine, self._statistics):
                places = [self.space.place(v.where, name) for v in found]
                rows = zip(found, places, strict=True)
                return Screening(tuple(VerdictRecord(v.rule, v.measured, v.limit, v.unit, at) for v, at in rows), None)
            estimates[name] = plain(estimate(workload, mapping, machine, statistics=self._statistics))
        return Screening((), combined(estimates, self._over_inputs))

    def descend(self, descent: Descent, settings: DescentSettings) -> dict[str, Any]:
        """Parameters at the end of a descent over this worker's estimates."""

        def score(mapping: Mapping) -> float:
            screening = self.estimate(mapping)
            found = screening.estimate
            if found is None:
                return FORBIDDEN + self._excess(mapping, screening.verdicts)
            if confident_verdicts(found, settings.budgets, settings.max_tokens):
                return FORBIDDEN
            logs = (math.log(max(found[o], 1e-12)) for o in settings.objectives)
            return math.fsum(w * x for w, x in zip(descent.weights, logs, strict=True))

        return descend(self.space, descent, score)

    def _excess(self, mapping: Mapping, verdicts: tuple[VerdictRecord, ...]) -> float:
        """How many times over capacity the largest tile is (log): a way down to what fits."""
        room = self.space.machine_of(mapping).buffer_bytes
        sizes = [float(v.measured) for v in verdicts if v.rule == "tile-over-capacity"]
        return math.log(max(sizes) / room) if sizes and room else FORBIDDEN

    def simulate(self, mapping: Mapping, limits: Limits, stop: Stop | None = None) -> Simulation:
        """Ground truth; whatever goes wrong inside is a failed row, never a lost one. Where several inputs count by
        their mean, ``stop`` holds for the mean."""
        failure, started, summaries = None, time.perf_counter(), dict[str, dict[str, Any]]()
        for name in self.space.inputs:
            try:
                result = self.run(mapping, limits, name, self._allowed(stop, summaries))
            except Exception as error:  # an error of ours costs one row, not the study
                failure = self.space.place(f"{type(error).__name__}: {error}", name)
                return Simulation(failure, {}, None, time.perf_counter() - started)
            summaries[name] = result.summary
            if result.failure == TOO_SLOW:
                cut = {**result.summary, "status": TOO_SLOW}
                return Simulation(None, {}, cut, time.perf_counter() - started, stop)
            if result.failure is not None:
                failure = self.space.place(result.failure, name)
                break
        summary = combined(summaries, self._over_inputs)
        values = {name: float(summary[name]) for name in OBJECTIVES}
        if endless := [f"{name} is {value}" for name, value in values.items() if not math.isfinite(value)]:
            return Simulation(f"no finite result: {', '.join(endless)}", {}, None, time.perf_counter() - started)
        return Simulation(failure, values, {**summary, "status": failure or "done"}, time.perf_counter() - started)

    def _allowed(self, stop: Stop | None, done: dict[str, dict[str, Any]]) -> int | None:
        """Cycles that the next input may take."""
        if stop is None:
            return None
        if self._over_inputs == "worst":
            return stop.cycles
        return stop.cycles * len(self.space.inputs) - sum(int(own["latency_cycles"]) for own in done.values())

    def sample(self, mapping: Mapping, limits: Limits, share: int) -> dict[str, list[float]] | None:
        """[estimated, simulated] by objective of the mapping on one in ``share`` rows (``sub_problem``); None if there
        is no such part, or the mapping is illegal or fails there."""
        parts = [self._part(name, share) for name in self.space.inputs]
        pairs = [part and self._compared(part, mapping, limits) for part in parts]
        known = [pair for pair in pairs if pair]
        if len(known) < len(pairs):
            return None
        return {o: [joined([p[o][k] for p in known], self._over_inputs) for k in range(2)] for o in OBJECTIVES}

    def _compared(self, part: Workload, mapping: Mapping, limits: Limits) -> dict[str, list[float]] | None:
        machine, own = self.space.machine_of(mapping), within(mapping, part)
        if violations(part, own, machine) or screen(part, own, machine, self._statistics):
            return None
        guess = plain(estimate(part, own, machine, statistics=self._statistics))
        try:
            run = evaluate(part, own, machine, limits, self._storage)
        except (SparseLoomError, MemoryError):  # of this mapping; its row says what the whole comes to
            return None
        return None if run.failure else {o: [float(guess[o]), float(run.summary[o])] for o in OBJECTIVES}

    def _part(self, name: str, share: int) -> Workload | None:
        if (name, share) not in self._parts:
            self._parts[name, share] = sub_problem(self.space.inputs[name], share)
        return self._parts[name, share]

    def run(self, mapping: Mapping, limits: Limits, name: str, most_cycles: int | None = None) -> Evaluation:
        """The full evaluation for one input, outputs included."""
        machine = self.space.machine_of(mapping)
        return evaluate(self.space.inputs[name], mapping, machine, limits, self._storage, most_cycles=most_cycles)


_workers: dict[str, Worker] = {}
_turn = RLock()


def hold(session: str, space: MappingSpace, over_inputs: str) -> None:
    """Gives this process a worker for the tasks of ``session``."""
    _workers.setdefault(session, Worker(space, over_inputs))


def drop(session: str) -> None:
    """Takes it away."""
    _workers.pop(session, None)


@dataclass(frozen=True, slots=True)
class Task:
    """A method of the worker that its process holds for ``session``, as a function that travels. Executors with
    processes of their own end one that takes more than ``seconds``."""

    session: str
    method: str
    seconds: float | None = None

    def __call__(self, *args: Any) -> Any:
        """The result of the method; one at a time, as a worker keeps caches."""
        if self.session not in _workers:
            raise StudyError("a worker has not got the data of the study: is its version of sparseloom another?")
        with _turn:
            return getattr(_workers[self.session], self.method)(*args)
