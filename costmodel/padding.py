"""Operands that store zeros, and where results have entries because of them.

Stored values give an entry, zeros that a dense level stores included; so operands *padded* by dense inner levels make
more entries than the oracle's pattern has.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING

import numpy as np

from costmodel.counting import AnyStatistics, Leaf
from costmodel.factors import Ints, distinct, firsts, in_order, pack
from costmodel.statistics import Statistics, TensorStatistics
from costmodel.tiles import level_view
from costmodel.views import View
from costmodel.widened import Widened
from mapper.blocks import in_elements
from mapper.formats import pads, slots_of
from mapper.storage import Layout
from mapper.tensor import SparseTensor

if TYPE_CHECKING:
    from costmodel.nest import Nest, Operand

MOST_LISTED = 1 << 20
"""Joined points, and entries of a result, that are listed at most; of more only the number of entries is estimated."""


def padded(nest: Nest) -> bool:
    """Whether the result may have entries that are not known: some operand is padded, and where that leads is not
    found."""
    return nest.statement.target.tensor not in nest.model.widened and any(_more(nest, o) for o in nest.operands)


def with_zeros(nest: Nest) -> dict[str, Widened]:
    """The result of a statement with padded operands as it is stored, by its name: zeros where the known result has
    nothing. Empty where operands are not padded, what is joined of them is too much to be listed, or the values
    decide, or everything has an entry."""
    known, target, statement = nest.target, nest.statement.target, nest.statement
    if not target.indices or not isinstance(known, TensorStatistics) or not padded(nest):
        return {}
    if statement.function == "sparse_relu" or (statement.kind == "map" and statement.universal):
        return {}
    if any(_unplaced(o) for o in nest.operands):
        return {}
    leaves = [o.leaf(nest.loops, len(nest.loops)) for o in nest.operands]
    groups = [[x] for x in leaves] if statement.kind == "add" else [leaves]
    joins = [_Join(nest, group) for group in groups]
    if sum(max(join.points, join.entries) for join in joins) > MOST_LISTED:
        return {}

    def filled() -> SparseTensor:
        return _filled(known.tensor, np.concatenate([join.places() for join in joins], axis=1))

    said = repr((statement.kind, [x.key for x in leaves], target.indices, sorted(nest.extents.items())))
    key = f"{known.key} of {hashlib.sha256(said.encode()).hexdigest()}"
    return {target.tensor: Widened(target.tensor, key, filled)}


class _Join:
    """Where all of some leaves have nodes, listed no finer than they tell: whole blocks at once, and all coordinates of
    an index that dense levels alone have."""

    def __init__(self, nest: Nest, leaves: list[Leaf]) -> None:
        columns = [column for leaf in leaves for column in leaf.columns]
        granules = {i: math.gcd(*own) for i in nest.extents if (own := [g for name, g in columns if name == i])}
        self._nest, self._leaves, self._granules = nest, leaves, granules
        self._sides = {i: granules.get(i, nest.extents[i]) for i in nest.statement.target.indices}

    @property
    def points(self) -> float:
        """How many are joined."""
        return self._nest.counter.total(self._leaves, self._granules)

    @property
    def entries(self) -> float:
        """Positions of the result that they fill, at most."""
        cells = math.prod(-(-self._nest.extents[i] // side) for i, side in self._sides.items())
        return min(cells, self.points) * math.prod(self._sides.values())

    def places(self) -> Ints:
        """Those positions: int64[modes, entries]."""
        nest, indices = self._nest, self._nest.statement.target.indices
        keep = tuple((i, self._granules[i]) for i in indices if i in self._granules)
        found = nest.counter.by(self._leaves, self._granules, keep)
        size = found.weights.size if found.total else 0
        held = dict(zip((i for i, _ in keep), found.coords, strict=True))
        coords = np.stack([held.get(i, np.zeros(size, np.int64)) for i in indices])
        return in_elements(coords, [self._sides[i] for i in indices], [nest.extents[i] for i in indices])


def in_slots(statistics: Statistics, stats: TensorStatistics, layout: Layout) -> TensorStatistics:
    """A tensor as it is stored: with zeros in those slots of an N:M level that no entry fills, the first free positions
    of every group (``mapper.levels``), if the positions to look at are few enough to be listed."""
    if not layout.kinds or (slots := slots_of(layout.kinds[-1])) is None:
        return stats
    if stats.nnz * slots[1] >= math.prod(stats.shape) * slots[0] or _reached(stats, layout) > MOST_LISTED:
        return stats
    view, nodes = _fibers(layout), stats.count(_fibers(layout))
    held = dict(zip((mode for mode, _ in view), stats.nodes(view), strict=True))
    coords = np.stack([held.get(mode, np.zeros(nodes, np.int64)) for mode in range(len(stats.shape))])

    def filled() -> SparseTensor:
        return _with_slots(stats.tensor, layout, in_elements(coords, _sides(stats, layout), stats.shape))

    return statistics.named(f"{stats.key} in slots of {layout}", filled)


def _fibers(layout: Layout) -> View:
    """The view whose nodes are the fibers of the last level, one for all that dense levels have alike."""
    return level_view(layout, len(layout.tile_modes), len(layout.kinds) - 1)


def _sides(stats: AnyStatistics, layout: Layout) -> list[int]:
    """Positions per mode under each of them."""
    view = dict(_fibers(layout))
    return [view.get(mode, extent) for mode, extent in enumerate(stats.shape)]


def _reached(stats: AnyStatistics, layout: Layout) -> float:
    """Positions under all of them."""
    return stats.count(_fibers(layout)) * math.prod(_sides(stats, layout))


def _with_slots(tensor: SparseTensor, layout: Layout, places: Ints) -> SparseTensor:
    """The tensor with zeros in all slots; ``places``: what the fibers of the N:M level reach."""
    (n, m), mode = slots_of(layout.kinds[-1]) or (1, 1), layout.modes[-1]
    inner = places[mode] % layout.tiles[mode] if mode in layout.tile_modes else places[mode]
    others = [d for d in range(tensor.ndim) if d != mode]
    group = pack([*places[others], places[mode] - inner % m], [tensor.shape[d] for d in (*others, mode)])
    used = np.isin(pack([*places], tensor.shape), pack([*tensor.coords], tensor.shape))
    order = in_order((group * 2 + ~used) * m + inner % m)[1]  # entries first
    first = firsts(group[order])
    rank = np.arange(order.size) - np.repeat(first, np.diff(np.append(first, order.size)))
    return _filled(tensor, places[:, order[rank < n]])


def _more(nest: Nest, operand: Operand) -> bool:
    """Whether an operand stores positions that hold no entry of it, or zeros of an earlier product of such operands."""
    if operand.access.tensor in nest.model.widened:
        return True
    kinds = operand.layout.kinds
    if not operand.stored or not pads(kinds):
        return False
    if slots_of(kinds[-1]) is None:
        return operand.stats.density(operand.full_view) < 1
    return _unplaced(operand) or operand.stats.nnz > nest.model.stats(operand.access.tensor, operand.stats.shape).nnz


def _unplaced(operand: Operand) -> bool:
    """Whether an operand may have slots that no entry fills of which it is not known where they are."""
    kinds = operand.layout.kinds
    if not operand.stored or not kinds or (slots := slots_of(kinds[-1])) is None:
        return False
    n, m = slots
    return _reached(operand.stats, operand.layout) > MOST_LISTED and operand.stats.density(operand.full_view) < n / m


def _filled(known: SparseTensor, places: Ints) -> SparseTensor:
    """The values of ``known``, and zeros at those of the ``places`` where it has none."""
    coords = distinct([*np.concatenate([known.coords, places], axis=1)], known.shape)
    keys, own = (pack([*crd], known.shape) for crd in (coords, known.coords))
    values = np.zeros(keys.size)
    values[np.searchsorted(keys, own)] = known.values
    return SparseTensor(known.shape, np.stack(coords), values)
