"""DRAM traffic of a mapping, per tensor and purpose, values and metadata apart.

Reuse law: a tile of an operand is fetched once per effectual prefix of the tile loops down to the operand's last
one. Loops below reuse it for free, foreign loops above fetch it again. With ``lru`` the refetches under a foreign
loop vanish where the panel (all tiles that the operand visits during one iteration of it) fits the buffer; ``keep``
and ``overbooked`` are replayed (``costmodel.residency``).
At level L2 the loads of ``residency: none`` are exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from costmodel.accumulators import Reduction, made, reduction_of
from costmodel.blocks import BlockWalk, block_walk
from costmodel.counting import AnyStatistics, Lanes
from costmodel.factors import Floats
from costmodel.in_lanes import InLanes
from costmodel.lockstep import lockstep
from costmodel.nest import Model, Nest
from costmodel.residency import Fetches, fetches, tail_bytes
from costmodel.results import allowed
from costmodel.statistics import Statistics, TensorStatistics, shared_statistics
from costmodel.tiles import TileSizes, tile_sizes, tile_view
from costmodel.uniform import UniformStatistics
from costmodel.widened import MOST_POSITIONS, Widened, drawn, positions
from mapper.machine import Machine
from mapper.mapping import Mapping
from mapper.residency import OVERBOOKED, tiles_ahead
from mapper.schedule import Conversion, Region, schedule
from mapper.storage import Layout
from mapper.windows import boxes
from mapper.workload import Workload

MANY_TILES = 1000
"""Mean tiles that are laid out to count the bursts that they touch."""


@dataclass(frozen=True, slots=True)
class TensorTraffic:
    """Bytes moved for a tensor; ``purpose`` load, store, spill or convert, ``direction`` read or write."""

    tensor: str
    purpose: str
    direction: str
    values_bytes: float
    metadata_bytes: float

    @property
    def bytes(self) -> float:
        """Values and metadata."""
        return self.values_bytes + self.metadata_bytes


@dataclass(frozen=True, slots=True)
class Transfer:
    """Traffic of one statement's port: ``requests`` in all lanes, ``burst_bytes`` moved when whole bursts count.

    ``turns``: how often a lane waits for the memory, requests in flight together counted once; ``kept``: share of
    its visits of tiles that need no request.
    """

    traffic: TensorTraffic
    requests: float
    burst_bytes: float
    turns: Floats
    port: str
    kept: Floats = field(default_factory=lambda: np.zeros(1))


def predict_traffic(
    workload: Workload, mapping: Mapping, machine: Machine, *, level: str = "L2", statistics: Statistics | None = None
) -> tuple[TensorTraffic, ...]:
    """Traffic of a legal mapping, summed per (tensor, purpose, direction); nothing on a machine without DRAM.

    ``level``: L0, L1 or L2. Raises InputError for any other level.
    """
    workload = workload.variant(mapping.variant)
    model = Model(workload, mapping, level, statistics or shared_statistics())
    found: list[TensorTraffic] = []
    for step in schedule(workload.program, mapping).steps:
        found += [t.traffic for t in step_transfers(model, step, machine)]
    return summed(found)


def step_transfers(model: Model, step: Conversion | Region, machine: Machine) -> list[Transfer]:
    """Transfers of one step of a schedule."""
    if machine.dram_channels is None:
        return []
    if isinstance(step, Conversion):
        return _conversion(model, step, machine)
    found = []
    for nest in model.nests(step):
        walk = block_walk(nest, machine)
        own, sums, area = (walk.nest, walk.machine, walk.area) if walk else (nest, machine, 1)
        reduction = reduction_of(own, sums)
        entries = float(nest.target.nnz if nest.partial else made(own, reduction).sum() * area)
        found += region_transfers(nest, step, reduction, entries, machine, walk)
        model.widened |= {own.tensor: own for own in left_to_readers(nest, step, entries, walk)}
    return found


def left_to_readers(nest: Nest, region: Region, entries: float, walk: BlockWalk | None) -> tuple[Widened, ...]:
    """The result of a statement of a region that makes ``entries``, as later regions read it from memory, if these are
    more than the oracle's."""
    model, stats, target = nest.model, nest.target, nest.statement.target
    if own := model.widened.get(target.tensor):
        return (own,)
    read = any(e.tensor == target.tensor and e not in region.fused for e in model.workload.program.edges)
    if not read or model.level != "L2" or not isinstance(stats, TensorStatistics) or entries <= stats.nnz + 0.5:
        return ()
    if blocks := walk.made(stats.shape, entries) if walk else None:
        return (Widened(target.tensor, blocks.key, lambda: blocks.tensor),)
    within = allowed(nest)
    return (drawn(target.tensor, stats, round(entries), within),) if positions(within) <= MOST_POSITIONS else ()


