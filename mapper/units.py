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
from mapper.program import Edge
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
    most = np.array([machine.units.get(kind, 0) for kind in PORTED])
    used = [_used(workload, mapping, machine, statements) for statements in regions]
    return [
        Violation("units", f"{used[n][kind]} {PORTED[kind]}", f"at most {most[kind]}", region_label(regions[n]))
        for n, kind in np.argwhere(np.array(used) > most)
    ]


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
