"""What generators of tensors draw with: positions, values and checked parameters.

One seed gives the same entries bit for bit. Values are non-zero multiples of 1/8 up to 2 in magnitude, so that sums
of products are exact in float64 and compare equal in any order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mapper.errors import InputError
from mapper.tensor import Coords, SparseTensor, Values

LIMIT = 2**28
"""Most entries of a tensor, and the largest extent of one whose slices differ."""


def distinct(rng: np.random.Generator, size: int, count: int) -> Coords:
    """``count`` different numbers below ``size``, every set equally likely."""
    check_limit("entry count", count)
    if count * 4 > size:
        return rng.permutation(size)[:count].astype(np.int64)
    drawn = np.zeros(0, np.int64)
    while drawn.size < count:
        drawn = np.concatenate([drawn, rng.integers(size, size=count, dtype=np.int64)])
        drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
    return drawn[:count]


def seeded_values(rng: np.random.Generator, count: int) -> Values:
    """``count`` non-zero multiples of 1/8."""
    return np.asarray(rng.integers(1, 17, size=count) * rng.choice([-0.125, 0.125], size=count))


def seeded_tensor(extents: tuple[int, ...], coords: Coords, rng: np.random.Generator) -> SparseTensor:
    """Drawn values at ``coords``, int64[ndim, entries] in any order."""
    return SparseTensor.from_coo(extents, coords, seeded_values(rng, coords.shape[1]))


def revalued(tensor: SparseTensor, seed: int) -> SparseTensor:
    """``tensor`` with drawn values at the positions it stores; its notes say so."""
    values = seeded_values(generator(seed), tensor.nnz)
    return SparseTensor(tensor.shape, tensor.coords, values, (*tensor.notes, f"values drawn with seed {seed}"))


def unravel(at: Coords, extents: tuple[int, ...]) -> Coords:
    """int64[ndim, n]: coordinates of row-major positions."""
    if not extents or not at.size:
        return np.zeros((len(extents), at.size), np.int64)
    return np.array(np.unravel_index(at, extents), np.int64)


def generator(seed: int) -> np.random.Generator:
    """Generator of ``seed``, of a kind whose bits do not depend on the version of numpy."""
    return np.random.Generator(np.random.PCG64(checked_count("seed", seed)))


def checked_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Extents of a tensor with fewer than 2^62 positions. Raises InputError for others."""
    if isinstance(shape, str) or not isinstance(shape, Sequence):
        raise InputError(f"'shape' must be a list of extents, got {shape!r}")
    extents = tuple(checked_count("shape", extent) for extent in shape)
    if math.prod(extents) >= 2**62:
        raise InputError(f"'shape' must have fewer than 2^62 positions, got {extents}")
    return extents


def share_of(density: float, size: int) -> int:
    """round(density * size). Raises InputError unless 0 <= density <= 1."""
    if not 0 <= checked_number("density", density) <= 1:
        raise InputError(f"'density' must be between 0 and 1, got {density}")
    return round(density * size)


def check_limit(what: str, number: int) -> None:
    """Raises InputError above LIMIT."""
    if number > LIMIT:
        raise InputError(f"the {what} of a generated tensor must be at most {LIMIT}, got {number}")


def checked_number(name: str, value: Any) -> float:
    """A real number. Raises InputError for others, booleans among them."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{name!r} must be a number, got {value!r}")
    return float(value)


def checked_count(name: str, value: Any) -> int:
    """A whole number, 0 or more. Raises InputError for others, booleans among them."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise InputError(f"{name!r} must be a whole number, 0 or more, got {value!r}")
    return int(value)
