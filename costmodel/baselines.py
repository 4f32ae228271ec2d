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
    """The largest square whose fullest tiles fit."""
    return frame.mapping(frame.square(largest_square(frame)))


def overbooked(frame: Frame) -> Mapping:
    """Swiftiles' square, its tiles overbooked. Operands without zeros must fit whole."""
    frame = replace(frame, residency=OVERBOOKED)
    room = frame.machine.buffer_bytes
    whole = max(frame.extents)
    if room is None:
        return frame.mapping(frame.square(whole))
    side = min(
        (_swiftile(frame, access, room) for access in frame.workload.program.statements[0].operands), default=whole
    )
    while side > 1 and not frame.fits(frame.square(side)):
        side -= max(1, side // 16)
    return frame.mapping(frame.square(max(1, side)))


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
