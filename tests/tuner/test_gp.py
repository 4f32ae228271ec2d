"""The Gaussian process against formulas written out, finite differences and full recomputation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal

from tuner.gp import TREND_MEAN, TREND_VARIANCE, Evidence, GaussianProcess, matern52
from tuner.hyperpriors import Gamma, LogNormal, Priors

RNG = np.random.default_rng(7)
GROUPS = np.array([0, 1, 1, 2])
FEATURES = RNG.random((9, 4))
VALUES = np.sin(4 * FEATURES[:, 0]) + FEATURES[:, 1] ** 2 + 10
PRIOR = VALUES + 0.3 * RNG.standard_normal(9)
THETA = np.log(np.array([0.7, 1.1, 0.4, 1.3, 0.6, 0.05]))


def correlation(r: float) -> float:
    return (1 + math.sqrt(5) * r + 5 / 3 * r**2) * math.exp(-math.sqrt(5) * r)


def slow_kernel(theta: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The covariance without noise and trend, pair by pair: a joint part, and the mean over groups of one each."""
    lengths, joint, additive = np.exp(theta[:3]), math.exp(2 * theta[3]), math.exp(2 * theta[4])
    found = np.empty((len(a), len(b)))
    for (i, x), (j, y) in itertools.product(enumerate(a), enumerate(b)):
        apart = [float(np.linalg.norm((x - y)[g == GROUPS])) / lengths[g] for g in range(3)]
        alone = sum(correlation(math.sqrt(3) * r) for r in apart) / 3
        found[i, j] = joint * correlation(math.hypot(*apart)) + additive * alone
    return found


def test_matern_by_hand() -> None:
    # r = 1: (1 + sqrt 5 + 5/3) exp(-sqrt 5) = 4.90273 * 0.106878 = 0.523994
    assert matern52(np.array([0.0, 1.0])) == pytest.approx([1.0, 0.523994], abs=1e-5)


