"""Slots of an N:M level that no entry fills: they hold zeros, whose places are those that storage gives them."""

from __future__ import annotations

import math

import numpy as np

from costmodel.counting import AnyStatistics
from costmodel.factors import Ints, firsts, in_order, pack
from costmodel.statistics import Statistics, TensorStatistics
from costmodel.tiles import level_view
from costmodel.views import View
from costmodel.widened import MOST_LISTED, filled
from mapper.blocks import in_elements
from mapper.formats import slots_of
from mapper.storage import Layout
from mapper.tensor import SparseTensor


def in_slots(statistics: Statistics, stats: TensorStatistics, layout: Layout) -> TensorStatistics:
    """A tensor as it is stored: with zeros in those slots of an N:M level that no entry fills, the first free positions
    of every group (``mapper.levels``), if the positions to look at are few enough to be listed."""
    if not free_slots(stats, layout) or _reached(stats, layout) > MOST_LISTED:
        return stats
    key = f"{stats.key} in slots of {layout}"
    return statistics.named(key, lambda: _with_zeros(stats.tensor, layout, _places(stats, layout)))


def free_slots(stats: AnyStatistics, layout: Layout) -> bool:
    """Whether an N:M level may have slots that no entry fills."""
    if not (slots := slots_of(layout.kinds[-1]) if layout.kinds else None):
        return False
    mode, (n, m) = layout.modes[-1], slots
    extent = stats.shape[mode]
    side = layout.tiles[mode] if mode in layout.tile_modes else extent
    whole, rest = divmod(extent, side)
    slots_of_fiber = sum(count * (size // m * n + min(n, size % m)) for count, size in ((whole, side), (1, rest)))
    return stats.nnz * extent < math.prod(stats.shape) * slots_of_fiber


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


def _places(stats: TensorStatistics, layout: Layout) -> Ints:
    """Those positions: int64[modes, positions]."""
    view = _fibers(layout)
    held, none = dict(zip((m for m, _ in view), stats.nodes(view), strict=True)), np.zeros(stats.count(view), np.int64)
    coords = np.stack([held.get(mode, none) for mode in range(len(stats.shape))])
    return in_elements(coords, _sides(stats, layout), stats.shape)


def _with_zeros(tensor: SparseTensor, layout: Layout, places: Ints) -> SparseTensor:
    """The tensor with zeros in all slots; ``places``: what the fibers of the N:M level reach."""
    (n, m), mode = slots_of(layout.kinds[-1]) or (1, 1), layout.modes[-1]
    inner = places[mode] % layout.tiles[mode] if mode in layout.tile_modes else places[mode]
    others = [d for d in range(tensor.ndim) if d != mode]
    group = pack([*places[others], places[mode] - inner % m], [tensor.shape[d] for d in (*others, mode)])
    used = np.isin(pack([*places], tensor.shape), pack([*tensor.coords], tensor.shape))
    order = in_order((group * 2 + ~used) * m + inner % m)[1]  # entries first
    first = firsts(group[order])
    rank = np.arange(order.size) - np.repeat(first, np.diff(np.append(first, order.size)))
    return filled(tensor, places[:, order[rank < n]])
