"""Advice: what one change of a mapping or of its machine would be worth, by the cost model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from costmodel import Estimate, Statistics, capacity_verdicts, estimate
from mapper.machine import Machine
from mapper.mapping import Mapping
from mapper.mapping_text import mapping_changes
from mapper.space import MappingSpace

MEASURES = ("latency_cycles", "traffic_bytes", "energy_pj")

WORTH = 1.005
"""Least gain of a change that is told."""

DOUBLED = (
    "fifo_depth", "prefetch_tiles", "buffer_bytes", "buffer_banks", "buffer_bytes_per_cycle", "accumulator_bytes",
    "dram_channels", "dram_bytes_per_cycle", "dram_outstanding",
)  # fmt: skip
"""Fields of a machine of which more may help."""

HALVED = (
    "channel_latency_cycles", "response_latency_cycles", "drain_cycles_per_entry", "dram_latency_cycles",
    "dram_startup_cycles", "dram_row_hit_cycles", "dram_row_miss_cycles",
)  # fmt: skip
"""Fields of a machine of which less may help."""


@dataclass(frozen=True, slots=True)
class Change:
    """``what`` is changed, as ``formats A: csf -> dense``, and how many times less each measure is afterwards."""

    what: str
    of_machine: bool
    latency_cycles_gain: float
    traffic_bytes_gain: float
    energy_pj_gain: float

    def gain(self, measure: str) -> float:
        """Gain by name of the measure."""
        return float(getattr(self, f"{measure}_gain"))


def advise(space: MappingSpace, mapping: Mapping, before: Estimate, statistics: Statistics) -> list[Change]:
    """Every change worth something, in no particular order: the neighbours of ``mapping``, those over the capacity of a
    buffer left out, and the machine with one field twice as large or half as slow. ``before``: the estimate of
    ``mapping``."""
    found = []
    for what, of_machine, other, machine in _changes(space, mapping):
        if capacity_verdicts(space.workload, other, machine, statistics):
            continue
        after = estimate(space.workload, other, machine, statistics=statistics)
        latency, traffic, energy = (_gain(getattr(before, m), getattr(after, m)) for m in MEASURES)
        if max(latency, traffic, energy) >= WORTH:
            found.append(Change(what, of_machine, latency, traffic, energy))
    return found


def _changes(space: MappingSpace, mapping: Mapping) -> Iterator[tuple[str, bool, Mapping, Machine]]:
    """(what, whether of the machine, mapping, machine)."""
    for other in space.neighbours(mapping):
        yield "; ".join(mapping_changes(space.workload.program, mapping, other)), False, other, space.machine_of(other)
    machine = space.machine_of(mapping)
    for fields, factor in ((DOUBLED, 2.0), (HALVED, 0.5)):
        for name in fields:
            now = getattr(machine, name)
            if now is None or name in space.limits.machine:
                continue
            then = now * factor if isinstance(now, float) else int(now * factor)
            if then > 0 and then != now:
                yield f"machine {name}: {now} -> {then}", True, mapping, machine.with_fields(**{name: then})


def _gain(before: float, after: float) -> float:
    return before / after if after else 1.0
