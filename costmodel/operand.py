"""Operand: a tensor as a statement reads it, from memory or as a stream."""

from __future__ import annotations

from dataclasses import dataclass, replace

from costmodel.counting import AnyStatistics, Leaf
from costmodel.tiles import level_view
from costmodel.views import View
from mapper.formats import COMPRESSED, DENSE
from mapper.mapping import Loop
from mapper.program import Access
from mapper.storage import Layout


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand of a statement: ``loops`` are its levels; a fused one is a stream (``stored`` False)."""

    access: Access
    layout: Layout
    loops: tuple[Loop, ...]
    stats: AnyStatistics
    stored: bool

    def leaf(self, nest: tuple[Loop, ...], depth: int, valued: bool = False) -> Leaf:
        """Nodes within the first ``depth`` loops, with ``valued`` only those that have a stored value below: a dense
        level above a compressed one also has nodes without."""
        own = [loop for loop in nest[:depth] if loop in self.loops]
        tiles = sum(part == "tile" for _, part in own)
        layout = self.layout
        if valued:
            upper = max((n for n, kind in enumerate(layout.kinds, 1) if kind != DENSE), default=0)
            layout = replace(layout, kinds=(COMPRESSED,) * upper + layout.kinds[upper:])
        return Leaf(self.stats, self.access.indices, level_view(layout, tiles, len(own) - tiles))

    @property
    def full_view(self) -> View:
        """The view whose nodes are the entries."""
        return tuple((m, 1) for m in range(len(self.access.indices)))
