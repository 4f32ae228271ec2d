"""Locating: looking a coordinate up in a dense level instead of scanning it (FuseFlow: iterate-locate)."""

from __future__ import annotations

from collections.abc import Sequence

from mapper.formats import DENSE, block_of
from mapper.mapping import Loop, Loops
from mapper.program import Statement

JOINS = ("locate", "intersect")
"""How a product meets a dense level: at the coordinates that other operands give, or by scanning all of its own."""


def located(statement: Statement, loops: Loops, kinds: Sequence[tuple[str, ...] | None], loop: Loop) -> tuple[int, ...]:
    """Operands of a product whose level at ``loop`` is located. ``kinds``: level kinds of stored operands, None for
    streams. Where all levels are dense, the first is scanned. Tile levels are never dense."""
    if statement.kind != "contract" or loop[1] == "tile":
        return ()
    present = [n for n, access in enumerate(statement.operands) if loop[0] in access.indices]
    dense = [n for n in present if _kind(statement.operands[n].indices, loops, kinds[n], loop[0]) == DENSE]
    return tuple(dense if len(dense) < len(present) else dense[1:])


def _kind(indices: tuple[str, ...], loops: Loops, kinds: tuple[str, ...] | None, index: str) -> str:
    if kinds is None or any(block_of(kind) for kind in kinds):
        return ""
    return kinds[[i for i in loops.order if i in indices].index(index)]
