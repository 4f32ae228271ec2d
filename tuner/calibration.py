"""Calibration: fits fields of a machine to cycles that were measured for mappings on a real one.

The simulator is the model: a candidate machine runs the same mappings on the same data, and its cycles are compared
with the measured ones. Cycles are steps in most fields, so nothing here needs derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping as MappingABC
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hwsim import Limits
from mapper.errors import IllegalMapping, InputError
from mapper.legality import memory_violations, violations
from mapper.machine import REAL_FIELDS, Machine
from tuner.evaluate import StorageCache, evaluate
from tuner.measurement import Measurement

FAILED_LOSS = 1e6
"""Loss for every mapping that does not finish: finite, so that fewer of them are better."""

CANDIDATES_PER_GENERATION = 8
"""Per free field."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Simulated cycles against measured ones, in the order of the measurements."""

    measured: tuple[int, ...]
    simulated: tuple[int, ...]

    @property
    def errors(self) -> tuple[float, ...]:
        """Relative errors, simulated / measured - 1."""
        return tuple(s / m - 1 for s, m in zip(self.simulated, self.measured, strict=True))

    @property
    def mean_error(self) -> float:
        """Mean of the absolute errors."""
        return sum(map(abs, self.errors)) / len(self.errors)

    @property
    def worst_error(self) -> float:
        """Largest absolute error."""
        return max(map(abs, self.errors))

    @property
    def loss(self) -> float:
        """Mean square of ln(simulated / measured): over and under by a factor cost the same."""
        return sum(math.log(s / m) ** 2 for s, m in zip(self.simulated, self.measured, strict=True)) / len(
            self.measured
        )


@dataclass(frozen=True, slots=True)
class Calibration:
    """``fitted`` values of the free fields, and the machine with them.

    ``before`` is None if the starting machine did not finish every mapping. ``undetermined``: fields with which no
    simulated cycle changes between their bounds, the others staying as fitted; their fitted value means nothing.
    ``candidates``: machines that were simulated.
    """

    machine: Machine
    fitted: dict[str, int | float]
    before: Fit | None
    after: Fit
    undetermined: tuple[str, ...]
    candidates: int


