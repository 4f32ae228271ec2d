"""Tile shapes by descent over the model's traffic.

The largest tile grows with every extent, so what fits is found by bisection, and a shape that does not fit rules out
all larger ones. From a few starts (the largest square that fits, one long side each, the best corners of the space)
the search moves to the best of its neighbours until none is better: one extent a step up or down, or one up while
another gives way until the tile fits again; where none is better, steps twice and four times as long are tried. Extents
are 2**n, 3 * 2**n and the whole of an index; a few hundred shapes are looked at, of thousands.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace

from costmodel.screening import capacity_verdicts
from costmodel.statistics import Statistics, shared_statistics
from costmodel.traffic import predict_traffic
from mapper.default_mapping import row_major_order
from mapper.errors import EmptySpace, InputError
from mapper.formats import COMPRESSED, DENSE
from mapper.machine import Machine
from mapper.mapping import Loops, Mapping
from mapper.regions import stored_tensors
from mapper.workload import Workload

Shape = tuple[int, ...]
"""Extent of the tiles per index, in the order of ``Frame.tiles``."""

ORDERS_SEARCHED = 3
"""Orders of tile loops that are searched, where none is given: those of least traffic at the starts of a search."""

MOST_ORDERS = 24
"""Orders that are compared; of more indices those that differ from the inner loops' in the place of one of them."""

STEPS = (1, 2, 4)
"""Steps on the grid of extents, the next where the one before leads nowhere: traffic has bumps where edge tiles change,
and cliffs where the result no longer fits."""

CORNERS = 2
"""Starts among shapes whose sides are whole or 1: those of least traffic."""


@dataclass(frozen=True)
class Frame:
    """What a tiling of a program of one statement leaves open is the shape: ``order`` of the inner loops, ``tiles``:
    that of the tile loops, ``residency``, and ``level`` of the model."""

    workload: Workload
    machine: Machine
    order: tuple[str, ...]
    tiles: tuple[str, ...]
    residency: str = "none"
    level: str = "L2"
    statistics: Statistics = field(default_factory=shared_statistics)

    def __post_init__(self) -> None:
        """Raises InputError for programs of several statements, and orders that are none of its indices."""
        statements = self.workload.program.statements
        if len(statements) != 1:
            raise InputError(f"tile shapes are searched for programs of one statement, got {len(statements)}")
        for order in (self.order, self.tiles):
            if sorted(order) != sorted(statements[0].indices):
                raise InputError(f"an order must have the indices {statements[0].indices}, each once, got {order}")

    @property
    def extents(self) -> tuple[int, ...]:
        """Of the indices, in the order of tile loops."""
        return tuple(self.workload.extents[0][i] for i in self.tiles)

    def mapping(self, shape: Shape) -> Mapping:
        """The mapping with tiles of ``shape``, sparse tensors compressed at every level, one lane."""
        tiles = tuple((i, t) for i, t, e in zip(self.tiles, shape, self.extents, strict=True) if t < e)
        return Mapping((), (Loops(self.order, tiles),), formats_of(self.workload), self.residency)

    def fits(self, shape: Shape) -> bool:
        """Whether every tile of an operand fits its buffer."""
        return not capacity_verdicts(self.workload, self.mapping(shape), self.machine, self.statistics)

    def traffic(self, shape: Shape) -> float:
        """Predicted bytes."""
        found = predict_traffic(
            self.workload, self.mapping(shape), self.machine, level=self.level, statistics=self.statistics
        )
        return sum(t.bytes for t in found)

    def square(self, extent: int) -> Shape:
        """Tiles of the same extent along every index, as far as it goes."""
        return tuple(min(extent, e) for e in self.extents)


def formats_of(workload: Workload) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Dense levels for tensors without zeros, compressed ones for all others; (tensor, kinds), sorted."""
    cuts = (True,) * len(workload.program.edges)
    tensors = ((name, workload.tensor(name)) for name in stored_tensors(workload.program, cuts))
    return tuple(sorted((n, (DENSE if t.density == 1 else COMPRESSED,) * t.ndim) for n, t in tensors))


def best_tiling(
    workload: Workload,
    machine: Machine,
    *,
    order: tuple[str, ...] | None = None,
    tiles: tuple[str, ...] | None = None,
    residency: str = "none",
    level: str = "L2",
    statistics: Statistics | None = None,
) -> Mapping:
    """The tiling of least predicted traffic that the search finds: shapes, and the order of tile loops unless ``tiles``
    gives one. ``order``: inner loops (row-major by default).

    Raises EmptySpace if not even a tile of one element fits, InputError as ``Frame``.
    """
    order = order or row_major_order(workload.program.statements[0])
    frame = Frame(workload, machine, order, tiles or order, residency, level, statistics or shared_statistics())
    if tiles:
        return frame.mapping(search_shape(frame))
    many = math.factorial(len(order)) > MOST_ORDERS
    orders = [order, *_moves(order)] if many else itertools.permutations(order)
    frames = [replace(frame, tiles=own) for own in orders]
    unlike = dict[tuple[float, ...], Frame]()  # orders that move the same at all starts are hardly different
    for own in sorted(frames, key=lambda f: f.tiles):
        unlike.setdefault(_Descent(own).at_starts(), own)
    best = min(_searched(unlike[traffic]) for traffic in sorted(unlike)[: 1 if many else ORDERS_SEARCHED])
    while (better := _reordered(frame, best)) < best:
        best = better
    return replace(frame, tiles=best[1]).mapping(best[2])


_Found = tuple[float, tuple[str, ...], Shape]
"""Traffic, order of tile loops, shape."""


def _searched(frame: Frame) -> _Found:
    shape = search_shape(frame)
    return frame.traffic(shape), frame.tiles, shape


def _reordered(frame: Frame, best: _Found) -> _Found:
    """What a descent ends at with one loop moved: the one with which the same tiles move least."""
    extents = dict(zip(best[1], best[2], strict=True))
    moved = []
    for tiles in _moves(best[1]):
        shape = tuple(extents[i] for i in tiles)
        moved.append((replace(frame, tiles=tiles).traffic(shape), tiles, shape))
    least = min(moved, default=best)  # of one loop there is no other order
    if least >= best:
        return best
    own = replace(frame, tiles=least[1])
    shape = _Descent(own).from_shape(least[2])
    return own.traffic(shape), own.tiles, shape


def _moves(order: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The orders with one loop at another place, each once."""
    found = dict[tuple[str, ...], None]()
    for n, index in enumerate(order):
        rest = (*order[:n], *order[n + 1 :])
        found |= dict.fromkeys((*rest[:m], index, *rest[m:]) for m in range(len(order)) if m != n)
    return list(found)


