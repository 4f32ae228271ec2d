"""Admissible lower bounds of a mapping's latency, traffic and energy: the simulator never stays below them.

What is counted exactly at level L2 bounds from below, and nothing else enters:

* **Traffic**: every (tile, lane) that effectual prefixes reach is loaded at its first visit, with ``residency: none``
  at every visit; of an overbooked tile larger than its buffer the tail streams at each walk. The known result is
  stored once. An accumulator of C entries writes and reads back at least C of each C that it takes in before the last.
* **Latency** of a region is no less than that of any of its parts: a unit handles one token per cycle, an accumulator
  drains its entries one after the other, and neither begins before the first tile is there; a port has no more
  requests in flight than its buffers hold; the memory moves all bursts at its peak. Regions and conversions follow
  each other.
* **Energy**: bytes in whole bursts, effectual multiplies, additions, comparisons and tokens of the above.

Operands padded with zeros only add to these counts. Where counts are sampled (``factors.MOST_PAIRS``), which shows in
numbers that are not whole, they bound nothing. Area and buffers are fields of the machine, exact by nature.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from costmodel.accumulators import Reduction, reduction_of
from costmodel.counting import LANE
from costmodel.energy import Actions
from costmodel.factors import Floats, Ints, bin_sum, pack
from costmodel.nest import Model, Nest
from costmodel.residency import tail_bytes
from costmodel.results import padded
from costmodel.statistics import Statistics, shared_statistics
from costmodel.tiles import TileSizes, tile_sizes
from costmodel.traffic import operand_sizes
from costmodel.work import work_of
from mapper.machine import Machine
from mapper.mapping import Mapping
from mapper.precision import multiply_scale
from mapper.residency import OVERBOOKED, tiles_ahead
from mapper.schedule import Conversion, Region, schedule
from mapper.storage import Layout
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


@dataclass(frozen=True, slots=True)
class _Port:
    """Bytes and bursts that a port moves, and cycles of the lane that it holds up longest."""

    moved: float
    bursts: float
    cycles: float


def _conversion(model: Model, step: Conversion, machine: Machine) -> _Least:
    if machine.dram_channels is None:
        return _Least(0.0, 0.0, Actions())
    stats, moved = model.stats(step.tensor, model.workload.tensor(step.tensor).shape), list[float]()
    for layout in (step.source, step.result):
        sizes = tile_sizes(model.statistics, stats, layout, machine)
        moved.append(sizes.total_values + sizes.total_metadata)
    bursts = sum(math.ceil(m / machine.dram_burst_bytes) for m in moved)
    cycles = _memory_cycles(bursts, machine) if bursts else 0.0
    payload = sum(moved)
    return _Least(cycles, payload, Actions(dram_bytes=bursts * machine.dram_burst_bytes, buffer_bytes=payload))


def _region(model: Model, region: Region, machine: Machine) -> _Least:
    ports, cycles, actions = list[_Port](), [0.0], Actions()
    nests = model.nests(region)
    scale = (
        0.0
        if model.mapping.dtypes
        else multiply_scale(model.workload.program, model.mapping, region.statements, machine)
    )
    relaxed = replace(machine, fifo_depth=None, buffer_bytes_per_cycle=None, accumulator_bytes=None)
    for nest in nests:
        reduction = reduction_of(nest, relaxed)
        exact = not (padded(nest) or nest.partial)
        loads = [_load(nest, n, machine) for n, o in enumerate(nest.operands) if o.stored]
        ports += [load for load in loads if load]
        if exact and reduction is not None:
            ports += _spills(nest, reduction, machine)
        layout = dict(region.stored).get(nest.statement.target.tensor)
        if layout is not None:
            ports += _store(nest, layout, machine)
        tally = _Tally(nest, region, reduction, exact, relaxed)
        waits = not nest.universal and any(load and load.bursts for load in loads)
        start = _first_tile(machine) if waits and nest.statement.kind != "add" else 0.0
        cycles.append(tally.cycles(start))
        actions += tally.actions(scale)
    bursts, moved = sum(p.bursts for p in ports), sum(p.moved for p in ports)
    if bursts:
        cycles += [_memory_cycles(bursts, machine), *(p.cycles for p in ports)]
    actions += Actions(dram_bytes=bursts * machine.dram_burst_bytes, buffer_bytes=moved)
    return _Least(max(cycles), moved, actions)


def _burst_cycles(machine: Machine) -> float:
    """Cycles for which a burst keeps its channel at least."""
    row = 0 if machine.dram_row_bytes is None else min(machine.dram_row_hit_cycles, machine.dram_row_miss_cycles)
    return math.ceil(machine.dram_burst_bytes / machine.dram_bytes_per_cycle) + row


def _memory_cycles(bursts: float, machine: Machine) -> float:
    return machine.dram_startup_cycles + bursts * _burst_cycles(machine) / (machine.dram_channels or 1)


def _first_tile(machine: Machine) -> float:
    return machine.dram_startup_cycles + machine.dram_latency_cycles + _burst_cycles(machine)


def _load(nest: Nest, n: int, machine: Machine) -> _Port | None:
    """Loads of operand ``n``; None without DRAM, or if nothing certain is known."""
    if machine.dram_channels is None:
        return None
    sizes, policy = operand_sizes(nest, n, machine), nest.model.mapping.residency
    tile, lane, visits = _visits(nest, n, sizes)
    if not _whole(visits):
        return None
    size, tail = sizes.values + sizes.metadata, tail_bytes(sizes, machine)
    copies = nest.lanes / math.prod(own.count for own in nest.fixed(nest.load_depth(n)))
    whole = visits if policy == "none" else np.minimum(visits, 1.0)
    walks = (visits - whole) * (tail[tile] > 0) if policy == OVERBOOKED else np.zeros(visits.size)
    burst, each = machine.dram_burst_bytes, _burst_cycles(machine)
    bursts, rest = np.ceil(size / burst)[tile], np.ceil(tail / burst)[tile]
    moved = whole * size[tile] + walks * tail[tile]
    channels, latency = machine.dram_channels, machine.dram_latency_cycles
    waits = whole * (latency + np.ceil(bursts / channels) * each) + walks * (latency + np.ceil(rest / channels) * each)
    in_flight = [waits / tiles_ahead(machine, policy), moved / machine.buffer_fill_bytes_per_cycle]
    if machine.dram_outstanding is not None:
        in_flight.append((whole * bursts + walks * rest) * (latency + each) / machine.dram_outstanding)
    lanes = int(lane.max(initial=0)) + 1
    cycles = max(float(bin_sum(lane, amount, lanes).max(initial=0.0)) for amount in in_flight)
    return _Port(float(moved.sum()) * copies, float((whole * bursts + walks * rest).sum()) * copies, cycles)


def _visits(nest: Nest, n: int, sizes: TileSizes) -> tuple[Ints, Ints, Floats]:
    """(tile, lane, visits) of every tile of operand ``n`` that a lane reaches; lanes that are alike above the tile load
    count once."""
    depth, operand = nest.load_depth(n), nest.operands[n]
    split = nest.fixed(depth)
    columns = tuple((operand.access.indices[m], g) for m, g in sizes.view)
    if not depth:
        stored = np.ones(int(sizes.values.size > 0))
        return np.zeros(stored.size, np.int64), np.zeros(stored.size, np.int64), stored
    points = nest.counter.by(nest.visiting(n, depth), nest.variables(depth), columns, split)
    reached = np.flatnonzero(points.weights)
    lane = points.column(*LANE)[reached] if split else np.zeros(reached.size, np.int64)
    if not columns:
        return np.zeros(reached.size, np.int64), lane, points.weights[reached]
    at = [points.column(*c)[reached] for c in columns]
    cells = [max(1, -(-operand.stats.shape[m] // g)) for m, g in sizes.view]
    number = pack([np.concatenate(pair) for pair in zip(sizes.coords, at, strict=True)], cells)
    tiles = sizes.values.size
    order = np.argsort(number[:tiles], kind="stable")
    return order[np.searchsorted(number[:tiles], number[tiles:], sorter=order)], lane, points.weights[reached]


def _spills(nest: Nest, reduction: Reduction, machine: Machine) -> Iterator[_Port]:
    """Runs that an accumulator must write, and read back, in all its scopes."""
    capacity = reduction.shape.capacity(machine)
    if not capacity or not _whole(reduction.scopes.entries):
        return
    scopes, size = reduction.scopes, machine.value_bytes + reduction.shape.keys * machine.coordinate_bytes
    runs = np.maximum(0.0, np.ceil(scopes.entries / capacity) - 1.0)
    total, channels = float((runs * scopes.number).sum()), machine.dram_channels or 1
    if total:
        bursts, each = math.ceil(capacity * size / machine.dram_burst_bytes), _burst_cycles(machine)
        serial = scopes.per_lane(runs, nest.lanes).max() * math.ceil(bursts / channels) * each
        yield _Port(total * capacity * size, total * bursts, float(serial))  # one run after the other
        back = float((np.ceil(runs * capacity * size / machine.dram_burst_bytes) * scopes.number).sum())
        yield _Port(total * capacity * size, back, 0.0)


def _store(nest: Nest, layout: Layout, machine: Machine) -> Iterator[_Port]:
    """The known result, tile by tile."""
    if machine.dram_channels is None or not nest.target.nnz:
        return
    sizes = tile_sizes(nest.model.statistics, nest.target, layout, machine)
    size = sizes.values + sizes.metadata
    bursts = np.ceil(size / machine.dram_burst_bytes)
    each = np.ceil(bursts / machine.dram_channels) * _burst_cycles(machine)
    yield _Port(float(size.sum()), float(bursts.sum()), float(each.sum()) / nest.lanes)  # one tile after the other


class _Tally:
    """Cycles and actions of one statement's units, on a machine that holds nothing up."""

    def __init__(self, nest: Nest, region: Region, reduction: Reduction | None, exact: bool, machine: Machine) -> None:
        self._nest, self._exact = nest, exact
        edges = nest.model.workload.program.edges
        self._fused = any(edges[e].producer == nest.number for e in region.fused)
        depths = range(1, len(nest.loops) + 1)
        counts = [np.ones(nest.lanes), *(nest.joined(q) for q in depths)]
        self._prefixes = [_certain(count) for count in counts]
        self._turns = [turns for q in depths for turns in self._level(q)]
        self._values, sums = self._prefixes[-1], np.zeros(nest.lanes)
        if exact and reduction is not None and _whole(reduction.scopes.entries):
            drain = reduction.scopes.entries * machine.drain_cycles_per_entry + 1.0
            self._values = self._prefixes[reduction.shape.depth] + reduction.scopes.per_lane(drain, nest.lanes)
            sums = self._values + self._prefixes[reduction.shape.depth - 1]
        self._turns.append(("sum", sums))
        self._work = work_of(nest, region, reduction, machine) if all(map(_whole, counts)) else None

    def _level(self, q: int) -> Iterator[tuple[str, Floats]]:
        """Turns of the scans and of the join of one loop, by kind, in every lane; each fiber ends in a stop."""
        nest, loop, stops = self._nest, self._nest.loops[q - 1], self._prefixes[q - 1]
        sides = [_certain(nest.scanned(n, q)) for n, o in enumerate(nest.operands) if loop in o.loops]
        for elements in sides:
            yield "scan", elements + stops
        sides += [self._prefixes[q]] * (loop[0] in nest.universal)
        joined = self._prefixes[q]
        if nest.statement.kind == "contract":  # a turn drops the heads of all sides but the furthest, or all of them
            most, total = np.max(sides, axis=0), np.sum(sides, axis=0)
            joined = np.maximum(most, (total - self._matches(q)) / max(1, len(sides) - 1))
        yield "join" if len(sides) > 1 else "pass", joined + stops

    def _matches(self, q: int) -> Floats:
        """What a join passes on at most."""
        joined = self._nest.joined(q)
        return joined if _whole(joined) else np.full_like(joined, np.inf)

    def cycles(self, start: float) -> float:
        """Cycles of the unit that takes longest in any lane; the first value comes at ``start``."""
        whole = max(float(turns.max(initial=0.0)) for _, turns in self._turns)
        values = float(self._values.max(initial=0.0))
        return max(whole, start + values) if self._prefixes[-1].any() else whole

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


def _whole(counts: Floats) -> bool:
    """Whether counts are exact: sampled ones are scaled, and so no whole numbers."""
    return bool((counts == np.rint(counts)).all())


def _certain(counts: Floats) -> Floats:
    return counts if _whole(counts) else np.zeros_like(counts)
