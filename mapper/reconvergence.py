"""Reconvergence: where part of a stream must wait in a FIFO for something that comes later.

A statement that reads a stream and a reduction of that stream (a softmax subtracts the maximum of a row from its
entries) can go on only when the reduction is done; until then the entries wait in the FIFO between, and if it holds
fewer than one such group the graph deadlocks (DAM, attention study).

An accumulator drains all levels of its result from one unit: the next outer coordinate leaves it only when the inner
ones have left. A join of outer coordinates that needs the next one therefore needs room for the inner ones.

How many entries a group has is known from the data, so that such mappings are never proposed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from mapper.mapping import Loops
from mapper.program import Edge, Program
from mapper.regions import region_label, renaming, stream_nest
from mapper.tensor import Coords
from mapper.violation import Violation
from mapper.workload import Workload

LoopsOf = Mapping[int, Loops] | Sequence[Loops]
"""The loops of every statement of a region, by its number."""

MOST_CELLS = 2**22
"""Groups that are counted in an array; where there could be more, coordinates are sorted."""

TOKENS_PER_ENTRY = 2
"""Most tokens of a stream per entry, as each may be followed by a stop."""


def held_back(
    workload: Workload, loops: LoopsOf, depth: int | None, statements: tuple[int, ...], fused: tuple[Edge, ...]
) -> list[Violation]:
    """Streams of a region (its statements and fused edges) that must wait for more entries than a FIFO holds."""
    if depth is None:
        return []
    program = workload.program
    found = _drained_groups(workload, loops, depth, statements, fused)
    for reader in statements if len(fused) > 1 else ():
        made = sorted({edge.producer for edge in fused if edge.consumer == reader})
        for source in made if len(made) > 1 else ():
            for other in made:
                if other == source:
                    continue
                lag = _lag(program, loops, statements, fused, source, other)
                largest = 0 if lag is None else _largest_group(workload, loops[source], source, lag, depth)
                if largest > depth:
                    tensor = program.statements[source].target.tensor
                    limit = f"a FIFO of {depth}"
                    where = f"{tensor} in S{reader} of {region_label(statements)}"
                    found.append(Violation("reconvergent-fifo", f"{largest} entries or more wait", limit, where))
    return found


def _drained_groups(
    workload: Workload, loops: LoopsOf, depth: int, statements: tuple[int, ...], fused: tuple[Edge, ...]
) -> list[Violation]:
    program, found = workload.program, []
    for number in statements:
        own, kept = loops[number], program.statements[number].target.indices
        joined = any(index not in kept for index, _, _ in own.parallel)
        readers = [edge for edge in fused if edge.producer == number]
        if not joined and not readers:
            continue
        nest = own.nest
        above = next((n for n, (index, _) in enumerate(nest) if index not in kept), len(nest))
        drained = [index for index, _ in nest[above:] if index in kept]
        if len(drained) < 2:
            continue
        for edge in readers if not joined else ():
            names = renaming(program, edge)
            outer = {names[index] for index in drained[:-1]}
            operands = program.statements[edge.consumer].operands
            others = [a for n, a in enumerate(operands) if n != edge.operand]
            joined = joined or any(not outer.isdisjoint(a.indices) for a in others)
        room = depth // TOKENS_PER_ENTRY
        largest = _largest_group(workload, loops[number], number, above + 1, room) if joined else 0
        if largest > room:
            tensor, limit = program.statements[number].target.tensor, f"half a FIFO of {depth}"
            where = f"{tensor} of {region_label(statements)}"
            found.append(Violation("drained-fifo", f"{largest} entries or more leave an accumulator", limit, where))
    return found


def _lag(
    program: Program, loops: LoopsOf, statements: tuple[int, ...], fused: tuple[Edge, ...], source: int, other: int
) -> int | None:
    """Leading loops of the shared order within which ``other`` follows its common origin with ``source`` entry by
    entry: below them it is ready only when the whole group is. None if nothing of the region is common to both."""

    def above(number: int) -> dict[int, int | None]:
        """Statements that ``number`` is computed from, and the least loops that any way down to it keeps in step."""
        found: dict[int, int | None] = {number: None}
        for statement in sorted(statements, reverse=True):
            if statement in found:
                here = _least(found[statement], _in_step(program, loops[statement], statement))
                for edge in fused:
                    if edge.consumer == statement:
                        found[edge.producer] = _least(found.get(edge.producer), here)
        return found

    mine, theirs = above(source), above(other)
    common = [theirs[n] for n in mine if n in theirs and (n == source or n != other)]
    lags = [lag for lag in common if lag is not None]
    return min(lags) if lags else None


def _least(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


def _in_step(program: Program, loops: Loops, statement: int) -> int | None:
    """Loops above the first reduced one; None if the statement reduces nothing."""
    kept = program.statements[statement].target.indices
    return next((n for n, (index, _) in enumerate(loops.nest) if index not in kept), None)


def _largest_group(workload: Workload, own: Loops, statement: int, loops: int, room: int) -> int:
    """Most entries of a statement's result within one iteration of its first ``loops`` loops, or a lower bound of that
    number beyond ``room``: the entries spread evenly."""
    target = workload.program.statements[statement].target
    nest, tiles = stream_nest(workload.program, statement, own)[:loops], dict(own.tiles)
    granules = {i: tiles[i] if part == "tile" else 1 for i, part in nest}
    key = (target.tensor, tuple(sorted(granules.items())))
    if key not in workload.group_sizes:
        tensor = workload.tensor(target.tensor)
        extents = workload.extents[statement]
        groups = math.prod(-(-extents[i] // granule) for i, granule in granules.items())
        if tensor.nnz > room * groups:
            return -(-tensor.nnz // groups)
        columns = [tensor.coords[target.indices.index(i)] // g for i, g in granules.items()]
        workload.group_sizes[key] = _most_alike(columns) if columns and tensor.nnz else tensor.nnz
    return workload.group_sizes[key]


def _most_alike(columns: list[Coords]) -> int:
    """How often the most frequent tuple of coordinates occurs."""
    extents = [int(column.max()) + 1 for column in columns]
    if math.prod(extents) <= MOST_CELLS:
        cell = columns[0]
        for column, extent in zip(columns[1:], extents[1:], strict=True):
            cell = cell * extent + column
        return int(np.bincount(cell).max())
    order = np.lexsort(columns)
    changed = np.any([np.diff(c[order]) != 0 for c in columns], axis=0)
    ends = np.concatenate([[-1], np.flatnonzero(changed), [order.size - 1]])
    return int(np.diff(ends).max())
