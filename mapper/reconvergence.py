"""Reconvergence: where part of a stream must wait in a FIFO for something that comes later.

A statement that reads a stream and a reduction of that stream (a softmax subtracts the maximum of a row from its
entries) can go on only when the reduction is done; until then the entries wait in the FIFO between, and if it holds
fewer than one such group the graph deadlocks (DAM, attention study).

An accumulator drains all levels of its result from one unit: the next outer coordinate leaves it only when the inner
ones have left. A join of outer coordinates that needs the next one therefore needs room for the inner ones.

How many entries a group has is known from the data, so that such mappings are never proposed.
"""

from __future__ import annotations

import numpy as np

from mapper.machine import Machine
from mapper.mapping import Loops, Mapping
from mapper.program import Program
from mapper.regions import region_label, renaming, stream_nest
from mapper.schedule import Region
from mapper.violation import Violation
from mapper.workload import Workload

TOKENS_PER_ENTRY = 2
"""Most tokens of a stream per entry, as each may be followed by a stop."""


def held_back(workload: Workload, mapping: Mapping, machine: Machine, region: Region) -> list[Violation]:
    """Streams of a region that must wait for more entries than a FIFO holds."""
    if machine.fifo_depth is None:
        return []
    program = workload.program
    found = _drained_groups(workload, mapping, machine.fifo_depth, region)
    for reader in region.statements if len(region.statements) > 2 else ():
        made = sorted({program.edges[n].producer for n in region.fused if program.edges[n].consumer == reader})
        for source in made:
            for other in made:
                lag = _lag(program, mapping, region, source, other)
                if other == source or lag is None:
                    continue
                largest = _largest_group(workload, mapping, source, lag)
                if largest > machine.fifo_depth:
                    tensor = program.statements[source].target.tensor
                    limit = f"a FIFO of {machine.fifo_depth}"
                    where = f"{tensor} in S{reader} of {region_label(region.statements)}"
                    found.append(Violation("reconvergent-fifo", f"{largest} entries wait", limit, where))
    return found


def _drained_groups(workload: Workload, mapping: Mapping, depth: int, region: Region) -> list[Violation]:
    program, found = workload.program, []
    edges = [program.edges[n] for n in region.fused]
    for number in region.statements:
        above = _in_step(program, mapping.loops[number], number)
        nest = stream_nest(program, number, mapping.loops[number])
        if above is None or len(nest) - above < 2:
            continue
        parallel = {index for index, _, _ in mapping.loops[number].parallel}
        joined = not parallel <= set(program.statements[number].target.indices)
        for edge in (e for e in edges if e.producer == number):
            reader = program.statements[edge.consumer]
            names = renaming(program, edge)
            outer = {names[i] for i, _ in nest[above:-1]}
            others = [a for n, a in enumerate(reader.operands) if n != edge.operand]
            joined = joined or any(outer & set(a.indices) for a in others)
        largest = _largest_group(workload, mapping, number, above + 1) if joined else 0
        if TOKENS_PER_ENTRY * largest > depth:
            tensor, limit = program.statements[number].target.tensor, f"half a FIFO of {depth}"
            where = f"{tensor} of {region_label(region.statements)}"
            found.append(Violation("drained-fifo", f"{largest} entries leave an accumulator", limit, where))
    return found


def _lag(program: Program, mapping: Mapping, region: Region, source: int, other: int) -> int | None:
    """Leading loops of the shared order within which ``other`` follows its common origin with ``source`` entry by
    entry: below them it is ready only when the whole group is. None if nothing of the region is common to both."""
    edges = [program.edges[n] for n in region.fused]

    def above(number: int) -> dict[int, int | None]:
        """Statements that ``number`` is computed from, and the least loops that any way down to it keeps in step."""
        found: dict[int, int | None] = {number: None}
        for statement in sorted(region.statements, reverse=True):
            if statement in found:
                here = _least(found[statement], _in_step(program, mapping.loops[statement], statement))
                for edge in edges:
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


def _largest_group(workload: Workload, mapping: Mapping, statement: int, loops: int) -> int:
    """Most entries of a statement's result within one iteration of its first ``loops`` loops."""
    target, own = workload.program.statements[statement].target, mapping.loops[statement]
    nest, tiles = stream_nest(workload.program, statement, own)[:loops], dict(own.tiles)
    key = (target.tensor, tuple((i, part, tiles.get(i, 0)) for i, part in nest))
    if key not in workload.group_sizes:
        tensor = workload.tensor(target.tensor)
        granules = {i: tiles[i] if part == "tile" else 1 for i, part in nest}
        columns = [tensor.coords[target.indices.index(i)] // g for i, g in granules.items()]
        size = tensor.nnz
        if columns and tensor.nnz:
            order = np.lexsort(columns)
            changed = np.any([np.diff(c[order]) != 0 for c in columns], axis=0)
            ends = np.concatenate([[-1], np.flatnonzero(changed), [tensor.nnz - 1]])
            size = int(np.diff(ends).max())
        workload.group_sizes[key] = size
    return workload.group_sizes[key]
