"""Partial runs of an accumulator that overflows: how many entries go to memory and come back.

A key that returns while the current run holds it is summed on chip; one that returns later is written again. So what
counts is how many distinct keys come between two returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.factors import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Returning:
    """A reduced loop inside a scope, under whose iterations keys come again.

    ``around``: prefixes of the loops above it, per scope, each with ``around_cells`` output positions below;
    ``steps``: its iterations, per scope, each with ``step_cells`` positions below.
    """

    around: Floats
    around_cells: float
    steps: Floats
    step_cells: float


def spilled_entries(entries: Floats, values: Floats, loops: Sequence[Returning], capacity: int) -> Floats:
    """Entries written in full runs, per scope; none for an unbounded accumulator (``capacity`` 0).

    ``entries``: distinct keys of a scope (a known figure); ``values``: what it takes in; ``loops``: outer to inner,
    the first being the scope's own. The outermost loop decides one step of which fits: its steps are merged as far
    as a run reaches, new keys appearing as under a uniform choice among C positions, C such that all steps together
    leave the keys that the loop has in all; if those fit too, it merges wholly. Loops further out merge nothing.
    One step of the innermost loop brings distinct keys.
    """
    spilled = np.zeros(entries.size)
    full = np.flatnonzero(entries > capacity)
    if not capacity or not full.size:
        return spilled
    known, taken = entries[full], np.maximum(values[full], entries[full])
    burst = np.minimum(taken / np.maximum(loops[-1].steps[full], 1.0), known)
    fill = np.minimum(1.0, _positions(taken, burst, known) / loops[0].around_cells)
    arrivals, length = taken, np.full(full.size, float(capacity))
    open_ = np.ones(full.size, bool)
    for loop in loops:
        around, steps = np.maximum(loop.around[full], 1.0), np.maximum(loop.steps[full], 1.0)
        whole = (
            known
            if loop is loops[0]
            else np.minimum(distinct_keys(taken / around, burst, loop.around_cells * fill), known)
        )
        each = (
            burst
            if loop is loops[-1]
            else np.minimum(distinct_keys(taken / steps, burst, loop.step_cells * fill), whole)
        )
        merges, fits = open_ & (whole <= capacity), open_ & (each <= capacity) & (whole > capacity)
        arrivals = np.where(merges, whole * around, np.where(fits, each * steps, arrivals))
        reach = _run_length(np.maximum(each * steps / around, whole), each, whole, capacity)
        length = np.where(fits, reach, length)
        open_ &= ~(merges | fits)
    arrivals = np.maximum(arrivals, known)
    runs = np.minimum(arrivals // length, (arrivals - 1) // capacity)
    spilled[full] = capacity * np.maximum(1.0, runs)
    return spilled


def distinct_keys(keys: Floats, burst: Floats, cells: Floats) -> Floats:
    """Cells hit by ``keys`` that come in bursts of distinct ones, each burst a uniform choice."""
    cells = np.maximum(cells, burst)
    return -cells * np.expm1(keys / burst * np.log1p(-np.minimum(burst / cells, 1 - 1e-12)))


def _run_length(keys: Floats, burst: Floats, hit: Floats, capacity: int) -> Floats:
    """Keys until ``capacity`` cells are hit, where all ``keys`` hit ``hit``."""
    cells = np.maximum(_positions(keys, burst, hit), capacity * (1 + 1e-9))
    share = np.minimum(burst / cells, 1 - 1e-12)
    return np.maximum(float(capacity), burst * np.log1p(-capacity / cells) / np.log1p(-share))


def _positions(keys: Floats, burst: Floats, hit: Floats) -> Floats:
    """C such that ``keys`` hit ``hit`` of C cells (bisection on 1 / C, in which hits fall)."""
    low, high = np.full(keys.size, 1e-18), 1.0 / np.maximum(hit, burst)
    for _ in range(50):
        middle = 0.5 * (low + high)
        more = distinct_keys(keys, burst, 1.0 / middle) > hit
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return 1.0 / (0.5 * (low + high))
