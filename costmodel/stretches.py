"""Stretches of a walk: the prefixes under a few ranges of loop coordinates, for replays that need whole cycles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.counting import Leaf
from costmodel.factors import Column, Factor, Ints
from costmodel.nest import Nest
from costmodel.parts import Range, Within


@dataclass(frozen=True, slots=True, eq=False)
class Stretches:
    """One stretch or several that differ in ``column`` alone, of which each begins at one of ``starts``: ``leaves``
    within them."""

    leaves: list[Leaf]
    column: Column
    starts: Ints

    @property
    def count(self) -> int:
        """Number of stretches."""
        return self.starts.size

    def of(self, points: Factor) -> Ints:
        """Which of them every point of the walk lies in."""
        if self.count == 1:
            return np.zeros(points.weights.size, np.int64)
        return np.searchsorted(self.starts, points.column(*self.column), side="right") - 1


def stretches(nest: Nest, leaves: Sequence[Leaf], depth: int, count: int, length: int) -> Iterator[Stretches]:
    """``count`` stretches, evenly over the walk of the first ``depth`` loops, that have about ``length`` prefixes each.
    Those that differ in one loop alone come together: they are listed in the time of one."""
    found = (_ranges(nest, leaves, depth, (2 * n + 1) / (2 * count), length) for n in range(count))
    alike = dict[tuple[Range, ...], dict[int, int]]()
    for *outer, (column, (start, end)) in found:
        ends = alike.setdefault((*outer, (column, ())), {})
        ends[start] = end
    for (*outer, (column, _)), ends in alike.items():
        starts = sorted(ends)
        stops = [min(ends[lo], hi) for lo, hi in zip(starts, [*starts[1:], ends[starts[-1]]], strict=True)]
        edges = tuple(edge for pair in zip(starts, stops, strict=True) for edge in pair)
        yield Stretches(within(leaves, (*outer, (column, edges))), column, np.array(starts))


def within(leaves: Sequence[Leaf], ranges: tuple[Range, ...]) -> list[Leaf]:
    """Leaves whose nodes lie within ``ranges``."""
    return [Within(x.stats, x.indices, x.view, ranges) for x in leaves]


def _ranges(nest: Nest, leaves: Sequence[Leaf], depth: int, place: float, length: int) -> tuple[Range, ...]:
    """The stretch that begins at share ``place`` of the walk: loop by loop, one coordinate while it is too long."""
    ranges: tuple[Range, ...] = ()
    for column in nest.variables(depth).items():
        if not any(column in x.columns for x in leaves):
            continue
        found = nest.counter.by(within(leaves, ranges), nest.variables(depth), (column,))
        if not found.weights.size:
            break
        ends = np.cumsum(found.weights)
        start = min(int(np.searchsorted(ends, place * ends[-1], side="right")), ends.size - 1)
        before = ends[start - 1] if start else 0.0
        stop = max(start + 1, int(np.searchsorted(ends, before + length, side="right")))
        crd = found.coords[0]
        ranges = (*ranges, (column, (int(crd[start]), int(crd[min(stop, crd.size) - 1]) + 1)))
        if ends[min(stop, ends.size) - 1] - before <= 2 * length:
            break
        inside = float(found.weights[start])  # a stretch that began at its very end would be cut off there
        place = min((place * ends[-1] - before) / inside, 1 - length / inside)
    return ranges
