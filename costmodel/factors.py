"""Sum-product of sparse factors: the count-einsums behind every prediction.

How often something happens in a loop nest is a sum, over index coordinates, of a product of 0/1 node tensors of the
operands. Indices are summed out as soon as a single factor still has them, so that a chain of products needs
vectors alone and any acyclic einsum takes time linear in its factors.

An index may stand in one factor at full resolution and in another by tile: a column ``(index, granule)`` holds
``coordinate // granule``, and the finer factor is coarsened where they meet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Column = tuple[str, int]

MOST_PAIRS = 4_000_000
"""Products of a cyclic einsum that are enumerated; beyond, a fixed random share stands for all."""

_LARGEST_KEY = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """A sparse tensor: ``weights[n]`` at coordinates ``coords[c][n]`` of ``columns[c]``, each point once."""

    columns: tuple[Column, ...]
    coords: tuple[Ints, ...]
    weights: Floats

    @property
    def total(self) -> float:
        """Sum of all weights."""
        return float(self.weights.sum())

    def granule(self, index: str) -> int | None:
        """Resolution of ``index``, None where the factor lacks it."""
        return next((g for i, g in self.columns if i == index), None)

    def column(self, index: str, granule: int) -> Ints:
        """Coordinates of ``index`` at a granule that its own divides."""
        for (name, own), crd in zip(self.columns, self.coords, strict=True):
            if name == index:
                return coarser(crd, granule // own)
        raise KeyError(index)

    def reduced(self, columns: Sequence[Column], extents: Mapping[str, int]) -> Factor:
        """Summed onto ``columns``: a subset of its indices, each at its own or a coarser granule."""
        wanted = tuple(columns)
        if wanted == self.columns:
            return self
        coords, weights = group_sum([self.column(*c) for c in wanted], radices(wanted, extents), self.weights)
        return Factor(wanted, coords, weights)

    def dense(self, cells: int) -> Floats:
        """Weights of a factor of one column over all its cells."""
        return bin_sum(self.coords[0], self.weights, cells)

    def at(self, points: Sequence[Ints], sizes: Sequence[int]) -> Floats:
        """Weight at each of ``points`` (one array per column, as many cells as ``sizes``), 0 where there is none."""
        count, cells = self.weights.size, math.prod(sizes)
        if not count:
            return np.zeros(points[0].size)
        if cells <= 8 * (count + points[0].size) + 1024:
            return bin_sum(pack(self.coords, sizes), self.weights, cells)[pack(points, sizes)]
        key = pack([np.concatenate(pair) for pair in zip(self.coords, points, strict=True)], sizes)
        known, order = in_order(key[:count])
        spot = np.minimum(np.searchsorted(known, key[count:]), count - 1)
        return np.where(known[spot] == key[count:], self.weights[order[spot]], 0.0)


def coarser(crd: Ints, times: int) -> Ints:
    """Coordinates of cells ``times`` as large."""
    if times & (times - 1):
        return crd // times
    return crd >> (times.bit_length() - 1) if times > 1 else crd  # several times faster than to divide


def bin_sum(bins: Ints, weights: Floats, cells: int) -> Floats:
    """Sum of the weights in each of ``cells`` bins."""
    return np.bincount(bins, weights=weights, minlength=cells).astype(np.float64)


def radices(columns: Sequence[Column], extents: Mapping[str, int]) -> list[int]:
    """Number of cells along each column."""
    return [max(1, -(-extents[i] // g)) for i, g in columns]


def pack(coords: Sequence[Ints], sizes: Sequence[int]) -> Ints:
    """One int64 per point, equal where all coordinates are; in coordinate order (ranks replace large prefixes)."""
    if not coords:
        raise ValueError("a key needs at least one column")
    key, size = coords[0], sizes[0]
    for crd, radix in zip(coords[1:], sizes[1:], strict=True):
        if size > _LARGEST_KEY // radix:
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
            size = int(key.max(initial=0)) + 1
        key, size = key * radix + crd, size * radix
    return key


def in_order(key: Ints) -> tuple[Ints, Ints]:
    """(keys sorted, the stable order that sorts them), of keys that are not negative. A key and its place are sorted as
    one number, which takes a fraction of the time of a stable argsort."""
    bits = key.size.bit_length()
    if not key.size or int(key.max()) >> (62 - bits):
        order = np.argsort(key, kind="stable")
        return key[order], order
    both = (key << bits) | np.arange(key.size)
    both.sort()
    return both >> bits, both & ((1 << bits) - 1)


def distinct(coords: Sequence[Ints], sizes: Sequence[int]) -> tuple[Ints, ...]:
    """The distinct points among ``coords``."""
    return group_sum(coords, sizes, None)[0]


def group_sum(coords: Sequence[Ints], sizes: Sequence[int], weights: Floats | None) -> tuple[tuple[Ints, ...], Floats]:
    """Distinct points in coordinate order and the summed weights at each (without ``weights``: how many there were)."""
    if not coords:
        return (), np.array([0.0 if weights is None else weights.sum()])
    count, cells = coords[0].size, math.prod(sizes)
    if cells <= 4 * count + 1024:
        sums = np.bincount(pack(coords, sizes), weights=weights, minlength=cells)
        at = np.flatnonzero(sums)
        return _unpack(at, sizes), sums[at].astype(np.float64)
    key = pack(coords, sizes)
    order = None
    if (key[1:] < key[:-1]).any():  # entries come in coordinate order, and often still are
        key, order = in_order(key)
        weights = None if weights is None else weights[order]
    first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])) if count else np.zeros(0, np.int64)
    points = tuple(c[first if order is None else order[first]] for c in coords)
    if weights is None:
        return points, np.diff(np.concatenate([first, [count]])).astype(np.float64)
    return points, np.add.reduceat(weights, first) if count else weights


def _unpack(key: Ints, sizes: Sequence[int]) -> tuple[Ints, ...]:
    if len(sizes) == 1:
        return (key,)
    return tuple(np.asarray(c, np.int64) for c in np.unravel_index(key, tuple(sizes)))


def needed(index: str, others: Sequence[Sequence[Column]]) -> int | None:
    """Finest granule at which ``index`` stands among the other columns, None if nowhere."""
    return min((g for columns in others for i, g in columns if i == index), default=None)


def kept_columns(columns: Sequence[Column], others: Sequence[Sequence[Column]]) -> tuple[Column, ...]:
    """What must stay of a factor's columns: those used elsewhere, no finer than they are used."""
    uses = ((i, g, needed(i, others)) for i, g in columns)
    return tuple((i, max(g, use)) for i, g, use in uses if use is not None)


