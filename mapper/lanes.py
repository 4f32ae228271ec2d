"""Lanes: which coordinates of a parallel index each of its lanes takes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from mapper.mapping import Lane, Mapping
from mapper.regions import logical_indices
from mapper.workload import Workload


@dataclass(frozen=True, slots=True)
class Slice:
    """Coordinates lo <= c < hi with c % step == phase, of the outermost loop over the index (tile coordinates where it
    is tiled)."""

    lo: int
    hi: int
    phase: int = 0
    step: int = 1

    @property
    def params(self) -> dict[str, int]:
        """As parameters of a scanner."""
        return {"lo": self.lo, "hi": self.hi} if self.step == 1 else {"phase": self.phase, "step": self.step}


def lane_slices(
    workload: Workload, mapping: Mapping, statements: tuple[int, ...]
) -> dict[int, tuple[tuple[Slice, ...], ...]]:
    """Per statement of a region, the slices of each of its parallel indices (order of ``Loops.parallel``).

    All statements share the slices of a logical index. With partition ``balanced``, the weight of a coordinate is the
    number of stored entries that the region's operands have there; boundaries stand where the running weight reaches
    each lane's share, so a slice may be empty.
    """
    leaders = logical_indices(workload.program, mapping.cuts)
    users: dict[tuple[int, str], list[tuple[int, Lane]]] = {}
    for number in statements:
        for lane in mapping.loops[number].parallel:
            users.setdefault(leaders[number, lane[0]], []).append((number, lane))
    slices = {leader: _slices(workload, mapping, own) for leader, own in users.items()}
    return {
        number: tuple(slices[leaders[number, index]] for index, _, _ in mapping.loops[number].parallel)
        for number in statements
    }


def _slices(workload: Workload, mapping: Mapping, users: list[tuple[int, Lane]]) -> tuple[Slice, ...]:
    number, (index, lanes, partition) = users[0]
    steps = mapping.loops[number].steps(index, workload.extents[number][index])
    if partition == "cyclic":
        return tuple(Slice(0, steps, lane, lanes) for lane in range(lanes))
    weight = np.ones(steps, np.int64)
    if partition == "balanced":
        stored = sum((_weights(workload, mapping, n, lane[0], steps) for n, lane in users), np.zeros(steps, np.int64))
        weight = stored if stored.any() else weight
    running = np.concatenate([[0], np.cumsum(weight)])
    shares = running[-1] * np.arange(1, lanes) / lanes
    bounds = [0, *np.searchsorted(running, shares, side="left").tolist(), steps]
    return tuple(Slice(lo, hi) for lo, hi in itertools.pairwise(bounds))


def _weights(workload: Workload, mapping: Mapping, number: int, index: str, steps: int) -> np.ndarray:
    tile = dict(mapping.loops[number].tiles).get(index, 1)
    total = np.zeros(steps, np.int64)
    for access in workload.program.statements[number].operands:
        if index in access.indices:
            at = workload.tensor(access.tensor).coords[access.indices.index(index)] // tile
            total += np.bincount(at, minlength=steps)
    return total
