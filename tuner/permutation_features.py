"""Features of permutations: vectors whose Euclidean distance is (the root of) a distance between orders.

* ``spearman``: position of every item; squared distance = sum of squared displacements.
* ``kendall``: one bit per pair of items, whether the first comes earlier; squared distance = pairs in opposite order.
* ``hamming``: one bit per item and position; squared distance = twice the number of items elsewhere.

All are scaled so that the two orders farthest apart have distance 1, and centred, so that the zero vector - where an
inactive permutation is put - is equally far from every order.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from mapper.errors import InputError, nearest

FloatArray = npt.NDArray[np.float64]

METRICS = ("spearman", "kendall", "hamming")


def permutation_features(positions: npt.ArrayLike, metric: str) -> FloatArray:
    """float64[orders, features] of int[orders, items], the position of every item. InputError for unknown metrics."""
    places = np.atleast_2d(np.asarray(positions, np.int64))
    count, items = places.shape
    if metric == "spearman":
        largest = items * (items**2 - 1) / 3  # an order against its reverse
        found = places - (items - 1) / 2
    elif metric == "kendall":
        largest = items * (items - 1) / 2
        pairs = np.array(list(itertools.combinations(range(items), 2)), np.int64).reshape(-1, 2)
        found = (places[:, pairs[:, 0]] < places[:, pairs[:, 1]]) - 0.5
    elif metric == "hamming":
        largest = 2.0 * items
        found = (places[:, :, None] == np.arange(items)).reshape(count, -1) - 1 / items
    else:
        raise InputError(f"unknown permutation metric {metric!r}.{nearest(metric, METRICS)}")
    return np.asarray(found / np.sqrt(max(largest, 1.0)), np.float64)
