"""Seeded tensors by the name of their generator; ``structured`` has those with a regular pattern."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mapper.errors import InputError, nearest
from mapper.seeded_draws import (
    check_limit,
    checked_count,
    checked_number,
    checked_shape,
    distinct,
    generator,
    seeded_tensor,
    share_of,
    unravel,
)
from mapper.structured import bigbird, block_sparse, causal, n_of_m
from mapper.tensor import Coords, SparseTensor

CHUNK = 2**22
"""Positions whose random keys are held at a time."""


def uniform(shape: Sequence[int], density: float, seed: int) -> SparseTensor:
    """round(density * positions) entries, every set of positions equally likely."""
    extents = checked_shape(shape)
    size = math.prod(extents)
    rng = generator(seed)
    return seeded_tensor(extents, unravel(distinct(rng, size, share_of(density, size)), extents), rng)


def dense(shape: Sequence[int], seed: int) -> SparseTensor:
    """Every position stored."""
    return uniform(shape, 1.0, seed)


def banded(shape: Sequence[int], bandwidth: int, density: float, seed: int) -> SparseTensor:
    """round(density * band) entries of a matrix, uniform over the band |i - j| <= bandwidth."""
    extents = checked_shape(shape)
    if len(extents) != 2:
        raise InputError(f"a banded tensor has 2 modes, got shape {extents}")
    check_limit("extent", max(extents))
    width = checked_count("bandwidth", bandwidth)
    rows = np.arange(extents[0], dtype=np.int64)
    low = np.minimum(np.maximum(rows - width, 0), extents[1])
    ends = np.cumsum(np.minimum(rows + width + 1, extents[1]).clip(low) - low)
    size = int(ends[-1]) if ends.size else 0
    rng = generator(seed)
    at = distinct(rng, size, share_of(density, size))
    row = np.searchsorted(ends, at, side="right")
    starts = np.concatenate([[0], ends])
    return seeded_tensor(extents, np.stack([row, low[row] + at - starts[row]]), rng)


def power_law(shape: Sequence[int], nnz: int, seed: int, exponent: float = 2.5) -> SparseTensor:
    """Exactly ``nnz`` entries whose number per slice is skewed in every mode, degrees falling off as d**-exponent.

    Positions are drawn one after another without replacement, with probability proportional to the product over
    the modes of rank**(-1 / (exponent - 1)), ranks being dealt out at random (Chung-Lu weights). ``exponent`` must
    be at least 2.
    """
    extents = checked_shape(shape)
    size, count = math.prod(extents), checked_count("nnz", nnz)
    check_limit("entry count", count)
    check_limit("extent", max(extents, default=1))
    if count > size:
        raise InputError(f"'nnz' must be at most the {size} positions of shape {extents}, got {count}")
    if not checked_number("exponent", exponent) >= 2:
        raise InputError(f"'exponent' must be at least 2 (finite mean degrees), got {exponent}")
    rng = generator(seed)
    weights = [rng.permutation(np.arange(1, n + 1) ** (-1.0 / (exponent - 1.0))) for n in extents]
    draw = _draw_by_keys if count * 16 > size else _draw_by_rejection
    return seeded_tensor(extents, unravel(draw(rng, extents, weights, count), extents), rng)


KINDS: dict[str, Callable[..., SparseTensor]] = {
    "uniform": uniform,
    "dense": dense,
    "banded": banded,
    "power_law": power_law,
    "block_sparse": block_sparse,
    "n_of_m": n_of_m,
    "bigbird": bigbird,
    "causal": causal,
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
        for weight, index in zip(weights, unravel(at, extents), strict=True):
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
