"""Neighbours of the loops of one region: one knob of it changed (``neighbours`` says what a knob is)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from mapper.fused_region import FusedRegion, Orders
from mapper.loop_choices import RegionChoice
from mapper.region_space import RegionSpace
from mapper.regions import LogicalIndex

MOST_PINNED = 24
"""Orders that are offered of those pinned ones that no swap of neighbours leads to."""

Tiles = tuple[tuple[LogicalIndex, int], ...]


def region_neighbours(space: RegionSpace, choice: RegionChoice) -> Iterator[RegionChoice]:
    """Choices of ``space`` next to ``choice``, in a fixed order; machine and formats may forbid some."""
    yield from (choice._replace(orders=orders) for orders in _orders(space.region, choice.orders))
    yield from (choice._replace(tiles=tiles) for tiles in _extents(space, choice))
    yield from (choice._replace(tiles=tiles) for tiles in _tile_orders(space.region, choice.tiles))
    yield from _lanes(space, choice)


def _orders(region: FusedRegion, orders: Orders) -> Iterator[Orders]:
    for alternative in region.orders:
        whole = region.merged(alternative, orders)
        others = range(min(alternative.count(), MOST_PINNED))
        words = map(alternative.unrank, others) if whole is None else alternative.neighbours(whole)
        yield from map(region.orders_of, words)


def _extents(space: RegionSpace, choice: RegionChoice) -> Iterator[Tiles]:
    now = dict(choice.tiles)
    for leader, choices in space.tiles.items():
        offered, tile = sorted(t for t in choices if t), now.get(leader, 0)
        if not tile:
            yield from (_inserted(space.region, choice, leader, extent) for extent in offered)
            continue
        near = [*[t for t in offered if t < tile][-1:], *[t for t in offered if t > tile][:1]]
        yield from (tuple((x, extent if x == leader else t) for x, t in choice.tiles) for extent in near)
        if 0 in choices:
            yield tuple((x, t) for x, t in choice.tiles if x != leader)


def _inserted(region: FusedRegion, choice: RegionChoice, leader: LogicalIndex, extent: int) -> Tiles:
    """A tile loop more, standing among the tile loops as near as allowed to where its inner loop stands."""
    order = next(o for n, o in zip(region.statements, choice.orders, strict=True) if n == leader[0])
    inner = [region.leaders[leader[0], i] for i in order]
    above = sum(x in inner[: inner.index(leader)] for x, _ in choice.tiles)
    for place in sorted(range(len(choice.tiles) + 1), key=lambda n: abs(n - above)):
        tiles = (*choice.tiles[:place], (leader, extent), *choice.tiles[place:])
        names = tuple(f"S{n}.{i}" for (n, i), _ in tiles)
        if any(o.contains(names) for o in region.tile_orders(frozenset(x for x, _ in tiles))):
            return tiles
    return choice.tiles


def _tile_orders(region: FusedRegion, tiles: Tiles) -> Iterator[Tiles]:
    by_name = {f"S{n}.{i}": ((n, i), extent) for (n, i), extent in tiles}
    for order in region.tile_orders(frozenset(x for x, _ in tiles)):
        known, others = order.contains(tuple(by_name)), range(min(order.count(), MOST_PINNED))
        words = order.neighbours(tuple(by_name)) if known else map(order.unrank, others)
        yield from (tuple(by_name[name] for name in word) for word in words)


def _lanes(space: RegionSpace, choice: RegionChoice) -> Iterator[RegionChoice]:
    now, partitions = dict(choice.lanes), space.limits.partitions
    for lanes in space.lanes:
        if _adjacent(now, dict(lanes)):
            shares = (choice.partition,) if now else partitions
            yield from (choice._replace(lanes=lanes, partition=partition) for partition in shares)
    yield from (choice._replace(partition=partition) for partition in partitions if now)


def _adjacent(now: dict[LogicalIndex, int], then: dict[LogicalIndex, int]) -> bool:
    """One index has twice or half the lanes, or its lanes are those of another."""
    steps = sum(abs(math.log2(now.get(x, 1)) - math.log2(then.get(x, 1))) for x in {*now, *then})
    left, came = ({x: n for x, n in a.items() if b.get(x) != n} for a, b in itertools.permutations((now, then)))
    moved = len(left) == len(came) == 1 and [*left.values()] == [*came.values()]
    return moved or 0 < steps <= 1
