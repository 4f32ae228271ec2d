"""Acquisition functions, all for minimisation and noise-free: expected (hypervolume) improvement, in logarithms."""

from __future__ import annotations

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from studies.pareto import pareto_front
from tuner.permutation_features import FloatArray

ROOT_HALF_PI = np.sqrt(np.pi / 2)
LOG_ROOT_2PI = 0.5 * np.log(2 * np.pi)


def log_expected_improvement(mean: FloatArray, deviation: FloatArray, best: float) -> FloatArray:
    """Log E[max(best - y, 0)] of y ~ N(mean, deviation^2), finite far out in the tail (Ament et al., 2023)."""
    z = (best - mean) / deviation
    found = np.empty_like(z)
    near, far = z > -1.0, z < -1e5
    tail = ~near & ~far
    found[near] = np.log(np.exp(-0.5 * z[near] ** 2 - LOG_ROOT_2PI) + z[near] * ndtr(z[near]))
    a = -z[tail]  # phi(z) + z Phi(z) = phi(z) (1 - a sqrt(pi/2) erfcx(a / sqrt 2))
    found[tail] = -0.5 * a**2 - LOG_ROOT_2PI + np.log1p(-a * ROOT_HALF_PI * erfcx(a / np.sqrt(2)))
    found[far] = -0.5 * z[far] ** 2 - LOG_ROOT_2PI - 2 * np.log(-z[far])  # the leading term: 1 / a^2
    return found + np.log(deviation)


def expected_improvement(mean: FloatArray, deviation: FloatArray, best: FloatArray | float) -> FloatArray:
    """E[max(best - y, 0)]; best may be infinite below, which gives 0."""
    best = np.asarray(best, np.float64)
    with np.errstate(invalid="ignore"):
        z = (best - mean) / deviation
        found = deviation * (np.exp(-0.5 * z**2 - LOG_ROOT_2PI) + z * ndtr(z))
    return np.where(np.isneginf(best), 0.0, np.maximum(found, 0.0))


def expected_hypervolume_improvement(
    means: FloatArray, deviations: FloatArray, front: FloatArray, reference: FloatArray
) -> FloatArray:
    """Exact E[gain in the hypervolume below ``reference``] for independent normal objectives, any number of them.

    ``means``, ``deviations``: float64[points, objectives]; ``front``: float64[n, objectives]; ``reference``:
    float64[objectives]. The region that no point of the front dominates is cut into slabs along the last objective,
    in each of which the front of the others is constant, so that expectations factorise:
    EHVI = sum over slabs [a, b) of (E(b - y)+ - E(a - y)+) * EHVI of the other objectives against that front.
    """
    inside = front[(front < reference).all(axis=1)] if len(front) else front.reshape(0, len(reference))
    if len(reference) == 1:
        best = float(inside.min()) if len(inside) else float(reference[0])
        return expected_improvement(means[:, 0], deviations[:, 0], best)
    cuts = np.unique(inside[:, -1])
    edges = np.concatenate([[-np.inf], cuts, reference[-1:]])
    mean, deviation = means[:, -1:], deviations[:, -1:]
    below = expected_improvement(mean, deviation, edges[None, :])
    shares = np.diff(below, axis=1)
    total = np.zeros(len(means))
    for slab, low in enumerate(edges[:-1]):
        others = inside[inside[:, -1] <= low][:, :-1]
        if len(others) > 1:
            others = others[pareto_front(others.tolist())]
        total += shares[:, slab] * expected_hypervolume_improvement(
            means[:, :-1], deviations[:, :-1], others, reference[:-1]
        )
    return total


def log_probability_below(mean: FloatArray, deviation: FloatArray, limit: float) -> FloatArray:
    """Log P(y <= limit)."""
    return np.asarray(log_ndtr((limit - mean) / deviation), np.float64)
