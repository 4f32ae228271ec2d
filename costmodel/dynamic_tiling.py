"""Tiles that grow at run time (DRT, ASPLOS 2023): what they move in a matrix product, by an exact walk."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

from costmodel.factors import Floats, group_sum
from costmodel.statistics import TensorStatistics
from costmodel.tile_search import Frame
from costmodel.tiles import tile_sizes
from mapper.errors import InputError
from mapper.program import Access
from mapper.storage import layout_of


@dataclass(frozen=True, slots=True)
class DynamicTraffic:
    """Bytes that DRT moves: operands, partial results out and back, the result; and how many tiles of the first
    operand it makes."""

    loads_bytes: float
    partial_bytes: float
    store_bytes: float
    tiles: int

    @property
    def bytes(self) -> float:
        """All of them."""
        return self.loads_bytes + self.partial_bytes + self.store_bytes


def dynamic_traffic(frame: Frame, micro: int = 32) -> DynamicTraffic:
    """DRT on Z(i,j) = A(i,k) * B(k,j), exactly walked: tiles of A grow from a micro-tile of ``micro`` squared, by turns
    along i and k, until the buffer is full; those further along k keep the extent along i. Each tile of A meets the
    micro-tiles of B in the rows that it has entries for, once. Rows of Z that exceed the accumulator leave a partial
    result per tile of A, read back to be added. The better of two growths counts: with and without a limit on i that
    keeps the rows of Z on chip.

    Raises InputError for other programs.
    """
    statement = frame.workload.program.statements[0]
    operands = statement.operands
    if statement.kind != "contract" or [len(a.indices) for a in operands] != [2, 2]:
        raise InputError("DRT is modelled for Z(i,j) = A(i,k) * B(k,j), got " + str(statement))
    walks = [_Walk(frame, micro, limited).run() for limited in (False, True)]
    return min(walks, key=lambda w: w.bytes)


class _Walk:
    """One walk over the tiles that DRT makes."""

    def __init__(self, frame: Frame, micro: int, limited: bool) -> None:
        import scipy.sparse as sp

        self._machine, self._limited = frame.machine, limited
        statement, workload = frame.workload.program.statements[0], frame.workload
        (i, j), (left, right) = statement.target.indices, statement.operands
        if i not in left.indices:
            i, j = j, i
        k = next(n for n in left.indices if n != i)
        self._sizes, patterns = list[Floats](), list[sp.csr_array]()
        for access, rows, columns in ((left, i, k), (right, k, j)):
            tensor, at = workload.tensor(access.tensor), access.indices.index(rows)
            coords = tensor.coords[[at, 1 - at]]
            shape = tensor.shape[at], tensor.shape[1 - at]
            self._sizes.append(_micro_bytes(frame, access, micro, (rows, columns)))
            patterns.append(sp.csr_array((np.ones(tensor.nnz, np.int64), (coords[0], coords[1])), shape=shape))
        self._left, self._right, self._micro = patterns[0], patterns[1], micro
        self._product = ((self._left @ self._right) != 0).astype(np.int64).tocsr()
        entry = self._machine.value_bytes + 2 * self._machine.coordinate_bytes
        self._entry = entry
        self._capacity = (
            math.inf if frame.machine.accumulator_bytes is None else frame.machine.accumulator_bytes // entry
        )
        self._room = math.inf if frame.machine.buffer_bytes is None else float(frame.machine.buffer_bytes)
        self._running = np.pad(self._sizes[0].cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
        self._row_of_right = self._sizes[1].sum(axis=1)
        per_row = np.diff(self._product.indptr)
        self._result = np.concatenate([[0], np.cumsum(np.add.reduceat(per_row, np.arange(0, per_row.size, micro)))])

    def run(self) -> DynamicTraffic:
        rows, columns = self._sizes[0].shape
        loads, partial, tiles, top = float(self._sizes[0].sum()), 0.0, 0, 0
        while top < rows:
            high, wide = self._grown(top, rows, columns)
            cuts, at = [0], wide
            while at < columns:
                cuts.append(at)
                at += self._extended(top, high, at, columns)
            cuts.append(columns)
            whole = len(cuts) == 2 or self._result[top + high] - self._result[top] <= self._capacity
            for begin, end in itertools.pairwise(cuts):
                active = (self._sizes[0][top : top + high, begin:end] > 0).any(axis=0)
                if not active.any():
                    continue
                tiles += 1
                loads += float(self._row_of_right[begin:end][active].sum())
                if not whole:
                    partial += 2 * self._entry * self._distinct(top, high, begin, end)
            top += high
        machine, rows_made = self._machine, int((np.diff(self._product.indptr) > 0).sum())
        stored = self._product.nnz * (machine.value_bytes + machine.coordinate_bytes)
        stored += rows_made * (machine.coordinate_bytes + machine.pointer_bytes)
        return DynamicTraffic(loads, partial, float(stored), tiles)

    def _bytes(self, top: int, high: int, left: int, wide: int) -> float:
        r = self._running
        return float(r[top + high, left + wide] - r[top, left + wide] - r[top + high, left] + r[top, left])

    def _grown(self, top: int, rows: int, columns: int) -> tuple[int, int]:
        """Extents of the first tile of a block, in micro-tiles."""
        high = wide = 1
        open_ = {"i", "k"}
        while open_:
            for side in ("i", "k"):
                more = (high + (side == "i"), wide + (side == "k"))
                fits = (
                    top + more[0] <= rows and more[1] <= columns and self._bytes(top, more[0], 0, more[1]) <= self._room
                )
                if self._limited and side == "i":
                    fits = fits and self._result[top + more[0]] - self._result[top] <= self._capacity
                if side in open_ and fits:
                    high, wide = more
                else:
                    open_.discard(side)
        return high, wide

    def _extended(self, top: int, high: int, left: int, columns: int) -> int:
        """Extent along k of a further tile of a block."""
        wide = 1
        while left + wide < columns and self._bytes(top, high, left, wide + 1) <= self._room:
            wide += 1
        return wide

    def _distinct(self, top: int, high: int, begin: int, end: int) -> int:
        """Entries of the result of one tile of A with all of B."""
        u = self._micro
        part = self._left[top * u : (top + high) * u, begin * u : end * u] @ self._right[begin * u : end * u]
        return int(part.nnz)


def _micro_bytes(frame: Frame, access: Access, micro: int, along: tuple[str, str]) -> Floats:
    """Bytes of every micro-tile of an operand, as a matrix with the indices ``along``."""
    stats = frame.statistics.of(frame.workload.tensor(access.tensor))
    assert isinstance(stats, TensorStatistics)
    mapping = frame.mapping(tuple(min(micro, e) for e in frame.extents))
    layout = layout_of(access, mapping.loops[0], mapping.kinds(access.tensor), mapping.dtype(access.tensor))
    if len(layout.tile_modes) < 2:
        layout = replace(layout, tile_modes=(0, 1), tiles=(micro, micro))
    sizes = tile_sizes(frame.statistics, stats, layout, frame.machine)
    grid = [-(-stats.shape[m] // micro) for m in (0, 1)]
    (rows, columns), bytes_ = group_sum(list(sizes.coords), grid, sizes.values + sizes.metadata)
    found = np.zeros(grid)
    found[rows, columns] = bytes_
    return found if access.indices == along else found.T
