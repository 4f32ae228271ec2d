"""What the positions of a tensor's entries have in common, and the storage format that this suggests.

Regular formats (dense, blocks, N of M) keep some zeros and in return need few coordinates or none. They are
recommended where they are smaller than all others, or larger by so little that regular access repays it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from mapper.format_sizes import Widths, format_sizes
from mapper.matrix_stack import MatrixStack
from mapper.regularity import (
    Blocks,
    Diagonals,
    Groups,
    Rows,
    measure_blocks,
    measure_diagonals,
    measure_groups,
    measure_rows,
)
from mapper.tensor import SparseTensor

DENSE_FROM = 0.9
"""Density from which a tensor is called dense."""
REGULAR_FILL = 0.6
"""Share of a structure's positions that must be stored for a tensor to be called after it."""
N_OF_M_FILL = 0.9
"""The same for N of M."""
ABOVE_CHANCE = 1.5
"""How much fuller than with entries thrown at random blocks must be."""
MOST_DIAGONALS = 32
SKEWED_DISPERSION, SKEWED_LONGEST = 3.0, 4.0
"""Variance over mean, and longest row over mean, from which row lengths are called skewed."""
NARROW_BAND = 0.2
"""Share of the columns that a band with 95 % of the entries may span."""
WORTH_REGULAR = 1.1
"""Size of a regular format over the smallest one up to which it is preferred."""
NEARLY_TWO_OF_FOUR, DENSE_ENOUGH_FOR_TWO_OF_FOUR = 0.9, 0.3
"""Share of groups that fit, and density, from which pruning the rest to 2:4 is worth a remark."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """``kind``: empty, dense, diagonal, banded, block, N:M, row-skewed or unstructured.

    ``sizes_bytes``: exact size by format; ``recommendation`` is one of them, ``reason`` says in words why. Rows,
    columns and diagonals are those of the last two modes.
    """

    kind: str
    shape: tuple[int, ...]
    nnz: int
    density: float
    blocks: Blocks
    groups: Groups
    diagonals: Diagonals
    rows: Rows
    sizes_bytes: tuple[tuple[str, int], ...]
    recommendation: str
    reason: str


def analyse(tensor: SparseTensor, widths: Widths | None = None) -> Pattern:
    """Measures, classifies and recommends; ``widths``: of values, coordinates and pointers, 4 bytes each if None.

    O(nnz log nnz) for each of the block extents tried.
    """
    widths, stack = widths or Widths(), MatrixStack(tensor)
    blocks = measure_blocks(stack, widths.value, widths.coordinate)
    groups = measure_groups(stack, 8 * widths.value)
    diagonals, rows = measure_diagonals(stack), measure_rows(stack)
    kind = _kind(stack, tensor.density, blocks, groups, diagonals, rows)
    sizes = format_sizes(stack, widths, blocks, groups)
    best = _recommended(sizes, tensor.density, blocks, groups)
    words = [f"store {_why(best, tensor.density, blocks, groups, rows)}"]
    if stack.nnz:
        words += [_compared(best, sizes), *_hints(kind, tensor.density, groups, diagonals, rows)]
    measured = (tensor.shape, tensor.nnz, tensor.density, blocks, groups, diagonals, rows)
    return Pattern(kind, *measured, tuple(sizes.items()), best, "; ".join(words))


def _kind(stack: MatrixStack, density: float, blocks: Blocks, groups: Groups, diagonals: Diagonals, rows: Rows) -> str:
    """The fullest regular structure, the first among equals; else what the rows or the band tell."""
    if not stack.nnz:
        return "empty"
    if density >= DENSE_FROM:
        return "dense"
    plane, contiguous = min(stack.rows, stack.columns) > 1, 1 < diagonals.count == 2 * diagonals.bandwidth + 1
    chance = density / -math.expm1(blocks.rows * blocks.columns * math.log1p(-density))
    narrow = (2 * diagonals.bandwidth + 1) * 2 <= stack.columns
    fills = {
        "diagonal": diagonals.fill if plane and diagonals.count <= MOST_DIAGONALS and not contiguous else 0.0,
        "banded": diagonals.band_fill if plane and narrow else 0.0,
        "block": blocks.fill if blocks.fill >= ABOVE_CHANCE * chance else 0.0,
        "N:M": groups.fill if groups.fill >= N_OF_M_FILL else 0.0,
    }
    fullest = max(fills, key=fills.__getitem__)
    if fills[fullest] >= REGULAR_FILL:
        return fullest
    if rows.dispersion >= SKEWED_DISPERSION and rows.longest >= SKEWED_LONGEST * rows.mean:
        return "row-skewed"
    if plane and 2 * diagonals.bandwidth95 + 1 <= NARROW_BAND * stack.columns:
        return "banded"
    return "unstructured"


def _recommended(sizes: dict[str, int], density: float, blocks: Blocks, groups: Groups) -> str:
    """The smallest format, or the smallest regular one if that is hardly larger and well filled."""
    smallest, regular = (min(names, key=sizes.__getitem__) for names in (sizes, filter(_is_regular, sizes)))
    fill = density if regular == "dense" else groups.fill if ":" in regular else blocks.fill
    close = fill >= REGULAR_FILL and sizes[regular] <= WORTH_REGULAR * sizes[smallest]
    return regular if close else smallest


def _is_regular(name: str) -> bool:
    return name == "dense" or name.startswith("bcsr") or ":" in name


def _why(best: str, density: float, blocks: Blocks, groups: Groups, rows: Rows) -> str:
    if rows.empty == rows.count:
        return f"as {best}: there is no entry"
    if best.startswith("bcsr"):
        return f"as {blocks.rows}x{blocks.columns} blocks: {_percent(blocks.fill)} of each touched block is filled"
    if ":" in best:
        used = f"{_percent(groups.fill)} of the places kept for them are used"
        return f"as {best}: at most {groups.n} of {groups.m} neighbours in a row are stored, and {used}"
    if best == "dense":
        return f"dense: {_percent(density)} of all positions are stored"
    if best == "bitmap":
        stored = f"{_percent(density)} of all positions are stored"
        return f"as bitmap: {stored}, and a bit for each takes less than coordinates"
    if best in ("dcsr", "csf") and rows.empty:
        return f"as {best}: {_percent(rows.empty / rows.count)} of the rows are empty"
    return f"as {best}: no regular structure is as small"


def _compared(best: str, sizes: dict[str, int]) -> str:
    """Size against the usual compressed format; of that one, against the smallest regular one."""
    usual = "csr" if "csr" in sizes else "csf"
    other = usual if best != usual else min(filter(_is_regular, sizes), key=sizes.__getitem__)
    return _ratio(sizes[other], sizes[best], other)


def _ratio(other_bytes: int, best_bytes: int, other: str) -> str:
    if other_bytes >= best_bytes:
        return f"{other_bytes / max(best_bytes, 1):.3g}x smaller than {other}"
    return f"{best_bytes / other_bytes:.3g}x larger than {other}, but regular"


def _hints(kind: str, density: float, groups: Groups, diagonals: Diagonals, rows: Rows) -> Iterator[str]:
    """What the pattern means for tiles, lanes and pruning."""
    if kind == "row-skewed":
        share = f"the longest row holds {rows.longest / rows.mean:.0f}x the mean"
        yield f"{share}: share rows out by their entries, not by their number"
    if kind == "diagonal":
        yield f"diagonals that hold an entry: {diagonals.count}, {_percent(diagonals.fill)} filled"
    if kind == "banded":
        near = f"95 % of the entries lie within {diagonals.bandwidth95} of the diagonal"
        yield f"{near}: tiles along it hold most of them"
    if NEARLY_TWO_OF_FOUR <= groups.two_of_four < 1 and density >= DENSE_ENOUGH_FOR_TWO_OF_FOUR:
        yield f"2:4 would fit if {_percent(1 - groups.two_of_four)} of the groups of four were pruned to two entries"


def _percent(share: float) -> str:
    if 0 < share < 0.001 or 0.999 < share < 1:
        return "less than 0.1 %" if share < 0.5 else "more than 99.9 %"
    return f"{100 * share:.3g} %"
