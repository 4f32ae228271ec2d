"""Tensors that are stored with more entries than the oracle's pattern has: zeros, made of the zeros of padded operands
and of sums over full extents.

Where it is not known where they lie, their expected number is drawn from the positions at which they can.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.factors import Ints, distinct, pack
from costmodel.statistics import TensorStatistics
from mapper.tensor import SparseTensor

MOST_POSITIONS = 1 << 18
"""Positions to draw from; of larger results readers are taken to find the oracle's pattern."""


MOST_LISTED = 1 << 20
"""Positions that are listed to find where zeros are, at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Widened:
    """Result ``tensor`` as those find it that read it from memory: ``make`` gives what ``key`` identifies."""

    tensor: str
    key: str
    make: Callable[[], SparseTensor]


def filled(known: SparseTensor, places: Ints) -> SparseTensor:
    """The values of ``known``, and zeros at those of the ``places``[mode, entry] where it has none."""
    coords = distinct([*np.concatenate([known.coords, places], axis=1)], known.shape)
    keys, own = (pack([*crd], known.shape) for crd in (coords, known.coords))
    values = np.zeros(keys.size)
    values[np.searchsorted(keys, own)] = known.values
    return SparseTensor(known.shape, np.stack(coords), values)


def positions(within: Sequence[Ints]) -> int:
    """How many there are at the coordinates ``within``, given per mode."""
    return math.prod(own.size for own in within)


def drawn(tensor: str, known: TensorStatistics, entries: int, within: Sequence[Ints]) -> Widened:
    """Result ``tensor``, of ``entries`` at coordinates ``within`` (increasing, per mode), the ``known`` among them."""
    places = hashlib.sha256(b"|".join(own.tobytes() for own in within)).hexdigest()
    key = f"{known.key} with {entries} entries within {places}"
    return Widened(tensor, key, lambda: _with_zeros(known.tensor, entries, within))


def _with_zeros(known: SparseTensor, entries: int, within: Sequence[Ints]) -> SparseTensor:
    sides, size = tuple(own.size for own in within), positions(within)
    at = [np.searchsorted(own, crd) for own, crd in zip(within, known.coords, strict=True)]
    values, filled = np.zeros(size), np.zeros(size, bool)
    keys = np.ravel_multi_index(at, sides)
    values[keys], filled[keys] = known.values, True
    free = np.flatnonzero(~filled)
    more = min(free.size, max(0, entries - known.nnz))
    filled[np.random.default_rng(0).choice(free, more, replace=False, shuffle=False)] = True
    places = np.flatnonzero(filled)
    coords = [own[n] for own, n in zip(within, np.unravel_index(places, sides), strict=True)]
    return SparseTensor(known.shape, np.stack(coords), values[places])
