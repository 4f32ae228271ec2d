"""Bytes of the tiles of a tensor in a layout, derived from node counts alone.

A dense level costs nothing; a compressed level one pointer per parent position plus one and one coordinate per
node; every leaf position one value; every stored tile one descriptor (sizes of ``mapper.storage``, counted anew).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.counting import AnyStatistics
from costmodel.factors import Floats, Ints
from costmodel.statistics import Statistics, TensorStatistics, View
from mapper.formats import DENSE
from mapper.machine import Machine
from mapper.storage import Layout


@dataclass(frozen=True, slots=True, eq=False)
class TileSizes:
    """Bytes per stored tile, in coordinate order of ``view``. A single mean tile stands for all ``tiles`` of a
    uniform tensor."""

    view: View
    coords: tuple[Ints, ...]
    values: Floats
    metadata: Floats
    tiles: float
    descriptor: int

    @property
    def largest(self) -> float:
        """Bytes that the largest tile takes in its buffer; its descriptor stays in the directory of tiles."""
        return float((self.values + self.metadata).max(initial=self.descriptor) - self.descriptor)

    @property
    def total_values(self) -> float:
        """Value bytes of all tiles."""
        return float(self.values.mean() * self.tiles) if self.values.size else 0.0

    @property
    def total_metadata(self) -> float:
        """Metadata bytes of all tiles."""
        return float(self.metadata.mean() * self.tiles) if self.metadata.size else 0.0


def tile_view(layout: Layout) -> View:
    """The view whose nodes are the stored tiles."""
    return tuple(sorted((m, layout.tiles[m]) for m in layout.tile_modes))


def level_view(layout: Layout, tile_levels: int, inner_levels: int) -> View:
    """The view whose nodes are those of the last compressed level among the first levels of a layout: a dense level
    adds no node of its own."""
    while inner_levels and layout.kinds[inner_levels - 1] == DENSE:
        inner_levels -= 1
    granules = {m: layout.tiles[m] for m in layout.tile_modes[:tile_levels]}
    granules.update(dict.fromkeys(layout.modes[:inner_levels], 1))
    return tuple(sorted(granules.items()))


def tile_sizes(statistics: Statistics, stats: AnyStatistics, layout: Layout, machine: Machine) -> TileSizes:
    """Sizes of all stored tiles (one tile where nothing is tiled), remembered."""
    widths = (machine.value_bytes, machine.coordinate_bytes, machine.pointer_bytes, machine.descriptor_bytes)
    return statistics.remember((stats.key, layout, widths), lambda: _tile_sizes(stats, layout, widths))


def _tile_sizes(stats: AnyStatistics, layout: Layout, widths: tuple[int, int, int, int]) -> TileSizes:
    value, coordinate, pointer, descriptor = widths
    view = tile_view(layout)
    exact = isinstance(stats, TensorStatistics)
    coords = stats.nodes(view) if isinstance(stats, TensorStatistics) else ()
    tiles = float(stats.count(view)) if view else 1.0
    nodes: Floats = np.ones(int(tiles) if exact else 1)
    metadata: Floats = np.full(nodes.size, float(descriptor))
    for inner, (mode, kind) in enumerate(zip(layout.modes, layout.kinds, strict=True), 1):
        if kind == DENSE:
            nodes = nodes * _extents(stats.shape[mode], mode, view, coords)
        else:
            parents, nodes = nodes, _nodes_per_tile(stats, level_view(layout, len(view), inner), view, tiles)
            metadata = metadata + (parents + 1) * pointer + nodes * coordinate
    return TileSizes(view, coords, nodes * value, metadata, tiles, descriptor)


def _extents(extent: int, mode: int, view: View, coords: tuple[Ints, ...]) -> Floats | float:
    """Coordinates of a mode in every tile: edge tiles are smaller."""
    for n, (m, tile) in enumerate(view):
        if m == mode:
            if not coords:
                return extent / (-(-extent // tile))
            return np.minimum(tile, extent - coords[n] * tile).astype(np.float64)
    return float(extent)


def _nodes_per_tile(stats: AnyStatistics, level: View, tiles: View, count: float) -> Floats:
    if isinstance(stats, TensorStatistics):
        return stats.marginal(level, tiles)[1]
    return np.array([stats.count(level) / count if count else 0.0])
