"""Sparse accumulators: the entries they drain, scope by scope.

The outermost reduced loop that is not innermost opens a *scope*: inside it products are summed under their output
keys, at its end the keys drain. Loops above a scope are output loops, so the entries that it drains are those of the
known result at their coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.counting import Leaf
from costmodel.factors import Column, Factor, Floats, Ints, bin_sum, group_sum, radices
from costmodel.nest import Nest
from costmodel.spills import Returning, spilled_entries
from costmodel.statistics import TensorStatistics
from mapper.machine import Machine

LANE: Column = ("lane of the scope", 1)
"""The column that tells scopes of different lanes apart."""


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
    ``values`` it takes in, and the returning loops inside it."""

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
    scopes = _mean_scopes(nest, shape) if nest.model.level != "L2" else _scopes(nest, shape)
    spilled = spilled_entries(scopes.entries, scopes.values, scopes.returning, shape.capacity(machine))
    return Reduction(shape, scopes, spilled)


def _mean_scopes(nest: Nest, shape: Accumulator) -> Scopes:
    opened = np.maximum(nest.joined(shape.scope - 1), 1e-9)
    inside = {depth: nest.joined(depth) / opened for depth in _depths(nest, shape)}
    values = _values(nest, inside[shape.depth], inside[len(nest.loops)])
    entries = np.minimum(np.full(nest.lanes, nest.target.nnz / nest.lanes) / opened, values)
    return Scopes(np.arange(nest.lanes), opened, entries, values, _returning(nest, shape, inside))


def _scopes(nest: Nest, shape: Accumulator) -> Scopes:
    target, stats = nest.statement.target, nest.target
    assert isinstance(stats, TensorStatistics)
    outer = tuple(sorted(nest.variables(shape.scope - 1).items()))
    modes = {i: m for m, i in enumerate(target.indices)}
    view = tuple(sorted((modes[i], g) for i, g in _with_lane(nest, outer, shape.depth)))
    full = tuple((m, 1) for m in range(len(modes)))
    made = Factor(tuple((target.indices[m], g) for m, g in view), *stats.marginal(full, view))
    scopes = _by_lane(nest, outer, made)
    inside = {depth: _looked_up(nest, outer, scopes, depth) for depth in _depths(nest, shape)}
    values = np.maximum(_values(nest, inside[shape.depth], inside[len(nest.loops)]), scopes.weights)
    one = np.ones(values.size)
    return Scopes(scopes.coords[-1], one, scopes.weights, values, _returning(nest, shape, inside))


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


def _values(nest: Nest, reached: Floats, products: Floats) -> Floats:
    """Prefixes with at least one product, of which ``reached`` have operands: each of the entries that the sparser
    operand has below finds partners with the same chance."""
    depth, loops = nest.value_depth, nest.loops
    trailing = {i for i, _ in loops[depth:]}
    reduced = [o for o in nest.operands if trailing & set(o.access.indices)]
    if not reduced:
        return np.minimum(reached, products)
    below = (_nodes(o.leaf(loops, len(loops), True)) / max(1.0, _nodes(o.leaf(loops, depth, True))) for o in reduced)
    most = max(1.0, min(below))
    share = np.divide(products, reached * most, out=np.zeros_like(reached), where=reached > 0)
    return np.asarray(reached * -np.expm1(most * np.log1p(-np.minimum(share, 1 - 1e-12))))


def _nodes(leaf: Leaf) -> float:
    return leaf.stats.count(leaf.view)


def _with_lane(nest: Nest, outer: tuple[Column, ...], depth: int) -> tuple[Column, ...]:
    """``outer`` and, where lanes differ at ``depth``, the parallel index."""
    column = nest.lane_column
    if column is None or depth < nest.lane_depth or any(i == column[0] for i, _ in outer):
        return outer
    return tuple(sorted((*outer, column)))


def _by_lane(nest: Nest, outer: tuple[Column, ...], factor: Factor) -> Factor:
    """Sums of a factor per point of ``outer`` and lane, which is the last column."""
    at = [factor.column(*c) for c in outer]
    lane = np.zeros(factor.weights.size, np.int64)
    if nest.lane_column is not None and factor.granule(nest.lane_column[0]) is not None:
        lane = nest.lane_of(factor.column(*nest.lane_column))
    return Factor((*outer, LANE), *group_sum([*at, lane], _sizes(nest, outer), factor.weights))


def _sizes(nest: Nest, outer: tuple[Column, ...]) -> list[int]:
    return [*radices(outer, nest.extents), nest.lanes]


def _looked_up(nest: Nest, outer: tuple[Column, ...], scopes: Factor, depth: int) -> Floats:
    """Prefixes at ``depth`` inside each scope (a point of ``outer`` and a lane)."""
    keep = _with_lane(nest, outer, depth)
    split = nest.lane_column is not None and any(i == nest.lane_column[0] for i, _ in keep)
    leaves = [o.leaf(nest.loops, depth) for o in nest.operands]
    found = _by_lane(nest, outer, nest.counter.by(leaves, nest.variables(depth), keep))
    lane = scopes.coords[-1]
    return found.at([*scopes.coords[:-1], lane if split else np.zeros_like(lane)], _sizes(nest, outer))


def _cells_below(nest: Nest, depth: int, last: int) -> float:
    """Output positions of a lane within one iteration of the loop at ``depth``."""
    tiled, size = dict(nest.plan.tiles), 1.0
    for q, (index, part) in enumerate(nest.loops[depth:last], depth + 1):
        if index in nest.statement.target.indices:
            extent = nest.extents[index]
            tiles = -(-extent // tiled[index]) if index in tiled else 1
            size *= (tiles if part == "tile" else extent / tiles) / (nest.lanes if q == nest.lane_depth else 1)
    return size
