"""Estimate of a mapping: latency, traffic, energy and what limits it, in milliseconds instead of a simulation."""

from __future__ import annotations

import math
from dataclasses import dataclass

from costmodel.accumulators import reduction_of
from costmodel.blocks import block_walk, block_work
from costmodel.energy import Actions
from costmodel.latency import region_latency
from costmodel.least_traffic import burst_cycles
from costmodel.nest import Model
from costmodel.region_key import region_key
from costmodel.statistics import Statistics, shared_statistics
from costmodel.traffic import (
    TensorTraffic,
    Transfer,
    left_to_readers,
    operand_sizes,
    region_transfers,
    step_transfers,
    summed,
)
from costmodel.widened import Widened
from costmodel.work import Work, work_of
from mapper.machine import Machine
from mapper.mapping import Mapping
from mapper.precision import multiply_scale
from mapper.schedule import Conversion, Region, schedule
from mapper.workload import Workload

MODEL_VERSION = 10
"""Raised whenever an estimate may change; rows of a study carry it."""


PIECE_BURSTS = 16
"""Bursts of a conversion that are read at once (the convert context of the simulator)."""


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


@dataclass(frozen=True, slots=True)
class _Step:
    """What one step adds to an estimate."""

    own: StepEstimate
    transfers: tuple[Transfer, ...]
    actions: Actions
    multiplies: float
    tiles: tuple[tuple[str, float], ...]
    widened: tuple[Widened, ...] = ()


def estimate(
    workload: Workload, mapping: Mapping, machine: Machine, *, level: str = "L2", statistics: Statistics | None = None
) -> Estimate:
    """Estimate of a legal mapping at level L0, L1 or L2. Raises InputError for any other level.

    Regions are estimated once: mappings that share one, or differ in nothing that it sees, share its part."""
    workload, statistics = workload.variant(mapping.variant), statistics or shared_statistics()
    model = Model(workload, mapping, level, statistics)
    steps = list[_Step]()
    for step in schedule(workload.program, mapping).steps:
        steps.append(_step(model, step, machine))
        model.widened |= {own.tensor: own for own in steps[-1].widened}
    transfers, actions, tiles = [t for s in steps for t in s.transfers], Actions(), dict[str, float]()
    for part in steps:
        actions += part.actions
        for tensor, size in part.tiles:
            tiles[tensor] = max(size, tiles.get(tensor, 0.0))
    traffic = summed(t.traffic for t in transfers)
    moved_bytes = sum(t.bytes for t in traffic)
    actions += Actions(dram_bytes=sum(t.burst_bytes for t in transfers), buffer_bytes=moved_bytes)
    longest = max((s.own for s in steps), key=lambda s: s.latency_cycles)
    return Estimate(
        latency_cycles=sum(s.own.latency_cycles for s in steps),
        traffic_bytes=moved_bytes,
        energy_pj=actions.energy_pj(machine.energy),
        bottleneck=longest.bottleneck,
        traffic=traffic,
        tokens=actions.tokens,
        multiplies=sum(s.multiplies for s in steps),
        largest_tiles=tuple(tiles.items()),
        steps=tuple(s.own for s in steps),
        level=level,
    )


def _step(model: Model, step: Conversion | Region, machine: Machine) -> _Step:
    if isinstance(step, Conversion):
        moved = step_transfers(model, step, machine)
        return _Step(_conversion(step, moved, machine), tuple(moved), Actions(), 0.0, ())
    key = "region", *region_key(model, step, machine)
    return model.statistics.remember(key, lambda: _region(model, step, machine))


def _region(model: Model, step: Region, machine: Machine) -> _Step:
    nests = model.nests(step)
    works, moved, left = list[Work](), list[Transfer](), list[Widened]()
    for nest in nests:
        walk = block_walk(nest, machine)
        reduction = reduction_of(walk.nest, walk.machine) if walk else reduction_of(nest, machine)
        work = block_work(nest, walk, step, reduction) if walk else work_of(nest, step, reduction, machine)
        works.append(work)
        entries = float(work.made.sum())
        moved += region_transfers(nest, step, reduction, entries, machine, walk)
        left += left_to_readers(nest, step, entries, walk)
    own = StepEstimate("+".join(f"S{n}" for n in step.statements), *region_latency(nests, works, moved, machine))
    scale = multiply_scale(model.workload.program, model.mapping, step.statements, machine)
    actions = Actions()
    for work in works:
        actions += _actions(work, scale)
    tiles = [
        (operand.access.tensor, operand_sizes(nest, n, machine).largest)
        for nest in nests
        for n, operand in enumerate(nest.operands)
        if operand.stored
    ]
    return _Step(own, tuple(moved), actions, sum(w.multiplies for w in works), tuple(tiles), tuple(left))


def _actions(work: Work, multiply_scale: float) -> Actions:
    return Actions(
        multiplies=work.multiplies * multiply_scale,
        additions=work.additions,
        comparisons=work.comparisons,
        tokens=work.tokens,
    )


def _conversion(step: Conversion, moved: list[Transfer], machine: Machine) -> StepEstimate:
    """Pieces are written as they come, while others are read; what is empty takes no time."""
    size = {t.traffic.direction: t.traffic.bytes for t in moved}
    read, written = size.get("read", 0.0), size.get("write", 0.0)
    if not read + written:
        return StepEstimate(step.name, 0.0, step.name)

    def memory(amount: float) -> float:
        return math.ceil(amount / machine.dram_burst_bytes / (machine.dram_channels or 1)) * burst_cycles(machine)

    first = machine.dram_latency_cycles + memory(min(read, PIECE_BURSTS * machine.dram_burst_bytes)) if read else 0.0
    cycles = machine.dram_startup_cycles + max(memory(read), first) + memory(written)
    in_flight = sum(amount / machine.port_bytes_per_cycle(way) for way, amount in size.items())
    return StepEstimate(step.name, max(cycles, in_flight), step.name)
