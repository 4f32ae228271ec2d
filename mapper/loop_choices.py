"""LoopChoices: all loops of a fused region, counted and numbered.

Orders, tile loops with their extents, lanes and partitions are independent, but that lanes never outnumber the steps of
their loop, and that FIFOs refuse what waits for too much. What leaves an accumulator at once depends on the order of
the loops and on the extents of few tiles, so loops that these alone get refused are not counted; what takes more
choices together is left for whoever draws.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mapper.fused_region import FusedRegion, Orders
from mapper.reconvergence import drain_limits, meetings
from mapper.regions import LogicalIndex
from mapper.workload import Workload

MOST_CELLS = 4096
"""Pairs of an order and an order of tile loops; in regions with more, all are counted alike."""

Lanes = tuple[tuple[LogicalIndex, int], ...]
"""Lanes of each parallel logical index."""

Flags = npt.NDArray[np.bool_]

Places = npt.NDArray[np.int64]

Limits = dict[str, tuple[bool, ...]] | None
"""What FIFOs leave of the extents of a statement's indices (``drain_limits``)."""

Nest = tuple[tuple[LogicalIndex, ...], tuple[str, ...]]
"""The tile loops and the loop order of a statement."""


class RegionChoice(NamedTuple):
    """Loops of a region by logical index: a loop order per statement, (index, extent) of the tile loops outer to inner,
    lanes, and how they share coordinates (of no meaning without lanes)."""

    orders: Orders
    tiles: tuple[tuple[LogicalIndex, int], ...]
    lanes: Lanes
    partition: str


@dataclass(frozen=True, slots=True)
class _Cell:
    """Ranks of orders, tiled indices, and places among the orders of their tile loops."""

    ranks: range
    tiled: frozenset[LogicalIndex]
    places: range


