"""Layouts of tensors in memory: tile levels above inner levels, built as arrays that scanners walk.

A tile is contiguous: its descriptor names it, its levels hold pointers and coordinates, then come its values.
Exact sizes: a dense level costs nothing; a compressed level costs one pointer per parent position plus one, and
one coordinate per node; every leaf position costs one value; every stored tile one descriptor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from mapper.formats import DENSE
from mapper.machine import Machine
from mapper.mapping import Loops
from mapper.program import Access
from mapper.tensor import SparseTensor

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tensor is stored: levels outer to inner.

    ``modes``: the mode of each inner level; ``kinds``: its kind; ``tile_modes``: modes of the tile levels, always
    compressed; ``tiles``: tile extent per mode (0: not tiled).
    """

    modes: tuple[int, ...]
    kinds: tuple[str, ...]
    tile_modes: tuple[int, ...] = ()
    tiles: tuple[int, ...] = ()


def layout_of(access: Access, loops: Loops, kinds: tuple[str, ...]) -> Layout:
    """The layout that the loop nest of a statement walks in order (concordant traversal)."""
    tiled = dict(loops.tiles)
    mode = {index: m for m, index in enumerate(access.indices)}
    inner = tuple(mode[i] for i in loops.order if i in mode)
    return Layout(
        modes=inner,
        kinds=kinds,
        tile_modes=tuple(mode[i] for i, _ in loops.tiles if i in mode),
        tiles=tuple(tiled.get(i, 0) for i in access.indices),
    )


@dataclass(frozen=True, slots=True, eq=False)
class LevelArrays:
    """``pos`` int64[parents + 1]; ``crd`` int64[pos[-1]], None for a dense level (coordinate = p - pos[parent])."""

    pos: Ints
    crd: Ints | None


@dataclass(frozen=True, eq=False)
class Storage:
    """A tensor in a layout. Tile arrays have one entry per stored tile (one in all if nothing is tiled)."""

    layout: Layout
    levels: tuple[LevelArrays, ...]
    values: npt.NDArray[np.float64]
    tile_value_bytes: Ints
    tile_metadata_bytes: Ints
    burst_bytes: int

    @cached_property
    def tile_address(self) -> Ints:
        """First byte of every tile, aligned to bursts."""
        size = self.tile_value_bytes + self.tile_metadata_bytes
        padded = -(-size // self.burst_bytes) * self.burst_bytes
        return np.concatenate([[0], np.cumsum(padded)[:-1]]).astype(np.int64) if size.size else size

    @property
    def value_bytes(self) -> int:
        """Bytes of all values."""
        return int(self.tile_value_bytes.sum())

    @property
    def metadata_bytes(self) -> int:
        """Bytes of pointers, coordinates and descriptors."""
        return int(self.tile_metadata_bytes.sum())


def store_tensor(tensor: SparseTensor, layout: Layout, machine: Machine) -> Storage:
    """Builds the level arrays of ``tensor`` in ``layout``. O(nnz log nnz + dense positions)."""
    build = _Builder(tensor, layout)
    for mode in layout.tile_modes:
        build.compress(build.tile_coordinate(mode), mode_of_tile=mode)
    build.open_tiles()
    for mode, kind in zip(layout.modes, layout.kinds, strict=True):
        if kind == DENSE:
            build.fill(mode)
        else:
            parents = build.nodes_per_tile()
            build.compress(build.inner_coordinate(mode))
            build.metadata += (parents + 1) * machine.pointer_bytes
            build.metadata += build.nodes_per_tile() * machine.coordinate_bytes
    values = np.zeros(build.nodes)
    values[build.node] = build.entry_values
    return Storage(
        layout,
        tuple(build.levels),
        values,
        build.nodes_per_tile() * machine.value_bytes,
        build.metadata + machine.descriptor_bytes,
        machine.dram_burst_bytes,
    )


class _Builder:
    """Grows levels one by one; ``node`` holds the current node of every entry, entries sorted by level order."""

    def __init__(self, tensor: SparseTensor, layout: Layout) -> None:
        self.tensor, self.layout, self.coords = tensor, layout, tensor.coords
        columns = [*map(self.tile_coordinate, layout.tile_modes), *map(self.inner_coordinate, layout.modes)]
        order = np.lexsort(columns[::-1]) if columns else np.arange(tensor.nnz)
        self.coords, self.entry_values = self.coords[:, order], tensor.values[order]
        self.levels: list[LevelArrays] = []
        self.node = np.zeros(tensor.nnz, np.int64)
        self.nodes = 1
        self.tile_coords: dict[int, Ints] = {}
        self.tile_of_node = np.zeros(1, np.int64)
        self.metadata = np.zeros(1, np.int64)

    def tile_coordinate(self, mode: int) -> Ints:
        return np.asarray(self.coords[mode] // self.layout.tiles[mode])

    def inner_coordinate(self, mode: int) -> Ints:
        tile = self.layout.tiles[mode] if self.layout.tiles else 0
        return np.asarray(self.coords[mode] % tile if tile else self.coords[mode])

    def nodes_per_tile(self) -> Ints:
        return np.bincount(self.tile_of_node, minlength=self.metadata.size)

    def open_tiles(self) -> None:
        """From here on every node belongs to the tile that is its ancestor (or to the only one)."""
        self.tile_of_node = np.arange(self.nodes)
        self.metadata = np.zeros(self.nodes, np.int64)

    def compress(self, crd: Ints, mode_of_tile: int | None = None) -> None:
        first = np.ones(crd.size, bool)
        first[1:] = (self.node[1:] != self.node[:-1]) | (crd[1:] != crd[:-1])
        at = np.flatnonzero(first)
        parent = self.node[at]
        pos = np.concatenate([[0], np.cumsum(np.bincount(parent, minlength=self.nodes))]).astype(np.int64)
        self.levels.append(LevelArrays(pos, np.ascontiguousarray(crd[at])))
        self._descend(parent, at.size)
        self.node = np.cumsum(first) - 1
        if mode_of_tile is not None:
            self.tile_coords[mode_of_tile] = crd[at]

    def fill(self, mode: int) -> None:
        extent, tile = self.tensor.shape[mode], self.layout.tiles[mode] if self.layout.tiles else 0
        if tile:  # edge tiles are smaller
            sizes = np.minimum(tile, extent - self.tile_coords[mode] * tile)
        else:
            sizes = np.full(self.nodes, extent, np.int64)
        pos = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.levels.append(LevelArrays(pos, None))
        self.node = pos[self.node] + self.inner_coordinate(mode)
        self._descend(np.repeat(np.arange(self.nodes), sizes), int(pos[-1]))

    def _descend(self, parent: Ints, nodes: int) -> None:
        self.tile_coords = {m: c[parent] for m, c in self.tile_coords.items()}
        self.tile_of_node = self.tile_of_node[parent]
        self.nodes = nodes
