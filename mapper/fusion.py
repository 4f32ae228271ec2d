"""Fusion: cutting a program into regions, edge by edge, so that every region has a loop order that serves it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from mapper.errors import IllegalMapping
from mapper.fused_region import FusedRegion, Orders
from mapper.program import Edge, Program
from mapper.regions import cut_violations
from mapper.violation import Violation


@dataclass(frozen=True, slots=True)
class Fusion:
    """A legal choice of cuts and its regions."""

    program: Program
    cuts: tuple[bool, ...]
    regions: tuple[FusedRegion, ...]

    @property
    def order_count(self) -> int:
        """Combinations of loop orders."""
        return math.prod(region.order_count for region in self.regions)

    def region_of(self, number: int) -> FusedRegion:
        """The region that holds statement ``number``."""
        return next(r for r in self.regions if number in r.statements)


def fuse(program: Program, cuts: tuple[bool, ...], pinned: Mapping[str, Orders]) -> Fusion:
    """The fusion that ``cuts`` make; ``pinned`` lists the allowed orders per target tensor.

    Raises IllegalMapping where regions are impossible or no order serves one of them.
    """
    broken = cut_violations(program, cuts)
    if broken:
        raise IllegalMapping(broken)
    partition = Partition.of(program, pinned)
    for cut in cuts:
        following = partition.decide(cut)
        if isinstance(following, Violation):
            raise IllegalMapping([following])
        partition = following
    return partition.fusion()


@dataclass(frozen=True, slots=True)
class Partition:
    """Regions while the edges of a program are decided one by one, in the order of ``Program.edges``.

    A set of statements is a bit mask. Edges come by consumer, so that a path that leaves a region and comes back to it
    cannot be mended by later decisions.
    """

    program: Program
    pinned: tuple[tuple[str, Orders], ...]
    masks: tuple[int, ...]
    decided: tuple[bool, ...] = ()

    @classmethod
    def of(cls, program: Program, pinned: Mapping[str, Orders]) -> Partition:
        """Nothing decided: every statement alone."""
        return cls(program, tuple(sorted(pinned.items())), tuple(1 << n for n in range(len(program.statements))))

    @property
    def edge(self) -> Edge | None:
        """The edge to decide next."""
        edges = self.program.edges
        return edges[len(self.decided)] if len(self.decided) < len(edges) else None

    def decide(self, cut: bool) -> Partition | Violation:
        """With the next edge cut or fused; the rule that forbids it otherwise."""
        edge = self.program.edges[len(self.decided)]
        made, read = self.masks[edge.producer], self.masks[edge.consumer]
        if made == read:
            if cut:
                return Violation("cut-inside-region", "edge is cut", "fused, as other edges join its ends", edge.name)
            return Partition(self.program, self.pinned, self.masks, (*self.decided, False))
        if cut:
            return Partition(self.program, self.pinned, self.masks, (*self.decided, True))
        if self.program.viewed[len(self.decided)]:
            return Violation("view-stored", "edge is fused", "cut: windows are read from memory", edge.name)
        joined = made | read
        for other, ends in enumerate(_ends(self.program)[: len(self.decided)]):
            if not ends & ~joined and self.decided[other]:
                name = self.program.edges[other].name
                return Violation("cut-inside-region", f"{name} is cut", "fused", edge.name)
        if self._returns(joined):
            return Violation("region-cycle", "a path leaves the region and comes back", "none", edge.name)
        region = _region(self.program, joined, self.pinned)
        if not region.orders:
            return Violation("no-common-order", region.conflict(), "one order for all fused statements", region.label)
        masks = tuple([joined if mask & joined else mask for mask in self.masks])
        return Partition(self.program, self.pinned, masks, (*self.decided, False))

    def fusion(self) -> Fusion:
        """The regions once all edges are decided. Raises IllegalMapping where a statement alone has no order."""
        regions = tuple(_region(self.program, mask, self.pinned) for mask in dict.fromkeys(self.masks))
        for region in regions:
            if not region.orders:
                want = "one order for all fused statements"
                raise IllegalMapping([Violation("no-common-order", region.conflict(), want, region.label)])
        return Fusion(self.program, self.decided, regions)

    def _returns(self, joined: int) -> bool:
        after = _successors(self.program)
        seen, todo = joined, _following(after, joined) & ~joined
        while todo:
            mask = self.masks[(todo & -todo).bit_length() - 1]
            following = _following(after, mask)
            if following & joined:
                return True
            seen |= mask
            todo = (todo | following) & ~seen
        return False


@lru_cache(maxsize=65536)
def _region(program: Program, mask: int, pinned: tuple[tuple[str, Orders], ...]) -> FusedRegion:
    """The statements of ``mask`` with every edge among them fused."""
    cuts = tuple(not (mask >> e.producer & 1 and mask >> e.consumer & 1) for e in program.edges)
    statements = tuple(n for n in range(len(program.statements)) if mask >> n & 1)
    return FusedRegion(program, cuts, statements, pinned)


@lru_cache(maxsize=256)
def _ends(program: Program) -> tuple[int, ...]:
    """Producer and consumer of every edge, as masks."""
    return tuple(1 << edge.producer | 1 << edge.consumer for edge in program.edges)


@lru_cache(maxsize=256)
def _successors(program: Program) -> tuple[int, ...]:
    after = [0] * len(program.statements)
    for edge in program.edges:
        after[edge.producer] |= 1 << edge.consumer
    return tuple(after)


def _following(after: tuple[int, ...], mask: int) -> int:
    found = 0
    while mask:
        low = mask & -mask
        found |= after[low.bit_length() - 1]
        mask ^= low
    return found
