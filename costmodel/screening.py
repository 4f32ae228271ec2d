"""Screening: which mappings are not worth a simulation, each rejection a recorded verdict."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from costmodel.nest import Model
from costmodel.region_key import region_key
from costmodel.statistics import Statistics, shared_statistics
from costmodel.traffic import operand_sizes
from costmodel.widened import Widened
from mapper.legality import violations
from mapper.machine import Machine
from mapper.mapping import Mapping
from mapper.residency import OVERBOOKED
from mapper.schedule import Region, schedule
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
    workload, statistics = workload.variant(mapping.variant), statistics or shared_statistics()
    model, found = Model(workload, mapping, "L2", statistics), list[Verdict]()
    for region in schedule(workload.program, mapping).regions:
        key = "capacity", *region_key(model, region, machine)
        verdicts, widened = statistics.remember(key, partial(_of_region, model, region, machine.buffer_bytes, machine))
        model.widened |= {own.tensor: own for own in widened}
        found += verdicts
    return tuple(dict.fromkeys(found))


def _of_region(
    model: Model, region: Region, capacity: int, machine: Machine
) -> tuple[tuple[Verdict, ...], tuple[Widened, ...]]:
    """Verdicts on a region, and what is known of its results then."""
    found, nests = [], model.nests(region)
    for nest in nests:
        for n, operand in enumerate(nest.operands):
            largest = operand_sizes(nest, n, machine).largest if operand.stored else 0.0
            overbooked = model.mapping.residency == OVERBOOKED and nest.walked_at_once(n)
            if largest > capacity and not overbooked:
                where = f"{operand.access.tensor} in S{nest.number}"
                found.append(Verdict("tile-over-capacity", f"{largest:.0f}", f"at most {capacity}", "bytes", where))
    made = {nest.statement.target.tensor for nest in nests}
    return tuple(found), tuple(own for tensor, own in model.widened.items() if tensor in made)
