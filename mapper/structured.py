"""Generators of regular patterns: pruned weights in blocks or N of M, and masks of attention.

Weights have drawn values (see ``seeded_draws``). Masks say where, so that each of their entries is 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mapper.errors import InputError
from mapper.seeded_draws import (
    check_limit,
    checked_count,
    checked_shape,
    distinct,
    generator,
    seeded_tensor,
    share_of,
    unravel,
)
from mapper.tensor import Coords, SparseTensor


def block_sparse(shape: Sequence[int], block: Sequence[int], density: float, seed: int) -> SparseTensor:
    """round(density * blocks) whole blocks, every set equally likely; blocks at the far edges are cut off."""
    extents = checked_shape(shape)
    sides = _sides(block, len(extents))
    grid = tuple(-(-extent // side) for extent, side in zip(extents, sides, strict=True))
    size, rng = math.prod(grid), generator(seed)
    count = share_of(density, size)
    check_limit("entry count", count * math.prod(sides))
    return seeded_tensor(extents, _filled(unravel(distinct(rng, size, count), grid), extents, sides), rng)


def n_of_m(shape: Sequence[int], n: int, m: int, seed: int) -> SparseTensor:
    """Exactly ``n`` entries, any of them equally likely, in every ``m`` neighbours of the last mode; a group that the
    edge cuts short has at most its positions."""
    extents = checked_shape(shape)
    count, width = checked_count("n", n), checked_count("m", m)
    if not extents or not count <= width or not width:
        raise InputError(f"N of M needs one mode or more and n <= m, m at least 1; got n {n}, m {m}, shape {extents}")
    rows, groups = math.prod(extents[:-1]), -(-extents[-1] // width)
    check_limit("position count", rows * groups * width)
    rng = generator(seed)
    keys = rng.random((rows, groups, width))
    keys.reshape(rows, -1)[:, extents[-1] :] = 2.0  # positions beyond the edge come last, and are dropped
    row, group, place = np.nonzero(np.argsort(np.argsort(keys, axis=2), axis=2) < count)
    column = group * width + place
    inside = column < extents[-1]
    outer = unravel(row[inside], extents[:-1])
    return seeded_tensor(extents, np.concatenate([outer, column[None, inside]]), rng)


def bigbird(
    shape: Sequence[int], block: int, seed: int, window: int = 1, global_blocks: int = 2, random_blocks: int = 2
) -> SparseTensor:
    """Mask of sparse attention (Zaheer et al., "Big Bird", 2020) over blocks of ``block`` positions.

    Stored are the blocks up to ``window`` off the diagonal, the first ``global_blocks`` rows and columns of blocks,
    and in every row of blocks ``random_blocks`` different ones, which may coincide with those before: 1024 positions
    in blocks of 16, 32 and 64 are 13 %, 26 % and 46 % full.
    """
    extents = checked_shape(shape)
    side = checked_count("block", block)
    if len(extents) != 2 or extents[0] != extents[1] or not side:
        raise InputError(f"a BigBird mask is square with blocks of 1 or more, got shape {extents}, block {block}")
    blocks = -(-extents[0] // side)
    check_limit("block count", blocks * blocks)
    if checked_count("random_blocks", random_blocks) > blocks:
        raise InputError(f"'random_blocks' must be at most the {blocks} blocks of a row, got {random_blocks}")
    place, everywhere = np.arange(blocks), checked_count("global_blocks", global_blocks)
    stored = np.abs(place[:, None] - place) <= checked_count("window", window)
    stored |= (place[:, None] < everywhere) | (place < everywhere)
    keys = generator(seed).random((blocks, blocks))
    stored[place[:, None], np.argsort(keys, axis=1)[:, :random_blocks]] = True
    return _mask(extents, _filled(np.argwhere(stored).T, extents, (side, side)))


def causal(shape: Sequence[int]) -> SparseTensor:
    """Mask with an entry wherever the column is not beyond the row."""
    extents = checked_shape(shape)
    if len(extents) != 2:
        raise InputError(f"a causal mask has 2 modes, got shape {extents}")
    check_limit("position count", math.prod(extents))
    return _mask(extents, np.array(np.tril_indices(extents[0], 0, extents[1]), np.int64))


def _mask(extents: tuple[int, ...], coords: Coords) -> SparseTensor:
    check_limit("entry count", coords.shape[1])
    return SparseTensor.from_coo(extents, coords, np.ones(coords.shape[1]))


def _sides(block: Sequence[int], modes: int) -> tuple[int, ...]:
    sides = checked_shape(block) if isinstance(block, Sequence) else ()
    if len(sides) != modes or 0 in sides:
        raise InputError(f"'block' must be a list of {modes} extents, 1 or more, as 'shape'; got {block!r}")
    return sides


def _filled(blocks: Coords, extents: tuple[int, ...], sides: tuple[int, ...]) -> Coords:
    """Coordinates within ``extents`` of every position of ``blocks``, int64[ndim, blocks]."""
    check_limit("entry count", blocks.shape[1] * math.prod(sides))
    corner = blocks * np.array(sides)[:, None]
    offset = np.indices(sides).reshape(len(sides), -1)
    at = (corner[:, :, None] + offset[:, None, :]).reshape(len(sides), -1)
    return np.asarray(at[:, (at < np.array(extents)[:, None]).all(axis=0)], dtype=np.int64)
