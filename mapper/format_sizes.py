"""Exact sizes in bytes of a tensor in the storage formats worth comparing, without building any of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from mapper.matrix_stack import MatrixStack
from mapper.regularity import Blocks, Groups


@dataclass(frozen=True, slots=True)
class Widths:
    """Bytes of a value, a coordinate and a pointer."""

    value: int = 4
    coordinate: int = 4
    pointer: int = 4


def format_sizes(stack: MatrixStack, widths: Widths, blocks: Blocks, groups: Groups) -> dict[str, int]:
    """Bytes by format name. Dense and compressed levels as ``storage`` lays them out, without tiles.

    ``dense``: every position. ``csr``: rows dense, columns compressed. ``dcsr`` (``csf`` unless there are two modes):
    every level compressed. ``bitmap``: one bit a position, then the values. ``bcsr(rxc)``: rows of blocks dense,
    columns of blocks compressed, whole blocks. ``n:m``: n values in every m neighbours of a row, and for each of them
    its place in as few bits as m needs; only for patterns that fit, so that nothing is dropped.
    """
    values = stack.nnz * widths.value
    leaf = stack.nnz * widths.coordinate + values
    matrix = len(stack.nodes) == 2
    sizes = {"dense": stack.positions * widths.value}
    if matrix:
        sizes["csr"] = (stack.all_rows + 1) * widths.pointer + leaf
    levels = [(up + 1) * widths.pointer + nodes * widths.coordinate for up, nodes in pairwise((1, *stack.nodes))]
    sizes["dcsr" if matrix else "csf"] = sum(levels) + values
    sizes["bitmap"] = -(-stack.positions // 8) + values
    if (blocks.rows, blocks.columns) != (1, 1):
        bands = stack.matrices * -(-stack.rows // blocks.rows)
        each = widths.coordinate + blocks.rows * blocks.columns * widths.value
        sizes[f"bcsr({blocks.rows}x{blocks.columns})"] = (bands + 1) * widths.pointer + blocks.count * each
    if groups.n:
        places = stack.all_rows * -(-stack.columns // groups.m) * groups.n
        sizes[f"{groups.n}:{groups.m}"] = places * widths.value + -(-places * (groups.m - 1).bit_length() // 8)
    return sizes
