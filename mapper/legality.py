"""Legality: every rule that a mapping must keep to be lowered on a machine, as data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from mapper.blocks import block_plan
from mapper.dtypes import DTYPES, LARGEST
from mapper.formats import DENSE, block_of, kinds_problem, pads, slots_of, writable
from mapper.fused_region import JOINED_LANES
from mapper.locating import JOINS
from mapper.lowering import statement_units
from mapper.machine import Machine
from mapper.mapping import PARTITIONS, Loops, Mapping
from mapper.program import IN_PLACE, Statement, pattern_sensitive
from mapper.reconvergence import held_back
from mapper.regions import cut_violations, edge_violations, region_label, regions_of, stream_nest
from mapper.residency import RESIDENCIES, tiles_ahead
from mapper.schedule import Region, schedule, stored_operands
from mapper.skipping import skipped_runs
from mapper.storage import Layout, group_problem, layout_of, stored_positions
from mapper.violation import Violation
from mapper.workload import Workload

PORTED = {
    "scan",
    "repeat",
    "intersect",
    "union",
    "array",
    "alu",
    "map",
    "reduce",
    "accumulate",
    "tile_load",
    "store",
    "locate",
    "block_mac",
    "block_accumulate",
}
"""Context kinds that a machine may budget."""

MOST_POSITIONS = 2**28
"""Positions, stored or not, of a level that the simulator's host holds."""


def violations(workload: Workload, mapping: Mapping, machine: Machine) -> tuple[Violation, ...]:
    """Rules broken by ``mapping``, cheapest first; an empty tuple means that it can be lowered and run."""
    if not workload.keeps_results(mapping.variant):
        limit = "one that gives the same outputs on these data"
        return (Violation("rewriting-changes-results", mapping.variant, limit, "mapping"),)
    workload = workload.variant(mapping.variant)
    if unfit := memory_violations(machine):
        return unfit
    program = workload.program
    if (len(mapping.cuts), len(mapping.loops)) != (len(program.edges), len(program.statements)):
        got, want = (
            f"{len(mapping.cuts)} cuts, {len(mapping.loops)} loops",
            f"{len(program.edges)}, {len(program.statements)}",
        )
        return (Violation("wrong-program", got, want, "mapping"),)
    if mapping.residency not in RESIDENCIES:
        return (Violation("residency", mapping.residency, f"one of {', '.join(RESIDENCIES)}", "mapping"),)
    if mapping.joins not in JOINS:
        return (Violation("joins", mapping.joins, f"one of {', '.join(JOINS)}", "mapping"),)
    if machine.dram_channels is not None and tiles_ahead(machine, mapping.residency) < 1:
        limit = "at least 2 under keep: one for the tiles that stay, one for the others"
        return (Violation("keep-buffers", f"prefetch_tiles {machine.prefetch_tiles}", limit, "machine"),)
    found = [v for n in range(len(program.statements)) for v in _loop_violations(workload, mapping, n)]
    found += cut_violations(program, mapping.cuts)
    if found:
        return tuple(found)
    for edge, cut in zip(program.edges, mapping.cuts, strict=True):
        if not cut:
            found += edge_violations(program, edge, mapping.loops[edge.producer], mapping.loops[edge.consumer])
    found += _format_violations(workload, mapping)
    if found:
        return tuple(found)
    joined = [e for e, cut in zip(program.edges, mapping.cuts, strict=True) if not cut]
    held = [
        v
        for statements in regions_of(program, mapping.cuts)
        for fused in (tuple(e for e in joined if e.producer in statements),)
        for v in (
            *held_back(workload, mapping.loops, machine.fifo_depth, statements, fused),
            *skipped_runs(workload, mapping, machine.fifo_depth, statements, fused),
        )
    ]
    if held or machine.units is None:
        return tuple(held)
    return unit_violations(workload, mapping, machine, schedule(program, mapping).regions)


def memory_violations(machine: Machine) -> tuple[Violation, ...]:
    """Sizes of the off-chip memory that do not hold whole bursts; two knobs may meet that do not fit each other."""
    burst, found = machine.dram_burst_bytes, []
    for field in ("dram_interleave_bytes", "dram_row_bytes"):
        size = getattr(machine, field)
        if size is not None and size % burst:
            limit = f"a multiple of dram_burst_bytes, {burst}"
            found.append(Violation("memory", f"{field} {size}", limit, machine.name))
    return tuple(found)


