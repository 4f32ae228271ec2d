"""Fetches of every tile under a residency policy.

``none`` fetches at every visit; under the others visits are replayed (``costmodel.visits``), unless all tiles fit. Of a
tile larger than the buffer ``overbooked`` fetches the tail at every walk, so the walks are counted, exactly.

Below level L2 nothing can be replayed. Each foreign loop (one whose index the operand lacks) brings the tiles below it,
its *panel*, again in every iteration; a tile is taken to be visited in each iteration with the same chance,
independently (Che's approximation of LRU, IEEE JSAC 20(7), 2002, in iterations instead of time). A panel that fits is
fetched once, a panel visited whole in every iteration that does not fit is always fetched again. ``overbooked`` loads
as ``lru`` does, ``keep`` holds as many mean tiles as fit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from costmodel.counting import Lanes, Leaf
from costmodel.factors import Floats, radices
from costmodel.nest import Nest
from costmodel.tiles import TileSizes
from costmodel.visits import replay
from mapper.machine import Machine
from mapper.residency import KEEP, OVERBOOKED, streaming_bytes


@dataclass(frozen=True, slots=True)
class _Panels:
    """For one foreign loop with ``iterations``: how many tiles of a mean panel each listed tile stands for."""

    share: float
    iterations: float


@dataclass(frozen=True, slots=True, eq=False)
class Fetches:
    """Per tile, by all lanes: ``loads`` of the whole, and ``tails``, walks of a resident tile whose tail streams.
    ``missed``: share of the visits that load, for each of the lanes that they differ in, where that is known."""

    loads: Floats
    tails: Floats
    missed: Floats | None = None


def tail_bytes(sizes: TileSizes, machine: Machine) -> Floats:
    """Bytes of every tile that stream at each walk when it is overbooked; its last bytes are its values."""
    size, room = sizes.values + sizes.metadata, machine.buffer_bytes
    if room is None:
        return np.zeros(size.size)
    return np.where(size > room, size - room + streaming_bytes(machine), 0.0)


def fetches(nest: Nest, n: int, depth: int, sizes: TileSizes, machine: Machine) -> Fetches:
    """Fetches of every tile of operand ``n`` (order of ``sizes``); its tile load is below the first ``depth`` loops."""
    policy, none = nest.model.mapping.residency, np.zeros(sizes.values.size)
    copies = _copies(nest, n, sizes)
    walks = _visits(nest, n, depth, sizes, None)
    if policy == "none" or not sizes.values.size:
        return Fetches(walks * copies, none)
    tile_depth = nest.tile_depth(n)
    visits = walks if depth == tile_depth else np.minimum(walks, _visits(nest, n, tile_depth, sizes, None))
    missed = None
    if nest.model.level == "L2":
        loads, missed = _loads(nest, n, depth, sizes, visits * copies, machine)
    elif policy != KEEP:
        loads = _recently_used(nest, n, tile_depth, sizes, visits, machine) * copies
    else:
        whole = float((sizes.total_values + sizes.total_metadata) * copies / nest.lanes)
        kept = 1.0 if machine.buffer_bytes is None else min(1.0, machine.buffer_bytes / max(1e-9, whole))
        loads = (visits - kept * np.maximum(0.0, visits - 1.0)) * copies
    if policy != OVERBOOKED:
        return Fetches(loads, none, missed)
    return Fetches(loads, np.where(tail_bytes(sizes, machine) > 0, np.maximum(0.0, walks * copies - loads), 0.0))


def _loads(
    nest: Nest, n: int, depth: int, sizes: TileSizes, visits: Floats, machine: Machine
) -> tuple[Floats, Floats | None]:
    """Loads of whole tiles by all lanes and what share of its visits each lane loads, replayed unless every tile stays.
    Level L2 only."""
    size = sizes.values + sizes.metadata
    alike = set(nest.fixed(depth)) <= set(_told(nest, n, sizes))
    if alike and (machine.buffer_bytes is None or size.sum() <= machine.buffer_bytes):
        return np.minimum(visits, _copies(nest, n, sizes)), None
    room = int(size.sum()) if machine.buffer_bytes is None else machine.buffer_bytes
    found = replay(nest, n, depth, nest.tile_depth(n), sizes, visits, room)
    if found.returns is not None:
        return found.loads + (visits - found.loads) * found.returns, found.missed
    if found.followed.size == size.size:
        return found.loads, found.missed
    rate = float((found.loads * size).sum() / max(1e-9, float((found.visits * size).sum())))
    loads = np.maximum(visits * rate, np.minimum(visits, 1.0))
    loads[found.followed] = found.loads[found.followed]
    return loads, found.missed


def _recently_used(nest: Nest, n: int, depth: int, sizes: TileSizes, visits: Floats, machine: Machine) -> Floats:
    """Loads of every tile in one lane when the most recently used stay. Below level L2."""
    if not depth:
        return np.minimum(visits, 1.0)
    operand, room = nest.operands[n], machine.buffer_bytes
    foreign = [q for q, (i, _) in enumerate(nest.loops[:depth], 1) if i not in operand.access.indices]
    size = sizes.values + sizes.metadata
    if nest.model.mapping.residency == OVERBOOKED and room is not None:
        size = np.minimum(size, room)
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
        kept = _iterations_kept(size * active * panels.share, chance, panels, room)
        hits += (inner - outer) * _returned(chance, kept, panels.iterations)
        outer_steps *= panels.iterations
    return visits - hits


def _copies(nest: Nest, n: int, sizes: TileSizes) -> int:
    """Lanes that may load the same tile: those that its coordinates do not tell apart."""
    told = _told(nest, n, sizes)
    return math.prod(own.count for own in nest.splits if own not in told)


def _told(nest: Nest, n: int, sizes: TileSizes) -> dict[Lanes, int]:
    """Lanes that a tile coordinate of an operand tells apart, and which of its coordinates that is."""
    at = {nest.operands[n].access.indices[m]: k for k, (m, _) in enumerate(sizes.view)}
    return {own: at[own.index] for own in nest.splits if own.index in at}


def _visits(nest: Nest, n: int, depth: int, sizes: TileSizes, dropped_from: int | None) -> Floats:
    """Visits of every tile in one lane, those that differ only in foreign loops from ``dropped_from`` inwards taken
    as one: their indices are projected out of every operand (too many where two operands share such an index)."""
    operand = nest.operands[n]
    inside = set() if dropped_from is None else {i for i, _ in nest.loops[dropped_from - 1 : depth]}
    dropped = inside - set(operand.access.indices)
    leaves = [
        Leaf(x.stats, x.indices, tuple((m, g) for m, g in x.view if x.indices[m] not in dropped))
        for x in nest.visiting(n, depth)
    ]
    variables = {i: g for i, g in nest.variables(depth).items() if i not in dropped}
    foreign = variables.keys() - set(operand.access.indices)
    walked = nest.variables(depth)
    lanes = math.prod(own.count for own in nest.fixed(depth) if own.index in foreign or own.index not in walked)
    if nest.model.level != "L2":
        return np.full(sizes.values.size, nest.counter.total(leaves, variables) / max(1.0, sizes.tiles) / lanes)
    keep = tuple((operand.access.indices[m], g) for m, g in sizes.view)
    if not keep:
        return np.array([nest.counter.total(leaves, variables) / lanes])
    return nest.counter.by(leaves, variables, keep).at(sizes.coords, radices(keep, nest.extents)) / lanes


def _panels(nest: Nest, n: int, position: int, sizes: TileSizes) -> _Panels:
    """Panels of the foreign loop at ``position``: tiles that agree in the loops above it, and in their lane."""
    operand = nest.operands[n]
    index = nest.loops[position - 1][0]
    steps = -(-nest.extents[index] // dict(nest.plan.tiles)[index])
    above = {i for i, _ in nest.loops[: position - 1]}
    fixed = [(m, g) for m, g in sizes.view if operand.access.indices[m] in above]
    apart = [own for own, k in _told(nest, n, sizes).items() if sizes.view[k] not in fixed]
    cells = math.prod(-(-operand.stats.shape[m] // g) for m, g in fixed)
    panels = max(1.0, min(sizes.tiles, cells * math.prod(own.count for own in apart)))
    return _Panels(sizes.tiles / sizes.values.size / panels, steps / nest.lanes_at(position))


def _iterations_kept(size: Floats, chance: Floats, panels: _Panels, capacity: int | None) -> float:
    """The most iterations whose distinct tiles of a panel fit the buffer."""
    most = float(np.floor(panels.iterations))
    absent = np.log1p(-np.minimum(chance, 1 - 1e-15))

    def fit(iterations: float) -> bool:
        return capacity is None or float((size * -np.expm1(absent * iterations)).sum()) <= capacity

    if fit(most):
        return most
    low, high = 0.0, most
    while low < high:
        middle = math.ceil((low + high) / 2)
        low, high = (middle, high) if fit(middle) else (low, middle - 1)
    return low


def _returned(chance: Floats, kept: float, iterations: float) -> Floats:
    """Share of returns that come within ``kept`` iterations, all returns coming within the loop's own."""
    absent = np.log1p(-np.minimum(chance, 1 - 1e-15))
    every = -np.expm1(absent * max(1.0, iterations - 1))
    share = np.divide(-np.expm1(absent * kept), every, out=np.zeros_like(chance), where=every > 0)
    return np.minimum(1.0, share)
