"""Fetches of every tile under a residency policy.

``none`` fetches at every visit. ``lru`` keeps the most recently used tiles that fit, so a tile comes again only if
more than the buffer's bytes of other tiles were used since. Each foreign loop (one whose index the operand lacks)
brings the tiles below it, its *panel*, again in every iteration; a tile is taken to be visited in each iteration with
the same chance, independently (Che's approximation of LRU, IEEE JSAC 20(7), 2002, in iterations instead of time).
A panel that fits is fetched once, a panel visited whole in every iteration that does not fit is always fetched again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.counting import Leaf
from costmodel.factors import Floats, Ints, bin_sum, pack, radices
from costmodel.nest import Nest
from costmodel.tiles import TileSizes
from mapper.machine import Machine


@dataclass(frozen=True, slots=True, eq=False)
class _Panels:
    """For one foreign loop with ``iterations``: the panel that each tile belongs to, and how many tiles of a panel each
    stands for (1, or as many as make a mean panel of all tiles below level L2)."""

    number: Ints
    share: float
    iterations: float


def fetches(nest: Nest, n: int, depth: int, sizes: TileSizes, machine: Machine) -> Floats:
    """Fetches of every tile of operand ``n`` (order of ``sizes``) by all lanes; its last tile loop is at ``depth``."""
    operand = nest.operands[n]
    copies = 1 if _lane_position(nest, n, sizes) is not None else nest.lanes
    visits = _visits(nest, n, depth, sizes, None)
    if nest.model.mapping.residency == "none" or not sizes.values.size:
        return visits * copies
    foreign = [q for q, (i, _) in enumerate(nest.loops[:depth], 1) if i not in operand.access.indices]
    size = sizes.values + sizes.metadata
    hits, inner, outer_steps = np.zeros(visits.size), visits, 1.0
    chances = []
    for q in reversed(foreign):
        outer = np.minimum(inner, _visits(nest, n, depth, sizes, q))
        chances.append((q, inner, outer))
        inner = outer
    for q, inner, outer in reversed(chances):
        panels = _panels(nest, n, q, sizes)
        active = np.minimum(1.0, outer / outer_steps)
        chance = np.minimum(1.0, np.divide(inner, outer * panels.iterations, out=np.zeros_like(inner), where=outer > 0))
        kept = _iterations_kept(size * active * panels.share, chance, panels, machine.buffer_bytes)
        hits += (inner - outer) * _returned(chance, kept, panels.iterations)
        outer_steps *= panels.iterations
    return (visits - hits) * copies


def _lane_position(nest: Nest, n: int, sizes: TileSizes) -> int | None:
    """Which tile coordinate of an operand tells the lane; None where every lane has all tiles."""
    split, indices = nest.split, nest.operands[n].access.indices
    return next((k for k, (m, _) in enumerate(sizes.view) if split is not None and indices[m] == split.index), None)


def _visits(nest: Nest, n: int, depth: int, sizes: TileSizes, dropped_from: int | None) -> Floats:
    """Visits of every tile in one lane, those that differ only in foreign loops from ``dropped_from`` inwards taken
    as one: their indices are projected out of every operand (too many where two operands share such an index)."""
    operand, split = nest.operands[n], nest.split
    inside = set() if dropped_from is None else {i for i, _ in nest.loops[dropped_from - 1 : depth]}
    dropped = inside - set(operand.access.indices)
    leaves = [
        Leaf(x.stats, x.indices, tuple((m, g) for m, g in x.view if x.indices[m] not in dropped))
        for x in nest.visiting(n, depth)
    ]
    variables = {i: g for i, g in nest.variables(depth).items() if i not in dropped}
    shared = split is not None and split.index in variables.keys() - set(operand.access.indices)
    lanes = nest.lanes if shared else 1
    if nest.model.level != "L2":
        return np.full(sizes.values.size, nest.counter.total(leaves, variables) / max(1.0, sizes.tiles) / lanes)
    keep = tuple((operand.access.indices[m], g) for m, g in sizes.view)
    return nest.counter.by(leaves, variables, keep).at(sizes.coords, radices(keep, nest.extents)) / lanes


def _panels(nest: Nest, n: int, position: int, sizes: TileSizes) -> _Panels:
    """Panels of the foreign loop at ``position``: tiles that agree in the loops above it, and in their lane."""
    operand, parallel = nest.operands[n], nest.split
    index = nest.loops[position - 1][0]
    steps = -(-nest.extents[index] // dict(nest.plan.tiles)[index])
    iterations = steps / (nest.lanes if parallel is not None and parallel.index == index else 1)
    above = {i for i, _ in nest.loops[: position - 1]}
    fixed = [k for k, (m, _) in enumerate(sizes.view) if operand.access.indices[m] in above]
    cells = [-(-operand.stats.shape[m] // g) for m, g in (sizes.view[k] for k in fixed)]
    lane = _lane_position(nest, n, sizes)
    split = lane is not None and lane not in fixed
    if nest.model.level != "L2":
        panels = min(sizes.tiles, float(np.prod(cells)) * (nest.lanes if split else 1))
        listed = sizes.values.size
        return _Panels(np.zeros(listed, np.int64), sizes.tiles / listed / max(1.0, panels), iterations)
    at = [sizes.coords[k] for k in fixed]
    if split and lane is not None and parallel is not None:
        at.append(parallel.of(sizes.coords[lane]))
        cells.append(nest.lanes)
    number = np.unique(pack(at, cells), return_inverse=True)[1] if at else np.zeros(sizes.values.size, np.int64)
    return _Panels(number.astype(np.int64), 1.0, iterations)


def _iterations_kept(size: Floats, chance: Floats, panels: _Panels, capacity: int | None) -> Floats:
    """Per tile: the most iterations whose distinct tiles of its panel fit the buffer."""
    most = np.floor(panels.iterations)
    if capacity is None:
        return np.full(size.size, most)
    groups = int(panels.number.max()) + 1
    low, high = np.zeros(groups), np.full(groups, most)
    absent = np.log1p(-np.minimum(chance, 1 - 1e-15))
    fits = bin_sum(panels.number, size * -np.expm1(absent * most), groups) <= capacity
    low[fits] = most
    while (low < high).any():
        middle = np.ceil((low + high) / 2)
        used = bin_sum(panels.number, size * -np.expm1(absent * middle[panels.number]), groups)
        low, high = np.where(used <= capacity, middle, low), np.where(used <= capacity, high, middle - 1)
    return low[panels.number]


def _returned(chance: Floats, kept: Floats, iterations: float) -> Floats:
    """Share of returns that come within ``kept`` iterations, all returns coming within the loop's own."""
    absent = np.log1p(-np.minimum(chance, 1 - 1e-15))
    every = -np.expm1(absent * max(1.0, iterations - 1))
    share = np.divide(-np.expm1(absent * kept), every, out=np.zeros_like(chance), where=every > 0)
    return np.minimum(1.0, share)
