"""MatrixStack: a tensor seen as matrices over its last two modes, with the counts that formats and patterns rest on."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from mapper.tensor import SparseTensor

Ints = npt.NDArray[np.int64]


class MatrixStack:
    """``matrices`` of ``rows`` by ``columns`` (Python ints: products of extents know no 64 bits); a vector is a matrix
    of one row.

    ``row``, ``column``: int64[nnz], as the last two modes; ``row_lengths``: int64[stored rows], entries of every row
    that stores one; ``nodes``: per mode, the different coordinates up to it, which a tree of compressed levels holds.
    """

    def __init__(self, tensor: SparseTensor) -> None:
        missing = max(0, 2 - tensor.ndim)
        shape = (1,) * missing + tensor.shape
        coords = np.concatenate([np.zeros((missing, tensor.nnz), np.int64), tensor.coords])
        self.nnz = tensor.nnz
        self.matrices, self.rows, self.columns = math.prod(shape[:-2]), shape[-2], shape[-1]
        self.row, self.column = coords[-2], coords[-1]
        opens = np.zeros(tensor.nnz, bool)
        opens[:1] = True
        steps = [opens]  # where the first entry of a different prefix stands, after each mode
        for at in coords:
            steps.append(steps[-1] | np.concatenate([opens[:1], at[1:] != at[:-1]]))
        self._new_matrix, self._new_row = steps[-3], steps[-2]
        self.nodes = tuple(int(step.sum()) for step in steps[1 + missing :])
        self.row_lengths: Ints = np.diff(np.flatnonzero(self._new_row), append=tensor.nnz)

    @property
    def all_rows(self) -> int:
        """Rows of all matrices, empty ones too."""
        return self.matrices * self.rows

    @property
    def positions(self) -> int:
        """Positions of all matrices."""
        return self.all_rows * self.columns

    def group_sizes(self, width: int) -> Ints:
        """Entries of every occupied group of ``width`` neighbours in a row, groups starting at multiples of it."""
        group = self.column // width
        opens = self._new_row.copy()
        opens[1:] |= group[1:] != group[:-1]
        return np.diff(np.flatnonzero(opens), append=self.nnz)

    def block_count(self, height: int, width: int) -> int:
        """Blocks of ``height`` by ``width``, starting at multiples of them, that hold an entry."""
        band, place = self.row // height, self.column // width
        opens = self._new_matrix.copy()
        opens[1:] |= band[1:] != band[:-1]
        if self.columns > 2**31:
            place = np.unique(place, return_inverse=True)[1]
        # bands are numbered by those that hold an entry, so that both numbers are below 2^31
        blocks = np.sort((np.cumsum(opens, dtype=np.int64) << 31) + place)
        return int((blocks[1:] != blocks[:-1]).sum()) + min(1, self.nnz)
