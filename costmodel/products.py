"""Sum-product of sparse factors.

How often something happens in a loop nest is a sum, over index coordinates, of a product of 0/1 node tensors of the
operands. Indices are summed out as soon as a single factor still has them, so that a chain of products needs
vectors alone and any acyclic einsum takes time linear in its factors. Where two factors must be multiplied before
anything can be summed, their pairs are listed, or, where many fall together, a matrix product sums them at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from costmodel.factors import Column, Factor, Floats, Ints, bin_sum, in_order, pack, radices, unpack

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST_PAIRS = 4_000_000
"""Products of a cyclic einsum that are enumerated; beyond, a fixed random share stands for all."""

FEW_PAIRS = 50_000
"""Pairs that are listed as fast as a matrix product is set up."""

LARGEST_TABLE = 1 << 22
"""Cells of a factor that is written out as a table, and rows and columns of a matrix, at most."""

PIECE = 1 << 18
"""Cells of a product that are written out at once: they stay in the cache."""

CELLS_PER_PAIR = 8
"""Cells of a table that are added up in the time that a product of sparse matrices takes for a pair, about."""


def needed(index: str, others: Sequence[Sequence[Column]]) -> int | None:
    """Finest granule at which ``index`` stands among the other columns, None if nowhere."""
    return min([g for columns in others for i, g in columns if i == index], default=None)


def kept_columns(columns: Sequence[Column], others: Sequence[Sequence[Column]]) -> tuple[Column, ...]:
    """What must stay of a factor's columns: those used elsewhere, no finer than they are used."""
    finest = dict[str, int]()
    for used in others:
        for index, granule in used:
            finest[index] = min(granule, finest.get(index, granule))
    return tuple((i, max(g, finest[i])) for i, g in columns if i in finest)


def sum_product(
    factors: Sequence[Factor], keep: Sequence[Column], extents: Mapping[str, int], ordered: bool = True
) -> Factor:
    """Product of all factors summed onto ``keep``, its points in coordinate order unless that is not asked for.

    Every kept index stands in some factor at its granule or a finer one, and granules of an index divide each other.
    """
    left = list(factors)
    scale = 1.0
    while True:
        for n, factor in enumerate(left):
            others = [keep, *(f.columns for m, f in enumerate(left) if m != n)]
            left[n] = factor.reduced(kept_columns(factor.columns, others), extents)
        for factor in left:
            scale *= factor.total if not factor.columns else 1.0
        left = [f for f in left if f.columns]
        if len(left) < 2:
            break
        a, b = _cheapest(left, extents)
        rest = [f for n, f in enumerate(left) if n not in (a, b)]
        left = [*rest, _join(left[a], left[b], [keep, *(f.columns for f in rest)], extents)]
    if not left:
        return Factor((), (), np.array([scale]))
    last = left[0]
    if last.columns == tuple(keep):
        last = last.in_order(extents) if ordered else last
    else:
        last = last.reduced(keep, extents) if ordered or {*last.columns} != {*keep} else last.permuted(keep)
    if not scale:  # a factor without points, of indices that no other has: nothing is left of these either
        last = last.taken(np.zeros(0, np.int64))
    return last if scale == 1.0 else Factor(last.columns, last.coords, last.weights * scale)


def _cheapest(factors: Sequence[Factor], extents: Mapping[str, int]) -> tuple[int, int]:
    """Which pair to multiply: one whose second factor is a look-up, else the one with fewest expected products."""
    best, least = (0, 1), math.inf
    for a, left in enumerate(factors):
        for b, right in enumerate(factors):
            if a != b:
                size = left.weights.size if _covers(left, right) else _expected_pairs(left, right, extents)
                if size < least:
                    best, least = (a, b), size
    return best


def _covers(left: Factor, right: Factor) -> bool:
    return all((own := left.granule(i)) is not None and own <= g for i, g in right.columns)


