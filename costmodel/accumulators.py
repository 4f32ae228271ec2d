"""Sparse accumulators: the entries they drain and the partial runs they spill.

The outermost reduced loop that is not innermost opens a *scope*: inside it products are summed under their output
keys, at its end the keys drain. A scope with more keys than the accumulator holds writes full runs to memory and
reads them back for the merge. How many runs depends on how often a key returns before its run is full.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from costmodel.factors import Column, Factor, Floats, Ints, group_sum, pack, radices
from costmodel.nest import Nest
from costmodel.statistics import TensorStatistics
from mapper.machine import Machine


@dataclass(frozen=True, slots=True)
class Accumulator:
    """Shape of a statement's accumulator.

    ``scope``: depth of the loop that opens it; ``depth``: depth of its values; ``keys``: number of key streams;
    ``returns``: depths of the reduced loops inside, under whose iterations keys come again.
    """

    scope: int
    depth: int
    keys: int
    returns: tuple[int, ...]

    def capacity(self, machine: Machine) -> int:
        """Entries held on chip, 0 for any number."""
        if machine.dram_channels is None or machine.accumulator_bytes is None:
            return 0
        return machine.accumulator_bytes // (machine.value_bytes + self.keys * machine.coordinate_bytes)


def accumulator_of(nest: Nest) -> Accumulator | None:
    """The accumulator of a statement, None where scalar reducers (or nothing) suffice."""
    kept = nest.statement.target.indices
    depth = max((q for q, (i, _) in enumerate(nest.loops, 1) if i in kept), default=0)
    returns = tuple(q for q, (i, _) in enumerate(nest.loops[:depth], 1) if i not in kept)
    if not returns:
        return None
    keys = depth - returns[0] + 1 - len(returns)
    return Accumulator(returns[0], depth, keys, returns)


@dataclass(frozen=True, slots=True, eq=False)
class Scopes:
    """Per scope (or kind of scope, of which there are ``number``): its ``lane``, the ``entries`` it drains, the
    ``values`` it takes in and, per returning loop, the ``steps`` of that loop inside it."""

    lane: Ints
    number: Floats
    entries: Floats
    values: Floats
    steps: tuple[Floats, ...]


def scopes_of(nest: Nest, shape: Accumulator) -> Scopes:
    """Counts of every scope; one mean scope per lane, weighted by their number, at levels below L2."""
    statement = nest.statement
    stats = nest.model.stats(statement.target.tensor, nest.model.workload.shape(statement.target, nest.number))
    full = tuple((m, 1) for m in range(len(statement.target.indices)))
    depths = (*shape.returns, shape.depth)
    if not isinstance(stats, TensorStatistics) or nest.model.level != "L2":
        return _mean_scopes(nest, shape, depths, float(stats.count(full)))
    outer = tuple(sorted(nest.variables(shape.scope - 1).items()))
    modes = {i: m for m, i in enumerate(statement.target.indices)}
    keep = _with_lane(nest, outer, shape.depth)
    view = tuple(sorted((modes[i], g) for i, g in keep))
    made = Factor(tuple((statement.target.indices[m], g) for m, g in view), *stats.marginal(full, view))
    points, entries = _by_lane(nest, outer, made)
    counts = [_looked_up(nest, outer, points, depth) for depth in depths]
    return Scopes(points[-1], np.ones(entries.size), entries, counts[-1], tuple(counts[:-1]))


def _mean_scopes(nest: Nest, shape: Accumulator, depths: tuple[int, ...], entries: float) -> Scopes:
    opened = np.maximum(nest.joined(shape.scope - 1) if shape.scope > 1 else np.ones(nest.lanes), 1e-9)
    counts = [nest.joined(depth) / opened for depth in depths]
    share = np.full(nest.lanes, entries / nest.lanes) / opened
    return Scopes(np.arange(nest.lanes), opened, np.minimum(share, counts[-1]), counts[-1], tuple(counts[:-1]))


def _with_lane(nest: Nest, outer: tuple[Column, ...], depth: int) -> tuple[Column, ...]:
    """``outer`` and, where lanes differ at ``depth``, the parallel index."""
    column = nest.lane_column
    if column is None or depth < nest.lane_depth or column in outer:
        return outer
    return tuple(sorted((*outer, column)))


def _by_lane(nest: Nest, outer: tuple[Column, ...], factor: Factor) -> tuple[tuple[Ints, ...], Floats]:
    """Sums of a factor per point of ``outer`` and lane; the lane is the last coordinate."""
    at = [factor.column(*c) for c in outer]
    lane = np.zeros(factor.weights.size, np.int64)
    if nest.lane_column is not None and factor.granule(nest.lane_column[0]) is not None:
        ends = np.array([hi for _, hi in nest.ranges])
        lane = np.searchsorted(ends, factor.column(*nest.lane_column), side="right")
    return group_sum([*at, lane], [*radices(outer, nest.extents), nest.lanes], factor.weights)


def _looked_up(nest: Nest, outer: tuple[Column, ...], points: tuple[Ints, ...], depth: int) -> Floats:
    """Prefixes at ``depth`` inside each scope (a point of ``outer`` and a lane)."""
    keep = _with_lane(nest, outer, depth)
    split = nest.lane_column is not None and any(c == nest.lane_column for c in keep)
    leaves = [o.leaf(nest.loops, depth) for o in nest.operands]
    found, counts = _by_lane(nest, outer, nest.counter.by(leaves, nest.variables(depth), keep))
    wanted = points if split else (*points[:-1], np.zeros_like(points[-1]))
    both = pack([np.concatenate(c) for c in zip(found, wanted, strict=True)], [*radices(outer, nest.extents), nest.lanes])
    key, ask = both[: counts.size], both[counts.size :]
    if not key.size:
        return np.zeros(ask.size)
    spot = np.minimum(np.searchsorted(key, ask), key.size - 1)
    return np.where(key[spot] == ask, counts[spot], 0.0)


def spilled_entries(nest: Nest, shape: Accumulator, scopes: Scopes, capacity: int) -> Floats:
    """Entries written in partial runs, per scope.

    Inside a returning loop keys are distinct; its next iteration brings some of them again. The outermost returning
    loop whose single iteration fits merges all loops within; across its own iterations new keys appear at the rate
    that a uniform choice among C cells gives, C chosen so that all iterations together leave the known number of
    entries. Every time that ``capacity`` new keys have come, one run is written.
    """
    if not capacity:
        return np.zeros(scopes.entries.size)
    arrivals = scopes.values
    merged = np.zeros(arrivals.size, bool)
    for depth, steps in zip(shape.returns, scopes.steps, strict=True):
        each = _filled(scopes.values / np.maximum(steps, 1.0), _cells_below(nest, depth, shape.depth))
        keys = np.minimum(each, scopes.entries)
        arrivals = np.where(merged, arrivals, np.maximum(keys * steps, scopes.entries))
        merged |= keys <= capacity
    runs = np.zeros(arrivals.size)
    for n in np.flatnonzero(scopes.entries > capacity):
        runs[n] = _runs(float(arrivals[n]), float(scopes.entries[n]), capacity)
    return runs * capacity


def _cells_below(nest: Nest, depth: int, last: int) -> float:
    """Output positions within one iteration of the loop at ``depth``."""
    tiled, size = dict(nest.plan.tiles), 1.0
    for index, part in nest.loops[depth:last]:
        if index in nest.statement.target.indices:
            extent = nest.extents[index]
            tiles = -(-extent // tiled[index]) if index in tiled else 1
            size *= tiles if part == "tile" else extent / tiles
    return size


def _filled(balls: Floats, cells: float) -> Floats:
    """Cells hit by uniformly thrown balls."""
    return -cells * np.expm1(-balls / cells) if cells else np.zeros_like(balls)


def _runs(arrivals: float, entries: float, capacity: int) -> int:
    """Full runs among ``arrivals`` keys that leave ``entries`` distinct ones."""
    if arrivals <= entries * (1 + 1e-9):
        return int((entries - 1) // capacity)
    cells = _effective_cells(arrivals, entries)
    if capacity >= cells:
        return 0
    return max(1, int(arrivals // (-cells * math.log1p(-capacity / cells))))


def _effective_cells(balls: float, hit: float) -> float:
    """C such that ``balls`` uniform throws into C cells hit ``hit`` of them (bisection on a monotone function)."""
    low, high = hit, hit * max(2.0, balls / max(balls - hit, 1e-9 * balls))
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if -middle * math.expm1(-balls / middle) < hit else (low, middle)
    return high