def dense(
    features: np.ndarray, prior: np.ndarray | None, at: np.ndarray, at_prior: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior by inverting the covariance, in the units of the values."""
    middle, unit = VALUES.mean(), VALUES.std()

    def basis(estimate: np.ndarray | None, rows: int) -> np.ndarray:
        second = np.zeros(rows) if estimate is None else (estimate - PRIOR.mean()) / unit
        return np.column_stack([np.ones(rows), second])

    def kernel(a: np.ndarray, b: np.ndarray, ha: np.ndarray, hb: np.ndarray) -> np.ndarray:
        return slow_kernel(THETA, a, b) + ha @ np.diag(TREND_VARIANCE) @ hb.T

    h, g = basis(prior, len(features)), basis(at_prior, len(at))
    inverse = np.linalg.inv(kernel(features, features, h, h) + 0.05**2 * np.eye(len(features)))
    cross = kernel(features, at, h, g)
    mean = g @ TREND_MEAN + cross.T @ inverse @ ((VALUES - middle) / unit - h @ TREND_MEAN)
    variance = np.diag(kernel(at, at, g, g) - cross.T @ inverse @ cross)
    return middle + unit * mean, unit * np.sqrt(variance)


@pytest.mark.parametrize("prior", [None, PRIOR], ids=["without", "with"])
def test_posterior_against_dense_algebra(prior: np.ndarray | None) -> None:
    at = RNG.random((6, 4))
    at_prior = None if prior is None else RNG.random(6) + 10
    process = GaussianProcess.at(THETA, FEATURES, GROUPS, VALUES, prior)
    mean, deviation = process.predict(at, at_prior)
    expected = dense(FEATURES, prior, at, at_prior)
    assert mean == pytest.approx(expected[0], abs=1e-8)
    assert deviation == pytest.approx(expected[1], abs=1e-6)


def test_one_observation_by_hand() -> None:
    # One value 3 (unit 1): K = s^2 + a^2 + 1 + noise^2 = 0.64 + 0.36 + 1 + 0.01 = 2.01; residual 0, so the mean is 3
    # everywhere; far away k = 1 (the constant alone): variance 2 - 1/2.01.
    theta = np.log(np.array([0.01, 0.8, 0.6, 0.1]))
    process = GaussianProcess.at(theta, np.zeros((1, 1)), np.array([0]), np.array([3.0]))
    mean, deviation = process.predict(np.array([[1.0]]))
    assert mean[0] == pytest.approx(3.0)
    assert deviation[0] == pytest.approx(math.sqrt(2 - 1 / 2.01))


def evidence(priors: Priors) -> Evidence:
    squared = [cdist(FEATURES[:, g == GROUPS], FEATURES[:, g == GROUPS], "sqeuclidean") for g in range(3)]
    basis = np.column_stack([np.ones(9), PRIOR - PRIOR.mean()])
    return Evidence(
        [np.eye(9)] * 3, squared, VALUES - VALUES.mean() - basis[:, 1], (basis * TREND_VARIANCE) @ basis.T, priors.of(3)
    )


@pytest.mark.parametrize("priors", [Priors(), Priors(length=Gamma(1.3, 0.1), noise=Gamma(1.1, 30.0))])
def test_gradient_against_finite_differences(priors: Priors) -> None:
    found = evidence(priors)
    for _ in range(5):
        theta = RNG.normal(0, 0.7, 6)
        numeric = approx_fprime(theta, lambda t: found.negative(t)[0], 1e-6)
        assert found.negative(theta)[1] == pytest.approx(numeric, rel=1e-3, abs=1e-3)


def test_evidence_is_the_density_of_the_observations() -> None:
    found, own = evidence(Priors()), Priors().of(3)

    def slow(theta: np.ndarray) -> float:
        kernel = slow_kernel(theta, FEATURES, FEATURES) + found.trend + np.exp(2 * theta[5]) * np.eye(9)
        prior = sum(float(p.log_density(t)) for p, t in zip(own, theta, strict=True))
        return -float(multivariate_normal(np.zeros(9), kernel).logpdf(found.residual)) - prior

    a, b = RNG.normal(0, 0.5, 6), RNG.normal(0, 0.5, 6)
    assert found.negative(a)[0] - found.negative(b)[0] == pytest.approx(slow(a) - slow(b), rel=1e-6)


def test_conditioning_equals_recomputation() -> None:
    process = GaussianProcess.at(THETA, FEATURES, GROUPS, VALUES, PRIOR)
    at, at_prior = RNG.random((3, 4)), RNG.random(3) + 10
    new, new_prior = RNG.random((1, 4)), np.array([10.4])
    told = process.condition(new, new_prior, 11.5)
    # The same with all ten observations at once, in the units of the first nine.
    everything = GaussianProcess.at(THETA, FEATURES, GROUPS, VALUES, PRIOR)
    unit, middle = VALUES.std(), VALUES.mean()
    inputs = np.concatenate([FEATURES, new])
    basis = np.column_stack([np.ones(10), (np.append(PRIOR, new_prior) - PRIOR.mean()) / unit])
    covariance = slow_kernel(THETA, inputs, inputs) + (basis * TREND_VARIANCE) @ basis.T
    covariance += 0.05**2 * np.eye(10)
    assert told.factor @ told.factor.T == pytest.approx(covariance)
    residual = (np.append(VALUES, 11.5) - middle) / unit - basis @ TREND_MEAN
    assert told.factor @ told.solved == pytest.approx(residual)
    # A fantasy leaves every mean where it was and makes the model surer.
    dreamt = everything.condition(new, new_prior)
    assert dreamt.predict(at, at_prior)[0] == pytest.approx(process.predict(at, at_prior)[0])
    assert (dreamt.predict(at, at_prior)[1] <= process.predict(at, at_prior)[1] + 1e-12).all()


def test_values_that_occur_again_are_looked_up() -> None:
    coarse = np.round(2 * np.random.default_rng(8).random((30, 4))) / 2
    values, at = coarse.sum(axis=1), np.round(2 * np.random.default_rng(9).random((20, 4))) / 2
    process = GaussianProcess.at(THETA, coarse, GROUPS, values)
    covariance = slow_kernel(THETA, coarse, coarse) + 1 + 0.05**2 * np.eye(30)
    assert process.factor @ process.factor.T == pytest.approx(covariance)
    cross = slow_kernel(THETA, coarse, at) + 1
    mean = cross.T @ np.linalg.solve(covariance, (values - values.mean()) / values.std())
    assert process.predict(at)[0] == pytest.approx(values.mean() + values.std() * mean)


def test_it_learns_which_parameter_matters() -> None:
    features = np.random.default_rng(0).random((40, 3))
    values = np.sin(6 * features[:, 1])
    process = GaussianProcess.fit(features, np.arange(3), values, np.random.default_rng(0))
    at = np.random.default_rng(1).random((200, 3))
    mean, deviation = process.predict(at)
    assert np.sqrt(np.mean((mean - np.sin(6 * at[:, 1])) ** 2)) < 0.05
    assert process.theta[1] < min(process.theta[0], process.theta[2]) - 1
    inside = np.abs(mean - np.sin(6 * at[:, 1])) < 3 * deviation + 0.01
    assert inside.mean() > 0.95


def test_effects_that_add_up_are_learned_from_points_that_differ_in_everything() -> None:
    rng = np.random.default_rng(4)
    features = rng.random((25, 6))
    values = (features**2).sum(axis=1)
    at = rng.random((100, 6))
    errors = []
    for additive in (Priors(), Priors(additive=LogNormal(-8.0, 0.1))):
        process = GaussianProcess.fit(features, np.arange(6), values, np.random.default_rng(0), priors=additive)
        errors.append(np.sqrt(np.mean((process.predict(at)[0] - (at**2).sum(axis=1)) ** 2)))
    assert errors[0] < 0.7 * errors[1]


def test_a_good_prior_is_trusted_and_a_bad_one_is_not() -> None:
    rng = np.random.default_rng(3)
    features = rng.random((25, 6))
    values = 3 * rng.standard_normal(25)  # nothing that the features could say
    good = GaussianProcess.fit(
        features, np.arange(6), values, np.random.default_rng(0), values + 0.1 * rng.standard_normal(25)
    )
    bad = GaussianProcess.fit(features, np.arange(6), values, np.random.default_rng(0), 3 * rng.standard_normal(25))
    assert good.prior_slope == pytest.approx(1.0, abs=0.1)
    assert abs(bad.prior_slope) < 0.45
    assert good.predict(features[:1] + 0.5, np.array([5.0]))[0][0] - good.predict(features[:1] + 0.5, np.array([0.0]))[
        0
    ][0] == pytest.approx(5.0, rel=0.1)


def test_the_fit_is_repeatable_and_copes_with_constants() -> None:
    a, b = (GaussianProcess.fit(FEATURES, GROUPS, VALUES, np.random.default_rng(5)).theta for _ in range(2))
    assert (a == b).all()
    flat = GaussianProcess.fit(FEATURES[:3], GROUPS, np.full(3, 2.5), np.random.default_rng(0))
    assert flat.predict(FEATURES)[0] == pytest.approx(np.full(9, 2.5))
    one = GaussianProcess.fit(FEATURES[:1], GROUPS, np.array([4.0]), np.random.default_rng(0))
    assert np.isfinite(one.predict(FEATURES)[1]).all()
