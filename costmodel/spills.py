"""Partial runs of an accumulator that overflows: how many entries go to memory and come back.

A key that returns while the current run holds it is summed on chip; one that returns later is written again. So what
counts is how many distinct keys come between two returns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from costmodel.factors import Floats


def spilled_entries(
    entries: Floats, values: Floats, steps: Sequence[Floats], cells: Sequence[float], capacity: int
) -> Floats:
    """Entries written in full runs, per scope (0 for unbounded ``capacity`` 0).

    ``entries``: distinct keys of the scope; ``values``: what it takes in; per returning loop, outer to inner: its
    ``steps`` and the ``cells`` of output under one of them. The outermost returning loop whose single step fits
    merges all loops within; across its steps new keys appear as under a uniform choice among C cells, C such that
    all steps together leave the known ``entries``. Whenever ``capacity`` new keys have come, one run is written.
    """
    spilled = np.zeros(entries.size)
    full = entries > capacity
    if not capacity or not full.any():
        return spilled
    arrivals = values
    merged = np.zeros(entries.size, bool)
    for number, below in zip(steps, cells, strict=True):
        keys = np.minimum(_filled(values / np.maximum(number, 1.0), below), entries)
        arrivals = np.where(merged, arrivals, np.maximum(keys * number, entries))
        merged |= keys <= capacity
    spilled[full] = capacity * _runs(arrivals[full], entries[full], capacity)
    return spilled


def _filled(balls: Floats, cells: float) -> Floats:
    """Cells hit by uniformly thrown balls."""
    return -cells * np.expm1(-balls / cells) if cells else np.zeros_like(balls)


def _runs(arrivals: Floats, entries: Floats, capacity: int) -> Floats:
    """Full runs among ``arrivals`` keys that leave ``entries`` distinct ones, both more than ``capacity``."""
    cells = _effective_cells(arrivals, entries)
    each = -cells * np.log1p(-capacity / cells)
    return np.maximum(1.0, np.minimum(arrivals // each, (arrivals - 1) // capacity))


def _effective_cells(balls: Floats, hit: Floats) -> Floats:
    """C such that uniformly thrown ``balls`` hit ``hit`` of C cells (bisection on 1 / C, in which hits fall)."""
    low, high = np.zeros(balls.size), 1.0 / hit
    for _ in range(50):
        middle = 0.5 * (low + high)
        more = -np.expm1(-balls * middle) / middle > hit
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return 1.0 / np.maximum(0.5 * (low + high), 1e-300)
