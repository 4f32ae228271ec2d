"""Pareto fronts and hypervolumes; every objective is minimised."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.float64]


def pareto_front(points: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Rows of ``points`` (float[n, d]) that no row is at least as good as everywhere and better somewhere.

    Equal rows are all kept. Rows come in lexicographic order of their values, equal ones by position. O(n log n)
    for one and two objectives, O(n * front) beyond.
    """
    data = _matrix(points)
    if data.shape[1] == 0 or not len(data):
        return np.arange(len(data))
    order = np.lexsort(data.T[::-1])
    ranked = data[order]
    fresh = np.ones(len(ranked), dtype=bool)
    fresh[1:] = (ranked[1:] != ranked[:-1]).any(axis=1)
    distinct = ranked[fresh]
    kept = _sweep(distinct) if data.shape[1] <= 2 else _filter(distinct)
    return np.asarray(order[kept[np.cumsum(fresh) - 1]], dtype=np.int64)


def hypervolume(points: npt.ArrayLike, reference: npt.ArrayLike) -> float:
    """Volume between the front of ``points`` (float[n, d], d <= 3) and ``reference`` (float[d]), exact.

    Points that are not better than the reference in every objective add nothing.
    """
    data, corner = _matrix(points), np.asarray(reference, dtype=np.float64).reshape(-1)
    if not 1 <= data.shape[1] <= 3 or corner.size != data.shape[1]:
        raise ValueError(f"points[n, d] and reference[d], d from 1 to 3, are needed, got {data.shape}, {corner.shape}")
    inside = data[(data < corner).all(axis=1)]
    front = inside[pareto_front(inside)]
    if not len(front):
        return 0.0
    if front.shape[1] == 1:
        return float(corner[0] - front[0, 0])
    if front.shape[1] == 2:
        return _area(front, corner)
    front = front[np.argsort(front[:, 2], kind="stable")]
    tops = np.append(front[1:, 2], corner[2])
    slabs = tops - front[:, 2]
    return float(sum(_area(front[: n + 1, :2], corner) * slab for n, slab in enumerate(slabs) if slab > 0))


def _matrix(points: npt.ArrayLike) -> Points:
    data = np.asarray(points, dtype=np.float64)
    if data.ndim != 2:
        raise ValueError(f"points[n, d] are needed, got shape {data.shape}")
    if not np.isfinite(data).all():
        raise ValueError("points must be finite")
    return data


def _sweep(ranked: Points) -> npt.NDArray[np.bool_]:
    """Non-dominated among distinct rows in lexicographic order: those below every earlier last coordinate."""
    last = ranked[:, -1]
    kept = np.ones(len(ranked), dtype=bool)
    kept[1:] = last[1:] < np.minimum.accumulate(last)[:-1]
    return kept


def _filter(ranked: Points) -> npt.NDArray[np.bool_]:
    """Non-dominated among distinct rows in lexicographic order: only an earlier row can dominate a later one."""
    kept = np.zeros(len(ranked), dtype=bool)
    front = np.empty_like(ranked)
    size = 0
    for n, row in enumerate(ranked):
        if not (front[:size] <= row).all(axis=1).any():
            front[size], kept[n] = row, True
            size += 1
    return kept


def _area(points: Points, corner: Points) -> float:
    front = points[pareto_front(points)]
    front = front[np.append(True, front[1:, 0] > front[:-1, 0])]
    heights = np.append(corner[1], front[:-1, 1]) - front[:, 1]
    return float(((corner[0] - front[:, 0]) * heights).sum())
