"""Stretches of a walk: the prefixes under a few ranges of loop coordinates, for replays that need whole cycles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from costmodel.counting import Leaf
from costmodel.nest import Nest
from costmodel.parts import Range, Within


def stretches(nest: Nest, leaves: Sequence[Leaf], depth: int, count: int, length: int) -> Iterator[list[Leaf]]:
    """``leaves`` within each of ``count`` stretches, evenly over the walk of the first ``depth`` loops, that have about
    ``length`` prefixes each."""
    seen: set[tuple[Range, ...]] = set()
    for n in range(count):
        ranges = _ranges(nest, leaves, depth, (2 * n + 1) / (2 * count), length)
        if ranges not in seen:
            seen.add(ranges)
            yield within(leaves, ranges)


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
        ranges = (*ranges, (column, int(crd[start]), int(crd[min(stop, crd.size) - 1]) + 1))
        if ends[min(stop, ends.size) - 1] - before <= 2 * length:
            break
        inside = float(found.weights[start])  # a stretch that began at its very end would be cut off there
        place = min((place * ends[-1] - before) / inside, 1 - length / inside)
    return ranges
