"""Structures: cuts with loop orders, and the indices that fused statements share."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache

from mapper.formats import Format
from mapper.program import Program
from mapper.regions import renaming

Orders = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Structure:
    """Cuts, the regions they make, one loop order per statement, and the formats that suit those orders."""

    cuts: tuple[bool, ...]
    regions: tuple[tuple[int, ...], ...]
    orders: Orders
    formats: tuple[tuple[str, tuple[Format, ...]], ...]

    def region_of(self, number: int) -> tuple[int, ...]:
        """Statements fused with statement ``number``."""
        return next(r for r in self.regions if number in r)

    def leader(self, program: Program, number: int, index: str) -> tuple[int, str]:
        """The first (statement, index) of the region that is the same logical index."""
        return _leaders(program, self.cuts)[number, index]

    def alias(self, program: Program, number: int, index: str) -> str:
        """Name in statement ``number`` of an index named in the region's first statement."""
        first = self.region_of(number)[0]
        own = program.statements[number].indices
        return next(i for i in own if self.leader(program, number, i) == (first, index))

    def tileable(self, program: Program) -> list[tuple[int, str]]:
        """Leaders of the indices that may be tiled: a reader of streams tiles only what its streams hold."""
        banned = set()
        for edge, cut in zip(program.edges, self.cuts, strict=True):
            statement = program.statements[edge.consumer]
            held = statement.operands[edge.operand].indices
            if not cut and held:
                banned |= {self.leader(program, edge.consumer, i) for i in statement.indices if i not in held}
        every = [self.leader(program, n, i) for n, s in enumerate(program.statements) for i in s.indices]
        return [leader for leader in dict.fromkeys(every) if leader not in banned]

    def parallel_indices(self, program: Program, statements: tuple[int, ...]) -> tuple[str, ...]:
        """Indices of the first statement that stand in the result of every statement of the region."""
        shared = [{self.leader(program, n, i) for i in program.statements[n].target.indices} for n in statements]
        first = program.statements[statements[0]].target.indices
        return tuple(i for i in first if all((statements[0], i) in leaders for leaders in shared))


def region_orders(
    program: Program, cuts: tuple[bool, ...], statements: tuple[int, ...], pinned: dict[str, Orders]
) -> list[Orders]:
    """Loop orders, one per statement, such that every fused consumer starts with its streams' indices in order."""
    partial: list[tuple[tuple[str, ...], ...]] = [()]
    for number in statements:
        statement = program.statements[number]
        options = pinned.get(statement.target.tensor) or tuple(itertools.permutations(statement.indices))
        partial = [
            (*done, order)
            for done in partial
            for order in options
            if _follows(program, cuts, dict(zip(statements, done, strict=False)), number, order)
        ]
    return partial


def order_text(orders: Orders) -> str:
    """``i,k,j | i,j``: a readable, reversible label."""
    return " | ".join(",".join(order) for order in orders)


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