def unit_violations(
    workload: Workload, mapping: Mapping, machine: Machine, regions: Sequence[Region]
) -> tuple[Violation, ...]:
    """Regions that need more units of a kind than the machine has."""
    if machine.units is None:
        return ()
    return tuple(
        Violation("units", f"{used} {kind}", f"at most {machine.units.get(kind, 0)}", region_label(region.statements))
        for region in regions
        for kind, used in sorted(units_used(workload, mapping, machine, region).items())
        if used > machine.units.get(kind, 0)
    )


def units_used(workload: Workload, mapping: Mapping, machine: Machine, region: Region) -> Counter[str]:
    """Units of every budgeted kind in a region's graph, all lanes together."""
    workload, used = workload.variant(mapping.variant), Counter[str]()
    for number in region.statements:
        used += _statement_units(workload, mapping, machine, region, number)
    return used


def _statement_units(
    workload: Workload, mapping: Mapping, machine: Machine, region: Region, number: int
) -> Counter[str]:
    """Units of one statement, remembered by the shape of its loops."""
    program, loops = workload.program, mapping.loops[number]
    shape = (loops.order, tuple(i for i, _ in loops.tiles), tuple((i, n) for i, n, _ in loops.parallel))
    streams = tuple(
        (edge.operand, stream_nest(program, edge.producer, mapping.loops[edge.producer]))
        for edge in (program.edges[n] for n in region.fused)
        if edge.consumer == number
    )
    stored = program.statements[number].target.tensor in dict(region.stored)
    dense: tuple[tuple[bool, ...], ...] = ()  # all that locating asks of formats
    if mapping.joins == "locate":
        formats = dict(mapping.formats)
        kinds = (formats.get(a.tensor, ()) for a in program.statements[number].operands)
        dense = tuple(tuple(kind == DENSE and not any(map(block_of, own)) for kind in own) for own in kinds)
    blocks = block_plan(workload, mapping, machine, number)
    key = (number, shape, streams, stored, machine.dram_channels is None, dense, blocks)
    if key not in workload.unit_counts:
        units = statement_units(workload, mapping, machine, region, number)
        workload.unit_counts[key] = Counter({kind: n for kind, n in units.items() if kind in PORTED})
    return workload.unit_counts[key]


def _loop_violations(workload: Workload, mapping: Mapping, number: int) -> list[Violation]:
    statement, loops = workload.program.statements[number], mapping.loops[number]
    extents, where, found = workload.extents[number], f"S{number}", []
    if statement.kind == "view":
        only = Loops(statement.indices)
        return [] if loops == only else [Violation("view-loops", f"{loops}", f"{only}, as a view has no choice", where)]
    if sorted(loops.order) != sorted(statement.indices):
        found.append(Violation("order", f"{loops.order}", f"a permutation of {statement.indices}", where))
    for index, tile in loops.tiles:
        if not 0 < tile < max(extents.get(index, 0), 1):
            limit = f"a tile between 1 and {extents.get(index, 0) - 1}"
            found.append(Violation("tile-extent", f"{index}: {tile}", limit, where))
    found += _parallel_violations(statement, loops, extents, where)
    return found


def _parallel_violations(statement: Statement, loops: Loops, extents: dict[str, int], where: str) -> list[Violation]:
    found, added = [], 1
    for n, (index, lanes, partition) in enumerate(loops.parallel):
        if index not in statement.indices or index in [i for i, _, _ in loops.parallel[:n]]:
            found.append(Violation("parallel-index", index, f"one of {statement.indices}, once", where))
            continue
        steps = loops.steps(index, extents[index])
        if not 2 <= lanes <= steps or partition not in PARTITIONS:
            limit = f"2 to {steps}, the steps of its loop, {' or '.join(PARTITIONS)}"
            found.append(Violation("lanes", f"{lanes} over {index}, {partition}", limit, where))
        if index not in statement.target.indices:
            added *= lanes
            if statement.reduction == "max":
                found.append(Violation("parallel-index", index, "no index that a maximum is taken over", where))
    if added > JOINED_LANES:
        found.append(Violation("lanes", f"{added} partial results", f"at most {JOINED_LANES}", where))
    return found


