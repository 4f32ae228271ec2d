"""Blocks as units: a product of two operands whose innermost levels hold blocks is made block by block.

Where a machine multiplies blocks (``block_operations_per_cycle``), the blocks of a format ``RxC`` are not only stored:
a product walks the grid of blocks as others walk elements, and each of its values is a block. The other operand may be
stored in blocks too or dense, and is cut into blocks that fit; so is the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mapper.formats import COMPRESSED, DENSE, Format, Kinds, block_of, parse_format
from mapper.levels import Ints, LevelArrays, starts
from mapper.machine import Machine
from mapper.mapping import Loops, Mapping
from mapper.matrix_stack import MatrixStack
from mapper.pattern import REGULAR_FILL
from mapper.program import Access, Program
from mapper.regularity import measure_blocks
from mapper.storage import Storage
from mapper.tensor import SparseTensor
from mapper.workload import Workload


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """How statement ``number`` is made by blocks: a block of its result (``rows`` x ``cols``, indices in loop order) is
    a sum over ``inner`` of products of blocks of operand ``left``, which has the rows, and of the other. ``sides``:
    extent of a block along each of the three."""

    number: int
    rows: str
    inner: str
    cols: str
    left: int
    sides: tuple[tuple[str, int], ...]

    def side(self, index: str) -> int:
        """Extent of a block along an index, 1 where nothing is blocked."""
        return dict(self.sides).get(index, 1)

    @property
    def area(self) -> int:
        """Values of a block of the result."""
        return self.side(self.rows) * self.side(self.cols)

    def cycles(self, machine: Machine) -> int:
        """Cycles of a unit per product of two blocks."""
        return -(-self.area * self.side(self.inner) // (machine.block_operations_per_cycle or 1))

    def adding_cycles(self, machine: Machine) -> int:
        """Cycles of a unit to add a block to a sum."""
        return -(-self.area // (machine.block_operations_per_cycle or 1))

    def loops(self, loops: Loops) -> Loops:
        """The statement's loops over the grid."""
        return replace(loops, tiles=tuple((i, tile // self.side(i)) for i, tile in loops.tiles))

    def extents(self, extents: dict[str, int]) -> dict[str, int]:
        """Extents of the grid; at the edges blocks may reach beyond the tensors, where they hold zeros."""
        return {i: -(-extent // self.side(i)) for i, extent in extents.items()}

    def mapping(self, mapping: Mapping) -> Mapping:
        """The mapping as a walk over the grid, whose levels of blocks are compressed ones."""
        loops = tuple(self.loops(own) if n == self.number else own for n, own in enumerate(mapping.loops))
        return replace(mapping, loops=loops, formats=tuple((t, grid_kinds(kinds)) for t, kinds in mapping.formats))

    def machine(self, machine: Machine) -> Machine:
        """The machine with blocks for values. A row of a block leaves an accumulator at a time."""
        drain = machine.drain_cycles_per_entry * self.side(self.rows)
        return replace(machine, value_bytes=machine.value_bytes * self.area, drain_cycles_per_entry=drain)


@dataclass(frozen=True, slots=True)
class Grid:
    """The extents of a workload whose statement of a plan runs over blocks; what lowering needs of a ``Workload``."""

    program: Program
    extents: tuple[dict[str, int], ...]

    @classmethod
    def of(cls, workload: Workload, plan: BlockPlan) -> Grid:
        """The grid of a plan."""
        own = tuple(plan.extents(e) if n == plan.number else e for n, e in enumerate(workload.extents))
        return cls(workload.program, own)

    def shape(self, access: Access, statement: int) -> tuple[int, ...]:
        """Extents of an access of a statement."""
        return tuple(self.extents[statement][i] for i in access.indices)


def grid_kinds(kinds: Kinds) -> Kinds:
    """Level kinds of the grid of a tensor: each block a coordinate."""
    return (*kinds[:-1], COMPRESSED) if kinds and block_of(kinds[-1]) else kinds


def block_plan(workload: Workload, mapping: Mapping, machine: Machine, number: int) -> BlockPlan | None:
    """How a statement is made by blocks, None where it is made element by element: on a machine without block units,
    or unless it is an unfused sum of products of two stored operands, at least one of them in blocks, that share the
    innermost reduced index; tiles are multiples of block sides, and lanes divide the result along tiles or indices that
    are not blocked."""
    statement, loops = workload.program.statements[number], mapping.loops[number]
    if not machine.block_operations_per_cycle or machine.fifo_depth is None or not _alone(workload, mapping, number):
        return None
    accesses = (*statement.operands, statement.target)
    pairs, kinds = [_innermost(a, loops) for a in accesses], [mapping.kinds(a.tensor) for a in accesses]
    shared = set(pairs[0]) & set(pairs[1])
    if len(shared) != 1 or any(len(pair) < 2 for pair in pairs) or set(pairs[2]) != set(pairs[0]) ^ set(pairs[1]):
        return None
    sides = _sides(pairs, kinds)
    if sides is None or not any(block_of(own[-1]) for own in kinds[:2]):
        return None
    (inner,), (rows, cols) = shared, pairs[2]
    tiles, extents, widest = dict(loops.tiles), workload.extents[number], max(sides.values())
    for index in (rows, inner, cols):
        sides.setdefault(index, math.gcd(widest, extents[index], tiles.get(index, widest)))
    uneven = any(tiles.get(i, side) % side for i, side in sides.items())
    kept = statement.target.indices
    apart = any(i not in kept or (i in sides and i not in tiles) for i, _, _ in loops.parallel)
    if uneven or apart or not {*loops.order[-2:]} & set(kept) or max(sides.values()) == 1:
        return None
    return BlockPlan(number, rows, inner, cols, 0 if rows in pairs[0] else 1, tuple(sorted(sides.items())))


def offered_blocks(tensor: SparseTensor, machine: Machine) -> tuple[Format, ...]:
    """Formats in blocks that are searched where the user names none: on a machine that multiplies blocks, for matrices
    whose entries fill the blocks that take least memory as far as a pattern is called regular."""
    if not machine.block_operations_per_cycle or tensor.ndim != 2 or tensor.density == 1.0:
        return ()
    found = measure_blocks(MatrixStack(tensor), machine.value_bytes, machine.coordinate_bytes)
    if found.fill < REGULAR_FILL or found.rows * found.columns == 1:
        return ()
    name = f"{found.rows}x{found.columns}"
    return (parse_format(f"dense,{name}" if found.rows == found.columns else f"bcsr({name})", 2),)


def _alone(workload: Workload, mapping: Mapping, number: int) -> bool:
    """Whether a statement is the product of two different stored tensors, and its result is stored."""
    program, statement = workload.program, workload.program.statements[number]
    edges = zip(program.edges, mapping.cuts, strict=True)
    operands = {a.tensor for a in statement.operands}
    return (
        (statement.kind, statement.combine, statement.reduction) == ("contract", "mul", "sum")
        and len(statement.operands) == len(operands) == 2
        and not any(a.pattern or program.stored_as(a.tensor) != a.tensor for a in statement.operands)
        and all(cut for e, cut in edges if number in (e.producer, e.consumer))
    )


def _innermost(access: Access, loops: Loops) -> tuple[str, ...]:
    return tuple(i for i in loops.order if i in access.indices)[-2:]


def _sides(pairs: Sequence[tuple[str, ...]], kinds: Sequence[Kinds]) -> dict[str, int] | None:
    """Sides that formats give to their innermost indices; None where they contradict each other, or where levels are
    neither blocks nor dense."""
    sides: dict[str, int] = {}
    for pair, own in zip(pairs, kinds, strict=True):
        block = block_of(own[-1])
        if block is None and own[-2:] != (DENSE, DENSE):
            return None
        for index, side in zip(pair, block or (), strict=block is not None):
            if sides.setdefault(index, side) != side:
                return None
    return sides


def grid_storage(storage: Storage, sides: tuple[int, int], transposed: bool) -> Storage:
    """A stored tensor whose last two levels are blocks or dense, as its grid of blocks: tiles and bytes as they are,
    levels over blocks, ``values`` block after block, row by row or, ``transposed``, column by column. What of a block
    lies beyond its tile is zero."""
    rows, cols = storage.levels[-2:]
    height, width = sides
    strips = starts(-(-np.diff(rows.pos) // height))  # per tile
    within = np.arange(strips[-1]) - np.repeat(strips[:-1], np.diff(strips))
    first = np.repeat(rows.pos[:-1], np.diff(strips)) + within * height  # the first row of every strip
    heights = np.minimum(height, np.repeat(rows.pos[1:], np.diff(strips)) - first)
    sizes = np.diff(cols.pos)[first]
    strip = np.repeat(np.arange(first.size), sizes)  # of every position of a first row
    at = np.arange(strip.size) - np.repeat(starts(sizes)[:-1], sizes)
    block = (at if cols.crd is None else cols.crd[np.repeat(cols.pos[first], sizes) + at]) // width
    new = np.ones(strip.size, bool)
    new[1:] = (np.diff(strip) != 0) | (np.diff(block) != 0)
    strip, at, crd = strip[new], at[new], block[new]
    widths = np.diff(np.flatnonzero(np.append(new, True)))
    row, col = np.arange(height)[:, None], np.arange(width)
    inside = (row < heights[strip][:, None, None]) & (col < widths[:, None, None])
    last = rows.pos[-1] - 1  # rows beyond the tile are not inside, whatever they hold
    place = cols.pos[np.minimum(first[strip][:, None] + row.T, last)][:, :, None] + at[:, None, None] + col
    values = np.where(inside, storage.values[np.minimum(place, storage.values.size - 1)], 0.0)
    if transposed:
        values = values.transpose(0, 2, 1)
    pos = starts(np.bincount(strip, minlength=first.size))
    dense = cols.crd is None
    levels = (*storage.levels[:-2], LevelArrays(strips), LevelArrays(pos, None if dense else np.ascontiguousarray(crd)))
    return replace(storage, levels=levels, values=np.ascontiguousarray(values).reshape(-1))


def elements_of(
    numbers: Ints, coords: Ints, tiles: npt.NDArray[np.float64], limits: tuple[Ints, Ints]
) -> tuple[Ints, npt.NDArray[np.float64]]:
    """(coords[levels, elements], values) of blocks number ``numbers`` of ``tiles``[blocks, rows, columns], of which
    ``coords``[levels, blocks] has the coordinates, the last two in blocks; without what lies beyond ``limits``, extents
    of rows and columns where each block is."""
    _, height, width = tiles.shape
    spread = np.repeat(coords, height * width, axis=1).reshape(coords.shape[0], -1, height, width)
    spread[-2] = spread[-2] * height + np.arange(height)[:, None]
    spread[-1] = spread[-1] * width + np.arange(width)
    inside = (spread[-2] < limits[0][:, None, None]) & (spread[-1] < limits[1][:, None, None])
    return spread[:, inside], tiles[numbers][inside]


def in_elements(coords: Ints, sides: Sequence[int], shape: Sequence[int]) -> Ints:
    """Coordinates of all positions in blocks at ``coords``[mode, block] that lie within ``shape``, in order."""
    for mode, side in enumerate(sides):
        coords = np.repeat(coords, side, axis=1)
        coords[mode] = coords[mode] * side + np.arange(coords.shape[1]) % side
    coords = coords[:, (coords < np.array(shape, np.int64)[:, None]).all(axis=0)]
    return np.ascontiguousarray(coords[:, np.lexsort(coords[::-1])], np.int64)
