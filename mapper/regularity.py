"""Measurements of where a tensor's entries stand: in blocks, in groups of a row, along diagonals, per row."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mapper.matrix_stack import MatrixStack

BLOCKS = (
    *((side, side) for side in (2, 3, 4, 6, 8, 16, 32, 64)),
    *((1, side) for side in (2, 4, 8, 16)),
    *((side, 1) for side in (2, 4, 8, 16)),
)
"""Block extents tried, blocks starting at multiples of them."""

GROUPS = (2, 4, 8, 16, 32, 64)
"""Group widths M tried for N of M; N is at most half of them."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """``count`` blocks of ``rows`` by ``columns`` hold an entry, and ``fill`` of their positions do."""

    rows: int
    columns: int
    count: int
    fill: float


@dataclass(frozen=True, slots=True)
class Groups:
    """Every ``m`` neighbours in a row hold at most ``n`` entries (0 of 0: no pair was found), which fills ``fill`` of
    the places kept for them. ``two_of_four``: share of the groups of four with at most two entries."""

    n: int
    m: int
    fill: float
    two_of_four: float


@dataclass(frozen=True, slots=True)
class Diagonals:
    """``count`` diagonals hold an entry, and ``fill`` of their positions do. ``bandwidth``: the largest distance from
    the main one, ``bandwidth95`` that of the nearest 95 % of entries; ``band_fill``: stored share of the whole band."""

    count: int
    fill: float
    bandwidth: int
    bandwidth95: int
    band_fill: float


@dataclass(frozen=True, slots=True)
class Rows:
    """``empty`` of ``count`` rows hold nothing. Of the others: ``mean`` and ``longest`` number of entries, ``gini`` (0:
    equal rows; near 1: few rows hold everything) and ``dispersion`` (variance over mean; at most 1 for entries thrown
    at random)."""

    count: int
    empty: int
    mean: float
    longest: int
    gini: float
    dispersion: float


def measure_blocks(stack: MatrixStack, value_bytes: int, coordinate_bytes: int) -> Blocks:
    """The blocks that take least memory, each with one coordinate; 1 by 1 if the tensor is too small for others."""
    best, least = Blocks(1, 1, stack.nnz, 1.0), math.inf
    for rows, columns in BLOCKS:
        if rows <= stack.rows and columns <= stack.columns:
            count = stack.block_count(rows, columns)
            size = count * (rows * columns * value_bytes + coordinate_bytes)
            if size < least:
                best, least = Blocks(rows, columns, count, _share(stack.nnz, count * rows * columns)), size
    return best


def measure_groups(stack: MatrixStack, value_bits: int) -> Groups:
    """N and M that hold every entry in fewest bits: value and place in its group for N of every M positions."""
    best, least, two_of_four = (0, 0, 0.0), math.inf, 1.0
    for m in GROUPS:
        sizes = stack.group_sizes(m)
        n, groups = int(sizes.max(initial=0)), stack.all_rows * -(-stack.columns // m)
        if m == 4:
            two_of_four = _share(groups - int((sizes > 2).sum()), groups) if groups else 1.0
        size = groups * n * (value_bits + (m - 1).bit_length())
        if 0 < n <= m // 2 and m <= stack.columns and size < least:
            best, least = (n, m, _share(stack.nnz, groups * n)), size
    return Groups(*best, two_of_four)


def measure_diagonals(stack: MatrixStack) -> Diagonals:
    """Offsets column - row of the entries of all matrices."""
    offsets = np.sort(stack.column - stack.row)
    distance = np.sort(np.abs(offsets))
    offsets = offsets[np.diff(offsets, prepend=offsets[:1] - 1) != 0]
    ends = np.minimum(stack.rows, stack.columns - offsets) - np.maximum(0, -offsets)
    held = stack.matrices * sum(map(int, ends))
    widest = int(distance[-1]) if stack.nnz else 0
    nearest = int(distance[math.ceil(0.95 * stack.nnz) - 1]) if stack.nnz else 0
    band = stack.matrices * _band_positions(stack.rows, stack.columns, widest)
    return Diagonals(int(offsets.size), _share(stack.nnz, held), widest, nearest, _share(stack.nnz, band))


def measure_rows(stack: MatrixStack) -> Rows:
    """Statistics of the rows that hold an entry."""
    lengths = np.sort(stack.row_lengths).astype(np.float64)
    stored = lengths.size
    if not stored:
        return Rows(stack.all_rows, stack.all_rows, 0.0, 0, 0.0, 0.0)
    mean, ranks = stack.nnz / stored, np.arange(1.0, stored + 1)
    gini = 2 * float(ranks @ lengths) / (stored * stack.nnz) - (stored + 1) / stored
    dispersion = float(lengths @ lengths) / stack.nnz - mean
    return Rows(stack.all_rows, stack.all_rows - stored, mean, int(lengths[-1]), max(gini, 0.0), max(dispersion, 0.0))


def _band_positions(rows: int, columns: int, width: int) -> int:
    """Positions of a matrix no further than ``width`` from the main diagonal."""

    def beyond(height: int, length: int) -> int:
        """Sum of min(height, d) over d = 1 .. length: diagonals outside, counted from the corner."""
        short = min(height, length)
        return short * (short + 1) // 2 + (length - short) * height

    outside = beyond(rows, max(0, columns - 1 - width)) + beyond(columns, max(0, rows - 1 - width))
    return rows * columns - outside


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
