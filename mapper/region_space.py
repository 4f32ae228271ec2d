"""RegionSpace: the knobs of one fused region - loop order, tiles and their order, lanes - counted and drawn exactly."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol, TypeVar

from mapper.errors import IllegalMapping
from mapper.fused_region import FusedRegion, order_text
from mapper.linear_orders import PartialOrder
from mapper.loop_choices import Lanes, LoopChoices, RegionChoice
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
    """All loops of the statements of ``region``; ``prefix`` stands before the names of its knobs. ``depth``: of FIFOs,
    None where nothing fills them."""

    def __init__(
        self, workload: Workload, region: FusedRegion, limits: SpaceLimits, prefix: str = "", depth: int | None = None
    ) -> None:
        self.workload, self.region, self.limits, self.prefix, self.depth = workload, region, limits, prefix, depth
        tileable = {leader: self._tile_choices(leader) for leader in region.tileable}
        self.tiles = {leader: choices for leader, choices in tileable.items() if choices != (0,)}

    @cached_property
    def choices(self) -> LoopChoices:
        """All choices, numbered."""
        return LoopChoices(self.workload, self.region, self.tiles, self.lanes, self.limits.partitions, self.depth)

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
        found = {}
        for number, order in zip(self.region.statements, choice.orders, strict=True):
            own = self.choices.own[number]
            parallel: tuple[Lane, ...] = tuple([(own[x], n, choice.partition) for x, n in choice.lanes if x in own])
            found[number] = Loops(order, tuple([(own[x], tile) for x, tile in choice.tiles if x in own]), parallel)
        return found

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
        """One lane, then powers of two over each index that may be parallel, then over pairs of them, and so on."""
        allowed, most = self.limits.parallel_indices, self.limits.max_lanes
        single = list[tuple[LogicalIndex, int]]()
        for leader, limit in self.region.parallel_indices:
            if allowed is None or self._names(leader) & set(allowed):
                largest = min(most, self._extent(leader), limit or most)
                single += [(leader, 2**n) for n in range(1, largest.bit_length())]
        found: list[Lanes] = [()]
        for known in found:  # which grows
            later = single.index(known[-1]) + 1 if known else 0
            room = most // math.prod([count for _, count in known])
            taken = {leader for leader, _ in known}
            found += [(*known, (x, n)) for x, n in single[later:] if x not in taken and n <= room]
        return tuple(found)

    def _extents(self, leader: LogicalIndex) -> tuple[int, ...]:
        return tuple(tile for tile in self.tiles[leader] if tile)

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
