"""Walk of a statement's loops over stored levels, block by block: the exact oracle beside the counting model.

Nothing is predicted here: the levels that a scanner would read are expanded loop by loop as its unit would, many
prefixes at a time, in loop order. Every prefix that an operand reaches at its tile load is a visit of a tile, every
full prefix a product. Cost: O(prefixes) time, blocks of ``BLOCK`` prefixes of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from mapper.lanes import Slice
from mapper.mapping import Loop
from mapper.storage import Storage

Ints = npt.NDArray[np.int64]

BLOCK = 1 << 20
"""Prefixes that are expanded at once, about."""

LARGEST_TABLE = 1 << 22
"""Positions of a level that is looked up in a table; larger ones are searched."""


class Level:
    """Coordinates below every node of the level above: those of node r are crd[pos[r]:pos[r + 1]], increasing, and
    lead to the nodes ref[...] of this level."""

    def __init__(self, pos: Ints, crd: Ints, ref: Ints) -> None:
        self.pos, self.crd, self.ref = pos, crd, ref
        self._extent = int(crd.max(initial=0)) + 1
        parents = pos.size - 1
        self._keys = np.repeat(np.arange(parents) * self._extent, np.diff(pos)) + crd
        self._table = None
        if parents * self._extent <= LARGEST_TABLE:
            self._table = np.full(parents * self._extent, -1, np.int32)
            self._table[self._keys] = ref

    def below(self, nodes: Ints) -> Ints:
        """Number of coordinates below each of ``nodes``, 0 below absent ones (-1)."""
        return np.where(nodes >= 0, self.pos[nodes + 1] - self.pos[nodes], 0)

    def expand(self, nodes: Ints) -> tuple[Ints, Ints, Ints]:
        """(which of ``nodes``, coordinate, node below) of all coordinates, in order."""
        count = self.below(nodes)
        which = np.repeat(np.arange(nodes.size), count)
        at = np.arange(which.size) - np.repeat(np.cumsum(count) - count - self.pos[nodes], count)
        return which, self.crd[at], self.ref[at]

    def find(self, nodes: Ints, crd: Ints) -> Ints:
        """Node below each of ``nodes`` at a coordinate, -1 where there is none."""
        if not self._keys.size:
            return np.full(nodes.size, -1, np.int64)
        known = (nodes >= 0) & (crd < self._extent)
        key = np.where(known, nodes * self._extent + crd, 0)
        if self._table is not None:
            return np.where(known, self._table[key], -1)
        spot = np.minimum(np.searchsorted(self._keys, key), self._keys.size - 1)
        return np.where(known & (self._keys[spot] == key), self.ref[spot], -1)


@lru_cache(maxsize=16)
def levels_of(storage: Storage) -> tuple[Level, ...]:
    """The levels of a stored tensor as their scanners yield them, whatever the kind (docs/simulator.md)."""
    found = []
    for level in storage.levels:
        pos, crd = level.pos, level.crd
        fiber = np.repeat(np.arange(pos.size - 1), np.diff(pos))
        ref = np.arange(fiber.size)
        kind = level.params.get("storage")
        if kind == "bitmask":
            words = level.arrays["mask"].view(np.uint8).reshape(max(1, pos.size - 1), -1)
            crd = np.nonzero(np.unpackbits(words, axis=1, bitorder="little"))[1]
        elif crd is None:
            crd = ref - pos[fiber]
        elif kind == "n_of_m":
            crd = level.params["m"] * ((ref - pos[fiber]) // level.params["n"]) + crd
        elif kind == "run_length":
            length = level.arrays["length"]
            ref, ends = np.repeat(ref, length), np.cumsum(length)
            crd = crd[ref] + np.arange(ref.size) - np.repeat(ends - length, length)
            pos = np.concatenate([[0], ends])[pos]
        found.append(Level(pos.astype(np.int64), np.asarray(crd, np.int64), ref.astype(np.int64)))
    return tuple(found)


def stream_levels(entries: Ints, passed: Sequence[Ints]) -> tuple[Level, ...]:
    """The levels of a stream: ``entries`` (levels x entries), and prefixes that its producer passed without an entry
    below, as many levels as each has rows: readers see their coordinates too, above the innermost level."""
    levels, parts = entries.shape[0], [entries, *passed]
    crds = np.concatenate([np.pad(p, ((0, levels - p.shape[0]), (0, 0))) for p in parts], axis=1)
    depth = np.repeat([p.shape[0] for p in parts], [p.shape[1] for p in parts])
    number, parents, found = np.zeros(depth.size, np.int64), 1, list[Level]()
    for q in range(levels):
        here = np.flatnonzero(depth > q)
        extent = int(crds[q, here].max(initial=0)) + 1
        keys, at = np.unique(number[here] * extent + crds[q, here], return_inverse=True)
        pos = np.searchsorted(keys // extent, np.arange(parents + 1))
        found.append(Level(pos.astype(np.int64), keys % extent, np.arange(keys.size)))
        number[here], parents = at, keys.size
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """An operand in a walk: its loops with their levels, and ``load_depth``, below how many loops of the nest a
    prefix is a visit of its tile (None: it has no tile load)."""

    levels: dict[Loop, Level]
    load_depth: int | None


@dataclass(frozen=True, slots=True)
class Nest:
    """What a walk iterates over: ``loops`` with the extent of each and its tile extent (0: none); ``product``: operands
    meet (else each may be absent); ``universal``: indices that run over their full extent, in a sum under operands that
    lack them; ``slices``: the lane's."""

    loops: tuple[Loop, ...]
    extents: dict[str, int]
    tiles: dict[str, int]
    product: bool
    universal: frozenset[str]
    slices: dict[Loop, Slice]


