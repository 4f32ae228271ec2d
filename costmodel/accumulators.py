"""Sparse accumulators: the entries they drain, scope by scope.

The outermost reduced loop that is not innermost opens a *scope*: inside it products are summed under their output
keys, at its end the keys drain. Loops above a scope are output loops, so the entries that it drains are those of the
known result at their coordinates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from costmodel.counting import LANE, with_lane
from costmodel.factors import Column, Factor, Floats, Ints, bin_sum, radices
from costmodel.nest import Nest
from costmodel.padding import padded
from costmodel.replay import distinct_entries, replayed_spills
from costmodel.results import reduced_entries
from costmodel.spills import Returning, UniformKeys, distinct_keys, spilled_entries
from costmodel.statistics import TensorStatistics
from mapper.machine import Machine

MANY_SCOPES = 10_000
"""Scopes from which on they are counted by kind."""


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
    """Per scope (or kind of scope, of which there are ``number``): its ``lane`` and the ``entries`` it drains."""

    lane: Ints
    number: Floats
    entries: Floats

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
    if nest.model.level != "L2":
        return _mean_reduction(nest, shape, capacity)
    points = _partial_scopes(nest, shape) if nest.partial or padded(nest) else _scopes(nest, shape)
    entries = points.weights
    if not capacity or entries.max(initial=0.0) <= capacity:
        scopes = _kinds(points, nest)
        return Reduction(shape, scopes, np.zeros(scopes.entries.size))
    scopes = Scopes(points.coords[-1], np.ones(entries.size), entries)
    key = ("spills", nest.key, shape.scope, capacity)
    return Reduction(
        shape, scopes, nest.model.statistics.remember(key, lambda: _replayed(nest, shape, points, capacity))
    )


def _kinds(points: Factor, nest: Nest) -> Scopes:
    """Scopes that do not overflow: many are alike, and count as one kind per lane and number of entries."""
    lane, entries, most = points.coords[-1], points.weights, int(points.weights.max(initial=0.0)) + 1
    if nest.partial or padded(nest) or entries.size < max(MANY_SCOPES, nest.lanes * most):
        return Scopes(lane, np.ones(entries.size), entries)
    number = np.bincount(lane * most + entries.astype(np.int64))
    kind = np.flatnonzero(number != 0)
    return Scopes(kind // most, number[kind].astype(np.float64), (kind % most).astype(np.float64))


def _replayed(nest: Nest, shape: Accumulator, scopes: Factor, capacity: int) -> Floats:
    return replayed_spills(nest, shape.scope, scopes, _products(nest, shape, scopes), capacity)


def made(nest: Nest, reduction: Reduction | None) -> Floats:
    """Entries of a statement's result per lane."""
    if reduction is None:
        return reduced_entries(nest)
    return reduction.scopes.per_lane(reduction.scopes.entries, nest.lanes)


def _scopes(nest: Nest, shape: Accumulator) -> Factor:
    """Entries of the known result per scope: a point of the loops above and a lane."""
    target, stats = nest.statement.target, nest.target
    assert isinstance(stats, TensorStatistics)
    outer = _outer(nest, shape)
    modes = {i: m for m, i in enumerate(target.indices)}
    parallel = [own.column for own in nest.splits if own.index not in dict(outer)]
    view = tuple(sorted((modes[i], g) for i, g in (*outer, *parallel)))
    full = tuple((m, 1) for m in range(len(modes)))
    made = Factor(tuple((target.indices[m], g) for m, g in view), *stats.marginal(full, view))
    return with_lane(made, nest.splits).reduced((*outer, LANE), nest.counter.extents)


def _partial_scopes(nest: Nest, shape: Accumulator) -> Factor:
    """The same where lanes share a reduction, so that each has a part of the result, or where zeros in the result are
    not known: from a sample of the products."""
    outer, key = _outer(nest, shape), ("parts", nest.key, shape.scope)
    fixed, target = nest.variables(shape.scope - 1), nest.statement.target.indices
    positions = math.prod(min(fixed.get(i, nest.extents[i]), nest.extents[i]) for i in target)

    def found() -> Factor:
        products = _found(nest, outer)
        entries = np.minimum(distinct_entries(nest, shape.scope, products), positions)
        return Factor(products.columns, products.coords, entries)

    return nest.model.statistics.remember(key, found)


def _outer(nest: Nest, shape: Accumulator) -> tuple[Column, ...]:
    return tuple(sorted(nest.variables(shape.scope - 1).items()))


def _products(nest: Nest, shape: Accumulator, scopes: Factor) -> Floats:
    """Products per scope."""
    outer = _outer(nest, shape)
    return _found(nest, outer).at(scopes.coords, radices((*outer, LANE), nest.counter.extents))


def _found(nest: Nest, outer: tuple[Column, ...]) -> Factor:
    """Products per point of the loops above and lane."""
    depth = len(nest.loops)
    leaves = nest.leaves(depth)
    found = nest.counter.by(leaves, nest.variables(depth), outer, nest.splits)
    return found if nest.splits else with_lane(found, ())


def _mean_reduction(nest: Nest, shape: Accumulator, capacity: int) -> Reduction:
    """One mean scope per lane (levels L0 and L1). Operands padded with zeros make entries beyond the known ones."""
    opened = np.maximum(nest.joined(shape.scope - 1), 1e-9)
    products = nest.joined(len(nest.loops)) / opened
    values = np.minimum(nest.joined(shape.depth, valued=True) / opened, products)
    known = np.full(nest.lanes, nest.target.nnz * nest.copies(nest.statement.target.indices) / nest.lanes) / opened
    entries = distinct_keys(products, known) if nest.partial else np.minimum(known, products)
    if padded(nest):
        entries = np.maximum(entries, distinct_keys(values, _cells(nest, shape)))
    loops = tuple(_returning(nest, shape, q, opened) for q in shape.returns)
    cells, total = (
        float(math.prod(nest.extents[i] for i in nest.statement.target.indices)),
        float((products * opened).sum()),
    )
    spilled = spilled_entries(entries, products, loops, UniformKeys(total, cells), capacity)
    return Reduction(shape, Scopes(np.arange(nest.lanes), opened, entries), spilled)


def _returning(nest: Nest, shape: Accumulator, depth: int, opened: Floats) -> Returning:
    around = np.ones(nest.lanes)
    if depth != shape.scope:
        around = nest.joined(depth - 1) / opened
    blocks = [
        math.prod(-(-nest.extents[i] // fixed.get(i, max(1, nest.extents[i]))) for i in nest.statement.reduced)
        for fixed in (nest.variables(depth - 1), nest.variables(depth))
    ]
    return Returning(around, blocks[0], nest.joined(depth) / opened, blocks[1])


def _cells(nest: Nest, shape: Accumulator) -> float:
    """Output positions of a lane within one scope."""
    tiled, size = dict(nest.plan.tiles), 1.0
    for q, (index, part) in enumerate(nest.loops[shape.scope - 1 : shape.depth], shape.scope):
        if index in nest.statement.target.indices:
            extent = nest.extents[index]
            tiles = -(-extent // tiled[index]) if index in tiled else 1
            size *= (tiles if part == "tile" else extent / tiles) / nest.lanes_at(q)
    return size
