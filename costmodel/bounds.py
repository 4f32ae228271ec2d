"""Admissible lower bounds of a mapping's latency, traffic and energy: the simulator never stays below them.

What is counted exactly at level L2 bounds from below, and nothing else enters:

* **Traffic**: loads, spills and stores of ``costmodel.least_traffic``.
* **Latency** of a region is no less than that of any of its parts: a unit handles one token per cycle, an accumulator
  drains its entries one after the other, and neither begins before the first tile is there; a port has no more
  requests in flight than its buffers hold; the memory moves all bursts at its peak. Regions and conversions follow
  each other.
* **Energy**: bytes in whole bursts, effectual multiplies, additions, comparisons and tokens of the above.

Operands padded with zeros only add to these counts. Where counts are sampled (``products.MOST_PAIRS``), which shows in
numbers that are not whole, they bound nothing. Area and buffers are fields of the machine, exact by nature.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from costmodel.accumulators import Reduction, reduction_of
from costmodel.blocks import block_walk
from costmodel.energy import Actions
from costmodel.factors import Floats
from costmodel.least_traffic import Port, burst_cycles, load_port, spill_ports, store_ports, whole
from costmodel.nest import Model, Nest
from costmodel.padding import padded
from costmodel.statistics import Statistics, shared_statistics
from costmodel.tiles import tile_sizes
from costmodel.work import work_of
from mapper.machine import Machine
from mapper.mapping import Mapping
from mapper.precision import multiply_scale
from mapper.schedule import Conversion, Region, schedule
from mapper.workload import Workload

FLOWING = ("repeat", "array", "alu", "map", "reduce", "tile_load")
"""Units whose tokens follow from exact counts."""

JOINS = ("intersect", "union")
"""Units whose tokens do so too, where it is known who reads their coordinates."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a mapping costs at least."""

    latency_cycles: float
    traffic_bytes: float
    energy_pj: float


def bounds(workload: Workload, mapping: Mapping, machine: Machine, *, statistics: Statistics | None = None) -> Bounds:
    """Lower bounds of a legal mapping, by exact counts (level L2)."""
    workload = workload.variant(mapping.variant)
    if mapping.dtypes and any(s.function == "sparse_relu" for s in workload.program.statements):
        return Bounds(0.0, 0.0, 0.0)  # rounding decides what is positive, and so what is stored
    model = Model(workload, mapping, "L2", statistics or shared_statistics())
    steps = schedule(workload.program, mapping).steps
    if any(_of_nothing(n) for step in steps if isinstance(step, Region) for n in model.nests(step)):
        return Bounds(0.0, 0.0, 0.0)
    found = [
        _conversion(model, step, machine) if isinstance(step, Conversion) else _region(model, step, machine)
        for step in steps
    ]
    actions = sum((part.actions for part in found), Actions())
    cycles, moved = sum(part.cycles for part in found), sum(part.moved for part in found)
    return Bounds(float(cycles), float(moved), actions.energy_pj(machine.energy))


def _of_nothing(nest: Nest) -> bool:
    """Whether the result is a scalar without products: the oracle knows it as 0, a machine never makes it."""
    return not nest.statement.target.indices and not nest.joined(len(nest.loops)).any()


@dataclass(frozen=True, slots=True)
class _Least:
    """At least so many cycles, bytes moved, and other actions."""

    cycles: float
    moved: float
    actions: Actions


def _conversion(model: Model, step: Conversion, machine: Machine) -> _Least:
    if machine.dram_channels is None or step.in_place:
        return _Least(0.0, 0.0, Actions())
    moved = list[float]()
    for tensor, layout in ((step.tensor, step.source), (step.made, step.result)):
        stats = model.stats(tensor, model.workload.tensor(tensor).shape)
        sizes = tile_sizes(model.statistics, stats, layout, machine)
        moved.append(sizes.total_values + sizes.total_metadata)
    bursts = sum(math.ceil(m / machine.dram_burst_bytes) for m in moved)
    cycles = _memory_cycles(bursts, machine) if bursts else 0.0
    payload = sum(moved)
    return _Least(cycles, payload, Actions(dram_bytes=bursts * machine.dram_burst_bytes, buffer_bytes=payload))


def _region(model: Model, region: Region, machine: Machine) -> _Least:
    ports, cycles, actions = list[Port](), [0.0], Actions()
    nests = model.nests(region)
    scale = (
        0.0
        if model.mapping.dtypes
        else multiply_scale(model.workload.program, model.mapping, region.statements, machine)
    )
    relaxed = replace(machine, fifo_depth=None, buffer_bytes_per_cycle=None, accumulator_bytes=None)
    for nest in nests:
        if block_walk(nest, machine):  # what is made by blocks is bounded by what it moves alone
            ports += _ports(nest, region, machine)
            continue
        reduction = reduction_of(nest, relaxed)
        exact = not (padded(nest) or nest.partial)
        loads = [load_port(nest, n, machine) for n, o in enumerate(nest.operands) if o.stored]
        ports += _ports(nest, region, machine)
        if exact and reduction is not None:
            ports += spill_ports(nest, reduction, machine)
        tally = _Tally(nest, region, reduction, exact, relaxed)
        waits = not nest.statement.universal and any(load and load.bursts for load in loads)
        start = _first_tile(machine) if waits and nest.statement.kind != "add" else 0.0
        cycles.append(tally.cycles(start))
        actions += tally.actions(scale)
    bursts, moved = sum(p.bursts for p in ports), sum(p.moved for p in ports)
    if bursts:
        cycles += [_memory_cycles(bursts, machine), *(p.cycles for p in ports)]
    actions += Actions(dram_bytes=bursts * machine.dram_burst_bytes, buffer_bytes=moved)
    return _Least(max(cycles), moved, actions)