@dataclass(slots=True)
class _Block:
    nodes: list[Ints]
    crds: dict[Loop, Ints]
    size: int

    def take(self, which: Ints | slice) -> _Block:
        crds = {loop: c[which] for loop, c in self.crds.items()}
        nodes = [n[which] for n in self.nodes]
        return _Block(nodes, crds, (which.stop - which.start) if isinstance(which, slice) else which.size)


Products = Callable[[dict[Loop, Ints]], None]
"""Takes the coordinates of a block of products, per loop, in loop order."""


def walk(
    nest: Nest, sides: Sequence[Side], depth: int, products: Products | None, passed: Products | None = None
) -> tuple[Ints, ...]:
    """Walks the first ``depth`` loops; ``products`` is told of every block of prefixes there, ``passed`` of those at
    every depth.

    Returns the tile (node reached) of every visit of every side, in order.
    """
    visits: tuple[list[Ints], ...] = tuple([] for _ in sides)

    def note(q: int, block: _Block) -> None:
        for side, nodes, own in zip(sides, block.nodes, visits, strict=True):
            if side.load_depth == q:
                own.append(nodes[nodes >= 0])

    def descend(q: int, block: _Block) -> None:
        note(q, block)
        if passed is not None:
            passed(block.crds)
        if q == depth:
            if products is not None:
                products(block.crds)
            return
        ends = np.cumsum(_work(nest, sides, q, block))
        start = 0
        while start < block.size:
            before = ends[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + BLOCK, side="right")))
            below = _below(nest, sides, q, block.take(slice(start, stop)))
            if below.size:
                descend(q + 1, below)
            start = stop

    descend(0, _Block([np.zeros(1, np.int64) for _ in sides], {}, 1))
    return tuple(np.concatenate(own) if own else np.zeros(0, np.int64) for own in visits)


def _work(nest: Nest, sides: Sequence[Side], q: int, block: _Block) -> Ints:
    """Coordinates that the next loop looks at, per prefix."""
    loop = nest.loops[q]
    count = [s.levels[loop].below(n) for s, n in zip(sides, block.nodes, strict=True) if loop in s.levels]
    if loop[0] in nest.universal:
        count.append(np.where(_everywhere(sides, loop, block), _extent(nest, loop, block), 0))
    return np.asarray(np.min(count, axis=0) if nest.product else np.sum(count, axis=0))


def _everywhere(sides: Sequence[Side], loop: Loop, block: _Block) -> npt.NDArray[np.bool_]:
    """Prefixes under which all coordinates of a loop are walked: a side without its index is there, or all have it."""
    lacking = [n >= 0 for s, n in zip(sides, block.nodes, strict=True) if all(i != loop[0] for i, _ in s.levels)]
    return np.logical_or.reduce(lacking) if lacking else np.ones(block.size, bool)


def _extent(nest: Nest, loop: Loop, block: _Block) -> Ints:
    extent, tile = nest.extents[loop[0]], nest.tiles.get(loop[0], 0)
    if tile and loop[1] == "inner":
        return np.minimum(tile, extent - block.crds[loop[0], "tile"] * tile)
    return np.full(block.size, -(-extent // tile) if tile else extent)


def _below(nest: Nest, sides: Sequence[Side], q: int, block: _Block) -> _Block:
    """The prefixes one loop further."""
    loop = nest.loops[q]
    present = [n for n, side in enumerate(sides) if loop in side.levels]
    if nest.product:
        first = min(present, key=lambda n: int(sides[n].levels[loop].below(block.nodes[n]).sum()))
        which, crd, node = sides[first].levels[loop].expand(block.nodes[first])
    else:
        first, node = -1, np.zeros(0, np.int64)
        which, crd = _united(nest, sides, present, loop, block)
    own = nest.slices.get(loop)
    alive = np.ones(crd.size, bool) if own is None else own.has(crd)
    reached = {}
    for n in present:
        reached[n] = node if n == first else sides[n].levels[loop].find(block.nodes[n][which], crd)
        if nest.product:
            alive &= reached[n] >= 0
    keep = np.flatnonzero(alive)
    which = which[keep]
    nodes = [reached[n][keep] if n in reached else old[which] for n, old in enumerate(block.nodes)]
    crds = {known: c[which] for known, c in block.crds.items()}
    return _Block(nodes, {**crds, loop: crd[keep]}, keep.size)


def _united(nest: Nest, sides: Sequence[Side], present: Sequence[int], loop: Loop, block: _Block) -> tuple[Ints, Ints]:
    """(prefix, coordinate) wherever some side has one, in order."""
    parts = [sides[n].levels[loop].expand(block.nodes[n])[:2] for n in present]
    if loop[0] in nest.universal:
        size = np.where(_everywhere(sides, loop, block), _extent(nest, loop, block), 0)
        which = np.repeat(np.arange(block.size), size)
        parts.append((which, np.arange(which.size) - np.repeat(np.cumsum(size) - size, size)))
    radix = nest.extents[loop[0]] + 1
    key = np.unique(np.concatenate([which * radix + crd for which, crd in parts]))
    return key // radix, key % radix
