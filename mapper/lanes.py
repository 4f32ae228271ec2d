"""Lanes: contiguous coordinate ranges of a parallel index, balanced by the stored entries they cover."""

from __future__ import annotations

import itertools

import numpy as np

from mapper.mapping import Mapping
from mapper.workload import Workload

LaneRange = tuple[int, int]
"""Half-open range of coordinates of the parallel loop: tile coordinates where the index is tiled."""


def lane_ranges(workload: Workload, mapping: Mapping, statements: tuple[int, ...]) -> tuple[LaneRange | None, ...]:
    """One range per lane of a region, ``(None,)`` without parallelism.

    The weight of a coordinate is the number of stored entries that the region's operands have there; range
    boundaries stand where the running weight reaches each lane's share, so a range may be empty.
    """
    first = mapping.loops[statements[0]]
    if first.parallel is None:
        return (None,)
    weight = _weights(workload, mapping, statements)
    running = np.concatenate([[0], np.cumsum(weight if weight.any() else weight + 1)])
    shares = running[-1] * np.arange(1, first.lanes) / first.lanes
    bounds = [0, *np.searchsorted(running, shares, side="left").tolist(), weight.size]
    return tuple(itertools.pairwise(bounds))


def _weights(workload: Workload, mapping: Mapping, statements: tuple[int, ...]) -> np.ndarray:
    total = np.zeros(0, np.int64)
    for number in statements:
        loops = mapping.loops[number]
        assert loops.parallel is not None  # fused statements agree on their lanes (regions.edge_violations)
        index = loops.parallel[0]
        tile = dict(loops.tiles).get(index, 1)
        size = -(-workload.extents[number][index] // tile)
        if not total.size:
            total = np.zeros(size, np.int64)
        for access in workload.program.statements[number].operands:
            if index in access.indices:
                at = workload.tensor(access.tensor).coords[access.indices.index(index)] // tile
                total += np.bincount(at, minlength=size)
    return total
