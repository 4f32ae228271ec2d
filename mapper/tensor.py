"""SparseTensor: canonical coordinate lists, the one form in which data enter."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mapper.errors import InputError

Coords = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]

LARGEST_EXTENT = 2**62
"""Extents up to here keep coordinates, and sums of two of them, within 64 bits."""

MOST_DENSE = 2**31
"""Positions of the largest tensor that is written out densely (16 GiB of float64)."""


@dataclass(frozen=True, eq=False)
class SparseTensor:
    """Stored entries of a tensor of ``shape``.

    ``coords`` is int64[ndim, nnz], unique columns in lexicographic order; ``values`` float64[nnz]. Explicit
    zeros are stored entries. ``notes`` says what reading the data had to decide (duplicates summed, ...).
    """

    shape: tuple[int, ...]
    coords: Coords
    values: Values
    notes: tuple[str, ...] = ()

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return int(self.values.size)

    @property
    def ndim(self) -> int:
        """Number of modes."""
        return len(self.shape)

    @cached_property
    def density(self) -> float:
        """Stored entries over all positions; 1.0 for a tensor without positions."""
        size = math.prod(self.shape)
        return self.nnz / size if size else 1.0

    @cached_property
    def key(self) -> str:
        """sha256 of shape, coordinates and values."""
        digest = hashlib.sha256(repr(self.shape).encode())
        digest.update(np.ascontiguousarray(self.coords).tobytes())
        digest.update(np.ascontiguousarray(self.values).tobytes())
        return digest.hexdigest()

    @classmethod
    def from_coo(
        cls, shape: tuple[int, ...], coords: npt.ArrayLike, values: npt.ArrayLike, notes: tuple[str, ...] = ()
    ) -> SparseTensor:
        """Sorts entries and sums duplicates (noted); ``coords`` is integer[ndim, entries].

        Raises InputError for coordinates that are no integers, lie outside ``shape`` or do not match the values,
        and for values that are not real numbers.
        """
        if any(not 0 <= extent <= LARGEST_EXTENT for extent in shape):
            raise InputError(f"extents must not be negative and at most 2^62, got shape {shape}")
        data = _real(values).reshape(-1)
        at = _coordinates(coords, (len(shape), data.size))
        for mode, extent in enumerate(shape):
            if at.shape[1] and (at[mode].min() < 0 or at[mode].max() >= extent):
                bad = int(np.flatnonzero((at[mode] < 0) | (at[mode] >= extent))[0])
                raise InputError(f"coordinate {at[mode, bad]} of entry {bad} is outside mode {mode} of extent {extent}")
        if not shape:  # a scalar has one position
            return cls((), np.zeros((0, 1), np.int64), np.array([data.sum()]), notes)
        order = np.lexsort(at[::-1])
        at, data = at[:, order], data[order]
        fresh = np.ones(data.size, dtype=bool)
        if data.size:
            fresh[1:] = (at[:, 1:] != at[:, :-1]).any(axis=0)
        if not fresh.all():
            notes = (*notes, f"{data.size - int(fresh.sum())} duplicate entries were summed")
            data = np.add.reduceat(data, np.flatnonzero(fresh))
            at = at[:, fresh]
        return cls(tuple(int(n) for n in shape), np.ascontiguousarray(at), np.ascontiguousarray(data), notes)

    @classmethod
    def from_dense(cls, array: npt.ArrayLike, keep_zeros: bool = False) -> SparseTensor:
        """Non-zero entries of a numpy array; with ``keep_zeros`` every position is stored."""
        dense = _real(array)
        if not dense.shape:
            return cls.from_coo((), [], dense)
        at = np.stack(np.nonzero(np.ones_like(dense, dtype=bool) if keep_zeros else dense))  # in row-major order
        return cls(dense.shape, at, dense[tuple(at)])

    @classmethod
    def from_any(cls, data: Any) -> SparseTensor:
        """A SparseTensor, scipy.sparse or pydata/sparse object (``.tocoo()`` / ``.coords``) or numpy array."""
        if isinstance(data, SparseTensor):
            return data
        if hasattr(data, "tocoo"):
            coo = data.tocoo()
            at = coo.coords if hasattr(coo, "coords") else (coo.row, coo.col)
            return cls.from_coo(tuple(coo.shape), np.asarray(at), coo.data)
        if hasattr(data, "coords") and hasattr(data, "data"):
            return cls.from_coo(tuple(data.shape), data.coords, data.data)
        if isinstance(data, np.ndarray | list | int | float):
            return cls.from_dense(data)
        raise InputError(f"a tensor must be a scipy.sparse, pydata/sparse or numpy object, got {type(data).__name__}")

    def minus(self, other: SparseTensor) -> SparseTensor:
        """The difference; what only one of the two stores counts as zero in the other. Values that are not finite
        differ by nothing from equal ones (and NaN from NaN), by infinity from all others."""
        coords, place = self.coords, np.zeros(2, np.int64)  # a scalar's one position
        if self.shape:
            coords, _, place = distinct_columns(np.concatenate([self.coords, other.coords], axis=1))
        own, others = np.zeros((2, coords.shape[1]))
        own[place[: self.nnz]], others[place[self.nnz :]] = self.values, other.values
        equal = (own == others) | (np.isnan(own) & np.isnan(others))
        difference = np.subtract(own, others, out=np.zeros(own.size), where=~equal)
        difference[np.isnan(difference)] = math.inf
        return SparseTensor(self.shape, coords, difference)

    def near(self, other: SparseTensor, tolerance: float = 1e-9) -> bool:
        """Whether all values differ by at most ``tolerance`` over one plus the largest magnitude."""
        return bool((np.abs(self.minus(other).values) <= tolerance * (1.0 + self.magnitude)).all())

    @property
    def magnitude(self) -> float:
        """Largest magnitude of the values that are finite."""
        return float(np.abs(self.values).max(initial=0.0, where=np.isfinite(self.values)))

    def to_dense(self) -> Values:
        """float64 array of ``shape``. Raises InputError for more than 2^31 positions."""
        if math.prod(self.shape) > MOST_DENSE:
            raise InputError(f"a tensor of shape {self.shape} has more than 2^31 positions: too many for a dense array")
        dense = np.zeros(self.shape)
        dense[tuple(self.coords)] = self.values if self.shape else self.values[0]
        return dense


def distinct_columns(columns: Coords) -> tuple[Coords, Coords, Coords]:
    """Distinct columns of int64[rows, n] in lexicographic order, how often each occurs, and the place of every given
    column among them: ``np.unique(axis=1)``, many times faster on long arrays."""
    order = np.lexsort(columns[::-1])
    ordered = columns[:, order]
    first = np.ones(order.size, bool)
    first[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    number = np.cumsum(first) - 1
    place = np.empty_like(order)
    place[order] = number
    return ordered[:, first], np.bincount(number, minlength=int(first.sum())), place


def _real(values: npt.ArrayLike) -> Values:
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "c":
            return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"values must be real numbers in a rectangular array: {error}") from error
    raise InputError(f"values must be real numbers, got {array.dtype}; take their magnitude or real part first")


def _coordinates(coords: npt.ArrayLike, shape: tuple[int, int]) -> Coords:
    array = np.asarray(coords)
    if array.size and array.dtype.kind not in "iu":
        raise InputError(f"coordinates must be integers, got {array.dtype}")
    if array.size and array.dtype.kind == "u" and array.max() > LARGEST_EXTENT:
        raise InputError(f"coordinates must be at most 2^62, got {array.max()}")
    if shape[0] == 1 or not array.size:  # a vector's coordinates may come as a flat list
        array = array.reshape(1, -1) if array.size else np.zeros((shape[0], 0 if shape[0] else shape[1]), np.int64)
    if array.shape != shape:
        raise InputError(f"{shape[1]} values in {shape[0]} modes need coordinates of shape {shape}, got {array.shape}")
    return array.astype(np.int64)
