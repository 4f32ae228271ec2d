"""Lanes that share a reduction go in step: their partial results meet in a sum that takes them in order of their keys.

A lane that is ahead waits until the others are there, once what it made fills the FIFOs. So such lanes take, piece by
piece of the result, as long as the busiest of them; over the whole run that is more than the busiest lane's own work
where the work of a piece lies in few lanes (contiguous lanes over a banded matrix: in one). Of a piece only the
coordinates of one operand are looked at, so that products need not be listed; the operand that tells most counts. What
finds no partner is taken to be shared among lanes as products are.
"""

from __future__ import annotations

import math

import numpy as np

from costmodel.factors import Column, bin_sum, pack, radices
from costmodel.nest import Nest
from mapper.machine import Machine

SLACK_FIFOS = 4
"""FIFOs in a row that hold what a lane made ahead of the others."""


def lockstep(nest: Nest, machine: Machine) -> float:
    """Time of lanes in step over that of the busiest lane alone, 1 for lanes that do not share a reduction."""
    kept = nest.statement.target.indices
    first = next((q for q, (i, _) in enumerate(nest.loops) if i not in kept), 0)
    if not nest.partial or nest.model.level != "L2" or not first or machine.fifo_depth is None:
        return 1.0
    key = ("lockstep", nest.key, machine.fifo_depth)
    return nest.model.statistics.remember(key, lambda: _lockstep(nest, first, machine.fifo_depth or 1))


def _lockstep(nest: Nest, first: int, fifo_depth: int) -> float:
    depth, worst, apart = len(nest.loops), 1.0, _apart(nest)
    for columns, passes in _pieces(nest, first).items():
        found = nest.counter.by(nest.leaves(depth), nest.variables(depth), columns, nest.splits)
        if not found.total:
            continue
        place = pack([found.column(*c) for c in columns], radices(columns, nest.counter.extents))
        piece = np.unique(place, return_inverse=True)[1]
        share = min(1.0, nest.target.nnz / found.total) / passes  # entries per product
        made = np.cumsum(bin_sum(piece, found.weights, int(piece.max()) + 1)) * share
        window = (made / (SLACK_FIFOS * fifo_depth)).astype(np.int64)[piece]
        work = np.zeros((int(window.max()) + 1, nest.lanes))
        np.add.at(work, (window, found.coords[-1]), found.weights)
        together = max(float(work[:, apart == group].max(axis=1).sum()) for group in np.unique(apart))
        worst = max(worst, together / float(work.sum(axis=0).max()))
    return worst


def _pieces(nest: Nest, first: int) -> dict[tuple[Column, ...], int]:
    """Columns of the loops above the first reduced one that an operand has, so that products need not be listed for
    them, and how often the loops between that it lacks pass over them."""
    every = tuple(nest.variables(first).items())
    found: dict[tuple[Column, ...], int] = {}
    for operand in nest.operands:
        own = [n for n, (index, _) in enumerate(every) if index in operand.access.indices]
        if own:
            lacking = [every[n] for n in range(own[-1]) if n not in own]
            found[tuple(every[n] for n in own)] = math.prod(radices(lacking, nest.counter.extents))
    return found


def _apart(nest: Nest) -> np.ndarray:
    """For every lane a number that those with which it shares its reductions have too."""
    group = np.zeros(nest.lanes, np.int64)
    number, rest = np.arange(nest.lanes), nest.lanes
    for own in nest.splits:
        rest //= own.count
        if own.index in nest.statement.target.indices:
            group = group * own.count + number // rest % own.count
    return group
