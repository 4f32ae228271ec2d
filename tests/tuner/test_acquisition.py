"""Improvements against quadrature, high-precision arithmetic and Monte Carlo."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from studies.pareto import hypervolume, pareto_front
from tuner.acquisition import (
    expected_hypervolume_improvement,
    expected_improvement,
    log_expected_improvement,
    log_probability_below,
)


def test_expected_improvement_against_quadrature() -> None:
    for mean, deviation, best in [(1.0, 0.5, 0.8), (0.0, 2.0, 3.0), (5.0, 1.0, 2.0)]:
        slow, _ = quad(lambda y, m=mean, s=deviation, b=best: (b - y) * norm.pdf(y, m, s), -40, best)
        assert expected_improvement(np.array([mean]), np.array([deviation]), best)[0] == pytest.approx(slow, rel=1e-6)
        log = log_expected_improvement(np.array([mean]), np.array([deviation]), best)[0]
        assert log == pytest.approx(math.log(slow), rel=1e-6)


@pytest.mark.parametrize("z", [3.0, 0.0, -0.99, -1.01, -5.0, -30.0, -1e3, -9e4, -1.1e5, -1e7])
def test_logarithm_is_exact_far_out(z: float) -> None:
    with mpmath.workdps(60):
        x = mpmath.mpf(z)
        slow = mpmath.log(mpmath.npdf(x) + x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2)
    found = log_expected_improvement(np.array([0.0]), np.array([1.0]), z)[0]
    assert found == pytest.approx(float(slow), rel=1e-9, abs=1e-9)


def sampled(means: np.ndarray, deviations: np.ndarray, front: np.ndarray, reference: np.ndarray) -> tuple[float, float]:
    """Mean gain of drawn points and its standard error."""
    rng = np.random.default_rng(0)
    before = hypervolume(front, reference) if len(front) else 0.0
    gains = [
        hypervolume(np.vstack([front, y[None]]), reference) - before
        for y in means + deviations * rng.standard_normal((4000, len(means)))
    ]
    return float(np.mean(gains)), float(np.std(gains) / math.sqrt(len(gains)))


@pytest.mark.parametrize("objectives", [1, 2, 3])
def test_hypervolume_improvement_against_monte_carlo(objectives: int) -> None:
    rng = np.random.default_rng(objectives)
    for size in (0, 1, 6):
        points = rng.random((size, objectives)) * 2
        front = points[pareto_front(points)] if size else points
        reference = np.full(objectives, 1.6)  # some points of the front lie outside
        means, deviations = rng.random((3, objectives)) * 1.5, rng.random((3, objectives)) * 0.8 + 0.1
        found = expected_hypervolume_improvement(means, deviations, front, reference)
        for n in range(3):
            mean, error = sampled(means[n], deviations[n], front, reference)
            assert found[n] == pytest.approx(mean, abs=4.5 * error + 1e-5)


def test_certain_points_gain_their_hypervolume() -> None:
    front, reference = np.array([[1.0, 3.0], [2.0, 1.0]]), np.array([4.0, 4.0])
    means = np.array([[1.0, 1.0], [3.0, 3.0], [0.5, 3.5], [5.0, 0.0]])
    # (1,1) dominates all: 3 * 3 = 9 against 1 * 1 + 2 * 3 = 7; (3,3) none; (0.5, 3.5): 0.5 * 0.5; the last is outside.
    found = expected_hypervolume_improvement(means, np.full((4, 2), 1e-9), front, reference)
    assert found == pytest.approx([2.0, 0.0, 0.25, 0.0], abs=1e-6)


def test_probability_of_a_budget() -> None:
    found = log_probability_below(np.array([0.0, 0.0]), np.array([1.0, 1.0]), -40.0)
    assert found[0] == pytest.approx(float(norm.logcdf(-40.0)))
