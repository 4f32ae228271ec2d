"""Seeded tensors. One seed gives the same entries bit for bit; values are non-zero multiples of 1/8 up to 2 in
magnitude, so that sums of products are exact in float64 and compare equal in any order."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mapper.errors import InputError, nearest
from mapper.tensor import Coords, SparseTensor

CHUNK = 2**22
"""Positions whose random keys are held at a time."""

LIMIT = 2**28
"""Most entries of a tensor, and the largest extent of one with weights or a band."""


def uniform(shape: Sequence[int], density: float, seed: int) -> SparseTensor:
    """round(density * positions) entries, every set of positions equally likely."""
    extents = _shape(shape)
    size = math.prod(extents)
    rng = _generator(seed)
    return _tensor(extents, _unravel(_distinct(rng, size, _share(density, size)), extents), rng)


def dense(shape: Sequence[int], seed: int) -> SparseTensor:
    """Every position stored."""
    return uniform(shape, 1.0, seed)


def banded(shape: Sequence[int], bandwidth: int, density: float, seed: int) -> SparseTensor:
    """round(density * band) entries of a matrix, uniform over the band |i - j| <= bandwidth."""
    extents = _shape(shape)
    if len(extents) != 2:
        raise InputError(f"a banded tensor has 2 modes, got shape {extents}")
    _check_limit("extent", max(extents))
    width = _count("bandwidth", bandwidth)
    rows = np.arange(extents[0], dtype=np.int64)
    low = np.minimum(np.maximum(rows - width, 0), extents[1])
    ends = np.cumsum(np.minimum(rows + width + 1, extents[1]).clip(low) - low)
    size = int(ends[-1]) if ends.size else 0
    rng = _generator(seed)
    at = _distinct(rng, size, _share(density, size))
    row = np.searchsorted(ends, at, side="right")
    starts = np.concatenate([[0], ends])
    return _tensor(extents, np.stack([row, low[row] + at - starts[row]]), rng)


def power_law(shape: Sequence[int], nnz: int, seed: int, exponent: float = 2.5) -> SparseTensor:
    """Exactly ``nnz`` entries whose number per slice is skewed in every mode, degrees falling off as d**-exponent.

    Positions are drawn one after another without replacement, with probability proportional to the product over
    the modes of rank**(-1 / (exponent - 1)), ranks being dealt out at random (Chung-Lu weights). ``exponent`` must
    be at least 2.
    """
    extents = _shape(shape)
    size, count = math.prod(extents), _count("nnz", nnz)
    _check_limit("entry count", count)
    _check_limit("extent", max(extents, default=1))
    if count > size:
        raise InputError(f"'nnz' must be at most the {size} positions of shape {extents}, got {count}")
    if not _number("exponent", exponent) >= 2:
        raise InputError(f"'exponent' must be at least 2 (finite mean degrees), got {exponent}")
    rng = _generator(seed)
    weights = [rng.permutation(np.arange(1, n + 1) ** (-1.0 / (exponent - 1.0))) for n in extents]
    draw = _draw_by_keys if count * 16 > size else _draw_by_rejection
    return _tensor(extents, _unravel(draw(rng, extents, weights, count), extents), rng)


KINDS: dict[str, Callable[..., SparseTensor]] = {
    "uniform": uniform,
    "dense": dense,
    "banded": banded,
    "power_law": power_law,
}
"""Generators by the name that specifications use."""


def generate(kind: str, **params: Any) -> SparseTensor:
    """The tensor of generator ``kind``. Raises InputError for unknown kinds and unknown, missing or bad parameters."""
    if kind not in KINDS:
        raise InputError(f"unknown generator {kind!r}.{nearest(kind, KINDS)}")
    known = inspect.signature(KINDS[kind]).parameters
    for name in params:
        if name not in known:
            raise InputError(f"generator {kind!r} has no parameter {name!r}.{nearest(name, known)}")
    missing = [name for name, p in known.items() if p.default is p.empty and name not in params]
    if missing:
        raise InputError(
            f"generator {kind!r} needs {', '.join(map(repr, missing))}; got {', '.join(params) or 'nothing'}"
        )
    return KINDS[kind](**params)


def _draw_by_keys(rng: np.random.Generator, extents: tuple[int, ...], weights: list[Any], count: int) -> Coords:
    """The ``count`` positions with the largest log weight plus Gumbel noise: successive sampling in one pass."""
    size = math.prod(extents)
    best_at, best_key = np.zeros(0, np.int64), np.zeros(0)
    for start in range(0, size, CHUNK):
        at = np.arange(start, min(start + CHUNK, size), dtype=np.int64)
        key = rng.gumbel(size=at.size)
        for weight, index in zip(weights, _unravel(at, extents), strict=True):
            key += np.log(weight)[index]
        best_at, best_key = np.concatenate([best_at, at]), np.concatenate([best_key, key])
        order = np.argsort(-best_key, kind="stable")[:count]
        best_at, best_key = best_at[order], best_key[order]
    return best_at


def _draw_by_rejection(rng: np.random.Generator, extents: tuple[int, ...], weights: list[Any], count: int) -> Coords:
    """The first ``count`` distinct positions of independent draws; for tensors that stay nearly empty."""
    drawn = np.zeros(0, np.int64)
    while drawn.size < count:
        at = np.zeros(2 * count, np.int64)
        for weight, extent in zip(weights, extents, strict=True):
            ends = np.cumsum(weight)
            index = np.searchsorted(ends, rng.random(at.size) * ends[-1], side="right")
            at = at * extent + np.minimum(index, extent - 1)
        drawn = np.concatenate([drawn, at])
        drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
    return drawn[:count]


def _distinct(rng: np.random.Generator, size: int, count: int) -> Coords:
    """``count`` different numbers below ``size``, every set equally likely."""
    _check_limit("entry count", count)
    if count * 4 > size:
        return rng.permutation(size)[:count].astype(np.int64)
    drawn = np.zeros(0, np.int64)
    while drawn.size < count:
        drawn = np.concatenate([drawn, rng.integers(size, size=count, dtype=np.int64)])
        drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
    return drawn[:count]


def _tensor(extents: tuple[int, ...], coords: Coords, rng: np.random.Generator) -> SparseTensor:
    count = coords.shape[1]
    values = rng.integers(1, 17, size=count) * rng.choice([-0.125, 0.125], size=count)
    return SparseTensor.from_coo(extents, coords, values)


def _unravel(at: Coords, extents: tuple[int, ...]) -> Coords:
    """int64[ndim, n]: coordinates of row-major positions."""
    if not extents or not at.size:
        return np.zeros((len(extents), at.size), np.int64)
    return np.array(np.unravel_index(at, extents), np.int64)


def _generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(_count("seed", seed)))


def _shape(shape: Sequence[int]) -> tuple[int, ...]:
    if isinstance(shape, str) or not isinstance(shape, Sequence):
        raise InputError(f"'shape' must be a list of extents, got {shape!r}")
    extents = tuple(_count("shape", extent) for extent in shape)
    if math.prod(extents) >= 2**62:
        raise InputError(f"'shape' must have fewer than 2^62 positions, got {extents}")
    return extents


def _share(density: float, size: int) -> int:
    if not 0 <= _number("density", density) <= 1:
        raise InputError(f"'density' must be between 0 and 1, got {density}")
    return round(density * size)


def _check_limit(what: str, number: int) -> None:
    if number > LIMIT:
        raise InputError(f"the {what} of a generated tensor must be at most {LIMIT}, got {number}")


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{name!r} must be a number, got {value!r}")
    return float(value)


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise InputError(f"{name!r} must be a whole number, 0 or more, got {value!r}")
    return int(value)
