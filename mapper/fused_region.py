"""FusedRegion: statements that stream to each other, and the loop orders, tiles and lanes that serve all of them.

The indices of fused statements that name the same modes are one *logical index*, called after its first use. A stream
is read once, so its indices must stand outermost in its readers: with the orders that a user pins, these are the
edges of the region's partial order graph (FuseFlow, section 5). Each of its linear extensions gives every statement
its order; extensions that give all statements the same are one (``PartialOrder``).

Where a residual comes back around a product, two indices of one statement are the same logical index, and around two
products they walk the same two in opposite ways: the graph has a cycle. An index that a statement adds to its streams
stands last in what it hands on, whatever it is called elsewhere; so it may count as an element of its own, as long as
readers are told that it stands last.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from mapper.errors import IllegalMapping
from mapper.linear_orders import PartialOrder
from mapper.program import MOST_JOINED, Edge, Program
from mapper.regions import LogicalIndex, fused_edges, logical_indices, region_label, renaming
from mapper.violation import Violation

Orders = tuple[tuple[str, ...], ...]
"""A loop order per statement of a region."""


@dataclass(frozen=True, eq=False)
class FusedRegion:
    """A set of fused statements. ``pinned``: per target tensor, the loop orders that are allowed, of indices some of
    which a rewriting may lack."""

    program: Program
    cuts: tuple[bool, ...]
    statements: tuple[int, ...]
    pinned: tuple[tuple[str, Orders], ...] = ()

    @property
    def label(self) -> str:
        """``S0+S1``."""
        return region_label(self.statements)

    @cached_property
    def leaders(self) -> dict[LogicalIndex, LogicalIndex]:
        """The logical index of every index of every statement."""
        found = logical_indices(self.program, self.cuts)
        return {(n, i): found[n, i] for n in self.statements for i in self.program.statements[n].indices}

    @cached_property
    def indices(self) -> tuple[LogicalIndex, ...]:
        """All logical indices, in order of appearance."""
        return tuple(dict.fromkeys(self.leaders.values()))

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """The fused edges."""
        return fused_edges(self.program, self.statements)

    @cached_property
    def streams(self) -> tuple[tuple[int, int, tuple[str, ...]], ...]:
        """(producer, consumer, indices of the stream in the consumer) of every fused edge."""
        return tuple(
            (e.producer, e.consumer, self.program.statements[e.consumer].operands[e.operand].indices)
            for e in self.edges
        )

    @property
    def is_view(self) -> bool:
        """Whether this is a view alone, whose loops are no choice: it writes what its first reader wants."""
        return self.program.statements[self.statements[0]].kind == "view"

    @cached_property
    def _added(self) -> tuple[tuple[Edge, str], ...]:
        """(edge, index of its producer) of every index that a statement with streams adds to them and hands on alone:
        all others of what it hands on come from its streams."""
        read: dict[int, set[str]] = {}
        for _, number, held in self.streams:
            read.setdefault(number, set()).update(held)
        found = []
        for edge in self.edges:
            given = read.get(edge.producer)
            new = [i for i in self.program.statements[edge.producer].target.indices if given and i not in given]
            found += [(edge, new[0])] if len(new) == 1 else []
        return tuple(found)

    @cached_property
    def _elements(self) -> dict[LogicalIndex, str]:
        """What every index of every statement is called in orders: as its logical index, but where the orders of these
        would be cyclic, an index that is added to streams and what readers make of it go by names of their own."""
        names = {key: f"S{n}.{i}" for key, (n, i) in self.leaders.items()}
        order = PartialOrder(tuple(dict.fromkeys(names.values())), frozenset(self._stream_edges(names)))
        if not self._added or order.cycle() is None:
            return names
        own = {key: key for key in self.leaders}
        for edge in self.edges:
            for made, name in renaming(self.program, edge).items():
                if (edge, made) not in self._added:
                    old, new = sorted([own[edge.consumer, name], own[edge.producer, made]], reverse=True)
                    own = {key: new if first == old else first for key, first in own.items()}
        return {key: f"S{n}.{i}" for key, (n, i) in own.items()}

    @cached_property
    def orders(self) -> tuple[PartialOrder, ...]:
        """Alternatives that share no order: one, or one per combination of pinned orders. Empty if none is possible."""
        if any(len({self.name(n, i) for i in s}) < len(s) for n, s in self._indices_by_statement):
            return ()
        found = []
        for chosen in itertools.product(*(orders for _, orders in self._pins)):
            before = self._stream_edges(self._elements)
            for (number, _), pinned in zip(self._pins, chosen, strict=True):
                before |= {(self.name(number, a), self.name(number, b)) for a, b in itertools.pairwise(pinned)}
            order = PartialOrder(self._names, frozenset(before), self._together)
            if order.cycle() is None:
                found.append(order)
        return tuple(found)

    def conflict(self) -> str:
        """Why no order serves the region."""
        order = PartialOrder(self._names, frozenset(self._stream_edges(self._elements)), self._together)
        cycle = order.cycle()
        return f"{' before '.join((*cycle, cycle[0]))}" if cycle else "pinned orders or streams read twice exclude it"

    def orders_of(self, order: tuple[str, ...]) -> Orders:
        """The order of each statement in one order of all logical indices."""
        place = {name: n for n, name in enumerate(order)}

        def own(number: int, indices: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(sorted(indices, key=lambda i: place[self.name(number, i)]))

        return tuple(itertools.starmap(own, self._indices_by_statement))

    @cached_property
    def order_count(self) -> int:
        """Distinct choices of orders."""
        return sum(order.count() for order in self.orders)

    @lru_cache(maxsize=65536)  # noqa: B019 - regions live as long as their program is searched
    def order(self, rank: int) -> Orders:
        """Orders number ``rank`` of ``order_count``."""
        for order in self.orders:
            if rank < order.count():
                return self.orders_of(order.unrank(rank))
            rank -= order.count()
        raise IndexError(rank)

    def every_order(self) -> Iterator[Orders]:
        """All orders, by their ranks."""
        return (self.orders_of(whole) for order in self.orders for whole in order)

    def rank(self, orders: Orders) -> int:
        """Inverse of ``order``. Raises IllegalMapping for orders that do not serve the region."""
        rank = 0
        for alternative in self.orders:
            whole = self.merged(alternative, orders)
            if whole is not None:
                return rank + alternative.rank(whole)
            rank += alternative.count()
        raise IllegalMapping([Violation("order", order_text(orders), "orders that serve the region", self.label)])

    def merged(self, alternative: PartialOrder, orders: Orders) -> tuple[str, ...] | None:
        """One order of all logical indices that gives every statement its own, None if there is none."""
        before = set(alternative.before)
        for (number, _), order in zip(self._indices_by_statement, orders, strict=True):
            before |= {(self.name(number, a), self.name(number, b)) for a, b in itertools.pairwise(order)}
        joined = PartialOrder(self._names, frozenset(before))
        if joined.cycle() is not None:
            return None
        whole = joined.unrank(0)
        return whole if self.orders_of(whole) == orders and alternative.contains(whole) else None

    @cached_property
    def tileable(self) -> tuple[LogicalIndex, ...]:
        """Indices that may be tiled: a reader of streams tiles only what its streams hold."""
        if self.is_view:
            return ()
        banned = {
            self.leaders[n, i]
            for _, n, held in self.streams
            if held
            for i in self.program.statements[n].indices
            if i not in held
        }
        return tuple(leader for leader in self.indices if leader not in banned)

    @lru_cache(maxsize=65536)  # noqa: B019 - regions live as long as their program is searched
    def tile_orders(self, tiled: frozenset[LogicalIndex]) -> tuple[PartialOrder, ...]:
        """Orders of the tile loops of ``tiled``; pinned orders hold for them too."""
        names = {self.name(*leader): leader for leader in self.indices if leader in tiled}
        found = []
        for chosen in itertools.product(*(orders for _, orders in self._pins)):
            before = set()
            for (number, _), pinned in zip(self._pins, chosen, strict=True):
                kept = [name for name in (self.name(number, i) for i in pinned) if name in names]
                before |= set(itertools.pairwise(kept))
            order = PartialOrder(tuple(names), frozenset(before), self._together)
            if order.cycle() is None and order not in found:
                found.append(order)
        return tuple(found)

    @lru_cache(maxsize=65536)  # noqa: B019
    def tile_order_count(self, tiled: frozenset[LogicalIndex]) -> int:
        """Distinct orders of the tile loops."""
        return sum(order.count() for order in self.tile_orders(tiled))

    @lru_cache(maxsize=65536)  # noqa: B019
    def tile_order(self, tiled: frozenset[LogicalIndex], rank: int) -> tuple[LogicalIndex, ...]:
        """Order number ``rank`` of the tile loops, outer to inner."""
        names = {self.name(*leader): leader for leader in tiled}
        for order in self.tile_orders(tiled):
            if rank < order.count():
                return tuple(names[name] for name in order.unrank(rank))
            rank -= order.count()
        raise IndexError(rank)

    def tile_rank(self, tiled: frozenset[LogicalIndex], before: frozenset[tuple[LogicalIndex, LogicalIndex]]) -> int:
        """Number of the first order of the tile loops of ``tiled`` in which the first of each pair precedes the
        second. Raises IllegalMapping if there is none."""
        wanted = {(self.name(*a), self.name(*b)) for a, b in before}
        rank = 0
        for order in self.tile_orders(tiled):
            joined = PartialOrder(order.elements, order.before | wanted)
            if joined.cycle() is None:
                return rank + order.rank(joined.unrank(0))
            rank += order.count()
        text = ", ".join(sorted(f"{a} before {b}" for a, b in wanted))
        raise IllegalMapping([Violation("tile-order", text, "an order of the tile loops that is allowed", self.label)])

    @cached_property
    def parallel_indices(self) -> tuple[tuple[LogicalIndex, int | None], ...]:
        """(index, most lanes) of the indices that may be parallel: a fused reader has the index only if its stream
        does, and partial sums of a reduced one are added by a single unit."""
        found: list[tuple[LogicalIndex, int | None]] = []
        for leader in () if self.is_view else self.indices:
            users = {n for (n, _), own in self.leaders.items() if own == leader}
            reducing = [n for n in users if leader not in self._kept(n)]
            once = list(self.leaders.values()).count(leader) == len(users)  # a residual may come back as another index
            streamed = all(p in users and p not in reducing for p, n, _ in self.streams if n in users)
            summed = all(self.program.statements[n].reduction != "max" for n in reducing)
            if once and streamed and summed:
                found.append((leader, MOST_JOINED if reducing else None))
        return tuple(found)

    def _kept(self, number: int) -> set[LogicalIndex]:
        return {self.leaders[number, i] for i in self.program.statements[number].target.indices}

    @property
    def _pins(self) -> list[tuple[int, Orders]]:
        """Pinned orders of statements; of one whose indices a rewriting changed, as far as it has them."""
        pinned, found = dict(self.pinned), []
        for number, indices in self._indices_by_statement:
            tensor = self.program.statements[number].target.tensor
            if tensor in pinned:
                kept = (tuple([i for i in order if i in indices]) for order in pinned[tensor])
                found.append((number, tuple(dict.fromkeys(kept))))
        return found

    @property
    def _indices_by_statement(self) -> list[tuple[int, tuple[str, ...]]]:
        return [(n, self.program.statements[n].indices) for n in self.statements]

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._elements.values()))

    @cached_property
    def _users(self) -> dict[str, set[int]]:
        users: dict[str, set[int]] = {name: set() for name in self._names}
        for (number, _), name in self._elements.items():
            users[name].add(number)
        return users

    def name(self, number: int, index: str) -> str:
        """What an index of a statement is called in ``orders``."""
        return self._elements[number, index]

    def _together(self, a: str, b: str) -> bool:
        """Whether some statement has both, so that their order shows."""
        return bool(self._users[a] & self._users[b])

    def _stream_edges(self, names: dict[LogicalIndex, str]) -> set[tuple[str, str]]:
        if self.is_view:
            return set(itertools.pairwise(dict.fromkeys(names.values())))
        found = {
            (names[n, outer], names[n, inner])
            for _, n, held in self.streams
            for outer in held
            for inner in self.program.statements[n].indices
            if inner not in held
        }
        for edge, index in self._added:
            name = renaming(self.program, edge)[index]
            if names[edge.producer, index] != names[edge.consumer, name]:
                held = self.program.statements[edge.consumer].operands[edge.operand].indices
                found |= {(names[edge.consumer, other], names[edge.consumer, name]) for other in held if other != name}
        return found


def order_text(orders: Orders) -> str:
    """``i,k,j | i,j``: a readable label of a choice."""
    return " | ".join(",".join(order) for order in orders)


def draw(rng: np.random.Generator, count: int) -> int:
    """A number below ``count``, however large, every one equally likely."""
    if count <= 2**62:
        return int(rng.integers(count))
    bits = (count - 1).bit_length()
    while True:
        number = int.from_bytes(rng.bytes(bits // 8 + 1), "big") & ((1 << bits) - 1)
        if number < count:
            return number