def _shared(left: Factor, right: Factor) -> list[Column]:
    found = ((i, left.granule(i), g) for i, g in right.columns)
    return [(i, max(own, g)) for i, own, g in found if own is not None]


def _expected_pairs(left: Factor, right: Factor, extents: Mapping[str, int]) -> float:
    cells = math.prod(radices(_shared(left, right), extents))
    return 2.0 + left.weights.size * right.weights.size / cells


def _join(left: Factor, right: Factor, outer: Sequence[Sequence[Column]], extents: Mapping[str, int]) -> Factor:
    """Their product with all columns of both, or what ``outer`` uses of it."""
    if _covers(left, right):
        return _look_up(left, right, extents)
    pairs = _Pairs(left, right, extents)
    wanted = kept_columns(pairs.columns, outer)
    if wanted != pairs.columns and FEW_PAIRS < pairs.total <= MOST_PAIRS:
        return pairs.summed(wanted) or pairs.listed()
    return pairs.listed()


def _look_up(left: Factor, right: Factor, extents: Mapping[str, int]) -> Factor:
    """``left`` times the weight of ``right`` at its coordinates."""
    factor = right.at([left.column(*c) for c in right.columns], radices(right.columns, extents))
    alive = np.flatnonzero(factor != 0)
    if alive.size == factor.size:
        return Factor(left.columns, left.coords, left.weights * factor)
    return Factor(left.columns, tuple(c[alive] for c in left.coords), left.weights[alive] * factor[alive])


class _Pairs:
    """All pairs of points of two factors that agree on the shared columns: ``total`` in number, with ``columns``."""

    def __init__(self, left: Factor, right: Factor, extents: Mapping[str, int]) -> None:
        self._left, self._extents, shared = left, extents, _shared(left, right)
        self._cells = math.prod(radices(shared, extents))
        sides = [[f.column(*c) for c in shared] for f in (left, right)]
        both = np.zeros(left.weights.size + right.weights.size, np.int64)
        if shared:
            both = pack([np.concatenate(c) for c in zip(*sides, strict=True)], radices(shared, extents))
        self._left_key, self._right_key, self._right = both[: left.weights.size], both[left.weights.size :], right
        if (self._right_key[1:] < self._right_key[:-1]).any():
            self._right_key, order = in_order(self._right_key)
            self._right = right.taken(order)
        if self._cells <= both.size:
            ends = np.cumsum(np.bincount(self._right_key, minlength=self._cells + 1))
            self._start, stop = np.concatenate([[0], ends])[self._left_key], ends[self._left_key]
        else:
            self._start, stop = (np.searchsorted(self._right_key, self._left_key, side) for side in ("left", "right"))
        self._count = stop - self._start
        self.total = int(self._count.sum())
        self._of_left = [(i, g) for i, g in left.columns if (other := right.granule(i)) is None or g <= other]
        self._of_right = [(i, g) for i, g in right.columns if (own := left.granule(i)) is None or own > g]
        self.columns = *self._of_left, *self._of_right

    def listed(self) -> Factor:
        """One point per pair; a share of them where they are too many."""
        rows, scale = self._affordable()
        count = self._count[rows]
        a = np.repeat(rows, count)
        b = np.arange(a.size) + np.repeat(self._start[rows] - np.cumsum(count) + count, count)
        coords = [self._left.column(*c)[a] for c in self._of_left]
        coords += [self._right.column(*c)[b] for c in self._of_right]
        return Factor(self.columns, tuple(coords), self._left.weights[a] * self._right.weights[b] * scale)

    def _affordable(self) -> tuple[Ints, float]:
        """Rows to expand and the factor that makes their sum unbiased: all rows while they are few."""
        rows = np.flatnonzero(self._count != 0)
        if self.total <= MOST_PAIRS:
            return rows, 1.0
        share = MOST_PAIRS / self.total
        rows = rows[np.random.default_rng(0).random(rows.size) < share]
        return rows, 1.0 / share

    def summed(self, wanted: Sequence[Column]) -> Factor | None:
        """Their sums onto ``wanted`` by a product of matrices, None where these would have too many rows or columns."""
        columns = [[c for c in wanted if any(c[0] == i for i, _ in own)] for own in (self._of_left, self._of_right)]
        if max(self._cells, *(math.prod(radices(own, self._extents)) for own in columns)) > LARGEST_TABLE:
            return None
        keys = self._left_key, self._right_key
        met = np.logical_and(*(np.bincount(key, minlength=self._cells) > 0 for key in keys))
        left, right = (
            _Side(factor, key, met, own, radices(own, self._extents))
            for factor, key, own in zip((self._left, self._right), keys, columns, strict=True)
        )
        sparse, table = min(((left, right), (right, left)), key=lambda sides: sides[0].effort(sides[1]))
        if sparse.effort(table) <= CELLS_PER_PAIR * self.total and table.cells <= LARGEST_TABLE:
            return _by_table(sparse, table)
        return _by_pairs(left, right)


