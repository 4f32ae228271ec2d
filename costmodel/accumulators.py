"""Sparse accumulators: the entries they drain, scope by scope.

The outermost reduced loop that is not innermost opens a *scope*: inside it products are summed under their output
keys, at its end the keys drain. Loops above a scope are output loops, so the entries that it drains are those of the
known result at their coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.counting import LANE
from costmodel.factors import Column, Factor, Floats, Ints, bin_sum, radices
from costmodel.nest import Nest
from costmodel.results import padded, reduced_entries, with_values
from costmodel.spills import Returning, distinct_keys, spilled_entries
from costmodel.statistics import TensorStatistics
from mapper.machine import Machine


@dataclass(frozen=True, slots=True)
class Accumulator:
    """Shape of a statement's accumulator.

    ``scope``: depth of the loop that opens it; ``depth``: depth of its values; ``keys``: coordinates per entry (both
    loops of a tiled index make one); ``returns``: depths of the reduced loops inside, under whose iterations keys
    come again.
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


@dataclass(frozen=True, slots=True, eq=False)
class Scopes:
    """Per scope (or kind of scope, of which there are ``number``): its ``lane``, the ``entries`` it drains, the
    ``values`` it takes in, and the returning loops inside it (where none overflows only the entries are known)."""

    lane: Ints
    number: Floats
    entries: Floats
    values: Floats
    returning: tuple[Returning, ...]

    def per_lane(self, amount: Floats, lanes: int) -> Floats:
        """Sum over scopes of an amount per scope."""
        return bin_sum(self.lane, amount * self.number, lanes)


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """What a statement's accumulator does on a machine: ``spilled`` entries per scope."""

    shape: Accumulator
    scopes: Scopes
    spilled: Floats


def accumulator_of(nest: Nest) -> Accumulator | None:
    """The accumulator of a statement, None where scalar reducers (or nothing) suffice."""
    kept = nest.statement.target.indices
    depth = nest.value_depth
    returns = tuple(q for q, (i, _) in enumerate(nest.loops[:depth], 1) if i not in kept)
    if not returns:
        return None
    keys = len({i for i, _ in nest.loops[returns[0] : depth] if i in kept})
    return Accumulator(returns[0], depth, keys, returns)


def reduction_of(nest: Nest, machine: Machine) -> Reduction | None:
    """The accumulator of a statement with its scopes, None if it has none."""
    shape = accumulator_of(nest)
    if shape is None:
        return None
    capacity = shape.capacity(machine)
    scopes = _scopes(nest, shape, capacity) if nest.model.level == "L2" else _mean_scopes(nest, shape)
    spilled = spilled_entries(scopes.entries, scopes.values, scopes.returning, capacity)
    return Reduction(shape, scopes, spilled)


def made(nest: Nest, reduction: Reduction | None) -> Floats:
    """Entries of a statement's result per lane."""
    if reduction is None:
        return reduced_entries(nest)
    return reduction.scopes.per_lane(reduction.scopes.entries, nest.lanes)


def _mean_scopes(nest: Nest, shape: Accumulator) -> Scopes:
    opened = np.maximum(nest.joined(shape.scope - 1), 1e-9)
    inside = {depth: nest.joined(depth) / opened for depth in _depths(nest, shape)}
    reached = nest.joined(shape.depth, valued=True) / opened
    entries = np.full(nest.lanes, nest.target.nnz / nest.lanes) / opened
    return _filled_scopes(nest, shape, np.arange(nest.lanes), opened, entries, reached, inside)


def _scopes(nest: Nest, shape: Accumulator, capacity: int) -> Scopes:
    target, stats = nest.statement.target, nest.target
    assert isinstance(stats, TensorStatistics)
    outer = tuple(sorted(nest.variables(shape.scope - 1).items()))
    modes = {i: m for m, i in enumerate(target.indices)}
    view = tuple(sorted((modes[i], g) for i, g in _with_parallel_index(nest, outer, shape.depth)))
    full = tuple((m, 1) for m in range(len(modes)))
    made = Factor(tuple((target.indices[m], g) for m, g in view), *stats.marginal(full, view))
    scopes = _with_lane(nest, made).reduced((*outer, LANE), nest.counter.extents)
    lane, one = scopes.coords[-1], np.ones(scopes.weights.size)
    if not padded(nest) and (not capacity or scopes.weights.max(initial=0.0) <= capacity):
        return Scopes(lane, one, scopes.weights, scopes.weights, ())  # nothing overflows: no need to know more
    inside = {depth: _looked_up(nest, outer, scopes, depth) for depth in _depths(nest, shape)}
    reached = _looked_up(nest, outer, scopes, shape.depth, valued=True)
    return _filled_scopes(nest, shape, lane, one, scopes.weights, reached, inside)