def _format_violations(workload: Workload, mapping: Mapping) -> list[Violation]:
    chosen, found = dict(mapping.formats), []
    for tensor in stored_tensors(workload, mapping.cuts):
        ndim = workload.tensor(tensor).ndim
        kinds = chosen.get(tensor)
        if kinds is None or len(kinds) != ndim:
            found.append(Violation("format", f"{kinds}", f"{ndim} level kinds", tensor))
        elif problem := kinds_problem(kinds):
            found.append(Violation("format", ",".join(kinds), problem, tensor))
        elif tensor in workload.program.producers and not writable(kinds):
            limit = "without rle and N:M levels, which cannot be written as entries come"
            found.append(Violation("format-of-result", ",".join(kinds), limit, tensor))
        elif pads(kinds) and tensor in pattern_sensitive(workload.program) and workload.tensor(tensor).density < 1.0:
            limit = "a format that stores entries alone, as what is computed from it tells zeros from nothing"
            found.append(Violation("padded-pattern", ",".join(kinds), limit, tensor))
        found += _dtype_violations(workload, mapping, tensor)
    for statement in workload.program.statements if not found else ():
        source = statement.operands[0].tensor
        if statement.function == IN_PLACE and any(block_of(k) or slots_of(k) for k in mapping.kinds(source)):
            limit = "without blocks and N:M levels, which the boxes of windows would cut"
            found.append(Violation("windows-in-place", ",".join(mapping.kinds(source)), limit, source))
    return found or _layout_violations(workload, mapping)


def _dtype_violations(workload: Workload, mapping: Mapping, tensor: str) -> list[Violation]:
    dtype = mapping.dtype(tensor)
    if dtype not in DTYPES:
        return [Violation("dtype", dtype, f"one of {', '.join(DTYPES)}", tensor)]
    if dtype not in LARGEST:
        return []
    values = np.abs(workload.tensor(tensor).values)
    largest = float(values[np.isfinite(values)].max(initial=0.0))
    if largest <= LARGEST[dtype]:
        return []
    return [Violation("dtype-range", f"values up to {largest:g}", f"at most {LARGEST[dtype]:g} for {dtype}", tensor)]


def _layout_violations(workload: Workload, mapping: Mapping) -> list[Violation]:
    """Whether the data keep the N:M patterns in the order and tiles in which they are walked, blocks fit tiles, and
    dense levels the host's memory."""
    sized = any(block_of(kind) or slots_of(kind) for _, kinds in mapping.formats for kind in kinds)
    tensors = map(workload.tensor, stored_tensors(workload, mapping.cuts))
    large = any(math.prod(tensor.shape) > MOST_POSITIONS for tensor in tensors)
    if not sized and not large:
        return []
    found = []
    for number, statement in enumerate(workload.program.statements):
        target = statement.target
        for tensor, layout in stored_operands(workload.program, mapping, number):
            data = workload.tensor(tensor)
            if (positions := stored_positions(data.shape, data.nnz, layout)) > MOST_POSITIONS:
                limit = f"at most {MOST_POSITIONS}; compressed levels store entries alone"
                found.append(Violation("format-positions", f"{positions} positions in a level", limit, tensor))
            elif problem := group_problem(data, layout):
                found.append(Violation("n-of-m", problem, f"at most N of every M ({','.join(layout.kinds)})", tensor))
            found += _block_violations(tensor, layout)
        if target.tensor in dict(mapping.formats):
            kinds, dtype = mapping.kinds(target.tensor), mapping.dtype(target.tensor)
            found += _block_violations(target.tensor, layout_of(target, mapping.loops[number], kinds, dtype))
    return found


def _block_violations(tensor: str, layout: Layout) -> list[Violation]:
    block = block_of(layout.kinds[-1]) if layout.kinds else None
    sides = zip(layout.modes[-2:], block or (), strict=block is not None)
    return [
        Violation("block-tile", f"tile of {layout.tiles[mode]}", f"a multiple of {side}, its block ({mode=})", tensor)
        for mode, side in sides
        if layout.tiles and layout.tiles[mode] % side
    ]


def stored_tensors(workload: Workload, cuts: tuple[bool, ...]) -> tuple[str, ...]:
    """Inputs, outputs and every computed tensor that some cut materialises."""
    program = workload.program
    kept = {e.tensor for e, c in zip(program.edges, cuts, strict=True) if c}.union(program.outputs)
    return (*program.inputs, *[t for t in program.producers if t in kept])
