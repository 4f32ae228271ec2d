"""RegionSpace: the knobs of one fused region - loop order, tiles and their order, lanes - counted and drawn exactly."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

from mapper.errors import IllegalMapping
from mapper.fused_region import FusedRegion, Orders, order_text
from mapper.linear_orders import PartialOrder
from mapper.mapping import Lane, Loops
from mapper.regions import LogicalIndex
from mapper.space_limits import SpaceLimits
from mapper.violation import Violation
from mapper.workload import Workload

MOST_TILES = 1024
"""Tile extents that split an index into more tiles than this are not offered."""

MOST_TEXTS = 120
"""Choices that are offered by name; more become a number."""

Choice = TypeVar("Choice", bound=str | int | float | None)
Lanes = tuple[tuple[LogicalIndex, int], ...]
"""Lanes of each parallel logical index."""


@dataclass(frozen=True, slots=True)
class RegionChoice:
    """Loops of a region by logical index: a loop order per statement, (index, extent) of the tile loops outer to inner,
    lanes, and how they share coordinates (of no meaning without lanes)."""

    orders: Orders
    tiles: tuple[tuple[LogicalIndex, int], ...]
    lanes: Lanes
    partition: str


@dataclass(frozen=True, slots=True)
class _Plan:
    """Lanes and tiled indices with the extents that each may have, and the number of orders of their tile loops."""

    lanes: Lanes
    tiled: frozenset[LogicalIndex]
    extents: tuple[tuple[LogicalIndex, tuple[int, ...]], ...]
    orders: int

    @property
    def count(self) -> int:
        """Choices of extents and orders."""
        return self.orders * math.prod(len(choices) for _, choices in self.extents)


class Chooser(Protocol):
    """Whoever decides: an Optuna trial, a random generator, a fixed assignment."""

    def categorical(self, name: str, choices: Sequence[Choice]) -> Choice:
        """One of ``choices``."""

    def integer(self, name: str, low: int, high: int) -> int:
        """An integer in [low, high]."""


def pick(chooser: Chooser, name: str, choices: Sequence[Choice]) -> Choice:
    """The chooser's choice; a knob without a choice is not asked."""
    return choices[0] if len(choices) == 1 else chooser.categorical(name, choices)


