"""Estimate of a mapping: latency, traffic, energy and what limits it, in milliseconds instead of a simulation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.accumulators import reduction_of
from costmodel.energy import Actions
from costmodel.nest import Model, Nest
from costmodel.statistics import Statistics, shared_statistics
from costmodel.traffic import TensorTraffic, Transfer, operand_sizes, region_transfers, step_transfers, summed
from costmodel.work import Work, work_of
from mapper.machine import Machine
from mapper.mapping import Mapping
from mapper.schedule import Conversion, Region, schedule
from mapper.workload import Workload

MODEL_VERSION = 1
"""Raised whenever an estimate may change; rows of a study carry it."""

FILL_CYCLES_PER_LOOP = 8
"""Contexts that the first token of a loop passes before the next loop sees it, about a cycle each."""

SHARPNESS = 4.0
"""Exponent of the norm that combines compute, bandwidth and waiting for requests: they overlap, but not wholly."""


@dataclass(frozen=True, slots=True)
class StepEstimate:
    """One region or conversion: its name, cycles and the unit or memory port that sets them."""

    name: str
    latency_cycles: float
    bottleneck: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """Predicted measures of a mapping. ``bottleneck``: what limits the longest step. ``tokens``: pushed on all
    channels, which decides how long a simulation takes. ``largest_tiles``: (tensor, bytes of its largest tile)."""

    latency_cycles: float
    traffic_bytes: float
    energy_pj: float
    bottleneck: str
    traffic: tuple[TensorTraffic, ...]
    tokens: float
    multiplies: float
    largest_tiles: tuple[tuple[str, float], ...]
    steps: tuple[StepEstimate, ...]
    level: str
    model_version: int = MODEL_VERSION


def estimate(
    workload: Workload, mapping: Mapping, machine: Machine, *, level: str = "L2", statistics: Statistics | None = None
) -> Estimate:
    """Estimate of a legal mapping at level L0, L1 or L2. Raises InputError for any other level."""
    model = Model(workload, mapping, level, statistics or shared_statistics())
    steps: list[StepEstimate] = []
    transfers: list[Transfer] = []
    actions, tiles = Actions(), dict[str, float]()
    for step in schedule(workload.program, mapping).steps:
        if isinstance(step, Conversion):
            moved = step_transfers(model, step, machine)
            steps.append(_conversion(step, moved, machine))
        else:
            nests = model.nests(step)
            sums = [reduction_of(n, machine) for n in nests]
            works = [work_of(n, step, r, machine) for n, r in zip(nests, sums, strict=True)]
            moved = [t for n, r in zip(nests, sums, strict=True) for t in region_transfers(n, step, r, machine)]
            steps.append(_region(step, nests, works, moved, machine))
            for work in works:
                actions += _actions(work)
            for nest in nests:
                for n, operand in enumerate(nest.operands):
                    if operand.stored:
                        size = operand_sizes(nest, n, machine).largest
                        tiles[operand.access.tensor] = max(size, tiles.get(operand.access.tensor, 0.0))
        transfers += moved
    traffic = summed(t.traffic for t in transfers)
    moved_bytes = sum(t.bytes for t in traffic)
    actions += Actions(dram_bytes=sum(t.burst_bytes for t in transfers), buffer_bytes=moved_bytes)
    longest = max(steps, key=lambda s: s.latency_cycles)
    return Estimate(
        latency_cycles=sum(s.latency_cycles for s in steps),
        traffic_bytes=moved_bytes,
        energy_pj=actions.energy_pj(machine.energy),
        bottleneck=longest.bottleneck,
        traffic=traffic,
        tokens=actions.tokens,
        multiplies=actions.multiplies,
        largest_tiles=tuple(tiles.items()),
        steps=tuple(steps),
        level=level,
    )


def _actions(work: Work) -> Actions:
    return Actions(
        multiplies=work.multiplies,
        additions=work.additions,
        comparisons=work.comparisons,
        tokens=work.tokens,
    )


def _conversion(step: Conversion, moved: list[Transfer], machine: Machine) -> StepEstimate:
    name = f"convert {step.tensor}"
    if not moved:
        return StepEstimate(name, 0.0, name)
    cycles = sum(t.traffic.bytes for t in moved) / machine.bytes_per_cycle + machine.dram_latency_cycles
    return StepEstimate(name, cycles, name)


def _region(
    region: Region, nests: tuple[Nest, ...], works: list[Work], moved: list[Transfer], machine: Machine
) -> StepEstimate:
    """Longest of: the busiest unit, the memory at full bandwidth, the port that waits longest for its requests.
    Statements overlap but for the share of one piece of the producer's result."""
    busiest = [w.slowest for w in works]
    cycles = [u.longest for u in busiest]
    longest = int(np.argmax(cycles))
    pieces = min(w.pieces for w in works)
    limits = [(cycles[longest] + (sum(cycles) - cycles[longest]) / pieces, busiest[longest].name)]
    if moved:
        limits.append((sum(t.burst_bytes for t in moved) / machine.bytes_per_cycle, "memory bandwidth"))
        limits += [(_port_cycles(t, machine), t.port) for t in moved]
    fill = FILL_CYCLES_PER_LOOP * sum(len(n.loops) for n in nests) + (machine.dram_latency_cycles if moved else 0)
    bottleneck = max(limits)[1]
    latency = sum(x**SHARPNESS for x, _ in limits) ** (1 / SHARPNESS)
    return StepEstimate("+".join(f"S{n}" for n in region.statements), latency + fill, bottleneck)


def _port_cycles(transfer: Transfer, machine: Machine) -> float:
    """Cycles that the busiest lane's port waits: loads run ``prefetch_tiles`` deep, other requests one by one."""
    requests = float(transfer.requests.max(initial=0.0))
    if not requests:
        return 0.0
    bursts = transfer.burst_bytes / float(transfer.requests.sum()) / machine.dram_burst_bytes
    each = np.ceil(bursts / (machine.dram_channels or 1)) * machine.dram_burst_bytes / machine.dram_bytes_per_cycle
    if transfer.traffic.direction == "read":
        each += machine.dram_latency_cycles
    return float(requests * (each + 2) / (machine.prefetch_tiles if transfer.traffic.purpose == "load" else 1))
