"""Units: how many contexts of every budgeted kind a region takes, counted without its data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from mapper.blocks import block_plan
from mapper.formats import DENSE, block_of
from mapper.lanes import common_levels
from mapper.lowering import lane_units, sum_units
from mapper.machine import Machine
from mapper.mapping import Mapping
from mapper.program import MOST_JOINED, Edge, Program, Statement
from mapper.regions import fused_edges, region_label, stored_tensors, stream_nest
from mapper.violation import Violation
from mapper.workload import Workload

PORTED = (
    "accumulate",
    "alu",
    "array",
    "block_accumulate",
    "block_mac",
    "intersect",
    "locate",
    "map",
    "reduce",
    "repeat",
    "scan",
    "store",
    "tile_load",
    "union",
)
"""Context kinds that a machine may budget."""

Counts = npt.NDArray[np.int64]
"""A number per kind of ``PORTED``."""

STORE: Counts = np.array([kind == "store" for kind in PORTED], np.int64)


def unit_violations(
    workload: Workload, mapping: Mapping, machine: Machine, regions: Sequence[tuple[int, ...]]
) -> list[Violation]:
    """Kinds of which a region (its statements) needs more units than the machine has."""
    if machine.units is None:
        return []
    most = tuple([machine.units.get(kind, 0) for kind in PORTED])
    program, found = workload.variant(mapping.variant).program, list[Violation]()
    for statements in regions:
        lanes = max([mapping.loops[n].lanes for n in statements])
        if not machine.block_operations_per_cycle and _suffice(most, program, statements, mapping.joins, lanes):
            continue
        used = _used(workload, mapping, machine, statements)
        found += [
            Violation("units", f"{used[kind]} {PORTED[kind]}", f"at most {most[kind]}", region_label(statements))
            for kind in np.flatnonzero(used > np.array(most))
        ]
    return found


@lru_cache(maxsize=65536)
def _suffice(most: tuple[int, ...], program: Program, statements: tuple[int, ...], joins: str, lanes: int) -> bool:
    """Whether so many units of every kind are enough for a region which makes nothing by blocks, whatever its loops."""
    return bool((lanes * most_units(program, statements, joins) <= np.array(most)).all())


def lacking_units(program: Program, machine: Machine) -> list[Violation]:
    """Kinds of which the machine has fewer units than a single lane of a statement takes, whatever its mapping."""
    if machine.units is None:
        return []
    return [
        Violation("units", f"{count} {kind}", f"at most {machine.units.get(kind, 0)}", f"S{number}")
        for number, own in enumerate(program.statements)
        for kind, count in (("map", _maps(own)), ("union", int(own.kind == "add" and own.indices != ())))
        if count > machine.units.get(kind, 0)
    ]


def _maps(statement: Statement) -> int:
    """Units that map values, per lane, whatever loops and formats: those that make ones of a pattern depend on them."""
    return (statement.kind == "map") + (statement.reduction == "mean") + (-1 in statement.signs[:1])


@lru_cache(maxsize=65536)
def most_units(program: Program, statements: tuple[int, ...], joins: str) -> Counts:
    """Units per lane that a region which makes nothing by blocks takes at most, whatever its loops, of every kind of
    ``PORTED``: every index has two loops, every operand is scanned or located at its own and repeated at the others."""
    most, fused = Counter[str](), fused_edges(program, statements)
    leaving = {e.tensor for e in program.edges if e not in fused}.union(program.outputs)
    for number in statements:
        statement, streamed = program.statements[number], {e.operand for e in fused if e.consumer == number}
        loops, operands = 2 * len(statement.indices), statement.operands
        lacking = sum(i not in access.indices for access in operands for i in statement.universal)
        all_of = lacking or len(statement.universal)
        stored = [access for n, access in enumerate(statement.operands) if n not in streamed]
        read = Counter(index for access in statement.operands for index in access.indices)
        shared, written = 2 * sum(n > 1 for n in read.values()), 2 * len(statement.target.indices)
        levels, reduced = 2 * sum(len(access.indices) for access in stored), len(statement.reduced)
        located = levels if joins == "locate" else 0
        most += Counter(
            scan=levels + 2 * all_of, array=len(stored), tile_load=len(stored), locate=located,
            store=statement.target.tensor in leaving,
            repeat=len(statement.operands) * loops - 2 * read.total() + located + all_of * (loops - 2),
            reduce=2 * reduced, accumulate=bool(reduced), alu=len(statement.operands) - 1 + bool(reduced),
            map=_maps(statement) + sum(a.pattern for a in statement.operands),
            intersect=shared if statement.kind == "contract" else 0,
            union=(0 if statement.kind == "contract" else loops) + (written if reduced else 0)
            + (loops * all_of if len(operands) + all_of > MOST_JOINED else 0),
        )  # fmt: skip
    return _ported(most)


def units_used(workload: Workload, mapping: Mapping, machine: Machine, statements: tuple[int, ...]) -> dict[str, int]:
    """Units of the budgeted kinds in the graph of a region, given by its statements: per statement those of a lane,
    those that add the results of lanes that share a reduction, and a store per part of a stored result."""
    return dict(zip(PORTED, _used(workload, mapping, machine, statements).tolist(), strict=True))


def _used(workload: Workload, mapping: Mapping, machine: Machine, statements: tuple[int, ...]) -> Counts:
    workload = workload.variant(mapping.variant)
    program, used = workload.program, np.zeros(len(PORTED), np.int64)
    fused, stored = fused_edges(program, statements), stored_tensors(program, mapping.cuts)
    for number in statements:
        loops, statement = mapping.loops[number], program.statements[number]
        if statement.kind == "view":
            continue
        copies = loops.lanes_over(statement.target.indices)
        used += loops.lanes * _of_lane(workload, mapping, machine, fused, number)
        if copies < loops.lanes:
            used += copies * _of_sums(workload, mapping, machine, fused, number, loops.lanes // copies)
        if statement.target.tensor in stored:
            used += copies * STORE
    return used


def _of_lane(workload: Workload, mapping: Mapping, machine: Machine, fused: tuple[Edge, ...], number: int) -> Counts:
    """Units of one lane of a statement, remembered by its loops and by those of its streams."""
    program = workload.program
    streams = [
        (e.operand, stream_nest(program, e.producer, mapping.loops[e.producer])) for e in fused if e.consumer == number
    ]
    dense = list[tuple[bool, ...]]()  # all that locating asks of formats
    if mapping.joins == "locate":
        formats = dict(mapping.formats)
        dense = [_dense(formats.get(a.tensor, ())) for a in program.statements[number].operands]
    blocks = block_plan(workload, mapping, machine, number)
    key = (number, mapping.loops[number].nest, *streams, machine.dram_channels is None, *dense, blocks)
    if key not in workload.unit_counts:
        workload.unit_counts[key] = _ported(lane_units(workload, mapping, machine, fused, number))
    return workload.unit_counts[key]


@lru_cache(maxsize=4096)
def _dense(kinds: tuple[str, ...]) -> tuple[bool, ...]:
    return tuple(kind == DENSE and not any(map(block_of, kinds)) for kind in kinds)


def _of_sums(
    workload: Workload, mapping: Mapping, machine: Machine, fused: tuple[Edge, ...], number: int, parts: int
) -> Counts:
    """Units that add so many partial results of a statement, remembered by the levels in which these differ."""
    nest = stream_nest(workload.program, number, mapping.loops[number])
    key = (number, nest[common_levels(workload.program, mapping.loops, fused, number) :], parts)
    if key not in workload.unit_counts:
        workload.unit_counts[key] = _ported(sum_units(workload, mapping, machine, fused, number, parts))
    return workload.unit_counts[key]


def _ported(units: Counter[str]) -> Counts:
    return np.array([units[kind] for kind in PORTED], np.int64)