class RegionSpace:
    """All loops of the statements of ``region``; ``prefix`` stands before the names of its knobs."""

    def __init__(self, workload: Workload, region: FusedRegion, limits: SpaceLimits, prefix: str = "") -> None:
        self.workload, self.region, self.limits, self.prefix = workload, region, limits, prefix
        tileable = {leader: self._tile_choices(leader) for leader in region.tileable}
        self.tiles = {leader: choices for leader, choices in tileable.items() if choices != (0,)}
        self._enough: dict[tuple[LogicalIndex, int], tuple[int, ...]] = {}

    @cached_property
    def count(self) -> int:
        """Number of choices."""
        return self.region.order_count * self._running[-1]

    def unrank(self, number: int) -> RegionChoice:
        """Choice ``number`` of ``count``."""
        rank, number = divmod(number, self._running[-1])
        at = bisect.bisect_right(self._running, number)
        plan = self._plans[at]
        number -= self._running[at - 1] if at else 0
        partition = 0
        if plan.lanes:
            number, partition = divmod(number, len(self.limits.partitions))
        number, place = divmod(number, plan.orders)
        chosen = {}
        for leader, extents in plan.extents:
            number, n = divmod(number, len(extents))
            chosen[leader] = extents[n]
        tiles = tuple([(leader, chosen[leader]) for leader in self.region.tile_order(plan.tiled, place)])
        return RegionChoice(self.region.order(rank), tiles, plan.lanes, self.limits.partitions[partition])

    def choose(self, chooser: Chooser) -> dict[int, Loops]:
        """Loops that ``chooser`` makes, one named knob at a time."""
        region = self.region
        orders = region.order(self._numbered(chooser, "order", region.order_count, self._order_texts))
        extents = {leader: self._choose_tile(chooser, leader, choices) for leader, choices in self.tiles.items()}
        tiled = frozenset(leader for leader, tile in extents.items() if tile)
        every = frozenset(self.tiles)
        order: tuple[LogicalIndex, ...] = tuple(tiled)
        if len(tiled) > 1:
            rank = self._numbered(chooser, "tileorder", region.tile_order_count(every), self._tile_texts)
            order = tuple(leader for leader in region.tile_order(every, rank) if leader in tiled)
        labels = [self._lanes_text(lanes) for lanes in self.lanes]
        lanes = self.lanes[labels.index(pick(chooser, f"{self.prefix}lanes.{region.label}", labels))]
        partition = self.limits.partitions[0]
        if lanes:
            partition = pick(chooser, f"{self.prefix}partition.{region.label}", self.limits.partitions)
        return self.loops(RegionChoice(orders, tuple((leader, extents[leader]) for leader in order), lanes, partition))

    def loops(self, choice: RegionChoice) -> dict[int, Loops]:
        """The loops of every statement."""
        return {number: self.loops_of(choice, number) for number in self.region.statements}

    def loops_of(self, choice: RegionChoice, number: int) -> Loops:
        """The loops of one statement."""
        place, own = self._own[number]
        parallel: tuple[Lane, ...] = tuple([(own[x], n, choice.partition) for x, n in choice.lanes if x in own])
        return Loops(choice.orders[place], tuple([(own[x], tile) for x, tile in choice.tiles if x in own]), parallel)

    @cached_property
    def _own(self) -> dict[int, tuple[int, dict[LogicalIndex, str]]]:
        """Of every statement its place in the region and the name of every logical index that it has."""
        leaders, statements = self.region.leaders, self.region.program.statements
        return {
            number: (place, {leaders[number, i]: i for i in statements[number].indices})
            for place, number in enumerate(self.region.statements)
        }

    def choice(self, loops: Mapping[int, Loops]) -> RegionChoice:
        """Inverse of ``loops``. Raises IllegalMapping for statements that order their tile loops differently."""
        leaders = self.region.leaders
        own = [(n, loops[n]) for n in self.region.statements]
        tiles = {leaders[n, i]: tile for n, known in own for i, tile in known.tiles}
        names = {_index_name(leader): leader for leader in self.region.indices if leader in tiles}
        pairs = {(_index_name(a), _index_name(b)) for a, b in self._tile_pairs(loops)}
        order = PartialOrder(tuple(names), frozenset(pairs))
        if cycle := order.cycle():
            text = f"tile loops {' above '.join((*cycle, cycle[0]))}"
            raise IllegalMapping([Violation("tile-order", text, "one order for all statements", self.region.label)])
        count = {leaders[n, i]: lanes for n, known in own for i, lanes, _ in known.parallel}
        lanes = next((known for known in self.lanes if dict(known) == count), tuple(count.items()))
        partitions = [partition for _, known in own for *_, partition in known.parallel]
        partition = next(iter(partitions), self.limits.partitions[0])
        return RegionChoice(
            tuple(o.order for _, o in own),
            tuple((names[x], tiles[names[x]]) for x in order.unrank(0)),
            lanes,
            partition,
        )

    def answers(self, loops: Mapping[int, Loops]) -> dict[str, str | int]:
        """What a chooser must answer to get ``loops``, knobs that it will not be asked included. Raises IllegalMapping
        for orders that do not serve the region."""
        region, prefix, choice = self.region, self.prefix, self.choice(loops)
        tiles, every = dict(choice.tiles), frozenset(self.tiles)
        found: dict[str, str | int] = {
            f"{prefix}lanes.{region.label}": self._lanes_text(choice.lanes),
            f"{prefix}partition.{region.label}": choice.partition,
        }
        ranks = {"order": (region.rank(choice.orders), self._order_texts)}
        if frozenset(tiles) <= every:
            ranks["tileorder"] = region.tile_rank(every, self._tile_pairs(loops)), self._tile_texts
        for knob, (rank, texts) in ranks.items():
            found[f"{prefix}{knob}.{region.label}"] = texts[rank] if texts else rank
        for leader in self.tiles:
            name, tile, extents = _index_name(leader), tiles.get(leader, 0), self._extents(leader)
            found[f"{prefix}tiled.{name}"] = "yes" if tile else "no"
            found[f"{prefix}tile.{name}"] = extents.index(tile) if tile in extents else -1
        return found

    def _tile_pairs(self, loops: Mapping[int, Loops]) -> frozenset[tuple[LogicalIndex, LogicalIndex]]:
        """Pairs of tile loops of which the first stands above the second in some statement."""
        nests = ([self.region.leaders[n, i] for i, _ in loops[n].tiles] for n in self.region.statements)
        return frozenset(pair for nest in nests for pair in itertools.pairwise(nest))

    @cached_property
    def lanes(self) -> tuple[Lanes, ...]:
        """One lane, then powers of two over each index that may be parallel, then over pairs of them."""
        allowed = self.limits.parallel_indices
        single: list[Lanes] = []
        for leader, limit in self.region.parallel_indices:
            most = min(self.limits.max_lanes, self._extent(leader), limit or self.limits.max_lanes)
            if allowed is None or self._names(leader) & set(allowed):
                single += [((leader, 2**n),) for n in range(1, most.bit_length())]
        pairs = [
            (*a, *b)
            for a, b in itertools.combinations(single, 2)
            if a[0][0] != b[0][0] and a[0][1] * b[0][1] <= self.limits.max_lanes
        ]
        return ((), *single, *pairs)

    @cached_property
    def _plans(self) -> list[_Plan]:
        """All lanes with all sets of tiled indices; lanes never outnumber the steps of their loop."""
        found = []
        for tiled in self._subsets():
            for lanes in self.lanes:
                extents = tuple((leader, self._extents(leader, lanes)) for leader in self.tiles if leader in tiled)
                if all(choices for _, choices in extents):
                    found.append(_Plan(lanes, tiled, extents, self.region.tile_order_count(tiled)))
        return found

    @cached_property
    def _running(self) -> list[int]:
        partitions = len(self.limits.partitions)
        return list(itertools.accumulate(plan.count * (partitions if plan.lanes else 1) for plan in self._plans))

    def _subsets(self) -> Iterator[frozenset[LogicalIndex]]:
        always = [leader for leader, choices in self.tiles.items() if 0 not in choices]
        maybe = [leader for leader, choices in self.tiles.items() if 0 in choices]
        for size in range(len(maybe) + 1):
            for chosen in itertools.combinations(maybe, size):
                yield frozenset((*always, *chosen))

    def _extents(self, leader: LogicalIndex, lanes: Lanes = ()) -> tuple[int, ...]:
        """Tile extents that leave as many steps as there are lanes."""
        key = leader, dict(lanes).get(leader, 1)
        if key not in self._enough:
            extent, least = self._extent(leader), key[1]
            self._enough[key] = tuple(tile for tile in self.tiles[leader] if tile and -(-extent // tile) >= least)
        return self._enough[key]

    def _extent(self, leader: LogicalIndex) -> int:
        number, index = leader
        return self.workload.extents[number][index]

    def _names(self, leader: LogicalIndex) -> set[str]:
        return {index for (_, index), own in self.region.leaders.items() if own == leader}

    def _tile_choices(self, leader: LogicalIndex) -> tuple[int, ...]:
        """Tile extents, smallest first, 0 (not tiled) last."""
        extent = self._extent(leader)
        if said := next((index for index in sorted(self._names(leader)) if index in self.limits.tiles), None):
            return tuple(dict.fromkeys(t if t < extent else 0 for t in self.limits.tiles[said])) or (0,)
        smallest = max(4, 2 ** math.ceil(math.log2(max(extent, 1) / MOST_TILES)) if extent else 4)
        powers = []
        while smallest < extent:
            powers.append(smallest)
            smallest *= 2
        return (*powers, 0)

    def _choose_tile(self, chooser: Chooser, leader: LogicalIndex, choices: tuple[int, ...]) -> int:
        """Whether to tile is one knob, the extent another: not to tile drops a loop, it is no mere large extent."""
        name, extents = _index_name(leader), self._extents(leader)
        if len(extents) < len(choices) and chooser.categorical(f"{self.prefix}tiled.{name}", ["yes", "no"]) == "no":
            return 0
        if len(extents) == 1:
            return extents[0]
        return extents[chooser.integer(f"{self.prefix}tile.{name}", 0, len(extents) - 1)]

    def _numbered(self, chooser: Chooser, knob: str, count: int, texts: Sequence[str]) -> int:
        name = f"{self.prefix}{knob}.{self.region.label}"
        if count > MOST_TEXTS:
            return chooser.integer(name, 0, count - 1)
        return texts.index(pick(chooser, name, texts))

    @cached_property
    def _order_texts(self) -> list[str]:
        count = self.region.order_count
        return [order_text(self.region.order(n)) for n in range(count)] if count <= MOST_TEXTS else []

    @cached_property
    def _tile_texts(self) -> list[str]:
        every = frozenset(self.tiles)
        count = self.region.tile_order_count(every)
        orders = (self.region.tile_order(every, n) for n in range(count if count <= MOST_TEXTS else 0))
        return [",".join(f"S{n}.{index}" for n, index in order) for order in orders]

    def _lanes_text(self, lanes: Lanes) -> str:
        first = self.region.statements[0]
        return " ".join(f"{i if n == first else f'S{n}.{i}'} x{count}" for (n, i), count in lanes) or "none"


def _index_name(leader: LogicalIndex) -> str:
    return f"S{leader[0]}.{leader[1]}"
