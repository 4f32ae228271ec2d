"""Entries: coordinate lists of stored values, their products summed as early as can be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from mapper.tensor import Coords, Values

MOST_PAIRS = 1 << 23
"""Pairs of entries that are multiplied at once where further operands follow."""


@dataclass(frozen=True, slots=True)
class Entries:
    """Unique stored entries, in any order: one row of ``coords`` per index."""

    indices: tuple[str, ...]
    coords: Coords
    values: Values

    def columns(self, indices: Sequence[str]) -> Coords:
        """int64[len(indices), nnz]: coordinates of these indices."""
        return self.coords[[self.indices.index(i) for i in indices]]


def paired(combine: Callable[[Values, Values], Any], left: Entries, right: Entries) -> Entries:
    """Both operands where both are stored, over the indices of either."""
    shared = [i for i in left.indices if i in right.indices]
    rank, distinct = _rank(np.concatenate([left.columns(shared), right.columns(shared)], axis=1))
    mine, theirs = rank[: left.values.size], rank[left.values.size :]
    order = np.argsort(theirs, kind="stable")
    count = np.bincount(theirs, minlength=distinct.size)
    start = np.concatenate([[0], np.cumsum(count)])
    copies = count[mine]
    at_left = np.repeat(np.arange(mine.size), copies)
    within = np.arange(at_left.size) - np.repeat(np.cumsum(copies) - copies, copies)
    at_right = order[np.repeat(start[mine], copies) + within]
    alone = [i for i in right.indices if i not in shared]
    coords = np.concatenate([left.coords[:, at_left], right.columns(alone)[:, at_right]])
    values = combine(left.values[at_left], right.values[at_right])
    return Entries((*left.indices, *alone), coords, values)


def product(operands: Sequence[Entries], target: tuple[str, ...]) -> Entries:
    """Product of all operands, reduced to ``target`` as early as the later operands allow. After the first, an operand
    that shares an index with what is multiplied already comes before one that does not. Products of two of several
    operands that would fill the memory (a mask and one of the matrices that it samples) are made piece by piece."""
    result, left = operands[0], list(operands[1:])
    while left:
        operand = next((o for o in left if {*o.indices} & {*result.indices}), left[0])
        left = [o for o in left if o is not operand]
        later = {*target, *(i for o in left for i in o.indices)}
        result = reduced(result, {*operand.indices, *later})
        operand = reduced(operand, {*result.indices, *later})
        if left and len(pieces := list(_pieces(result, operand))) > 1:
            parts = [product((piece, operand, *left), target) for piece in pieces]
            columns = [part.columns(parts[0].indices) for part in parts]
            values = np.concatenate([part.values for part in parts])
            return reduced(Entries(parts[0].indices, np.concatenate(columns, axis=1), values), set(target), again=True)
        result = _multiply(result, operand, later)
    return reduced(result, set(target))


def _pieces(left: Entries, right: Entries) -> Iterator[Entries]:
    """``left`` in pieces of which each makes at most MOST_PAIRS pairs with ``right``, or is a single entry."""
    shared = [i for i in left.indices if i in right.indices]
    rank, distinct = _rank(np.concatenate([left.columns(shared), right.columns(shared)], axis=1))
    count = np.bincount(rank[left.values.size :], minlength=distinct.size)
    pairs = np.cumsum(count[rank[: left.values.size]])
    begin = 0
    while begin < pairs.size:
        before = int(pairs[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(pairs, before + MOST_PAIRS, side="right")))
        yield Entries(left.indices, left.coords[:, begin:end], left.values[begin:end])
        begin = end


def reduced(entries: Entries, keep: set[str], combine: np.ufunc = np.add, again: bool = False) -> Entries:
    """Sum, or reduction by another ufunc, over every index outside ``keep``; ``again``: entries may be there twice."""
    kept = tuple(i for i in entries.indices if i in keep)
    if len(kept) == len(entries.indices) and not again:
        return entries
    columns = entries.columns(kept)
    rank, first = _rank(columns)
    if combine is np.add:
        return Entries(kept, columns[:, first], np.bincount(rank, entries.values, first.size).astype(np.float64))
    order = np.argsort(rank, kind="stable")
    starts = np.searchsorted(rank[order], np.arange(first.size))
    values = combine.reduceat(entries.values[order], starts) if first.size else entries.values
    return Entries(kept, columns[:, first], values)


def _multiply(left: Entries, right: Entries, later: set[str]) -> Entries:
    """Product of two operands, summed over shared indices outside ``later``.

    It is one matrix product: rows are what ``left`` keeps, columns what ``right`` alone has, and the inner side
    ranks the shared indices, kept ones included, which makes the product block diagonal in those.
    """
    shared = [i for i in left.indices if i in right.indices]
    rows = [i for i in left.indices if i in later]
    columns = [i for i in right.indices if i not in shared]
    row, row_first = _rank(left.columns(rows))
    column, column_first = _rank(right.columns(columns))
    inner, distinct = _rank(np.concatenate([left.columns(shared), right.columns(shared)], axis=1))
    left_at, right_at = (row, inner[: row.size]), (inner[row.size :], column)
    shapes = (row_first.size, distinct.size), (distinct.size, column_first.size)

    def matrix(left_values: Values, right_values: Values) -> Any:
        a = scipy.sparse.csr_array((left_values, left_at), shapes[0])
        result = a @ scipy.sparse.csr_array((right_values, right_at), shapes[1])
        result.sort_indices()
        return result

    stored, product = matrix(np.ones(row.size), np.ones(column.size)), matrix(left.values, right.values)
    values = product.data
    if product.nnz < stored.nnz:  # scipy drops sums that cancel
        values = np.zeros(stored.nnz)
        values[np.searchsorted(_flat(stored), _flat(product))] = product.data
    at_row, at_column = row_first[_rows(stored)], column_first[stored.indices]
    coords = np.concatenate([left.columns(rows)[:, at_row], right.columns(columns)[:, at_column]])
    return Entries((*rows, *columns), coords, values)


def _rows(matrix: Any) -> Coords:
    """Row of every stored entry of a CSR matrix."""
    return np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))


def _flat(matrix: Any) -> Coords:
    """Row-major position of every stored entry of a CSR matrix, ascending when its indices are sorted."""
    return np.asarray(_rows(matrix) * matrix.shape[1] + matrix.indices)


def _rank(columns: Coords) -> tuple[Coords, Coords]:
    """Dense rank of every column of coordinates in lexicographic order, and a column that has each rank."""
    key = np.zeros(columns.shape[1], dtype=np.int64)
    for row in columns:
        extents = [int(part.max(initial=0)) + 1 for part in (key, row)]
        if math.prod(extents) > np.iinfo(np.int64).max:  # ranks are below the number of columns: they always fit
            key, row = (np.unique(part, return_inverse=True)[1] for part in (key, row))
            extents[1] = int(row.max()) + 1
        key = key * extents[1] + row
    _, first, rank = np.unique(key, return_index=True, return_inverse=True)
    return rank, first