class LoopChoices:
    """The choices of ``region``. ``tiles``: extents to choose from, 0 for none; ``lanes``: what lanes there may be;
    ``depth``: of the FIFOs, None where nothing fills them."""

    def __init__(
        self, workload: Workload, region: FusedRegion, tiles: Mapping[LogicalIndex, tuple[int, ...]],
        lanes: tuple[Lanes, ...], partitions: tuple[str, ...], depth: int | None,
    ) -> None:  # fmt: skip
        self.workload, self.region, self.lanes, self.partitions = workload, region, lanes, partitions
        self._depth, met = depth or 0, meetings(region.program, region.statements)
        self._drained, self._joined = ((), ()) if depth is None else (met.drained, met.joined)
        self._always = [leader for leader, extents in tiles.items() if 0 not in extents]
        self._maybe = [leader for leader, extents in tiles.items() if 0 in extents]
        self._tiles = {leader: tuple([e for e in extents if e]) for leader, extents in tiles.items()}
        self._extents = dict[int, list[tuple[LogicalIndex, tuple[int, ...]]]]()

    @property
    def count(self) -> int:
        """Number of choices."""
        return self._running[-1]

    @cached_property
    def held(self) -> bool:
        """Whether FIFOs are known to hold the streams of every choice there is."""
        if not self.count or self._joined or self._concerned != self._told_apart:
            return False
        if not self._told_apart:
            return True
        every = {(place, parts) for apart in self._apart for place, parts in enumerate(apart)}
        return all(len(found or ()) <= 1 for place, parts in every for found in self._limits(place, parts))

    def unrank(self, number: int) -> RegionChoice:
        """Choice ``number`` of ``count``."""
        at = bisect.bisect_right(self._running, number)
        number -= self._running[at - 1] if at else 0
        place, which = divmod(at, len(self.lanes))
        cell, lanes, partition = self._cells[place], self.lanes[which], 0
        if lanes:
            number, partition = divmod(number, len(self.partitions))
        number, rank = divmod(number, len(cell.ranks))
        number, order = divmod(number, len(cell.places))
        chosen = dict[LogicalIndex, int]()
        for leader, extents in self._extents[at] if at in self._extents else self._extents_at(at):
            number, n = divmod(number, len(extents))
            chosen[leader] = extents[n]
        tiles = tuple([(x, chosen[x]) for x in self.region.tile_order(cell.tiled, cell.places[order])])
        return RegionChoice(self.region.order(cell.ranks[rank]), tiles, lanes, self.partitions[partition])

    def _extents_at(self, at: int) -> list[tuple[LogicalIndex, tuple[int, ...]]]:
        """What the tiled indices have to choose from in a cell with some lanes."""
        place, which = divmod(at, len(self.lanes))
        rows = self._allowed[self._apart[which]][place] & self._enough[which]
        self._extents[at] = [
            (leader, tuple(itertools.compress(extents, row)))
            for (leader, extents), row in zip(self._tiles.items(), rows[:-1].tolist(), strict=True)
            if leader in self._cells[place].tiled
        ]
        return self._extents[at]

    @cached_property
    def _running(self) -> list[int]:
        """Choices in the cells before and in each, with one lanes after the other."""
        shares = [len(self.partitions) if lanes else 1 for lanes in self.lanes]
        orders = [len(cell.ranks) * len(cell.places) for cell in self._cells]
        large = sum(orders) * sum(shares) * math.prod(map(len, self._tiles.values())) >= 2**62
        tiled = np.array([[*(leader in cell.tiled for leader in self._tiles), False] for cell in self._cells], bool)
        sizes = np.ones((len(self._cells), len(self.lanes)), object if large else np.int64)
        for which, apart in enumerate(self._apart):
            allowed = self._allowed[apart]
            choices = np.where(tiled, (allowed & self._enough[which]).sum(-1), allowed.any(-1))
            sizes[:, which] = choices.astype(sizes.dtype).prod(-1)
        sizes *= np.multiply.outer(np.array(orders, sizes.dtype), np.array(shares, sizes.dtype))
        return list(itertools.accumulate(sizes.ravel().tolist()))

    @cached_property
    def _cells(self) -> list[_Cell]:
        ranks, region = range(self.region.order_count), self.region
        places = {tiled: range(region.tile_order_count(tiled)) for tiled in self._subsets()}
        if not self._told_apart:
            return [_Cell(ranks, tiled, every) for tiled, every in places.items()]
        return [
            _Cell(ranks[rank : rank + 1], tiled, every[place : place + 1])
            for tiled, every in places.items()
            for rank, place in itertools.product(ranks, every)
        ]

    @property
    def _concerned(self) -> bool:
        """Whether some accumulator may let go of too much."""
        return any(d.met for d in self._drained) or any(map(any, self._apart))

    @cached_property
    def _told_apart(self) -> bool:
        """Whether every order is a cell of its own."""
        places = sum(map(self.region.tile_order_count, self._subsets()))
        return self._concerned and self.region.order_count * places <= MOST_CELLS

    @cached_property
    def _orders(self) -> list[Orders]:
        """Of each rank the orders of the statements."""
        return list(self.region.every_order())

    def _orders_of(self, statement: int) -> list[tuple[str, ...]]:
        place = self.region.statements.index(statement)
        return [orders[place] for orders in self._orders]

    def _subsets(self) -> Iterator[frozenset[LogicalIndex]]:
        """The sets of indices that may be tiled."""
        for size in range(len(self._maybe) + 1):
            for chosen in itertools.combinations(self._maybe, size):
                yield frozenset((*self._always, *chosen))

    @cached_property
    def own(self) -> dict[int, dict[LogicalIndex, str]]:
        """What every statement calls the logical indices that it has."""
        leaders, statements = self.region.leaders, self.region.program.statements
        return {n: {leaders[n, i]: i for i in statements[n].indices} for n in self.region.statements}

    @cached_property
    def _enough(self) -> list[Flags]:
        """With some lanes: the extents that leave as many steps, [index, extent] and a last row for the cell itself."""
        found = []
        for lanes in map(dict, self.lanes):
            rows = np.zeros((len(self._tiles) + 1, self._most), bool)
            for row, ((number, index), extents) in zip(rows, self._tiles.items(), strict=False):
                extent, least = self.workload.extents[number][index], lanes.get((number, index), 1)
                row[: len(extents)] = [-(-extent // e) >= least for e in extents]
            found.append(rows)
        return found

    @cached_property
    def _apart(self) -> list[tuple[bool, ...]]:
        """With some lanes: which of the statements that reduce make partial sums."""
        reduced = [{x for x, i in self.own[d.statement].items() if i not in d.kept} for d in self._drained]
        return [tuple([any(x in own for x, _ in lanes) for own in reduced]) for lanes in self.lanes]

    @cached_property
    def _allowed(self) -> dict[tuple[bool, ...], Flags]:
        """By which statements make partial sums: the extents that FIFOs may hold, [cell, index, extent], the last index
        standing for the cell itself."""
        shape = (len(self._cells), len(self._tiles) + 1, self._most)
        found = {apart: np.ones(shape, bool) for apart in self._apart}
        for place, (_, nests) in enumerate(self._alike if self._told_apart else ()):
            left = {parts: self._left(place, parts)[nests] for parts in {apart[place] for apart in found}}
            for apart, allowed in found.items():
                allowed &= left[apart[place]]
        return found

    @cached_property
    def _alike(self) -> list[tuple[tuple[Nest, ...], Places]]:
        """Of every statement that reduces: the nests that cells of one order give it, and which of them each gives."""
        tiled, found = [self.region.tile_order(cell.tiled, cell.places[0]) for cell in self._cells], []
        for drained in self._drained:
            own, orders, nests = self.own[drained.statement], self._orders_of(drained.statement), dict[Nest, int]()
            places = [
                nests.setdefault((tuple([x for x in tiles if x in own]), orders[cell.ranks[0]]), len(nests))
                for cell, tiles in zip(self._cells, tiled, strict=True)
            ]
            found.append((tuple(nests), np.array(places)))
        return found

    def _limits(self, place: int, parts: bool) -> Iterator[Limits]:
        """What FIFOs leave of the extents in each nest of a statement that reduces, by its place among them."""
        drained, (nests, _) = self._drained[place], self._alike[place]
        own = self.own[drained.statement]
        for tiled, order in nests:
            offered = tuple([(own[x], self._tiles[x]) for x in tiled])
            yield drain_limits(self.workload, drained, order, offered, parts, self._depth)

    def _left(self, place: int, parts: bool) -> Flags:
        """``_limits`` as flags: [nest, index, extent], a last index as in ``_allowed``."""
        own = self.own[self._drained[place].statement]
        left = np.ones((len(self._alike[place][0]), len(self._tiles) + 1, self._most), bool)
        for rows, limits in zip(left, self._limits(place, parts), strict=True):
            rows[:] = limits is not None
            for n, leader in enumerate(self._tiles if limits else ()):
                if row := (limits or {}).get(own.get(leader, "")):
                    rows[n, : len(row)] = row
        return left

    @property
    def _most(self) -> int:
        return max([1, *map(len, self._tiles.values())])