def region_transfers(
    nest: Nest, region: Region, reduction: Reduction | None, entries: float, machine: Machine,
    walk: BlockWalk | None = None,
) -> list[Transfer]:  # fmt: skip
    """Loads, spills and stores of one statement of a region that makes ``entries`` of its result, by ``walk`` if it is
    made by blocks."""
    if machine.dram_channels is None:
        return []
    found = [_load(nest, n, machine) for n, operand in enumerate(nest.operands) if operand.stored]
    if reduction is not None:
        own, sums = (walk.nest, walk.machine) if walk else (nest, machine)
        found += _spills(own, reduction, sums, f"S{nest.number}")
    layout = dict(region.stored).get(nest.statement.target.tensor)
    return [*found, _store(nest, layout, entries, machine, walk)] if layout is not None and entries else found


def summed(parts: Iterable[TensorTraffic]) -> tuple[TensorTraffic, ...]:
    """One record per (tensor, purpose, direction), in order of first appearance; empty ones left out."""
    found: dict[tuple[str, str, str], TensorTraffic] = {}
    for part in parts:
        key = part.tensor, part.purpose, part.direction
        known = found.get(key, TensorTraffic(*key, 0.0, 0.0))
        values, metadata = known.values_bytes + part.values_bytes, known.metadata_bytes + part.metadata_bytes
        found[key] = replace(known, values_bytes=values, metadata_bytes=metadata)
    return tuple(t for t in found.values() if t.bytes)


def operand_sizes(nest: Nest, n: int, machine: Machine) -> TileSizes:
    """Tile sizes of operand ``n``: of windows that are read in place those of their boxes."""
    operand, model = nest.operands[n], nest.model
    view = model.in_place.get(operand.access.tensor)
    if view is None:
        return tile_sizes(model.statistics, operand.stats, operand.layout, machine)
    windows, layout = model.workload.tensor(view.made), operand.layout
    key = f"boxes of {windows.key} {view} {layout.tiles} {layout.tile_modes}"
    made = model.statistics.remember(("boxes", key), lambda: boxes(model.workload, view, windows, layout))
    stats: AnyStatistics = model.statistics.named(key, lambda: made[0])
    if model.level == "L0":
        stats = UniformStatistics(made[0].shape, made[0].nnz)
    return replace(tile_sizes(model.statistics, stats, made[1], machine), view=tile_view(layout))


def _load(nest: Nest, n: int, machine: Machine) -> Transfer:
    operand, sizes = nest.operands[n], operand_sizes(nest, n, machine)
    depth, scale = nest.load_depth(n), sizes.tiles / max(1, sizes.values.size)
    reached = nest.reached(n, depth) if depth else np.ones(nest.lanes)
    once = Fetches(np.full(sizes.values.size, float(nest.lanes)), np.zeros(sizes.values.size))
    found = fetches(nest, n, depth, sizes, machine) if depth else once
    loads, tails, tail = found.loads * scale, found.tails * scale, tail_bytes(sizes, machine)
    tail_values = np.minimum(tail, sizes.values)
    values = float((loads * sizes.values + tails * tail_values).sum())
    metadata = float((loads * sizes.metadata + tails * (tail - tail_values)).sum())
    name = nest.model.workload.program.stored_as(operand.access.tensor)
    traffic = TensorTraffic(name, "load", "read", values, metadata)
    whole, rest = (_in_bursts(b, machine) for b in (sizes.values + sizes.metadata, tail))
    moved, requests = float((loads * whole + tails * rest).sum()), float((loads + tails).sum())
    share = requests / max(1.0, float(reached.sum()))
    fibers = np.minimum(nest.joined(depth - 1), reached) if depth else reached
    ahead, shares = tiles_ahead(machine, nest.model.mapping.residency), np.full(nest.lanes, share)
    if found.missed is not None and requests:
        missed = nest.over_lanes(found.missed, nest.fixed(depth))
        shares = missed * requests / float((missed * reached).sum())
    waited = shares
    if nest.model.mapping.residency == OVERBOOKED:  # walks of a resident tile stand between the requests in flight
        waited = -np.expm1(ahead * np.log1p(-np.minimum(shares, 1 - 1e-15)))
    turns = _load_turns(reached * waited, fibers * np.minimum(1.0, shares), ahead) * lockstep(nest, machine)
    port = f"load {operand.access.tensor} of S{nest.number}"
    return Transfer(traffic, requests, moved, turns, port, np.maximum(0.0, 1.0 - shares))


def _load_turns(requests: Floats, fibers: Floats, ahead: int) -> Floats:
    """Times that a tile load waits: the next ``ahead`` tokens behind a used tile are in flight, but the stop at the
    end of a fiber takes a place too, so each fiber of tiles costs its length over ``ahead``, rounded up."""
    return np.maximum(fibers, (requests + fibers * (ahead - 1) / 2) / ahead)


