"""Legality: every rule that a mapping must keep to be lowered on a machine, as data."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from mapper.dtypes import DTYPES, LARGEST
from mapper.formats import block_of, kinds_problem, slots_of, writable
from mapper.lowering import lower_lane
from mapper.machine import Machine
from mapper.mapping import Loops, Mapping
from mapper.program import Statement
from mapper.regions import cut_violations, edge_violations, region_label, regions_of
from mapper.schedule import Region, schedule, stored_operands
from mapper.storage import Layout, group_problem, layout_of, stored_positions
from mapper.violation import Violation
from mapper.workload import Workload

PORTED = {"scan", "repeat", "intersect", "union", "array", "alu", "map", "reduce", "accumulate", "tile_load", "store"}
"""Context kinds that a machine may budget."""

MOST_POSITIONS = 2**28
"""Positions, stored or not, of a level that the simulator's host holds."""


def violations(workload: Workload, mapping: Mapping, machine: Machine) -> tuple[Violation, ...]:
    """Rules broken by ``mapping``, cheapest first; an empty tuple means that it can be lowered and run."""
    program = workload.program
    if (len(mapping.cuts), len(mapping.loops)) != (len(program.edges), len(program.statements)):
        got, want = (
            f"{len(mapping.cuts)} cuts, {len(mapping.loops)} loops",
            f"{len(program.edges)}, {len(program.statements)}",
        )
        return (Violation("wrong-program", got, want, "mapping"),)
    found = [v for n in range(len(program.statements)) for v in _loop_violations(workload, mapping, n)]
    found += cut_violations(program, mapping.cuts)
    if found:
        return tuple(found)
    for edge, cut in zip(program.edges, mapping.cuts, strict=True):
        if not cut:
            found += edge_violations(program, edge, mapping.loops[edge.producer], mapping.loops[edge.consumer])
    found += _lane_violations(workload, mapping)
    found += _format_violations(workload, mapping)
    return tuple(found) or unit_violations(workload, mapping, machine)


def unit_violations(workload: Workload, mapping: Mapping, machine: Machine) -> tuple[Violation, ...]:
    """Regions that need more units of a kind than the machine has."""
    if machine.units is None:
        return ()
    found = []
    for region in schedule(workload.program, mapping).regions:
        for kind, used in sorted(units_used(workload, mapping, machine, region).items()):
            if used > machine.units.get(kind, 0):
                found.append(
                    Violation(
                        "units",
                        f"{used} {kind}",
                        f"at most {machine.units.get(kind, 0)}",
                        region_label(region.statements),
                    )
                )
    return tuple(found)


def units_used(workload: Workload, mapping: Mapping, machine: Machine, region: Region) -> Counter[str]:
    """Units of every budgeted kind in a region's graph."""
    lanes = mapping.loops[region.statements[0]].lanes
    per_lane = Counter(c.kind for c in lower_lane(workload, mapping, machine, region).contexts if c.kind in PORTED)
    return Counter({kind: lanes * used for kind, used in per_lane.items()})


def _loop_violations(workload: Workload, mapping: Mapping, number: int) -> list[Violation]:
    statement, loops = workload.program.statements[number], mapping.loops[number]
    extents, where, found = workload.extents[number], f"S{number}", []
    if sorted(loops.order) != sorted(statement.indices):
        found.append(Violation("order", f"{loops.order}", f"a permutation of {statement.indices}", where))
    for index, tile in loops.tiles:
        if not 0 < tile < max(extents.get(index, 0), 1):
            limit = f"a tile between 1 and {extents.get(index, 0) - 1}"
            found.append(Violation("tile-extent", f"{index}: {tile}", limit, where))
    found += _parallel_violations(statement, loops, extents, where)
    return found


def _parallel_violations(statement: Statement, loops: Loops, extents: dict[str, int], where: str) -> list[Violation]:
    if loops.parallel is None:
        return []
    index, lanes = loops.parallel
    if index not in statement.target.indices:
        return [Violation("parallel-index", index, f"an index of the result, {statement.target}", where)]
    steps = -(-extents[index] // dict(loops.tiles).get(index, 1))
    if not 2 <= lanes <= steps:
        return [Violation("lanes", f"{lanes} over {index}", f"2 to {steps}, the steps of its loop", where)]
    return []


def _lane_violations(workload: Workload, mapping: Mapping) -> list[Violation]:
    found = []
    for statements in regions_of(workload.program, mapping.cuts):
        lanes = {mapping.loops[n].lanes for n in statements}
        if len(lanes) > 1:
            limit = "one number of lanes for a region"
            found.append(Violation("region-lanes", f"{sorted(lanes)}", limit, region_label(statements)))
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
        found += _dtype_violations(workload, mapping, tensor)
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
    cut = {e.tensor for e, c in zip(program.edges, cuts, strict=True) if c}
    made = (s.target.tensor for s in program.statements)
    return (*program.inputs, *(t for t in made if t in cut or t in program.outputs))
