"""Partial runs of an accumulator that overflows, where only mean counts are known (levels L0 and L1).

A key that returns while the current run holds it is summed on chip; one that returns later is written again. So what
counts is how many distinct keys come between two returns; keys are taken as uniform choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.factors import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Returning:
    """A reduced loop inside a scope, under whose iterations keys come again.

    ``around``: prefixes of the loops above it, per scope, which cut the reduced indices into ``around_blocks``
    blocks; ``steps``: its own iterations, per scope, which cut them into ``step_blocks``.
    """

    around: Floats
    around_blocks: int
    steps: Floats
    step_blocks: int


@dataclass(frozen=True, slots=True)
class UniformKeys:
    """``products`` that choose among ``cells`` output positions with equal chance."""

    products: float
    cells: float

    def pairs(self, blocks: Floats) -> Floats:
        """Distinct (key, block) pairs when the products come in equal blocks, as a multiple of distinct keys."""
        each = distinct_keys(self.products / np.maximum(blocks, 1.0), self.cells)
        return np.asarray(
            np.maximum(blocks, 1.0) * each / max(1e-9, float(distinct_keys(np.array(self.products), self.cells)))
        )


def distinct_keys(keys: Floats, cells: Floats | float) -> Floats:
    """Cells hit by uniformly chosen keys."""
    return np.asarray(-cells * np.expm1(-keys / np.maximum(cells, 1e-9)))


def spilled_entries(
    entries: Floats, products: Floats, loops: Sequence[Returning], uniform: UniformKeys, capacity: int
) -> Floats:
    """Entries written in full runs, per scope; none for an unbounded accumulator (``capacity`` 0).

    ``entries``: distinct keys of a scope, ``products``: what makes them; ``loops``: outer to inner, the first being
    the scope's own. A loop whose keys under one prefix fit merges them all; one whose single step fits merges as many
    steps as a run reaches; loops further out merge nothing. A run is written whenever ``capacity`` new keys have
    come, but for the last, which drains.
    """
    if not capacity:
        return np.zeros(entries.size)
    known, most = np.maximum(entries, 1e-9), np.maximum(products, entries)
    runs = most / capacity
    undecided = np.ones(entries.size, bool)
    for loop in loops:
        around, steps = np.maximum(loop.around, 1.0), np.maximum(loop.steps, 1.0)
        whole, each = (
            np.minimum(known * uniform.pairs(np.array(float(blocks))), most)
            for blocks in (loop.around_blocks, loop.step_blocks)
        )
        merges = undecided & (whole <= capacity * around)
        fits = undecided & ~merges & (each <= capacity * steps)
        windows = _windows(loop, known, most, uniform, capacity)
        runs = np.where(merges, whole / capacity, np.where(fits, windows, runs))
        undecided &= ~(merges | fits)
    full = np.ceil(runs * (1 - 1e-9)) - 1
    return np.where(entries > capacity, capacity * np.maximum(1.0, full), 0.0)


def _windows(loop: Returning, known: Floats, most: Floats, uniform: UniformKeys, capacity: int) -> Floats:
    """Runs of consecutive steps that hold ``capacity`` keys each (bisection on the number of steps in one)."""
    low, high = np.ones(known.size), np.maximum(1.0, loop.steps / np.maximum(loop.around, 1.0))
    for _ in range(30):
        middle = 0.5 * (low + high)
        keys = np.minimum(known * uniform.pairs(loop.step_blocks / middle), most) * middle / np.maximum(loop.steps, 1.0)
        low, high = np.where(keys <= capacity, middle, low), np.where(keys <= capacity, high, middle)
    return np.asarray(np.maximum(loop.steps, 1.0) / low)
