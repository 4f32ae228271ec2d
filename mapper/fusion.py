"""Fusion: cuts with the regions they make, the loop orders that serve each, and the indices that statements share."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache

from mapper.errors import IllegalMapping
from mapper.program import Program
from mapper.regions import cut_violations, region_label, regions_of, renaming
from mapper.violation import Violation

Orders = tuple[tuple[str, ...], ...]
"""A loop order per statement."""


@dataclass(frozen=True, slots=True)
class Fusion:
    """``regions``: statements of each, in execution order; ``orders``: per region, the choices of orders (one order per
    statement) such that every fused consumer starts with its streams' indices in order."""

    program: Program
    cuts: tuple[bool, ...]
    regions: tuple[tuple[int, ...], ...]
    orders: tuple[tuple[Orders, ...], ...]

    @property
    def order_count(self) -> int:
        """Combinations of orders."""
        return math.prod(len(options) for options in self.orders)

    def region_of(self, number: int) -> tuple[int, ...]:
        """Statements fused with statement ``number``."""
        return next(r for r in self.regions if number in r)

    def spread(self, chosen: tuple[Orders, ...]) -> Orders:
        """One order per statement of the program from one choice per region."""
        orders = {n: o for r, c in zip(self.regions, chosen, strict=True) for n, o in zip(r, c, strict=True)}
        return tuple(orders[n] for n in sorted(orders))

    def leader(self, number: int, index: str) -> tuple[int, str]:
        """The first (statement, index) of the region that is the same logical index."""
        return _leaders(self.program, self.cuts)[number, index]

    def alias(self, number: int, index: str) -> str:
        """Name in statement ``number`` of an index named in the region's first statement."""
        first = self.region_of(number)[0]
        return next(i for i in self.program.statements[number].indices if self.leader(number, i) == (first, index))

    def tileable(self) -> list[tuple[int, str]]:
        """Leaders of the indices that may be tiled: a reader of streams tiles only what its streams hold."""
        banned = set()
        for edge, cut in zip(self.program.edges, self.cuts, strict=True):
            statement = self.program.statements[edge.consumer]
            held = statement.operands[edge.operand].indices
            if not cut and held:
                banned |= {self.leader(edge.consumer, i) for i in statement.indices if i not in held}
        every = [self.leader(n, i) for n, s in enumerate(self.program.statements) for i in s.indices]
        return [leader for leader in dict.fromkeys(every) if leader not in banned]

    def parallel_indices(self, region: tuple[int, ...]) -> tuple[str, ...]:
        """Indices of the first statement that stand in the result of every statement of the region."""
        shared = [{self.leader(n, i) for i in self.program.statements[n].target.indices} for n in region]
        first = self.program.statements[region[0]].target.indices
        return tuple(i for i in first if all((region[0], i) in leaders for leaders in shared))


def fuse(program: Program, cuts: tuple[bool, ...], pinned: dict[str, Orders]) -> Fusion:
    """The fusion that ``cuts`` make; ``pinned`` lists the allowed orders per target tensor.

    Raises IllegalMapping where regions are impossible or no order serves one of them.
    """
    broken = cut_violations(program, cuts)
    if broken:
        raise IllegalMapping(broken)
    regions = regions_of(program, cuts)
    orders = tuple(_region_orders(program, cuts, region, pinned) for region in regions)
    for region, options in zip(regions, orders, strict=True):
        if not options:
            want = "one outer order for all fused statements"
            reason = Violation("no-common-order", "no loop order", want, region_label(region))
            raise IllegalMapping([reason])
    return Fusion(program, cuts, regions, orders)


def order_text(orders: Orders) -> str:
    """``i,k,j | i,j``: a readable label of a choice."""
    return " | ".join(",".join(order) for order in orders)


def _region_orders(
    program: Program, cuts: tuple[bool, ...], region: tuple[int, ...], pinned: dict[str, Orders]
) -> tuple[Orders, ...]:
    partial: list[Orders] = [()]
    for number in region:
        statement = program.statements[number]
        options = pinned.get(statement.target.tensor) or tuple(itertools.permutations(statement.indices))
        partial = [
            (*done, order)
            for done in partial
            for order in options
            if _follows(program, cuts, dict(zip(region, done, strict=False)), number, order)
        ]
    return tuple(partial)


def _follows(
    program: Program, cuts: tuple[bool, ...], done: dict[int, tuple[str, ...]], number: int, order: tuple[str, ...]
) -> bool:
    for edge, cut in zip(program.edges, cuts, strict=True):
        if edge.consumer == number and not cut:
            names = renaming(program, edge)
            stream = tuple(names[i] for i in done[edge.producer] if i in names)
            if order[: len(stream)] != stream:
                return False
    return True


@lru_cache(maxsize=256)
def _leaders(program: Program, cuts: tuple[bool, ...]) -> dict[tuple[int, str], tuple[int, str]]:
    leader = {(n, i): (n, i) for n, s in enumerate(program.statements) for i in s.indices}
    for edge, cut in zip(program.edges, cuts, strict=True):  # by consumer, so producers are settled
        if not cut:
            for made, read in renaming(program, edge).items():
                old, new = sorted([leader[edge.consumer, read], leader[edge.producer, made]], reverse=True)
                leader = {k: new if v == old else v for k, v in leader.items()}
    return leader