def sum_product(factors: Sequence[Factor], keep: Sequence[Column], extents: Mapping[str, int]) -> Factor:
    """Product of all factors summed onto ``keep``.

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
        left = [*rest, _join(left[a], left[b], extents)]
    if not left:
        return Factor((), (), np.array([scale]))
    last = left[0].reduced(tuple(keep), extents)
    return Factor(last.columns, last.coords, last.weights * scale)


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


def _join(left: Factor, right: Factor, extents: Mapping[str, int]) -> Factor:
    return _look_up(left, right, extents) if _covers(left, right) else _expand(left, right, extents)


def _look_up(left: Factor, right: Factor, extents: Mapping[str, int]) -> Factor:
    """``left`` times the weight of ``right`` at its coordinates."""
    factor = right.at([left.column(*c) for c in right.columns], radices(right.columns, extents))
    alive = np.flatnonzero(factor)
    if alive.size == factor.size:
        return Factor(left.columns, left.coords, left.weights * factor)
    return Factor(left.columns, tuple(c[alive] for c in left.coords), left.weights[alive] * factor[alive])


def _expand(left: Factor, right: Factor, extents: Mapping[str, int]) -> Factor:
    """All pairs that agree on the shared columns."""
    shared = _shared(left, right)
    if shared:
        sides = [[f.column(*c) for c in shared] for f in (left, right)]
        both = pack([np.concatenate(c) for c in zip(*sides, strict=True)], radices(shared, extents))
        left_key, right_key = both[: left.weights.size], both[left.weights.size :]
    else:
        left_key, right_key = np.zeros(left.weights.size, np.int64), np.zeros(right.weights.size, np.int64)
    right_key, order = in_order(right_key)
    cells = math.prod(radices(shared, extents))
    if cells <= left_key.size + right_key.size:
        ends = np.cumsum(np.bincount(right_key, minlength=cells + 1))
        start, stop = np.concatenate([[0], ends])[left_key], ends[left_key]
    else:
        start, stop = (np.searchsorted(right_key, left_key, side) for side in ("left", "right"))
    count = stop - start
    rows, scale = _affordable(count)
    count = count[rows]
    a = np.repeat(rows, count)
    b = order[np.arange(a.size) - np.repeat(np.cumsum(count) - count, count) + np.repeat(start[rows], count)]
    columns = [(i, g) for i, g in left.columns if (other := right.granule(i)) is None or g <= other]
    coords = [left.column(*c)[a] for c in columns]
    for index, granule in right.columns:
        if (own := left.granule(index)) is None or own > granule:
            columns.append((index, granule))
            coords.append(right.column(index, granule)[b])
    return Factor(tuple(columns), tuple(coords), left.weights[a] * right.weights[b] * scale)


def _affordable(count: Ints) -> tuple[Ints, float]:
    """Rows to expand and the factor that makes their sum unbiased: all rows while they are few."""
    pairs = int(count.sum())
    rows = np.flatnonzero(count)
    if pairs <= MOST_PAIRS:
        return rows, 1.0
    share = MOST_PAIRS / pairs
    rows = rows[np.random.default_rng(0).random(rows.size) < share]
    return rows, 1.0 / share
