"""Levels of stored tensors as arrays, one builder per level kind, with the exact bytes of their metadata.

Every builder takes the entries from their nodes of the level above to nodes of its own. Sizes per tile (``parents``:
nodes of the level above, ``nodes``: of this one, E: extent of a fiber, smaller in edge tiles):

* dense: nothing; nodes = sum of E;
* compressed: (parents + 1) pointers, nodes coordinates;
* bitmask: a bit per position, E per parent, packed and rounded up to whole bytes; the place of a fiber's first element
  is the number of bits before it, which a unit counts as the tile comes in;
* nonunique with its singletons: (parents + 1) pointers, and for each of these levels a coordinate per node of the last;
* rle: (parents + 1) pointers, a start and a length (coordinates) per run, one value per run;
* N:M: ceil(log2 M) bits per place, packed and rounded up to whole bytes; N places for every M positions of a fiber, in
  a last group of fewer than N positions one for each;
* RxC: pointers to rows of blocks (one more than there are), a coordinate per block; blocks at an edge are smaller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mapper.formats import BITMASK, DENSE, NONUNIQUE, RUNS, SINGLETON, block_of, slots_of
from mapper.tensor import SparseTensor, distinct_columns

Ints = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LevelArrays:
    """What a scanner of a level reads: ``pos`` int64[parents + 1]; ``crd`` int64[pos[-1]], None where coordinates are
    not listed (dense: p - pos[parent]). ``params`` and ``arrays``: more, by the names of the context kind ``scan``."""

    pos: Ints
    crd: Ints | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, Ints] = field(default_factory=dict)

    @property
    def scan_arrays(self) -> dict[str, Ints]:
        """All arrays that a scanner takes."""
        return {"pos": self.pos, **({} if self.crd is None else {"crd": self.crd}), **self.arrays}


@dataclass(frozen=True, slots=True)
class Widths:
    """Bytes of a coordinate and of a pointer."""

    coordinate: int
    pointer: int


class LevelBuilder:
    """Grows levels one by one; ``node`` holds the current node of every entry, entries sorted by level order.

    ``tiles``: tile extent per mode, 0 where there is none.
    """

    def __init__(
        self, tensor: SparseTensor, values: Values, tile_modes: tuple[int, ...], modes: tuple[int, ...],
        tiles: tuple[int, ...], widths: Widths,
    ) -> None:  # fmt: skip
        self.tensor, self.coords, self._tiles, self._widths = tensor, tensor.coords, tiles, widths
        columns = [*map(self.tile_coordinate, tile_modes), *map(self.inner_coordinate, modes)]
        order = np.lexsort(columns[::-1]) if columns else np.arange(tensor.nnz)
        self.coords, self.entry_values = self.coords[:, order], values[order]
        self.levels: list[LevelArrays] = []
        self.node: Ints = np.zeros(tensor.nnz, np.int64)
        self.nodes = 1
        self.metadata: Ints = np.zeros(1, np.int64)
        self._tile_coords: dict[int, Ints] = {}
        self._tile_of_node: Ints = np.zeros(1, np.int64)

    def tile_coordinate(self, mode: int) -> Ints:
        """Of every entry: its tile along ``mode``."""
        return np.asarray(self.coords[mode] // self._tiles[mode])

    def inner_coordinate(self, mode: int) -> Ints:
        """Of every entry: its coordinate within its tile."""
        tile = self._tile(mode)
        return np.asarray(self.coords[mode] % tile if tile else self.coords[mode])

    def nodes_per_tile(self) -> Ints:
        """Nodes of the innermost level so far."""
        return np.bincount(self._tile_of_node, minlength=self.metadata.size)

    def add_tiles(self, modes: tuple[int, ...]) -> None:
        """Compressed levels over tile coordinates; from here on every node belongs to the tile it lies in."""
        for mode in modes:
            crd = self.tile_coordinate(mode)
            at = self._compress(crd)
            self._tile_coords[mode] = crd[at]
        self._tile_of_node = np.arange(self.nodes)
        self.metadata = np.zeros(self.nodes, np.int64)

    def add(self, modes: tuple[int, ...], kinds: tuple[str, ...]) -> None:
        """The levels within a tile."""
        q = 0
        while q < len(kinds):
            more = 1
            if q + 1 < len(kinds) and block_of(kinds[q + 1]):
                self._blocks(modes[q], modes[q + 1], kinds[q + 1])
                more = 2
            elif kinds[q] == DENSE:
                self._dense(modes[q])
            elif kinds[q] == BITMASK:
                self._bitmask(modes[q])
            elif kinds[q] == NONUNIQUE:
                while q + more < len(kinds) and kinds[q + more] == SINGLETON:
                    more += 1
                self._repeated(modes[q : q + more])
            elif kinds[q] == RUNS:
                self._runs(modes[q])
            elif slots_of(kinds[q]):
                self._slots(modes[q], kinds[q])
            else:
                self._point()
                self._compress(self.inner_coordinate(modes[q]))
                self.metadata += self.nodes_per_tile() * self._widths.coordinate
            q += more

    def values(self) -> Values:
        """One value per node: that of its entry, of its run, or zero."""
        values = np.zeros(self.nodes)
        values[self.node] = self.entry_values
        return values

    def _tile(self, mode: int) -> int:
        return self._tiles[mode] if self._tiles else 0

    def _extents(self, mode: int) -> Ints:
        """Positions of ``mode`` under every node: edge tiles are smaller."""
        extent, tile = self.tensor.shape[mode], self._tile(mode)
        if tile:
            return np.asarray(np.minimum(tile, extent - self._tile_coords[mode] * tile))
        return np.full(self.nodes, extent, np.int64)

    def _point(self) -> None:
        """A pointer for every node, and one more."""
        self.metadata += (self.nodes_per_tile() + 1) * self._widths.pointer

    def _add_bits(self, bits_of_node: Ints) -> None:
        bits = np.bincount(self._tile_of_node, weights=bits_of_node, minlength=self.metadata.size).astype(np.int64)
        self.metadata += -(-bits // 8)

    def _compress(self, crd: Ints) -> Ints:
        """Adds a node per distinct coordinate of a fiber; the first entry of each."""
        first = np.ones(crd.size, bool)
        first[1:] = (self.node[1:] != self.node[:-1]) | (crd[1:] != crd[:-1])
        return self._open(crd, first)

    def _open(self, crd: Ints, first: npt.NDArray[np.bool_]) -> Ints:
        at = np.flatnonzero(first)
        parent = self.node[at]
        self.levels.append(LevelArrays(starts(np.bincount(parent, minlength=self.nodes)), _contiguous(crd[at])))
        self._descend(parent, at.size)
        self.node = np.cumsum(first) - 1
        return at

    def _dense(self, mode: int) -> None:
        sizes = self._extents(mode)
        pos = starts(sizes)
        self.levels.append(LevelArrays(pos))
        self.node = pos[self.node] + self.inner_coordinate(mode)
        self._descend(np.repeat(np.arange(self.nodes), sizes), int(pos[-1]))

    def _bitmask(self, mode: int) -> None:
        extents, crd = self._extents(mode), self.inner_coordinate(mode)
        self._add_bits(extents)
        size = max(1, self._tile(mode) or self.tensor.shape[mode])
        words = -(-size // 64)
        mask = np.zeros(self.nodes * words, np.uint64)
        np.bitwise_or.at(mask, self.node * words + crd // 64, np.uint64(1) << (crd % 64).astype(np.uint64))
        self._compress(crd)
        params = {"storage": "bitmask", "size": size}
        self.levels[-1] = LevelArrays(self.levels[-1].pos, None, params, {"mask": mask.view(np.int64)})

    def _repeated(self, modes: tuple[int, ...]) -> None:
        self._point()
        nodes_of_entry, first = [], np.zeros(0, np.int64)
        for mode in modes:
            first = self._compress(self.inner_coordinate(mode))
            nodes_of_entry.append(self.node)
        for level, nodes in enumerate(nodes_of_entry[:-1], len(self.levels) - len(modes)):
            plain = self.levels[level]
            assert plain.crd is not None
            length = np.bincount(nodes[first], minlength=plain.crd.size).astype(np.int64)
            self.levels[level] = LevelArrays(plain.pos, plain.crd, {"storage": "repeated"}, {"length": length})
        self.metadata += len(modes) * self.nodes_per_tile() * self._widths.coordinate

    def _runs(self, mode: int) -> None:
        crd, values = self.inner_coordinate(mode), self.entry_values
        self._point()
        first = np.ones(crd.size, bool)
        first[1:] = (self.node[1:] != self.node[:-1]) | (crd[1:] != crd[:-1] + 1) | (values[1:] != values[:-1])
        at = self._open(crd, first)
        length = np.diff(np.concatenate([at, [crd.size]])).astype(np.int64)
        plain = self.levels[-1]
        self.levels[-1] = LevelArrays(plain.pos, plain.crd, {"storage": "run_length"}, {"length": length})
        self.metadata += 2 * self.nodes_per_tile() * self._widths.coordinate

    def _slots(self, mode: int, kind: str) -> None:
        n, m = slots_of(kind) or (1, 1)
        extents, crd = self._extents(mode), self.inner_coordinate(mode)
        groups = -(-extents // m)
        begin = starts(groups)
        group = begin[self.node] + crd // m
        used = np.zeros((int(begin[-1]), m), bool)
        used[group, crd % m] = True
        fiber = np.repeat(np.arange(self.nodes), groups)
        room = np.minimum(m, extents[fiber] - (np.arange(begin[-1]) - begin[fiber]) * m)
        offset = np.arange(m)
        rank = np.where(used, offset, np.where(offset < room[:, None], m + offset, 2 * m))  # entries, then padding
        place = np.zeros_like(used)
        np.put_along_axis(place, np.argsort(rank, axis=1, kind="stable")[:, :n], True, axis=1)
        place &= offset < room[:, None]
        if (used & ~place).any():
            raise ValueError(f"more than {n} of {m} positions are stored")  # legality keeps this from happening
        fibers = place.reshape(-1, m).sum(axis=1)
        pos = starts(np.bincount(fiber, weights=fibers, minlength=self.nodes).astype(np.int64))
        number = np.cumsum(place) - 1
        self.levels.append(
            LevelArrays(pos, _contiguous(np.nonzero(place)[1]), {"storage": "n_of_m", "n": n, "m": m}, {})
        )
        self.node = number[group * m + crd % m]
        self._descend(np.repeat(np.arange(self.nodes), np.diff(pos)), int(pos[-1]))
        self._add_bits(np.full(self.nodes, (m - 1).bit_length(), np.int64))

    def _blocks(self, row_mode: int, col_mode: int, kind: str) -> None:
        rows, cols = block_of(kind) or (1, 1)
        heights, row = self._extents(row_mode), self.inner_coordinate(row_mode)
        strips = starts(-(-heights // rows))  # a strip is a row of blocks; of every node, its first
        strip_of_entry = strips[self.node] + row // rows
        owner = np.repeat(np.arange(self.nodes), np.diff(strips))
        tile_of_strip = self._tile_of_node[owner]
        self._dense(row_mode)
        widths, col = self._extents(col_mode), self.inner_coordinate(col_mode)
        block, _, of_entry = distinct_columns(np.stack([strip_of_entry, col // cols]))
        count = np.bincount(tile_of_strip, minlength=self.metadata.size)
        blocks = np.bincount(tile_of_strip[block[0]], minlength=self.metadata.size)
        self.metadata += (count + 1) * self._widths.pointer + blocks * self._widths.coordinate
        # Rows of a strip walk the same coordinates: those of its blocks, side by side.
        row_pos = self.levels[-1].pos
        fiber = np.repeat(np.arange(row_pos.size - 1), np.diff(row_pos))
        strip_of_row = strips[fiber] + (np.arange(self.nodes) - row_pos[fiber]) // rows
        width_of_strip = np.zeros(int(strips[-1]), np.int64)
        width_of_strip[strip_of_row] = widths
        width = np.minimum(cols, width_of_strip[block[0]] - block[1] * cols)
        inside = starts(np.bincount(block[0], weights=width, minlength=int(strips[-1])).astype(np.int64))
        before = starts(width)[:-1] - inside[block[0]]  # places of the strip's earlier blocks
        crd = np.repeat(block[1] * cols - starts(width)[:-1], width) + np.arange(width.sum())
        sizes = np.diff(inside)[strip_of_row]
        pos = starts(sizes)
        place = np.arange(pos[-1]) - np.repeat(pos[:-1], sizes) + np.repeat(inside[strip_of_row], sizes)
        self.levels.append(LevelArrays(pos, _contiguous(crd[place])))
        self.node = pos[self.node] + before[of_entry] + col % cols
        self._descend(np.repeat(np.arange(self.nodes), sizes), int(pos[-1]))

    def _descend(self, parent: Ints, nodes: int) -> None:
        self._tile_coords = {m: c[parent] for m, c in self._tile_coords.items()}
        self._tile_of_node = self._tile_of_node[parent]
        self.nodes = nodes


def starts(sizes: Ints) -> Ints:
    """Where each of consecutive pieces begins, and the end of the last."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _contiguous(crd: Ints) -> Ints:
    return np.ascontiguousarray(crd, np.int64)
