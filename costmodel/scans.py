"""Cycles that a scan of a stored level spends on storage without elements: to first order, from mean fibers."""

from __future__ import annotations

import numpy as np

from costmodel.factors import Floats
from costmodel.operand import Operand
from costmodel.tiles import level_view
from mapper.formats import BITMASK, NONUNIQUE, SINGLETON
from mapper.mapping import Loop

WORD_BITS = 64
"""Bits that a scan of a bitmask reads in a cycle."""


def idle_cycles(operand: Operand, loop: Loop, elements: Floats, fibers: Floats) -> Floats:
    """Cycles beyond one per element, for ``elements`` in ``fibers`` scanned at ``loop``.

    A bitmask costs a cycle per word without a set bit (elements taken to fall into words at random), a nonunique level
    one per repetition of a coordinate.
    """
    layout, none = operand.layout, np.zeros_like(elements)
    if not operand.stored or loop[1] == "tile":
        return none
    tiles = len(layout.tile_modes)
    level = operand.loops.index(loop) - tiles
    kind, mode = layout.kinds[level], layout.modes[level]
    if kind == BITMASK:
        extent = (layout.tiles[mode] if layout.tiles else 0) or operand.stats.shape[mode]
        words = float(-(-extent // WORD_BITS))
        return np.asarray(fibers * words * np.exp(-elements / np.maximum(fibers * words, 1.0)))
    if kind in (NONUNIQUE, SINGLETON):
        last = level
        while last + 1 < len(layout.kinds) and layout.kinds[last + 1] == SINGLETON:
            last += 1
        own, all_places = (operand.stats.count(level_view(layout, tiles, n + 1)) for n in (level, last))
        return np.asarray(elements * (all_places / own - 1.0)) if own else none
    return none
