"""Screening: which mappings are not worth a simulation, each rejection a recorded verdict."""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.nest import Model
from costmodel.statistics import Statistics, shared_statistics
from costmodel.traffic import operand_sizes
from mapper.legality import violations
from mapper.machine import Machine
from mapper.mapping import Mapping
from mapper.residency import OVERBOOKED
from mapper.schedule import schedule
from mapper.workload import Workload


@dataclass(frozen=True, slots=True)
class Verdict:
    """A rule that a mapping breaks: what was measured, what the limit is, their unit, and where."""

    rule: str
    measured: str
    limit: str
    unit: str
    where: str


def screen(
    workload: Workload, mapping: Mapping, machine: Machine, statistics: Statistics | None = None
) -> tuple[Verdict, ...]:
    """Every reason to reject a mapping: legality first, then capacity; empty for one that may be simulated."""
    broken = violations(workload, mapping, machine)
    if broken:
        return tuple(Verdict(v.rule, v.measured, v.limit, "", v.where) for v in broken)
    return capacity_verdicts(workload, mapping, machine, statistics)


def capacity_verdicts(
    workload: Workload, mapping: Mapping, machine: Machine, statistics: Statistics | None = None
) -> tuple[Verdict, ...]:
    """``tile-over-capacity`` for every operand of a legal mapping whose largest tile exceeds its buffer.

    ``overbooked`` allows that where each walk of a tile goes through it once, from its first byte to its last: no loop
    over another index stands between the operand's inner loops.
    """
    if machine.buffer_bytes is None:
        return ()
    workload = workload.variant(mapping.variant)
    model = Model(workload, mapping, "L2", statistics or shared_statistics())
    found = []
    for region in schedule(workload.program, mapping).regions:
        for nest in model.nests(region):
            for n, operand in enumerate(nest.operands):
                largest = operand_sizes(nest, n, machine).largest if operand.stored else 0.0
                overbooked = mapping.residency == OVERBOOKED and nest.walked_at_once(n)
                if largest > machine.buffer_bytes and not overbooked:
                    where = f"{operand.access.tensor} in S{nest.number}"
                    limit = f"at most {machine.buffer_bytes}"
                    found.append(Verdict("tile-over-capacity", f"{largest:.0f}", limit, "bytes", where))
    return tuple(dict.fromkeys(found))
