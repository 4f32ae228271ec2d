"""Lanes: which coordinates of a parallel index each of its lanes takes."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mapper.mapping import Lane, Loops, Mapping
from mapper.program import Edge, Program
from mapper.regions import logical_indices, renaming
from mapper.tensor import Coords
from mapper.workload import Workload


@dataclass(frozen=True, slots=True)
class Slice:
    """Coordinates lo <= c < hi with c % step == phase, of the outermost loop over the index (tile coordinates where it
    is tiled)."""

    lo: int
    hi: int
    phase: int = 0
    step: int = 1

    def has(self, coordinates: Coords) -> npt.NDArray[np.bool_]:
        """Which of ``coordinates`` it takes."""
        crd = coordinates
        return np.asarray((crd >= self.lo) & (crd < self.hi) & (crd % self.step == self.phase))

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


def common_levels(
    program: Program, loops: Sequence[Loops], fused: Sequence[Edge], number: int, divided: Collection[str] | None = None
) -> int:
    """Outer levels of a statement's result in which lanes agree that share its reduction, or that differ in the indices
    ``divided``: those of loops above all of these and above any reduction, as sums leave only where there are some.
    Not the last level, where a lane leaves out what has no value. ``fused``: the edges of its region."""
    kept, nest = program.statements[number].target.indices, loops[number].nest
    apart = {i for i, _, _ in loops[number].parallel if i not in kept} if divided is None else divided
    above = next((n for n, (index, _) in enumerate(nest) if index in apart or index not in kept), len(nest))
    for edge in fused:
        if edge.consumer == number:  # its levels are the outermost loops
            own = {made for made, read in renaming(program, edge).items() if read in apart}
            above = min(above, common_levels(program, loops, fused, edge.producer, own))
    return min(above, sum(index in kept for index, _ in nest) - 1) if kept else 0


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
