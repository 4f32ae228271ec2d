"""Estimate of a mapping: latency, traffic, energy and what limits it, in milliseconds instead of a simulation."""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.accumulators import reduction_of
from costmodel.energy import Actions
from costmodel.latency import region_latency
from costmodel.nest import Model
from costmodel.statistics import Statistics, shared_statistics
from costmodel.traffic import TensorTraffic, Transfer, operand_sizes, region_transfers, step_transfers, summed
from costmodel.work import Work, work_of
from mapper.machine import Machine
from mapper.mapping import Mapping
from mapper.precision import multiply_scale
from mapper.schedule import Conversion, schedule
from mapper.workload import Workload

MODEL_VERSION = 1
"""Raised whenever an estimate may change; rows of a study carry it."""


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
    workload = workload.variant(mapping.variant)
    model = Model(workload, mapping, level, statistics or shared_statistics())
    steps: list[StepEstimate] = []
    transfers: list[Transfer] = []
    actions, multiplies, tiles = Actions(), 0.0, dict[str, float]()
    for step in schedule(workload.program, mapping).steps:
        if isinstance(step, Conversion):
            moved = step_transfers(model, step, machine)
            steps.append(_conversion(step, moved, machine))
        else:
            nests = model.nests(step)
            sums = [reduction_of(n, machine) for n in nests]
            works = [work_of(n, step, r, machine) for n, r in zip(nests, sums, strict=True)]
            moved = [
                t
                for n, r, w in zip(nests, sums, works, strict=True)
                for t in region_transfers(n, step, r, float(w.made.sum()), machine)
            ]
            name = "+".join(f"S{n}" for n in step.statements)
            steps.append(StepEstimate(name, *region_latency(nests, works, moved, machine)))
            scale = multiply_scale(workload.program, mapping, step.statements, machine)
            for work in works:
                actions += _actions(work, scale)
                multiplies += work.multiplies
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
        multiplies=multiplies,
        largest_tiles=tuple(tiles.items()),
        steps=tuple(steps),
        level=level,
    )


def _actions(work: Work, multiply_scale: float) -> Actions:
    return Actions(
        multiplies=work.multiplies * multiply_scale,
        additions=work.additions,
        comparisons=work.comparisons,
        tokens=work.tokens,
    )


def _conversion(step: Conversion, moved: list[Transfer], machine: Machine) -> StepEstimate:
    if not moved:
        return StepEstimate(step.name, 0.0, step.name)
    cycles = sum(t.traffic.bytes for t in moved) / machine.streaming_bytes_per_cycle
    limited = sum(t.traffic.bytes / machine.port_bytes_per_cycle(t.traffic.direction) for t in moved)
    waits = machine.dram_latency_cycles + machine.dram_startup_cycles
    return StepEstimate(step.name, max(cycles, limited) + waits, step.name)
