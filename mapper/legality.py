"""Legality: every rule that a mapping must keep to be lowered on a machine, as data."""

from __future__ import annotations

from mapper.empty_fibers import hollow_statements
from mapper.formats import block_of
from mapper.locating import JOINS
from mapper.machine import Machine
from mapper.mapping import PARTITIONS, Loops, Mapping
from mapper.program import IN_PLACE, MOST_JOINED, Program, Statement
from mapper.reconvergence import held_back, meetings
from mapper.regions import cut_violations, edge_violations, regions_of
from mapper.residency import RESIDENCIES, tiles_ahead
from mapper.schedule import stored_operands
from mapper.skipping import skipped_runs
from mapper.storage import Layout, group_problem, layout_of, stored_positions
from mapper.stored_format import MOST_POSITIONS, StoredFormat, stored_formats
from mapper.units import unit_violations
from mapper.violation import Violation
from mapper.workload import Workload


def violations(workload: Workload, mapping: Mapping, machine: Machine) -> tuple[Violation, ...]:
    """Rules broken by ``mapping``, cheapest first; an empty tuple means that it can be lowered and run."""
    return choice_violations(workload, mapping) or joint_violations(workload, mapping, machine)


def choice_violations(workload: Workload, mapping: Mapping) -> tuple[Violation, ...]:
    """Rules that every mapping keeps that is drawn from a space of this workload and machine."""
    if not workload.keeps_results(mapping.variant):
        limit = "one that gives the same outputs on these data"
        return (Violation("rewriting-changes-results", mapping.variant, limit, "mapping"),)
    workload = workload.variant(mapping.variant)
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
    found = [v for n in range(len(program.statements)) for v in _loop_violations(workload, mapping, n)]
    found += cut_violations(program, mapping.cuts)
    if found:
        return tuple(found)
    for edge, cut in zip(program.edges, mapping.cuts, strict=True):
        if not cut:
            found += edge_violations(program, edge, mapping.loops[edge.producer], mapping.loops[edge.consumer])
    return tuple(found)


def joint_violations(
    workload: Workload, mapping: Mapping, machine: Machine, held_depth: int | None = -1
) -> tuple[Violation, ...]:
    """Rules that several choices break together, or with the data: buffers, partial sums, formats, FIFOs, units.
    ``held_depth``: a depth of FIFOs that are known to hold the streams."""
    if unfit := memory_violations(machine):
        return unfit
    if machine.dram_channels is not None and tiles_ahead(machine, mapping.residency) < 1:
        limit = "at least 2 under keep: one for the tiles that stay, one for the others"
        return (Violation("keep-buffers", f"prefetch_tiles {machine.prefetch_tiles}", limit, "machine"),)
    workload = workload.variant(mapping.variant)
    program = workload.program
    stored = stored_formats(workload, mapping)
    found = [*_sum_violations(program, mapping), *_format_violations(workload, mapping, stored)]
    if found:
        return tuple(found)
    regions, depth = regions_of(program, mapping.cuts), machine.fifo_depth
    if depth is not None:
        padded = _padded_statements(program, {tensor for tensor, form in stored.items() if form.zeros})
        for statements in regions:
            region = meetings(program, statements)
            hollow = hollow_statements(workload, mapping, statements) if region.joined else {}
            if hollow or depth != held_depth or not padded.isdisjoint(statements):
                held = held_back(workload, region, mapping.loops, depth, padded, hollow)
                found += [wait.violation(region, program, depth) for wait in held]
            found += skipped_runs(workload, mapping, depth, statements)
    return tuple(found or unit_violations(workload, mapping, machine, regions))


def _padded_statements(program: Program, zeros: set[str]) -> set[int]:
    """Statements whose results may have entries that are zeros of padded formats, or computed from them. ``zeros``: the
    tensors that store such."""
    found = set[int]()
    for number, statement in enumerate(program.statements if zeros else ()):
        if any(access.tensor in zeros for access in statement.operands):
            found.add(number)
            zeros.add(statement.target.tensor)
    return found


def memory_violations(machine: Machine) -> tuple[Violation, ...]:
    """Sizes of the off-chip memory that do not hold whole bursts; two knobs may meet that do not fit each other."""
    burst, found = machine.dram_burst_bytes, []
    for field in ("dram_interleave_bytes", "dram_row_bytes"):
        size = getattr(machine, field)
        if size is not None and size % burst:
            limit = f"a multiple of dram_burst_bytes, {burst}"
            found.append(Violation("memory", f"{field} {size}", limit, machine.name))
    return tuple(found)


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
    found = []
    for n, (index, lanes, partition) in enumerate(loops.parallel):
        if index not in statement.indices or index in [i for i, _, _ in loops.parallel[:n]]:
            found.append(Violation("parallel-index", index, f"one of {statement.indices}, once", where))
            continue
        steps = loops.steps(index, extents[index])
        if not 2 <= lanes <= steps or partition not in PARTITIONS:
            limit = f"2 to {steps}, the steps of its loop, {' or '.join(PARTITIONS)}"
            found.append(Violation("lanes", f"{lanes} over {index}, {partition}", limit, where))
        if index not in statement.target.indices and statement.reduction == "max":
            found.append(Violation("parallel-index", index, "no index that a maximum is taken over", where))
    return found


def _sum_violations(program: Program, mapping: Mapping) -> list[Violation]:
    """Statements of which more partial results are added than one union joins."""
    found = []
    for number, loops in enumerate(mapping.loops):
        if loops.parallel and loops.lanes > MOST_JOINED:
            parts = loops.lanes // loops.lanes_over(program.statements[number].target.indices)
            if parts > MOST_JOINED:
                found.append(Violation("lanes", f"{parts} partial results", f"at most {MOST_JOINED}", f"S{number}"))
    return found


def _format_violations(workload: Workload, mapping: Mapping, stored: dict[str, StoredFormat]) -> list[Violation]:
    found = [violation for form in stored.values() for violation in form.broken]
    for statement in workload.program.statements if not found else ():
        source = statement.operands[0].tensor
        if statement.function == IN_PLACE and stored[source].sized:
            limit = "without blocks and N:M levels, which the boxes of windows would cut"
            found.append(Violation("windows-in-place", ",".join(mapping.kinds(source)), limit, source))
    return found or (_layout_violations(workload, mapping) if any(form.placed for form in stored.values()) else [])


def _layout_violations(workload: Workload, mapping: Mapping) -> list[Violation]:
    """Whether the data keep the N:M patterns in the order and tiles in which they are walked, blocks fit tiles, and
    dense levels the host's memory."""
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