def _filled_scopes(
    nest: Nest, shape: Accumulator, lane: Ints, number: Floats, entries: Floats, reached: Floats,
    inside: dict[int, Floats],
) -> Scopes:  # fmt: skip
    """Scopes with their values; operands padded with zeros make entries beyond the known ones."""
    values = with_values(nest, reached, inside[len(nest.loops)])
    returning = _returning(nest, shape, inside)
    if padded(nest):
        burst = values / np.maximum(returning[-1].steps, 1.0)
        cells = np.full(values.size, returning[0].around_cells)
        entries = np.maximum(entries, np.minimum(cells, distinct_keys(values, np.maximum(burst, 1e-9), cells)))
    elif nest.model.level == "L2":
        values = np.maximum(values, entries)
    else:
        entries = np.minimum(values, entries)
    return Scopes(lane, number, entries, values, returning)


def _depths(nest: Nest, shape: Accumulator) -> tuple[int, ...]:
    """Depths whose prefixes are counted per scope: around and at returning loops, values, products."""
    around = (q - 1 for q in shape.returns[1:])
    return tuple(dict.fromkeys((*around, *shape.returns, shape.depth, len(nest.loops))))


def _returning(nest: Nest, shape: Accumulator, inside: dict[int, Floats]) -> tuple[Returning, ...]:
    one = np.ones(inside[shape.depth].size)
    cells = {q: _cells_below(nest, q, shape.depth) for r in shape.returns for q in (r - 1, r)}
    return tuple(
        Returning(one if q == shape.scope else inside[q - 1], cells[q - 1], inside[q], cells[q]) for q in shape.returns
    )


def _with_parallel_index(nest: Nest, outer: tuple[Column, ...], depth: int) -> tuple[Column, ...]:
    """``outer`` and, where lanes differ at ``depth``, the parallel index."""
    split = nest.split
    if split is None or depth < nest.lane_depth or any(i == split.index for i, _ in outer):
        return outer
    return (*outer, (split.index, split.granule))


def _with_lane(nest: Nest, factor: Factor) -> Factor:
    """The factor with a lane column: lane 0 where lanes do not differ."""
    if nest.split is not None and factor.granule(nest.split.index) is not None:
        return nest.split.split(factor)
    return Factor((*factor.columns, LANE), (*factor.coords, np.zeros(factor.weights.size, np.int64)), factor.weights)


def _looked_up(
    nest: Nest, outer: tuple[Column, ...], scopes: Factor, depth: int, valued: bool = False
) -> Floats:  # fmt: skip
    """Prefixes at ``depth`` inside each scope (a point of ``outer`` and a lane)."""
    split = nest.split is not None and depth >= nest.lane_depth
    leaves = [o.leaf(nest.loops, depth, valued) for o in nest.operands]
    found = nest.counter.by(leaves, nest.variables(depth), outer, split)
    sizes = radices((*outer, LANE), nest.counter.extents)
    if split:
        return found.at(scopes.coords, sizes)
    return _with_lane(nest, found).at([*scopes.coords[:-1], np.zeros_like(scopes.coords[-1])], sizes)


def _cells_below(nest: Nest, depth: int, last: int) -> float:
    """Output positions of a lane within one iteration of the loop at ``depth``."""
    tiled, size = dict(nest.plan.tiles), 1.0
    for q, (index, part) in enumerate(nest.loops[depth:last], depth + 1):
        if index in nest.statement.target.indices:
            extent = nest.extents[index]
            tiles = -(-extent // tiled[index]) if index in tiled else 1
            size *= (tiles if part == "tile" else extent / tiles) / (nest.lanes if q == nest.lane_depth else 1)
    return size
