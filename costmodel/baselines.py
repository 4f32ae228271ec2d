"""Tilings of others, in the interface of our search: a ``Frame`` in, a mapping out.

* ``conservative``: the largest square whose dense footprint fits every buffer.
* ``prescient``: the largest square whose fullest real tile fits (Tailors' prescient uniform shape).
* ``overbooked``: Swiftiles (Tailors, MICRO 2023): the square that fits at mean density, scaled by how full the tiles
  are there, so that a share ``OVERFLOW`` is expected not to fit; tails stream (``residency: overbooked``).
* ``uniform``: our search, guided by uniform density (level L0, Sparseloop's hypergeometric model).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from costmodel.factors import Floats
from costmodel.tile_search import Frame, Shape, largest_square, search_shape
from costmodel.tiles import tile_sizes
from mapper.mapping import Mapping
from mapper.program import Access
from mapper.residency import OVERBOOKED
from mapper.storage import layout_of

OVERFLOW = 0.1
"""Share of tiles that Swiftiles lets overflow."""


def conservative(frame: Frame) -> Mapping:
    """The largest square whose dense footprint fits the buffer of every operand, and the accumulator that of the
    result."""
    side = 1
    while side < max(frame.extents) and _dense_fits(frame, side + 1):
        side += 1
    return frame.mapping(frame.square(side))


def _dense_fits(frame: Frame, side: int) -> bool:
    machine, extents = frame.machine, frame.workload.extents[0]
    statement = frame.workload.program.statements[0]

    def positions(access: Access) -> int:
        return math.prod(min(side, extents[i]) for i in access.indices)

    buffer, sums = machine.buffer_bytes, machine.accumulator_bytes
    entry = machine.value_bytes + machine.coordinate_bytes * len(statement.target.indices)
    fits = buffer is None or all(positions(a) * machine.value_bytes <= buffer for a in statement.operands)
    return fits and (sums is None or positions(statement.target) * entry <= sums)


def prescient(frame: Frame) -> Mapping:
    """The largest square whose fullest tiles fit, that of the result too if less is moved then."""
    side = whole = largest_square(frame)
    while side > 1 and not _result_fits(frame, frame.square(side)):
        side -= max(1, side // 16)
    return frame.mapping(min((frame.square(s) for s in (whole, side)), key=frame.traffic))


def _result_fits(frame: Frame, shape: Shape) -> bool:
    machine, target = frame.machine, frame.workload.program.statements[0].target
    if machine.accumulator_bytes is None:
        return True
    stats = frame.statistics.of(frame.workload.tensor(target.tensor))
    tiles = dict(zip(frame.tiles, shape, strict=True))
    full = tuple((m, 1) for m in range(len(target.indices)))
    view = tuple((m, tiles[i]) for m, i in enumerate(target.indices))
    entry = machine.value_bytes + machine.coordinate_bytes * len(target.indices)
    return float(stats.marginal(full, view)[1].max(initial=0.0)) * entry <= machine.accumulator_bytes


def overbooked(frame: Frame) -> Mapping:
    """Swiftiles' square for the first operand, which stays while the others pass, its tiles overbooked; the other
    indices as long as the tiles of the others fit, as these are walked too often to stream their tails."""
    frame, room = replace(frame, residency=OVERBOOKED), frame.machine.buffer_bytes
    stationary, *others = frame.workload.program.statements[0].operands
    if room is None:
        return frame.mapping(frame.extents)

    def shape(side: int, rest: int) -> Shape:
        sides = (side if i in stationary.indices else rest for i in frame.tiles)
        return tuple(min(s, e) for s, e in zip(sides, frame.extents, strict=True))

    def fits(side: int, rest: int) -> bool:
        own = shape(side, rest)
        return frame.fits(own) and all(_occupancies(frame, a, own).max(initial=0.0) <= room for a in others)

    side = _swiftile(frame, stationary, room)
    while side > 1 and not fits(side, 1):
        side -= max(1, side // 16)
    low, high = 1, max(frame.extents)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(side, middle) else (low, middle - 1)
    return frame.mapping(shape(side, low))


def _swiftile(frame: Frame, access: Access, room: int) -> int:
    """The side for one operand: at the guess of mean density, the occupancy that a share OVERFLOW of its tiles exceeds
    says by how much the area is off."""
    whole = max(frame.extents)
    total = _occupancies(frame, access, frame.square(whole)).sum()
    if total <= room:
        return whole
    modes = len(access.indices)
    cells = math.prod(frame.workload.extents[0][i] for i in access.indices)
    guess = max(1, min(whole, round((room * cells / total) ** (1 / modes))))
    occupied = float(np.quantile(_occupancies(frame, access, frame.square(guess)), 1 - OVERFLOW))
    return max(1, min(whole, int(guess * (room / occupied) ** (1 / modes))))


def _occupancies(frame: Frame, access: Access, shape: Shape) -> Floats:
    """Bytes of every stored tile."""
    mapping = frame.mapping(shape)
    stats = frame.statistics.of(frame.workload.tensor(access.tensor))
    layout = layout_of(access, mapping.loops[0], mapping.kinds(access.tensor), mapping.dtype(access.tensor))
    sizes = tile_sizes(frame.statistics, stats, layout, frame.machine)
    return sizes.values + sizes.metadata


def uniform(frame: Frame) -> Mapping:
    """The best shape that fits, where traffic is judged by uniform density."""
    return frame.mapping(search_shape(replace(frame, level="L0")))


BASELINES: dict[str, Callable[[Frame], Mapping]] = {
    "conservative": conservative,
    "prescient": prescient,
    "overbooked": overbooked,
    "uniform": uniform,
}
"""Tilings by name."""
