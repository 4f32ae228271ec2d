"""The least that the ports of a statement move: loads, spills and stores that are certain.

Each (tile, lane) that effectual prefixes reach is loaded at its first visit, with ``residency: none`` at every one; of
an overbooked tile larger than its buffer the tail streams at each walk. What does not fit the buffer comes again: under
``keep`` all but the most visited tiles that fit, under ``lru`` what exceeds the buffer in every iteration of a foreign
loop. The known result is stored once. An accumulator of C entries that takes in E spills ceil(E / C) - 1 times C.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from costmodel.accumulators import Reduction
from costmodel.counting import LANE
from costmodel.factors import Floats, Ints, bin_sum, group_sum, in_order, pack, radices
from costmodel.nest import Nest
from costmodel.residency import tail_bytes
from costmodel.tiles import TileSizes, tile_sizes
from costmodel.traffic import operand_sizes
from mapper.machine import Machine
from mapper.residency import KEEP, OVERBOOKED, tiles_ahead
from mapper.storage import Layout

LRU = "lru"

LISTED_VISITS = 1_000_000
"""Visits of tiles that are listed to see what iterations must load."""


@dataclass(frozen=True, slots=True)
class Port:
    """Bytes and bursts that a port moves, and cycles of the lane that it holds up longest."""

    moved: float
    bursts: float
    cycles: float


def burst_cycles(machine: Machine) -> float:
    """Cycles for which a burst keeps its channel at least."""
    row = 0 if machine.dram_row_bytes is None else min(machine.dram_row_hit_cycles, machine.dram_row_miss_cycles)
    return math.ceil(machine.dram_burst_bytes / machine.dram_bytes_per_cycle) + row


def load_port(nest: Nest, n: int, machine: Machine) -> Port | None:
    """Loads of operand ``n``; None without DRAM, or if nothing certain is known."""
    if machine.dram_channels is None:
        return None
    sizes, policy = operand_sizes(nest, n, machine), nest.model.mapping.residency
    tile, lane, visits = _visits(nest, n, sizes)
    if not whole(visits):
        return None
    size, tail = sizes.values + sizes.metadata, tail_bytes(sizes, machine)
    copies = nest.lanes / math.prod(own.count for own in nest.fixed(nest.load_depth(n)))
    first = visits if policy == "none" else np.minimum(visits, 1.0)
    walks = (visits - first) * (tail[tile] > 0) if policy == OVERBOOKED else np.zeros(visits.size)
    burst, each = machine.dram_burst_bytes, burst_cycles(machine)
    bursts, rest = np.ceil(size / burst)[tile], np.ceil(tail / burst)[tile]
    moved = first * size[tile] + walks * tail[tile]
    channels, latency = machine.dram_channels, machine.dram_latency_cycles
    waits = first * (latency + np.ceil(bursts / channels) * each) + walks * (latency + np.ceil(rest / channels) * each)
    in_flight = [waits / tiles_ahead(machine, policy), moved / machine.buffer_fill_bytes_per_cycle]
    if machine.dram_outstanding is not None:
        in_flight.append((first * bursts + walks * rest) * (latency + each) / machine.dram_outstanding)
    lanes = int(lane.max(initial=0)) + 1
    cycles = max(float(bin_sum(lane, amount, lanes).max(initial=0.0)) for amount in in_flight)
    total, bursts_moved = float(moved.sum()), float((first * bursts + walks * rest).sum())
    if policy in (KEEP, LRU) and machine.buffer_bytes is not None:
        total = max(total, _reloaded(nest, n, sizes, (tile, lane, visits), machine.buffer_bytes))
        bursts_moved = max(bursts_moved, total / burst)
    return Port(total * copies, bursts_moved * copies, cycles)


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
    return _numbers(sizes, at, cells), lane, points.weights[reached]


def _reloaded(nest: Nest, n: int, sizes: TileSizes, visited: tuple[Ints, Ints, Floats], room: int) -> float:
    """Bytes that a buffer of ``room`` bytes per lane must load, whatever it keeps.

    ``keep`` saves all visits but the first of tiles that together fit: no more than those visited most often would, in
    parts. Any policy enters an iteration of a foreign loop with ``room`` bytes at most, and misses the rest of the
    tiles visited there.
    """
    (tile, lane, visits), size = visited, sizes.values + sizes.metadata
    if nest.model.mapping.residency == KEEP:
        order = np.lexsort([-visits, lane])
        own, rank = size[tile[order]], lane[order]
        before = np.cumsum(own) - own
        first = np.flatnonzero(np.concatenate([[True], rank[1:] != rank[:-1]])) if rank.size else rank
        before = before - np.repeat(before[first], np.diff(np.concatenate([first, [rank.size]])))
        share = np.clip((room - before) / np.maximum(own, 1.0), 0.0, 1.0)
        return float((own * (visits[order] - share * (visits[order] - 1.0))).sum())
    depth, operand = nest.load_depth(n), nest.operands[n]
    foreign = [q for q, (i, _) in enumerate(nest.loops[:depth], 1) if i not in operand.access.indices]
    if not foreign or visits.sum() > LISTED_VISITS:
        return 0.0
    split, variables = nest.fixed(depth), nest.variables(depth)
    phase = nest.variables(foreign[-1])
    columns = tuple(sorted({**{operand.access.indices[m]: g for m, g in sizes.view}, **phase}.items()))
    points = nest.counter.by(nest.visiting(n, depth), variables, columns, split)
    if not whole(points.weights):
        return 0.0
    at = [points.column(operand.access.indices[m], g) for m, g in sizes.view]
    cells = [max(1, -(-operand.stats.shape[m] // g)) for m, g in sizes.view]
    own = size[_numbers(sizes, at, cells)] if at else np.full(points.weights.size, size[0])
    along = [*phase.items(), *([LANE] if split else [])]
    moved = group_sum([points.column(*c) for c in along], radices(along, nest.counter.extents), own)[1]
    return float(np.maximum(0.0, moved - room).sum())


def _numbers(sizes: TileSizes, at: list[Ints], cells: list[int]) -> Ints:
    """Positions in ``sizes`` of the tiles at these coordinates."""
    number, tiles = (
        pack([np.concatenate(pair) for pair in zip(sizes.coords, at, strict=True)], cells),
        sizes.values.size,
    )
    known, order = in_order(number[:tiles])
    return np.asarray(order[np.searchsorted(known, number[tiles:])])


def spill_ports(nest: Nest, reduction: Reduction, machine: Machine) -> Iterator[Port]:
    """Runs that an accumulator must write, and read back, in all its scopes."""
    capacity = reduction.shape.capacity(machine)
    if not capacity or not whole(reduction.scopes.entries):
        return
    scopes, size = reduction.scopes, machine.value_bytes + reduction.shape.keys * machine.coordinate_bytes
    runs = np.maximum(0.0, np.ceil(scopes.entries / capacity) - 1.0)
    total, channels = float((runs * scopes.number).sum()), machine.dram_channels or 1
    if total:
        bursts, each = math.ceil(capacity * size / machine.dram_burst_bytes), burst_cycles(machine)
        serial = scopes.per_lane(runs, nest.lanes).max() * math.ceil(bursts / channels) * each
        yield Port(total * capacity * size, total * bursts, float(serial))  # one run after the other
        back = float((np.ceil(runs * capacity * size / machine.dram_burst_bytes) * scopes.number).sum())
        yield Port(total * capacity * size, back, 0.0)


def store_ports(nest: Nest, layout: Layout, machine: Machine) -> Iterator[Port]:
    """The known result, tile by tile."""
    if machine.dram_channels is None or not nest.target.nnz:
        return
    sizes = tile_sizes(nest.model.statistics, nest.target, layout, machine)
    size = sizes.values + sizes.metadata
    bursts = np.ceil(size / machine.dram_burst_bytes)
    each = np.ceil(bursts / machine.dram_channels) * burst_cycles(machine)
    yield Port(float(size.sum()), float(bursts.sum()), float(each.sum()) / nest.lanes)  # one tile after the other


def whole(counts: Floats) -> bool:
    """Whether counts are exact: sampled ones are scaled, and so no whole numbers."""
    return bool((counts == np.rint(counts)).all())