def calibrate(
    machine: Machine,
    measurements: Sequence[Measurement],
    free: MappingABC[str, tuple[float, float]],
    *,
    seed: int = 0,
    candidates: int = 400,
    limits: Limits | None = None,
) -> Calibration:
    """Fits the fields ``free`` (name -> inclusive bounds) of ``machine`` to ``measurements``.

    Minimises ``Fit.loss`` by differential evolution (scipy, integer fields as integers), which takes two thirds of
    the ``candidates``, then by steps along one field at a time, halved until they are 1 (real fields: a thousandth
    of the range). Every candidate simulates all measurements within ``limits`` (none by default); a repeated
    candidate is free. The same arguments give the same result.

    Raises InputError without free fields, for unknown fields, bounds that are empty or no values of the field, fewer
    measurements than free fields, a mapping that fixes a free field itself, cycles below 1, and if no candidate
    finished every mapping; IllegalMapping for a mapping that ``machine`` cannot run.
    """
    _check(machine, measurements, free)
    search = _Search(machine, tuple(measurements), dict(free), limits or Limits())
    start = tuple(getattr(machine, name) for name in free)
    before = search.fit(start)
    inside = all(x is not None and low <= x <= high for x, (low, high) in zip(start, free.values(), strict=True))
    search.evolve(seed, 2 * candidates // 3, start if inside else None)
    search.descend(candidates)
    best = search.best()
    after = search.fit(best)
    if after is None:
        raise InputError(
            f"some machine within {dict(free)} must finish every mapping, but none of {len(search.known)} candidates "
            f"did: {search.failure}; widen the bounds"
        )
    undetermined = tuple(name for n, name in enumerate(free) if not search.matters(best, n))
    fitted = dict(zip(free, best, strict=True))
    return Calibration(machine.with_fields(**fitted), fitted, before, after, undetermined, len(search.known))


def compare(machine: Machine, measurements: Sequence[Measurement], limits: Limits | None = None) -> Fit | None:
    """Simulated against measured cycles on one machine, above all for measurements that no fit has seen; None if a
    mapping does not finish within ``limits`` (none by default)."""
    return _Search(machine, tuple(measurements), {}, limits or Limits()).fit(())


def _check(machine: Machine, measurements: Sequence[Measurement], free: MappingABC[str, tuple[float, float]]) -> None:
    if not free:
        raise InputError("calibration needs at least one free field, got none")
    for name, bounds in free.items():
        for bound in bounds:
            machine.with_fields(**{name: bound})  # unknown fields and impossible values raise here
            if bound is None or not math.isfinite(bound):
                raise InputError(f"bounds of {name!r} must be finite numbers, got {bounds}")
        if not bounds[0] < bounds[1]:
            raise InputError(f"bounds of {name!r} must be (low, high) with low < high, got {bounds}")
    if len(measurements) < len(free):
        raise InputError(f"{len(free)} free fields need as many measurements at least, got {len(measurements)}")
    for n, measurement in enumerate(measurements):
        if measurement.cycles < 1:
            raise InputError(f"measurement {n}: cycles must be at least 1, got {measurement.cycles}")
        if fixed := sorted(set(free) & {name for name, _ in measurement.mapping.machine}):
            raise InputError(f"measurement {n}: its mapping fixes {fixed}, which must be free; take it out of one")
        if broken := violations(measurement.workload, measurement.mapping, machine):
            raise IllegalMapping(broken, f"measurement {n}: its mapping must be legal on {machine.name}, but ")


Point = tuple[Any, ...]


@dataclass
class _Search:
    """Candidates simulated so far, and the ways to find better ones."""

    machine: Machine
    measurements: tuple[Measurement, ...]
    free: dict[str, tuple[float, float]]
    limits: Limits
    known: dict[Point, tuple[int | None, ...]] = field(default_factory=dict)
    failure: str | None = None
    cache: StorageCache = field(default_factory=StorageCache)

    def cycles(self, point: Point) -> tuple[int | None, ...]:
        """Simulated cycles of every mapping with the free fields at ``point``; None for one that did not finish."""
        if point not in self.known:
            candidate = self.machine.with_fields(**dict(zip(self.free, point, strict=True)))
            self.known[point] = tuple(self._run(m, candidate) for m in self.measurements)
        return self.known[point]

    def _run(self, m: Measurement, candidate: Machine) -> int | None:
        machine = candidate.with_fields(**dict(m.mapping.machine))
        if broken := memory_violations(machine):
            self.failure = str(broken[0])
            return None
        result = evaluate(m.workload, m.mapping, machine, self.limits, self.cache)
        if result.failure is None:
            return max(1, result.latency_cycles)
        self.failure = result.failure
        return None

    def fit(self, point: Point) -> Fit | None:
        """Measured and simulated cycles at ``point``; None if a mapping did not finish."""
        simulated = tuple(c for c in self.cycles(point) if c is not None)
        measured = tuple(m.cycles for m in self.measurements)
        return Fit(measured, simulated) if len(simulated) == len(measured) else None

    def loss(self, point: Point) -> float:
        fit = self.fit(point)
        return FAILED_LOSS * self.cycles(point).count(None) if fit is None else fit.loss

    def best(self) -> Point:
        """The best candidate within the bounds, the first of equals."""
        bounds = self.free.values()
        inside = (
            p
            for p in self.known
            if all(x is not None and low <= x <= high for x, (low, high) in zip(p, bounds, strict=True))
        )
        return min(inside, key=self.loss)

    def point(self, values: Sequence[float]) -> Point:
        """``values`` within the bounds, integer fields as integers."""
        clipped = (min(max(float(x), low), high) for x, (low, high) in zip(values, self.free.values(), strict=True))
        return tuple(x if name in REAL_FIELDS else round(x) for name, x in zip(self.free, clipped, strict=True))

    def evolve(self, seed: int, candidates: int, start: Point | None) -> None:
        """Differential evolution; ends early once a candidate meets every measurement."""
        import numpy as np
        from scipy.optimize import Bounds, differential_evolution

        def loss(x: np.ndarray[Any, np.dtype[np.float64]]) -> float:
            return self.loss(self.point(x.tolist()))

        def met(x: np.ndarray[Any, np.dtype[np.float64]], _convergence: Any) -> Any:
            return loss(x) == 0.0

        lows, highs = (np.array(ends, np.float64) for ends in zip(*self.free.values(), strict=True))
        differential_evolution(
            loss,
            Bounds(lows, highs),
            x0=None if start is None else np.array(start, np.float64),
            integrality=np.array([name not in REAL_FIELDS for name in self.free]),
            popsize=CANDIDATES_PER_GENERATION,
            maxiter=max(1, candidates // (CANDIDATES_PER_GENERATION * len(self.free)) - 1),
            callback=met,
            polish=False,
            seed=seed,
        )

    def descend(self, candidates: int) -> None:
        """From the best candidate: the better of two steps along each field, until ``candidates`` are spent."""
        spans = [high - low for low, high in self.free.values()]
        least = [span / 1000 if name in REAL_FIELDS else 1.0 for name, span in zip(self.free, spans, strict=True)]
        steps = [max(span / 8, smallest) for span, smallest in zip(spans, least, strict=True)]
        here = self.best()
        while self.loss(here) > 0 and len(self.known) < candidates:
            moved = False
            for n, step in enumerate(steps):
                around = [self.point([x + sign * step * (k == n) for k, x in enumerate(here)]) for sign in (-1, 1)]
                better = min(around, key=self.loss)
                if self.loss(better) < self.loss(here):
                    here, moved = better, True
            if not moved:
                if steps == least:
                    return
                steps = [max(step / 2, smallest) for step, smallest in zip(steps, least, strict=True)]

    def matters(self, best: Point, n: int) -> bool:
        """Whether field ``n`` changes any simulated cycle between its bounds, the other fields staying at ``best``."""
        bounds = list(self.free.values())[n]
        ends = (self.point([bound if k == n else x for k, x in enumerate(best)]) for bound in bounds)
        return any(self.cycles(end) != self.cycles(best) for end in ends)
