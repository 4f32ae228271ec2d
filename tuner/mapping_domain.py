"""MappingDomain: a mapping space as what the proposer searches, with the cost model as prior."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import pdist

from mapper.errors import IllegalMapping
from mapper.mapping import Mapping as MappingValue
from mapper.space import MappingSpace
from tuner.permutation_features import FloatArray

MOST_NEIGHBOURS = 16
"""Neighbours that a step of a local search looks at, drawn from all: each may cost an estimate."""

SCALED = 64
"""Mappings drawn to find how far features spread."""

Estimate = Callable[[Sequence[MappingValue]], Sequence[Mapping[str, float] | None]]
"""Estimates of mappings by name of the quantity; None for one that may not be simulated."""


class Features(Protocol):
    """Features of mappings; ``groups``, where there, says which features belong to one knob."""

    def vector(self, mapping: MappingValue) -> FloatArray:
        """float64[features], of order one."""


@dataclass(slots=True)
class Replay:
    """A chooser that follows ``params`` and remembers the choices that were offered. KeyError for one that is not
    there, IllegalMapping where it is not offered."""

    params: Mapping[str, Any]
    offered: dict[str, Sequence[Any]] = field(default_factory=dict)

    def categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """The parameter."""
        self.offered[name] = choices
        if self.params[name] not in choices:
            raise IllegalMapping([], f"{name} may not be {self.params[name]!r} here")
        return self.params[name]

    def integer(self, name: str, low: int, high: int) -> int:
        """The parameter."""
        return int(self.categorical(name, range(low, high + 1)))


class MappingDomain:
    """``quantities``: what is measured of a mapping, objectives first; ``estimate``: the cost model, or None."""

    def __init__(
        self, space: MappingSpace, quantities: Sequence[str], features: Features, estimate: Estimate | None
    ) -> None:
        self.space, self.quantities = space, tuple(quantities)
        self._features, self._estimate = features, estimate
        self._known: dict[MappingValue, tuple[float, ...]] = {}

    @cached_property
    def groups(self) -> npt.NDArray[np.int64]:
        """One length scale per knob, or per feature where knobs are not told apart."""
        own = getattr(self._features, "groups", None)
        if own is not None:
            return np.unique(np.asarray(own), return_inverse=True)[1].astype(np.int64)
        return np.arange(len(self._features.vector(self.space.sample(np.random.default_rng(0)))))

    @cached_property
    def _scale(self) -> FloatArray:
        """float64[features]: mappings of a fixed sample that are farthest apart in a knob differ by 1 in it."""
        rng = np.random.default_rng(0)
        rows = np.array([self._features.vector(self.space.sample(rng)) for _ in range(SCALED)])
        widths = np.ptp(rows, axis=0)
        scale = 1 / np.where(widths > 0, widths, 1.0)
        for group in range(int(self.groups.max()) + 1):
            own = (rows * scale)[:, self.groups == group]
            scale[self.groups == group] /= np.sqrt(max(pdist(own, "sqeuclidean").max(), 1.0))
        return scale

    def sample(self, rng: np.random.Generator, count: int) -> list[MappingValue]:
        """Uniform legal mappings."""
        return [self.space.sample(rng) for _ in range(count)]

    def neighbours(self, point: MappingValue, rng: np.random.Generator) -> list[MappingValue]:
        """Up to ``MOST_NEIGHBOURS`` legal mappings one knob away."""
        every = list(self.space.neighbours(point))
        if len(every) <= MOST_NEIGHBOURS:
            return every
        return [every[n] for n in sorted(rng.choice(len(every), MOST_NEIGHBOURS, replace=False))]

    def kind(self, point: MappingValue) -> str:
        """The rewriting, on which all other knobs depend."""
        return point.variant

    def few(self) -> None:
        """Mapping spaces are not listed."""

    def features(self, points: Sequence[MappingValue]) -> FloatArray:
        """float64[points, features], scaled."""
        return np.array([self._features.vector(p) for p in points], np.float64) * self._scale

    def estimates(self, points: Sequence[MappingValue]) -> FloatArray | None:
        """float64[points, quantities]; NaN for mappings that screening forbids."""
        if self._estimate is None:
            return None
        fresh = [p for p in dict.fromkeys(points) if p not in self._known]
        for point, found in zip(fresh, self._estimate(fresh) if fresh else (), strict=True):
            nothing = (math.nan,) * len(self.quantities)
            self._known[point] = nothing if found is None else tuple(float(found[q]) for q in self.quantities)
        return np.array([self._known[p] for p in points], np.float64).reshape(len(points), len(self.quantities))