def _spills(nest: Nest, reduction: Reduction, machine: Machine, label: str) -> list[Transfer]:
    """Full runs written one by one, and what a scope spilled read back at once when it drains."""
    spilled, scopes, tensor = reduction.spilled, reduction.scopes, nest.statement.target.tensor
    if not spilled.any():
        return []
    capacity, keys = reduction.shape.capacity(machine), reduction.shape.keys
    entry = machine.value_bytes + machine.coordinate_bytes * keys

    def per_lane(amount: Floats) -> Floats:
        return scopes.per_lane(amount, nest.lanes)

    runs, drains = per_lane(spilled / capacity), per_lane((spilled > 0).astype(np.float64))
    size, burst = capacity * entry, machine.dram_burst_bytes
    written = runs * (burst + size - math.gcd(size, burst))  # one behind the other, wherever bursts begin
    total, found = float(per_lane(spilled).sum()), []
    values, metadata = total * machine.value_bytes, total * machine.coordinate_bytes * keys
    for way, turns, moved in (
        ("write", runs, written), ("read", drains, per_lane(_in_bursts(spilled * entry, machine)))
    ):  # fmt: skip
        traffic = TensorTraffic(tensor, "spill", way, values, metadata)
        found.append(Transfer(traffic, float(turns.sum()), float(moved.sum()), turns, f"spill {tensor} of {label}"))
    return found


def _in_bursts(size: Floats, machine: Machine) -> Floats:
    """Bytes that requests of so many move."""
    return np.asarray(np.ceil(size / machine.dram_burst_bytes) * machine.dram_burst_bytes)


def _in_a_row(sizes: TileSizes, machine: Machine) -> float:
    """Bytes in all bursts that tiles touch which are written one behind the other."""
    size, burst = sizes.values + sizes.metadata, machine.dram_burst_bytes
    if size.size < sizes.tiles:  # a mean tile that stands for all
        size = np.resize(size, min(int(sizes.tiles), MANY_TILES))
    ends = np.cumsum(size)
    touched = np.where(size > 0, np.floor((ends - 1) / burst) - np.floor((ends - size) / burst) + 1, 0.0)
    return float(touched.sum()) * burst * sizes.tiles / max(1, size.size)


def _store(nest: Nest, layout: Layout, entries: float, machine: Machine, walk: BlockWalk | None) -> Transfer:
    """Every non-empty tile of the result, written once by every lane that holds a part of it. Entries beyond the
    oracle's pattern fill blocks, where it is made of these, or are taken to lie anywhere."""
    target, stats = nest.statement.target, nest.target
    if nest.model.level == "L2" and entries > stats.nnz + 0.5:
        blocks = walk.made(stats.shape, entries) if walk else None
        stats = blocks or UniformStatistics(stats.shape, entries)
    modes = {target.indices.index(s.index): s for s in nest.splits if s.index in target.indices}
    apart = {mode: lanes for mode, lanes in modes.items() if mode not in layout.tile_modes}
    if apart and isinstance(stats, TensorStatistics):
        sizes = _sizes_in_parts(nest.model, stats, apart, layout, machine)
    else:
        sizes = tile_sizes(nest.model.statistics, stats, layout, machine)
    traffic = TensorTraffic(target.tensor, "store", "write", sizes.total_values, sizes.total_metadata)
    bursts = _in_a_row(sizes, machine)
    turns = np.full(nest.lanes, sizes.tiles / nest.lanes)
    return Transfer(traffic, sizes.tiles, bursts, turns, f"store {target.tensor} of S{nest.number}")


def _sizes_in_parts(
    model: Model, stats: TensorStatistics, lanes: dict[int, Lanes], layout: Layout, machine: Machine
) -> TileSizes:
    """Tile sizes of a tensor of which every lane writes its part: the lane is one more, outermost tile mode. ``lanes``
    of modes that are not tiled."""
    widths = machine.value_bytes, machine.coordinate_bytes, machine.pointer_bytes
    modes, name = len(stats.shape), f"{stats.key} in {sorted(lanes.items())}"

    def sizes() -> TileSizes:
        tiles = (*(layout.tiles or (0,) * modes), 1)
        whole = replace(layout, tile_modes=(*layout.tile_modes, modes), tiles=tiles)
        own = InLanes(stats, lanes, name, model.statistics)
        return tile_sizes(model.statistics, own, whole, machine)

    key = "parts", stats.key, tuple(sorted(lanes.items())), layout, widths, machine.descriptor_bytes
    return model.statistics.remember(key, sizes)


def _conversion(model: Model, step: Conversion, machine: Machine) -> list[Transfer]:
    found: list[Transfer] = []
    if step.in_place:
        return found
    for way, tensor, layout in (("read", step.tensor, step.source), ("write", step.made, step.result)):
        stats = model.stats(tensor, model.workload.tensor(tensor).shape)
        sizes = tile_sizes(model.statistics, stats, layout, machine)
        traffic = TensorTraffic(tensor, "convert", way, sizes.total_values, sizes.total_metadata)
        moved = float(_in_bursts(np.array(traffic.bytes), machine))
        found.append(Transfer(traffic, 1.0, moved, np.ones(1), step.name))
    return found
