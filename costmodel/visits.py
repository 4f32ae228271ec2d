"""Replay of the visits of an operand's tiles, for policies under which it counts which tile came first.

Visits are listed in loop order from the joined prefixes, lane by lane, and run through a buffer. Up to
``REPLAYED_VISITS`` of them, of ``keep`` some times as many, the replay is exact. Beyond, ``keep`` follows only some
tiles of the operand, taken by a hash of their number, in a buffer that is smaller by their share of all bytes
(spatially hashed sampling as in SHARDS, USENIX FAST 2015); the others are fetched at the rate of these. Where recent
tiles stay, it is stretches of the walk that are replayed instead (``costmodel.stretches``), each in one lane: tiles
come in cycles, and whether a cycle fits the buffer no sample of tiles tells.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, replace

import numpy as np

from costmodel.counting import LANE, Leaf
from costmodel.factors import Factor, Floats, Ints, bin_sum, in_order, pack, radices
from costmodel.nest import Nest
from costmodel.statistics import TensorStatistics
from costmodel.stretches import stretches
from costmodel.tiles import TileSizes
from mapper.residency import KEEP, OVERBOOKED
from mapper.tensor import SparseTensor

REPLAYED_VISITS = 60_000
"""Visits that are listed at most, about."""

KEEP_TIMES = 3
"""How many times as many for ``keep``, where only first visits go through the buffer one by one."""

FOLLOWED_TILES = 64
"""Tiles that are followed at least."""

STRETCHES = 4, 2
"""Stretches of a walk that are replayed, and how many longer ones where short ones would not see tiles return."""

CYCLES = 3
"""Cycles of tiles that a stretch should have."""


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """``loads`` and ``visits`` of every tile that was ``followed``, summed over lanes; 0 for the others. ``returns``:
    share of the bytes of returning visits that are loaded, where stretches of the walk stand for all of it."""

    loads: Floats
    visits: Floats
    followed: Ints
    returns: float | None = None


def replay(nest: Nest, n: int, depth: int, tile_depth: int, sizes: TileSizes, visits: float, room: int) -> Replay:
    """Replays operand ``n``, whose tile load is below the first ``depth`` loops and last tile loop at ``tile_depth``,
    in a buffer of ``room`` bytes; there are about ``visits``. Level L2 only."""
    bytes_of = sizes.descriptor, sizes.total_values, sizes.total_metadata
    key = ("visits", nest.key, n, nest.model.mapping.residency, bytes_of, room)
    return nest.model.statistics.remember(key, lambda: _replay(nest, n, depth, tile_depth, sizes, visits, room))


def _replay(nest: Nest, n: int, depth: int, tile_depth: int, sizes: TileSizes, visits: float, room: int) -> Replay:
    size, tiles, policy = sizes.values + sizes.metadata, sizes.values.size, nest.model.mapping.residency
    taken = np.minimum(size, room) if policy == OVERBOOKED else size
    if policy != KEEP and visits > REPLAYED_VISITS:
        return _returns(nest, n, tile_depth, sizes, taken, visits, room)
    followed, most = np.arange(tiles), KEEP_TIMES * REPLAYED_VISITS
    if policy == KEEP and visits > most:
        count = max(FOLLOWED_TILES, int(tiles * most / visits))
        followed = np.sort(np.argsort(_hashed(followed), kind="stable")[:count])
    share = float(size[followed].sum() / size.sum())
    leaves = nest.visiting(n, depth)
    if followed.size < tiles:
        own = n if len(leaves) > 1 else 0
        leaves[own] = replace(leaves[own], stats=_part(nest, n, sizes, followed))
    lane, tile = _sequence(nest, n, depth, tile_depth, sizes, leaves)
    loads = _first(lane, tile, size, float(room), share) if policy == KEEP else _recent(lane, tile, taken, room)[0]
    copies = nest.lanes / math.prod(own.count for own in nest.fixed(depth))
    return Replay(bin_sum(tile, loads, tiles) * copies, bin_sum(tile, np.ones(tile.size), tiles) * copies, followed)


def _returns(nest: Nest, n: int, tile_depth: int, sizes: TileSizes, taken: Floats, visits: float, room: int) -> Replay:
    """Replays stretches. A stretch begins with an empty buffer: what is missed before the first removal is unknown,
    and of what is missed for the first time afterwards, the share of first visits in the walk are none that return."""
    leaves, size = nest.visiting(n, tile_depth), sizes.values + sizes.metadata
    first_visits = size.size / visits
    loaded = returned = 0.0
    lanes = math.prod(own.count for own in nest.fixed(tile_depth))
    alone = min(lanes, KEEP_TIMES) / KEEP_TIMES  # a lane of several is replayed faster than it is listed
    count, most = STRETCHES[0], int(REPLAYED_VISITS * alone / 2)
    if CYCLES * min(size.size, lanes * room / max(1.0, float(taken.mean()))) > most / count:
        count, most = STRETCHES[1], 2 * most
    for number, part in enumerate(stretches(nest, leaves, tile_depth, count, most // count)):
        lane, tile = _sequence(nest, n, tile_depth, tile_depth, sizes, part)
        own = np.unique(lane)
        if own.size > 1:
            here = lane == own[number * own.size // count]
            lane, tile = lane[here], tile[here]
        loads, known = _recent(lane, tile, taken, room)
        weight = size[tile] * known
        missed, all_known = float((weight * loads).sum()), float(weight.sum())
        fresh = min(missed, first_visits * all_known)
        loaded, returned = loaded + missed - fresh, returned + all_known - fresh
    none = np.zeros(size.size)
    return Replay(none, none, np.zeros(0, np.int64), loaded / returned if returned else 0.0)


def _hashed(numbers: Ints) -> Ints:
    return (numbers * 2654435761) % 2**32  # Knuth's multiplicative hash


def _sequence(
    nest: Nest, n: int, depth: int, tile_depth: int, sizes: TileSizes, leaves: list[Leaf]
) -> tuple[Ints, Ints]:
    """(lane, tile) of every visit in order; only such prefixes of the tile loops below which a walk begins."""
    split, indices = nest.fixed(depth), nest.operands[n].access.indices
    if not sizes.view:
        points = nest.counter.by(leaves, nest.variables(depth), (), split)
        lanes = np.sort(points.column(*LANE)) if split else np.zeros(int(points.total > 0), np.int64)
        return lanes, np.zeros(lanes.size, np.int64)
    loops = tuple(nest.variables(tile_depth).items())
    points = nest.counter.by(leaves, nest.variables(depth), loops, split)
    along = (LANE, *loops) if split else loops
    order = in_order(pack([points.column(*c) for c in along], radices(along, nest.counter.extents)))[1]
    own_columns = [(indices[m], g) for m, g in sizes.view]
    tiles = Factor(tuple(own_columns), sizes.coords, np.arange(sizes.values.size, dtype=np.float64))
    tile = tiles.at([points.column(*c) for c in own_columns], radices(own_columns, nest.extents)).astype(np.int64)
    lane = points.column(*LANE) if split else np.zeros(tile.size, np.int64)
    return lane[order], tile[order]


def _part(nest: Nest, n: int, sizes: TileSizes, followed: Ints) -> TensorStatistics:
    """Statistics of the followed tiles alone."""
    stats = nest.operands[n].stats
    assert isinstance(stats, TensorStatistics)
    tensor = stats.tensor

    def part() -> SparseTensor:
        cells = [-(-tensor.shape[m] // g) for m, g in sizes.view]
        tile = pack([tensor.coords[m] // g for m, g in sizes.view], cells)
        stay = np.isin(tile, pack([c[followed] for c in sizes.coords], cells))
        return SparseTensor(tensor.shape, tensor.coords[:, stay], tensor.values[stay])

    return nest.model.statistics.named(f"{stats.key} {followed.size} tiles of {sizes.view}", part)


def _first(lane: Ints, tile: Ints, size: Floats, room: float, share: float) -> Floats:
    """Loads at each visit where the first tiles that fit stay for good."""
    loads = np.ones(tile.size)
    known, order = in_order(lane * size.size + tile)
    new = np.concatenate([[True], known[1:] != known[:-1]]) if known.size else np.zeros(0, bool)
    first, number = order[new], np.zeros(known.size, np.int64)
    number[order] = np.cumsum(new) - 1
    kept, held, current = np.zeros(first.size, bool), 0.0, -1
    for at in np.sort(first).tolist():
        if lane[at] != current:
            held, current = 0.0, int(lane[at])
        if held / share + size[tile[at]] <= room:
            kept[number[at]] = True
            held += float(size[tile[at]])
    loads[kept[number]] = 0.0
    loads[first] = 1.0
    return loads


def _recent(lane: Ints, tile: Ints, taken: Floats, room: int) -> tuple[Floats, Floats]:
    """Loads at each visit where the least recently used goes, and whether that is known: hits, and what is missed once
    something has been removed, whatever was there before."""
    loads, known, size = np.zeros(tile.size), np.ones(tile.size), taken.tolist()
    fresh = np.ones(tile.size, bool)
    fresh[1:] = (tile[1:] != tile[:-1]) | (lane[1:] != lane[:-1]) | (taken[tile[1:]] > room)
    held: OrderedDict[int, None] = OrderedDict()
    total, current, full, begin = 0.0, -1, False, 0
    misses: list[int] = []
    at = np.flatnonzero(fresh)
    for place, lane_now, now in zip(at.tolist(), lane[at].tolist(), tile[at].tolist(), strict=True):
        if lane_now != current:
            known[misses[begin:]] = 0.0
            begin = len(misses)
            held, total, current, full = OrderedDict(), 0.0, lane_now, False
        if now in held:
            held.move_to_end(now)
            continue
        misses.append(place)
        held[now] = None
        total += size[now]
        while total > room:
            total -= size[held.popitem(last=False)[0]]
            if not full:
                known[misses[begin:-1]] = 0.0
                begin, full = len(misses) - 1, True
        if full:
            begin = len(misses)
    known[misses[begin:]] = 0.0
    loads[misses] = 1.0
    return loads, known