def _by_table(sparse: _Side, table: _Side) -> Factor:
    """Product of a sparse matrix with a table, which the sparse one's entries add up row by row."""
    matrix, cells, width, found = sparse.matrix(), table.table(), table.nodes.size, list[tuple[Ints, ...]]()
    for start in range(0, sparse.nodes.size, step := max(1, PIECE // width)):
        sums = np.asarray(matrix[start : start + step] @ cells).reshape(-1)
        at = np.flatnonzero(sums != 0)
        row = at // width
        found.append((*sparse.coords(start + row), *table.coords(at - row * width), sums[at]))
    *coords, weights = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Factor((*sparse.columns, *table.columns), tuple(coords), weights)


def _by_pairs(left: _Side, right: _Side) -> Factor:
    """Product of two sparse matrices."""
    found = left.matrix() @ right.matrix().T.tocsr()
    row = np.repeat(np.arange(left.nodes.size), np.diff(found.indptr))
    key, order = in_order(row * right.nodes.size + found.indices)
    row = key // right.nodes.size
    coords = *left.coords(row), *right.coords(key - row * right.nodes.size)
    return Factor((*left.columns, *right.columns), coords, found.data[order])


class _Side:
    """A factor as a matrix: ``nodes`` are the points of its kept columns, which meet shared points. Only those shared
    points count that are ``met`` by both sides."""

    def __init__(
        self, factor: Factor, key: Ints, met: np.ndarray, columns: Sequence[Column], sizes: Sequence[int]
    ) -> None:
        self.columns, self._sizes = columns, sizes
        at = np.flatnonzero(met[key])
        self._weights, self._shared = factor.weights[at], (np.cumsum(met) - 1)[key[at]]
        number = pack([factor.column(*c) for c in columns], sizes) if columns else np.zeros(key.size, np.int64)
        seen = np.zeros(math.prod(sizes), bool)
        seen[number[at]] = True
        self.nodes, self._node = np.flatnonzero(seen), (np.cumsum(seen) - 1)[number[at]]
        self._depth = int(np.count_nonzero(met))

    def coords(self, rank: Ints) -> tuple[Ints, ...]:
        """Coordinates of nodes."""
        return unpack(self.nodes[rank], self._sizes)

    @property
    def cells(self) -> int:
        """Cells of its table."""
        return self._depth * self.nodes.size

    def effort(self, table: _Side) -> int:
        """Cells that are touched when it is multiplied by a table."""
        return table.nodes.size * (self._weights.size + self._depth + self.nodes.size)

    def matrix(self) -> csr_array:
        """Nodes by shared points."""
        from scipy.sparse import csr_array

        return csr_array((self._weights, (self._node, self._shared)), shape=(self.nodes.size, self._depth))

    def table(self) -> Floats:
        """Shared points by nodes."""
        at = self._shared * self.nodes.size + self._node
        return bin_sum(at, self._weights, self.cells).reshape(self._depth, -1)