def _ports(nest: Nest, region: Region, machine: Machine) -> list[Port]:
    """Loads and stores of a statement."""
    loads = [load_port(nest, n, machine) for n, o in enumerate(nest.operands) if o.stored]
    layout = dict(region.stored).get(nest.statement.target.tensor)
    stores = store_ports(nest, layout, machine) if layout is not None else []
    return [*(load for load in loads if load), *stores]


def _memory_cycles(bursts: float, machine: Machine) -> float:
    return machine.dram_startup_cycles + bursts * burst_cycles(machine) / (machine.dram_channels or 1)


def _first_tile(machine: Machine) -> float:
    return machine.dram_startup_cycles + machine.dram_latency_cycles + burst_cycles(machine)


class _Tally:
    """Cycles and actions of one statement's units, on a machine that holds nothing up."""

    def __init__(self, nest: Nest, region: Region, reduction: Reduction | None, exact: bool, machine: Machine) -> None:
        self._nest, self._exact = nest, exact
        self._fused = any(edge.producer == nest.number for edge in region.fused)
        depths = range(1, len(nest.loops) + 1)
        counts = [np.ones(nest.lanes), *(nest.joined(q) for q in depths)]
        self._prefixes = [_certain(count) for count in counts]
        self._turns = [turns for q in depths for turns in self._level(q)]
        self._values, sums = self._prefixes[-1], np.zeros(nest.lanes)
        if exact and reduction is not None and whole(reduction.scopes.entries):
            drain = reduction.scopes.entries * machine.drain_cycles_per_entry + 1.0
            self._values = self._prefixes[reduction.shape.depth] + reduction.scopes.per_lane(drain, nest.lanes)
            sums = self._values + self._prefixes[reduction.shape.depth - 1]
        self._turns.append(("sum", sums))
        self._work = work_of(nest, region, reduction, machine) if all(map(whole, counts)) else None

    def _level(self, q: int) -> Iterator[tuple[str, Floats]]:
        """Turns of the scans and of the join of one loop, by kind, in every lane; each fiber ends in a stop."""
        nest, loop, stops = self._nest, self._nest.loops[q - 1], self._prefixes[q - 1]
        found = nest.located(q)
        sides = [
            _certain(nest.scanned(n, q)) for n, o in enumerate(nest.operands) if loop in o.loops and n not in found
        ]
        for elements in sides:
            yield "scan", elements + stops
        sides += [self._prefixes[q]] * (loop[0] in nest.statement.universal)
        joined = self._prefixes[q]
        if nest.statement.kind == "contract":  # a turn drops the heads of all sides but the furthest, or all of them
            most, total = np.max(sides, axis=0), np.sum(sides, axis=0)
            joined = np.maximum(most, (total - self._matches(q)) / max(1, len(sides) - 1))
        yield "join" if len(sides) > 1 else "pass", joined + stops

    def _matches(self, q: int) -> Floats:
        """What a join passes on at most."""
        joined = self._nest.joined(q)
        return joined if whole(joined) else np.full_like(joined, np.inf)

    def cycles(self, start: float) -> float:
        """Cycles of the unit that takes longest in any lane; the first value comes at ``start``."""
        longest = max(float(turns.max(initial=0.0)) for _, turns in self._turns)
        values = float(self._values.max(initial=0.0))
        return max(longest, start + values) if self._prefixes[-1].any() else longest

    def actions(self, multiply_scale: float) -> Actions:
        """Actions of arithmetic, joins and FIFOs."""
        compared = sum(float(turns.sum()) for kind, turns in self._turns if kind == "join")
        if self._work is None:
            return Actions(comparisons=compared)
        tokens = sum(u.tokens for u in self._work.units if u.kind in FLOWING)
        if not self._fused:  # a reader in the region may want values alone
            own = tuple(f"scan {o.access.tensor} " for o in self._nest.operands if o.stored)
            tokens += sum(u.tokens for u in self._work.units if u.kind in JOINS or u.name.startswith(own))
        added = self._work.additions if self._exact else 0.0
        return Actions(
            multiplies=self._work.multiplies * multiply_scale, additions=added, comparisons=compared, tokens=tokens
        )


def _certain(counts: Floats) -> Floats:
    return counts if whole(counts) else np.zeros_like(counts)
