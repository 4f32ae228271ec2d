"""Legality: every rule that a mapping must keep to be lowered on a machine, as data."""

from __future__ import annotations

from collections import Counter

from mapper.formats import COMPRESSED, DENSE
from mapper.lowering import lower_lane
from mapper.machine import Machine
from mapper.mapping import Loops, Mapping
from mapper.program import Statement
from mapper.regions import cut_violations, edge_violations, region_label, regions_of
from mapper.residency import RESIDENCIES, tiles_ahead
from mapper.schedule import Region, schedule
from mapper.violation import Violation
from mapper.workload import Workload

PORTED = {"scan", "repeat", "intersect", "union", "array", "alu", "map", "reduce", "accumulate", "tile_load", "store"}
"""Context kinds that a machine may budget."""


def violations(workload: Workload, mapping: Mapping, machine: Machine) -> tuple[Violation, ...]:
    """Rules broken by ``mapping``, cheapest first; an empty tuple means that it can be lowered and run."""
    program = workload.program
    if (len(mapping.cuts), len(mapping.loops)) != (len(program.edges), len(program.statements)):
        got, want = (
            f"{len(mapping.cuts)} cuts, {len(mapping.loops)} loops",
            f"{len(program.edges)}, {len(program.statements)}",
        )
        return (Violation("wrong-program", got, want, "mapping"),)
    if mapping.residency not in RESIDENCIES:
        return (Violation("residency", mapping.residency, f"one of {', '.join(RESIDENCIES)}", "mapping"),)
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
        if kinds is None or len(kinds) != ndim or not set(kinds) <= {DENSE, COMPRESSED}:
            found.append(Violation("format", f"{kinds}", f"{ndim} kinds among dense, compressed", tensor))
    return found


def stored_tensors(workload: Workload, cuts: tuple[bool, ...]) -> tuple[str, ...]:
    """Inputs, outputs and every computed tensor that some cut materialises."""
    program = workload.program
    cut = {e.tensor for e, c in zip(program.edges, cuts, strict=True) if c}
    made = (s.target.tensor for s in program.statements)
    return (*program.inputs, *(t for t in made if t in cut or t in program.outputs))
