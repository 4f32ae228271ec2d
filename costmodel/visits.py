"""Replay of the visits of an operand's tiles, for policies under which it counts which tile came first.

Visits are listed in loop order from the joined prefixes, lane by lane, and run through a buffer. Up to
``REPLAYED_VISITS`` of them the replay is exact. Beyond, ``keep`` follows only some tiles of the operand, taken by a
hash of their number, in a buffer that is smaller by their share of all bytes (spatially hashed sampling as in SHARDS,
USENIX FAST 2015); the others are fetched at the rate of these. Where recent tiles stay, it is stretches of the walk
that are replayed instead (``costmodel.stretches``): tiles come in cycles, and whether a cycle fits the buffer no sample
of tiles tells. Cycles differ along a walk, so that many short stretches tell more than few long ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from costmodel.counting import LANE, Leaf
from costmodel.factors import Factor, Floats, Ints, bin_sum, in_order, pack, radices
from costmodel.nest import Nest
from costmodel.parts import Below
from costmodel.replacement import first_loads, recent_loads
from costmodel.stretches import stretches
from costmodel.tiles import TileSizes
from mapper.residency import KEEP, OVERBOOKED

REPLAYED_VISITS = 150_000
"""Visits that are listed at most, about."""

FOLLOWED_TILES = 64
"""Tiles that are followed at least."""

STRETCHES = 2, 16
"""The fewest and the most stretches of a walk that are replayed."""

CYCLES = 3
"""Cycles of tiles that a stretch should have: the first fills the buffer."""


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """``loads`` and ``visits`` of every tile that was ``followed``, summed over lanes; 0 for the others. None is where
    stretches stand for the whole walk: ``loads`` are first visits then, and ``returns`` is the share of the bytes of
    all others that are loaded. ``missed``: share of the visits that load, for each of the lanes that they differ in."""

    loads: Floats
    visits: Floats
    followed: Ints
    missed: Floats
    returns: float | None = None


def replay(nest: Nest, n: int, depth: int, tile_depth: int, sizes: TileSizes, visits: Floats, room: int) -> Replay:
    """Replays operand ``n``, whose tile load is below the first ``depth`` loops and last tile loop at ``tile_depth``,
    in a buffer of ``room`` bytes; ``visits`` of every tile, by all lanes, are known. Level L2 only."""
    bytes_of = sizes.descriptor, sizes.total_values, sizes.total_metadata
    key = ("visits", nest.key, n, nest.model.mapping.residency, bytes_of, room)
    return nest.model.statistics.remember(key, lambda: _replay(nest, n, depth, tile_depth, sizes, visits, room))


def _replay(nest: Nest, n: int, depth: int, tile_depth: int, sizes: TileSizes, visits: Floats, room: int) -> Replay:
    size, tiles, policy = sizes.values + sizes.metadata, sizes.values.size, nest.model.mapping.residency
    listed = float(visits.sum())
    taken = np.minimum(size, room) if policy == OVERBOOKED else size
    if policy != KEEP and listed > REPLAYED_VISITS:
        return _returns(nest, n, tile_depth, sizes, taken, visits, room)
    followed = np.arange(tiles)
    if policy == KEEP and listed > REPLAYED_VISITS:
        count = max(FOLLOWED_TILES, int(tiles * REPLAYED_VISITS / listed))
        followed = np.sort(np.argsort(_hashed(followed), kind="stable")[:count])
    share = float(size[followed].sum() / size.sum())
    leaves, place = nest.visiting(n, depth), _places(nest, n, sizes)
    if followed.size < tiles:
        own, name = n if len(leaves) > 1 else 0, (followed.size, place.columns)
        some = Factor(place.columns, tuple(c[followed] for c in place.coords), np.ones(followed.size))
        leaves[own] = Below(leaves[own].stats, leaves[own].indices, leaves[own].view, some, name)
    lane, tile, time, _ = _timed(nest, depth, tile_depth, place, leaves)
    lanes = math.prod(own.count for own in nest.fixed(depth))
    if policy == KEEP:
        found = first_loads(lane, tile, time, size, float(room), share)
        loads, per_lane = found.sum(axis=0), np.append(found.sum(axis=1), np.zeros(lanes - len(found)))
    else:
        order = in_order(time)[1]
        lane, tile = lane[order], tile[order]
        each = recent_loads(lane, tile, taken, room)[0]
        loads, per_lane = bin_sum(tile, each, tiles), bin_sum(lane, each, lanes)
    came, copies = np.bincount(tile, minlength=tiles).astype(np.float64), nest.lanes / lanes
    missed = _shares(per_lane, np.bincount(lane, minlength=lanes).astype(np.float64))
    return Replay(loads * copies, came * copies, followed, missed)


def _returns(nest: Nest, n: int, tile_depth: int, sizes: TileSizes, taken: Floats, visits: Floats, room: int) -> Replay:
    """Replays stretches. A stretch begins with empty buffers: what comes before the first removal is not known, and
    of what is missed for the first time afterwards, the share of first visits in the walk are none that return."""
    leaves, size, place = nest.visiting(n, tile_depth), sizes.values + sizes.metadata, _places(nest, n, sizes)
    fixed = math.prod(own.count for own in nest.fixed(tile_depth))
    once = np.minimum(visits, _reaching(nest, tile_depth, place, leaves) * (nest.lanes / fixed))
    cycle = min(size.size, fixed * room / max(1.0, float(taken.mean())))
    fewest, most = STRETCHES
    count = max(fewest, min(most, int(REPLAYED_VISITS / 2 / (CYCLES * cycle))))
    first_visits, loaded, returned = float(once.sum() / visits.sum()), 0.0, 0.0
    per_lane = np.zeros((2, fixed))
    for part in stretches(nest, leaves, tile_depth, count, REPLAYED_VISITS // (2 * count)):
        lane, tile, time, points = _timed(nest, tile_depth, tile_depth, place, part.leaves)
        order = in_order(time)[1]
        lane, tile, stretch = lane[order], tile[order], part.of(points)[order]
        loads, known = recent_loads(lane * part.count + stretch, tile, taken, room)
        per_lane += bin_sum(lane, loads * known, fixed), bin_sum(lane, known, fixed)
        weight = size[tile] * known
        brought, all_known = (bin_sum(stretch, amount, part.count) for amount in (weight * loads, weight))
        fresh = np.minimum(brought, first_visits * all_known)
        loaded, returned = loaded + float((brought - fresh).sum()), returned + float((all_known - fresh).sum())
    missed = np.maximum(first_visits, _shares(*per_lane))
    return Replay(once, once, np.zeros(0, np.int64), missed, loaded / returned if returned else 0.0)


def _shares(parts: Floats, wholes: Floats) -> Floats:
    """Parts of the wholes; where there is nothing, as in the mean, and all alike if there are no parts at all."""
    if not parts.any():
        return np.ones(parts.size)
    mean = float(parts.sum() / wholes.sum())
    return np.asarray(np.divide(parts, wholes, out=np.full(parts.size, mean), where=wholes > 0))


def _reaching(nest: Nest, depth: int, place: Factor, leaves: list[Leaf]) -> Floats:
    """How many lanes reach every tile, of those that the loops down to ``depth`` tell apart."""
    split = nest.fixed(depth)
    if {own.column for own in split} <= set(place.columns):
        return np.ones(place.weights.size)
    points = nest.counter.by(leaves, nest.variables(depth), place.columns, split, ordered=False)
    return np.bincount(_tiles_at(nest, place, points), minlength=place.weights.size).astype(np.float64)


def _hashed(numbers: Ints) -> Ints:
    return (numbers * 2654435761) % 2**32  # Knuth's multiplicative hash


def _places(nest: Nest, n: int, sizes: TileSizes) -> Factor:
    """The number of every tile of operand ``n`` at its coordinates."""
    columns = tuple((nest.operands[n].access.indices[m], g) for m, g in sizes.view)
    return Factor(columns, sizes.coords, np.arange(sizes.values.size, dtype=np.float64))


def _timed(
    nest: Nest, depth: int, tile_depth: int, place: Factor, leaves: list[Leaf]
) -> tuple[Ints, Ints, Ints, Factor]:
    """(lane, tile, time, point) of every visit, in any order; times grow from visit to visit, lane by lane. Only such
    prefixes of the tile loops below which a walk begins."""
    split = nest.fixed(depth)
    if not place.columns:
        points = nest.counter.by(leaves, nest.variables(depth), (), split)
        lane = points.column(*LANE) if split else np.zeros(int(points.total > 0), np.int64)
        return lane, np.zeros(lane.size, np.int64), lane, points
    loops = tuple(nest.variables(tile_depth).items())
    points = nest.counter.by(leaves, nest.variables(depth), loops, split, ordered=False)
    along = (LANE, *loops) if split else loops
    time = pack([points.column(*c) for c in along], radices(along, nest.counter.extents))
    tile = _tiles_at(nest, place, points)
    return points.column(*LANE) if split else np.zeros(tile.size, np.int64), tile, time, points


def _tiles_at(nest: Nest, place: Factor, points: Factor) -> Ints:
    """The number of the tile at every point."""
    return place.at([points.column(*c) for c in place.columns], radices(place.columns, nest.extents)).astype(np.int64)
