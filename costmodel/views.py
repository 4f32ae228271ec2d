"""Views of a tensor's points: coarsened, and grouped piece by piece where they are many.

A *view* of a tensor is a set of (mode, granule) columns: granule 1 keeps a mode's coordinates, granule T its tiles
of extent T, an absent mode is projected away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from costmodel.factors import Floats, Ints, coarser, distinct, group_sum

View = tuple[tuple[int, int], ...]
"""(mode, granule) pairs, sorted by mode."""

Extra = tuple[Callable[[Sequence[Ints]], Ints], int]
"""A last column that points tell beside those of a view, and its number of cells."""

PIECE = 1 << 17
"""Points that are grouped at once, about: what is worked on then stays in the cache."""


def coarsens(view: View, finer: View) -> bool:
    """Whether the points of ``finer`` tell those of ``view``."""
    granules = dict(finer)
    return all(m in granules and g % granules[m] == 0 for m, g in view)


def coarsened(view: View, points: Sequence[Ints], keep: View) -> list[Ints]:
    """Points of ``view`` in terms of ``keep``: a subset of its modes at the same or coarser granules."""
    at = {m: (g, crd) for (m, g), crd in zip(view, points, strict=True)}
    return [coarser(crd, g // own) for m, g in keep for own, crd in [at[m]]]


def sizes_of(view: View, shape: Sequence[int]) -> list[int]:
    """Cells along every column."""
    return [max(1, -(-shape[m] // g)) for m, g in view]


def grouped(
    view: View, points: Sequence[Ints], keep: View, shape: Sequence[int], weights: Floats | None,
    extra: Extra | None = None,
) -> tuple[tuple[Ints, ...], Floats]:  # fmt: skip
    """Points of ``view``, in coordinate order, grouped by ``keep`` and ``extra``: as ``group_sum``."""

    def sums(coords: Sequence[Ints], sizes: Sequence[int], part: slice) -> list[np.ndarray]:
        found, total = group_sum(coords, sizes, None if weights is None else weights[part])
        return [*found, total]

    *found, total = _in_pieces(view, points, keep, shape, extra, sums)
    return tuple(found), total


def distinct_points(
    view: View, points: Sequence[Ints], keep: View, shape: Sequence[int], extra: Extra | None = None
) -> tuple[Ints, ...]:
    """The distinct points of ``keep`` and ``extra`` among those of ``view``, which come in coordinate order."""
    return tuple(_in_pieces(view, points, keep, shape, extra, lambda coords, sizes, _: list(distinct(coords, sizes))))


def _in_pieces(
    view: View, points: Sequence[Ints], keep: View, shape: Sequence[int], extra: Extra | None,
    group: Callable[[Sequence[Ints], Sequence[int], slice], list[np.ndarray]],
) -> list[np.ndarray]:  # fmt: skip
    """What ``group`` makes of coordinates, their sizes and which points they are, piece by piece: no two pieces have a
    group in common. The first of the arrays that it makes has coordinates of the first column."""
    bounds, found = _bounds(view, points, keep), list[list[np.ndarray]]()
    for start, end in pairwise(bounds):
        part = points if len(bounds) == 2 else [c[start:end] for c in points]
        coords, sizes = coarsened(view, part, keep), sizes_of(keep, shape)
        if extra is not None:
            coords, sizes = [*coords, extra[0](part)], [*sizes, extra[1]]
        if len(bounds) == 2:
            return group(coords, sizes, slice(None))
        low = coords[0][0]
        sizes[0] = int(coords[0][-1] - low) + 1
        found.append(group([coords[0] - low, *coords[1:]], sizes, slice(start, end)))
        found[-1][0] = found[-1][0] + low
    return [np.concatenate(parts) for parts in zip(*found, strict=True)]


def _bounds(view: View, points: Sequence[Ints], keep: View) -> list[int]:
    """Where pieces begin, and the end: no piece but the whole if ``keep`` lacks the first mode."""
    size = points[0].size
    if size <= PIECE or not keep or keep[0][0] != view[0][0]:
        return [0, size]
    times = keep[0][1] // view[0][1]
    cuts = points[0][PIECE::PIECE] // times * times
    return [0, *(n for n in np.unique(np.searchsorted(points[0], cuts)).tolist() if n), size]