def largest_square(frame: Frame) -> int:
    """The largest extent whose square tiles fit, by bisection. Raises EmptySpace if none does."""
    low, high = 0, max(frame.extents)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if frame.fits(frame.square(middle)) else (low, middle - 1)
    if not low:
        raise EmptySpace(f"no tile fits a buffer of {frame.machine.buffer_bytes} bytes, not even of one element")
    return low


def search_shape(frame: Frame) -> Shape:
    """The shape at which the descents from all starts end, the best of them."""
    return _Descent(frame).run()


class _Descent:
    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._grids = [_grid(extent) for extent in frame.extents]
        self._known: dict[Shape, float] = {}

    def at_starts(self) -> tuple[float, ...]:
        """Traffic at the shapes that descents start from, the least first."""
        return tuple(sorted(map(self._value, self._starts(largest_square(self._frame)))))

    def from_shape(self, shape: Shape) -> Shape:
        """Where a descent from ``shape`` ends."""
        self._grids = [sorted({*grid, side}) for grid, side in zip(self._grids, shape, strict=True)]
        return self._descended(shape)

    def run(self) -> Shape:
        side = largest_square(self._frame)
        ends = [self._frame.square(side), *map(self._descended, self._starts(side))]
        return min(ends, key=lambda s: (self._value(s), s))

    def _starts(self, side: int) -> list[Shape]:
        square = tuple(_rounded(grid, min(side, e)) for grid, e in zip(self._grids, self._frame.extents, strict=True))
        starts = [square] if self._value(square) < math.inf else []
        starts += [s for n in range(len(square)) if (s := self._long(n)) is not None]
        corners = itertools.product(*({1, extent} for extent in self._frame.extents))
        fitting = [corner for corner in corners if self._value(corner) < math.inf]
        return starts + sorted(fitting, key=lambda s: (self._value(s), s))[:CORNERS]

    def _descended(self, shape: Shape) -> Shape:
        while True:
            for reach in STEPS:
                best = min(self._neighbours(shape, reach), key=lambda s: (self._value(s), s), default=shape)
                if self._value(best) < self._value(shape):
                    shape = best
                    break
            else:
                return shape

    def _value(self, shape: Shape) -> float:
        if shape not in self._known:
            self._known[shape] = self._frame.traffic(shape) if self._fits(shape) else math.inf
        return self._known[shape]

    def _fits(self, shape: Shape) -> bool:
        """Larger shapes than one that does not fit are not asked."""
        too_large = (s for s, v in self._known.items() if v == math.inf)
        return not any(all(a <= b for a, b in zip(s, shape, strict=True)) for s in too_large) and self._frame.fits(
            shape
        )

    def _long(self, n: int) -> Shape | None:
        """One side whole, the others as long as fits."""
        extents = self._frame.extents
        low, high = 0, max(extents)
        while low < high:
            middle = (low + high + 1) // 2
            shape = tuple(e if m == n else min(middle, e) for m, e in enumerate(extents))
            low, high = (middle, high) if self._frame.fits(shape) else (low, middle - 1)
        if not low:
            return None
        return tuple(e if m == n else _rounded(self._grids[m], min(low, e)) for m, e in enumerate(extents))

    def _neighbours(self, shape: Shape, reach: int) -> list[Shape]:
        found = []
        for n in range(len(shape)):
            for step in (-reach, reach):
                moved = self._moved(shape, n, step)
                if moved is None:
                    continue
                found.append(moved)
                if step > 0:
                    found += [s for m in range(len(shape)) if m != n and (s := self._yielding(moved, m)) is not None]
        return found

    def _moved(self, shape: Shape, n: int, step: int) -> Shape | None:
        at = self._grids[n].index(shape[n]) + step
        if not 0 <= at < len(self._grids[n]):
            return None
        return (*shape[:n], self._grids[n][at], *shape[n + 1 :])

    def _yielding(self, shape: Shape, m: int) -> Shape | None:
        """The shape with side ``m`` as long as fits; None if it fits as it is, or not at all."""
        if self._value(shape) < math.inf:
            return None
        below = [(*shape[:m], side, *shape[m + 1 :]) for side in self._grids[m] if side < shape[m]]
        low, high = 0, len(below)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._fits(below[middle]) else (low, middle)
        return below[low - 1] if low else None


def _grid(extent: int) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12, ... below an extent, and the extent."""
    powers = [k << n for n in range(extent.bit_length()) for k in (2, 3)]
    return [1, *sorted(p for p in powers if p < extent), extent] if extent > 1 else [1]


def _rounded(grid: list[int], extent: int) -> int:
    """The largest of the grid that is no more than ``extent``."""
    return max(side for side in grid if side <= extent)
