"""Fetches of every tile under a residency policy."""

from __future__ import annotations

import numpy as np

from costmodel.counting import Leaf
from costmodel.factors import Factor, Floats, pack, radices
from costmodel.nest import Nest
from costmodel.tiles import TileSizes
from mapper.machine import Machine


def kept_visits(nest: Nest, n: int, depth: int, sizes: TileSizes, machine: Machine) -> Floats:
    """Fetches of every tile of operand ``n`` (order of ``sizes``), whose last tile loop is at ``depth``; all lanes.

    ``none``: every visit. ``lru``: visits under the outermost foreign loop whose panel fits, and under the foreign
    loops inside it, count as one. The panel of a loop is the sum of the tiles visited under fixed outer loops.
    """
    visits = _spread(nest, n, sizes, nest.visits(n, depth))
    if nest.model.mapping.residency == "none":
        return visits
    indices = nest.operands[n].access.indices
    foreign = [q for q, (i, _) in enumerate(nest.loops[:depth], 1) if i not in indices]
    fetched, settled = visits.copy(), np.zeros(visits.size, bool)
    for q in foreign:  # outermost first: its panel holds those of the loops inside
        panel = _panel(nest, n, q, sizes, visits > 0)
        fits = (panel <= machine.buffer_bytes if machine.buffer_bytes is not None else np.full(panel.size, True)) & ~settled
        if fits.any():
            once = _spread(nest, n, sizes, _projected(nest, n, depth, q))
            fetched = np.where(fits, np.minimum(visits, once), fetched)
            settled |= fits
    return fetched


def _spread(nest: Nest, n: int, sizes: TileSizes, factor: Factor) -> Floats:
    """Weights of a factor over the tiles of operand ``n``, 0 where it has none."""
    if not sizes.tiles or not factor.weights.size:
        return np.zeros(sizes.values.size)
    both = [np.concatenate(pair) for pair in zip(sizes.coords, factor.coords, strict=True)]
    key = pack(both, radices(factor.columns, nest.extents))
    tile, asked = key[: sizes.values.size], key[sizes.values.size :]
    found = np.zeros(sizes.values.size)
    found[np.searchsorted(tile, asked)] = factor.weights
    return found


def _panel(nest: Nest, n: int, position: int, sizes: TileSizes, visited: np.ndarray) -> Floats:
    """Bytes of the panel that each tile belongs to, for the foreign loop at ``position``."""
    operand = nest.operands[n]
    fixed = {i for i, _ in nest.loops[: position - 1]}
    size = np.where(visited, sizes.values + sizes.metadata, 0.0)
    at = [c for (m, _), c in zip(sizes.view, sizes.coords, strict=True) if operand.access.indices[m] in fixed]
    cells = [-(-operand.stats.shape[m] // g) for m, g in sizes.view if operand.access.indices[m] in fixed]
    column = nest.lane_column
    modes = [operand.access.indices[m] for m, _ in sizes.view]
    if column is not None and column[0] in modes and column[0] not in fixed:
        ends = np.array([hi for _, hi in nest.ranges])
        at.append(np.searchsorted(ends, sizes.coords[modes.index(column[0])], side="right"))
        cells.append(nest.lanes)
    if not at:
        return np.full(size.size, size.sum())
    panel = np.unique(pack(at, cells), return_inverse=True)[1]
    return np.bincount(panel, weights=size)[panel]


def _projected(nest: Nest, n: int, depth: int, position: int) -> Factor:
    """Visits that differ in more than the foreign loops from ``position`` inwards: those indices are projected out
    of every operand (an upper bound where two other operands share such an index)."""
    operand = nest.operands[n]
    dropped = {i for i, _ in nest.loops[position - 1 : depth]} - set(operand.access.indices)
    leaves = [
        Leaf(x.stats, x.indices, tuple((m, g) for m, g in x.view if x.indices[m] not in dropped))
        for x in nest.visiting(n, depth)
    ]
    variables = {i: g for i, g in nest.variables(depth).items() if i not in dropped}
    keep = tuple((operand.access.indices[m], operand.layout.tiles[m]) for m in sorted(operand.layout.tile_modes))
    factor = nest.counter.by(leaves, variables, keep)
    column = nest.lane_column
    apart = column is not None and (depth < nest.lane_depth or column[0] in dropped)
    return Factor(factor.columns, factor.coords, factor.weights * (nest.lanes if apart else 1))
