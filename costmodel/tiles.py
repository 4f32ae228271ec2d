"""Bytes of the tiles of a tensor in a layout, derived from node counts alone.

Sizes of ``mapper.levels``, counted anew: from the nodes that each level has in each tile. Runs of equal values are
counted on the values themselves; where only a mean tile is known, every entry is taken as a run of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.counting import AnyStatistics
from costmodel.factors import Floats, Ints, group_sum
from costmodel.statistics import Statistics, TensorStatistics
from costmodel.views import View
from mapper.dtypes import rounded, value_width
from mapper.formats import BITMASK, DENSE, NONUNIQUE, RUNS, SINGLETON, block_of, slots_of
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
    """The view whose nodes are those of the last sparse level among the first levels of a layout: a dense level adds
    no node of its own, a level of blocks has theirs."""
    while inner_levels and layout.kinds[inner_levels - 1] == DENSE:
        inner_levels -= 1
    granules = {m: layout.tiles[m] for m in layout.tile_modes[:tile_levels]}
    granules.update(dict.fromkeys(layout.modes[:inner_levels], 1))
    block = block_of(layout.kinds[inner_levels - 1]) if inner_levels else None
    if block is not None:
        granules.update(zip(layout.modes[inner_levels - 2 : inner_levels], block, strict=True))
    return tuple(sorted(granules.items()))


def tile_sizes(statistics: Statistics, stats: AnyStatistics, layout: Layout, machine: Machine) -> TileSizes:
    """Sizes of all stored tiles (one tile where nothing is tiled), remembered."""
    value = value_width(layout.dtype, machine.value_bytes)
    widths = (value, machine.coordinate_bytes, machine.pointer_bytes, machine.descriptor_bytes)
    return statistics.remember((stats.key, layout, widths), lambda: _Tiles(stats, layout, widths).sizes())


class _Tiles:
    """Nodes and metadata bytes of every tile, level by level."""

    def __init__(self, stats: AnyStatistics, layout: Layout, widths: tuple[int, int, int, int]) -> None:
        self.stats, self.layout = stats, layout
        self.value, self.coordinate, self.pointer, self.descriptor = widths
        self.view = tile_view(layout)
        self.coords = stats.nodes(self.view) if isinstance(stats, TensorStatistics) else ()
        self.tiles = float(stats.count(self.view)) if self.view else 1.0
        self.nodes: Floats = np.ones(int(self.tiles) if isinstance(stats, TensorStatistics) else 1)
        self.metadata: Floats = np.full(self.nodes.size, float(self.descriptor))

    def sizes(self) -> TileSizes:
        for level in range(len(self.layout.kinds)):
            self._level(level)
        values = self.nodes * self.value
        return TileSizes(self.view, self.coords, values, self.metadata, self.tiles, self.descriptor)

    def _level(self, level: int) -> None:
        kinds, parents = self.layout.kinds, self.nodes
        kind, extent = kinds[level], _extents(self.stats.shape, self.layout.modes[level], self.view, self.coords)
        if kind == DENSE:
            below = block_of(kinds[level + 1]) if level + 1 < len(kinds) else None
            self.nodes = parents * np.ceil(extent / (below[0] if below else 1))  # of blocks only their rows count
        elif kind == BITMASK:
            self.metadata = self.metadata + np.ceil(parents * extent / 8)
            self.nodes = self._count(level)
        elif kind in (NONUNIQUE, SINGLETON):
            last = level
            while last + 1 < len(kinds) and kinds[last + 1] == SINGLETON:
                last += 1
            pointers = (parents + 1) * self.pointer if kind == NONUNIQUE else 0.0
            self.metadata = self.metadata + pointers + self._count(last) * self.coordinate
            self.nodes = self._count(level)
        elif kind == RUNS:
            self.nodes = _runs_per_tile(self.stats, self.layout, self.view, self.tiles)
            self.metadata = self.metadata + (parents + 1) * self.pointer + 2 * self.nodes * self.coordinate
        elif slots := slots_of(kind):
            n, m = slots
            self.nodes = parents * (extent // m * n + np.minimum(n, extent % m))
            self.metadata = self.metadata + np.ceil(self.nodes * (m - 1).bit_length() / 8)
        elif block_of(kind):
            blocks = self._count(level)
            self.metadata = self.metadata + (parents + 1) * self.pointer + blocks * self.coordinate
            self.nodes = self._positions(level, blocks)
        else:
            self.nodes = self._count(level)
            self.metadata = self.metadata + (parents + 1) * self.pointer + self.nodes * self.coordinate

    def _count(self, level: int) -> Floats:
        """Nodes of a sparse level, per tile."""
        view = level_view(self.layout, len(self.view), level + 1)
        if isinstance(self.stats, TensorStatistics):
            return self.stats.marginal(view, self.view)[1]
        return np.array([self.stats.count(view) / self.tiles if self.tiles else 0.0])

    def _positions(self, level: int, blocks: Floats) -> Floats:
        """Positions inside the blocks of every tile; blocks at the tensor's edges are smaller (tiles cut none)."""
        modes, sides = self.layout.modes[level - 1 : level + 1], block_of(self.layout.kinds[level]) or (1, 1)
        view = level_view(self.layout, len(self.view), level + 1)
        shape = self.stats.shape
        if not isinstance(self.stats, TensorStatistics):
            grid = [-(-shape[m] // side) for m, side in zip(modes, sides, strict=True)]
            return np.asarray(blocks * (shape[modes[0]] * shape[modes[1]] / max(1, grid[0] * grid[1])))
        points = dict(zip((m for m, _ in view), self.stats.nodes(view), strict=True))
        area = np.ones(points[modes[0]].size)
        for mode, side in zip(modes, sides, strict=True):
            area *= np.minimum(side, shape[mode] - points[mode] * side)
        granules = dict(view)
        at = [points[m] * granules[m] // tile for m, tile in self.view]
        return group_sum(at, [-(-shape[m] // tile) for m, tile in self.view], area)[1]


def _extents(shape: tuple[int, ...], mode: int, view: View, coords: tuple[Ints, ...]) -> Floats | float:
    """Coordinates of a mode in every tile: edge tiles are smaller."""
    extent = shape[mode]
    for n, (m, tile) in enumerate(view):
        if m == mode:
            if not coords:
                return extent / (-(-extent // tile))
            return np.minimum(tile, extent - coords[n] * tile).astype(np.float64)
    return float(extent)


def _runs_per_tile(stats: AnyStatistics, layout: Layout, view: View, tiles: float) -> Floats:
    """Entries whose neighbour before, in the same tile, is absent or holds another value."""
    if not isinstance(stats, TensorStatistics):
        return np.array([stats.nnz / tiles if tiles else 0.0])
    coords, mode = stats.tensor.coords, layout.modes[-1]
    others = [m for m in range(len(stats.shape)) if m != mode]
    order = np.lexsort([coords[m] for m in (mode, *others)])
    coords, values = coords[:, order], rounded(stats.tensor.values, layout.dtype)[order]
    first = np.ones(values.size, bool)
    first[1:] = (coords[others, 1:] != coords[others, :-1]).any(axis=0) | (values[1:] != values[:-1])
    first[1:] |= coords[mode, 1:] != coords[mode, :-1] + 1
    if tile := dict(view).get(mode):
        first |= coords[mode] % tile == 0
    at = [coords[m] // t for m, t in view]
    found = group_sum(at, [max(1, -(-stats.shape[m] // t)) for m, t in view], first.astype(np.float64))
    return found[1]
