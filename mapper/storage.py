"""Layouts of tensors in memory: tile levels above inner levels, built as arrays that scanners walk.

A tile is contiguous: its descriptor names it, its levels hold pointers and coordinates, then come its values.
Exact sizes: those of its levels (``mapper.levels``), one value per leaf position, one descriptor per stored tile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from mapper.dtypes import FP32, rounded, value_width
from mapper.formats import BITMASK, DENSE, block_of, slots_of
from mapper.levels import Ints, LevelArrays, LevelBuilder, Widths
from mapper.machine import Machine
from mapper.mapping import Loops
from mapper.program import Access
from mapper.tensor import SparseTensor, distinct_columns


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tensor is stored: levels outer to inner.

    ``modes``: the mode of each inner level; ``kinds``: its kind; ``tile_modes``: modes of the tile levels, always
    compressed; ``tiles``: tile extent per mode (0: not tiled); ``dtype``: type of values.
    """

    modes: tuple[int, ...]
    kinds: tuple[str, ...]
    tile_modes: tuple[int, ...] = ()
    tiles: tuple[int, ...] = ()
    dtype: str = FP32


def layout_of(access: Access, loops: Loops, kinds: tuple[str, ...], dtype: str) -> Layout:
    """The layout that the loop nest of a statement walks in order (concordant traversal)."""
    tiled = dict(loops.tiles)
    mode = {index: m for m, index in enumerate(access.indices)}
    inner = tuple(mode[i] for i in loops.order if i in mode)
    return Layout(
        modes=inner,
        kinds=kinds,
        tile_modes=tuple(mode[i] for i, _ in loops.tiles if i in mode),
        tiles=tuple(tiled.get(i, 0) for i in access.indices),
        dtype=dtype,
    )


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
    """Builds the level arrays of ``tensor`` in ``layout``, values rounded to its type. O(nnz log nnz + dense
    positions). ``tensor`` must keep the N:M patterns of the layout (``group_problem``)."""
    widths = Widths(machine.coordinate_bytes, machine.pointer_bytes)
    values = rounded(tensor.values, layout.dtype)
    build = LevelBuilder(tensor, values, layout.tile_modes, layout.modes, layout.tiles, widths)
    build.add_tiles(layout.tile_modes)
    build.add(layout.modes, layout.kinds)
    return Storage(
        layout,
        tuple(build.levels),
        build.values(),
        build.nodes_per_tile() * value_width(layout.dtype, machine.value_bytes),
        build.metadata + machine.descriptor_bytes,
        machine.dram_burst_bytes,
    )


@lru_cache(maxsize=256)
def group_problem(tensor: SparseTensor, layout: Layout) -> str | None:
    """The first group of positions that holds more entries than an N:M level of ``layout`` has places, in words."""
    for level, kind in enumerate(layout.kinds):
        if (slots := slots_of(kind)) is None:
            continue
        mode = layout.modes[level]
        fixed = layout.modes[:level]
        tile = layout.tiles[mode] if layout.tiles else 0
        inner = tensor.coords[mode] % tile if tile else tensor.coords[mode]
        # The group's first coordinate names it, within tiles of all modes; entries below one node count once.
        keys = [tensor.coords[mode] - inner % slots[1], *(tensor.coords[m] for m in fixed)]
        keys += [tensor.coords[m] // layout.tiles[m] for m in layout.tile_modes if m not in (mode, *fixed)]
        places = distinct_columns(np.stack([*keys, tensor.coords[mode]]))[0]
        groups, count, _ = distinct_columns(places[:-1])
        if count.max(initial=0) > slots[0]:
            worst = int(np.flatnonzero(count > slots[0])[0])
            start = int(groups[0, worst])
            above = zip(fixed, groups[1:, worst].tolist(), strict=False)  # tiles of further modes come after
            where = "".join(f", coordinate {c} of mode {m}" for m, c in above)
            end = min(start + slots[1], tensor.shape[mode], (start // tile + 1) * tile if tile else start + slots[1])
            return f"{int(count[worst])} entries at positions {start} to {end - 1} of mode {mode}{where}"
    return None


def stored_positions(shape: tuple[int, ...], nnz: int, layout: Layout) -> int:
    """Bound on the positions that the largest level of a layout stores, as entries, padding, pointers or bits."""
    tiled = layout.tile_modes
    nodes = tiles = min(nnz, math.prod(-(-shape[m] // layout.tiles[m]) for m in tiled)) if tiled else 1
    most = tiles
    for mode, kind in zip(layout.modes, layout.kinds, strict=True):
        below = nodes * min(shape[mode], layout.tiles[mode] if mode in tiled else shape[mode])
        rows, cols = block_of(kind) or (1, 1)
        padded = kind == DENSE or slots_of(kind) is not None
        nodes = below if padded else min(below, nnz * rows * cols)
        most = max(most, below if kind == BITMASK else nodes)
    return most
