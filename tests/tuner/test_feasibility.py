"""The classifiers of failures, and the threshold that is drawn anew."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from tuner import feasibility
from tuner.feasibility import LENIENT, MEAN, STRICT, Feasibility, Forest, LatentProcess

GROUPS = np.arange(4)


def test_all_is_feasible_until_something_fails() -> None:
    features = np.random.default_rng(0).random((20, 4))
    found = Feasibility.fit(features, GROUPS, np.zeros(20, bool), np.random.default_rng(0))
    assert (found.log_weight(features) == 0).all()


def test_it_learns_where_failures_are() -> None:
    rng = np.random.default_rng(0)
    features = rng.random((80, 4))
    found = Feasibility.fit(features, GROUPS, features[:, 1] > 0.7, rng)
    at = rng.random((400, 4))
    probability = found.probability(at)
    assert probability[at[:, 1] < 0.6].mean() > 0.85
    assert probability[at[:, 1] > 0.8].mean() < 0.15
    assert (found.log_weight(at)[probability < found.threshold] == -np.inf).all()


def test_the_forest_votes_as_its_library_says() -> None:
    features = np.random.default_rng(0).random((80, 4))
    found = Forest.fit(features, features[:, 1] > 0.7, 3)
    assert found.probability(features) == pytest.approx(found.fitted.predict_proba(features)[:, 1])


def test_nothing_but_failures() -> None:
    features = np.random.default_rng(0).random((5, 2))
    found = Feasibility.fit(features, np.arange(2), np.ones(5, bool), np.random.default_rng(0))
    assert (Forest.fit(features, np.ones(5, bool), 0).probability(features) == 0).all()
    assert (found.log_weight(features) == -np.inf).all()


def test_the_mode_of_the_latent_process_is_that_of_a_direct_search() -> None:
    rng = np.random.default_rng(1)
    features = rng.random((12, 4))
    failed = features.sum(axis=1) > 2.2
    assert 0 < failed.sum() < 12
    found = LatentProcess.fit(features, GROUPS, failed)
    kernel = feasibility._kernel(GROUPS, found.inputs, found.inputs)
    inverse, sign = np.linalg.inv(kernel), np.where(failed, -1.0, 1.0)

    def negative(f: np.ndarray) -> float:
        return float(0.5 * (f - MEAN) @ inverse @ (f - MEAN) + np.logaddexp(0, -sign * f).sum())

    mode = minimize(negative, np.zeros(12), method="BFGS", options={"gtol": 1e-7}).x
    assert kernel @ found.slope + MEAN == pytest.approx(mode, abs=1e-3)


def test_probabilities_are_means_over_the_posterior_of_the_latent_process() -> None:
    rng = np.random.default_rng(2)
    features, at = rng.random((12, 4)), rng.random((5, 4))
    failed = features[:, 0] > 0.6
    found = LatentProcess.fit(features, GROUPS, failed)
    scale = found.inputs[0, 0] / features[0, 0]
    kernel = feasibility._kernel(GROUPS, found.inputs, found.inputs)
    cross = feasibility._kernel(GROUPS, found.inputs, at * scale)
    own = feasibility._kernel(GROUPS, at * scale, at * scale).diagonal()
    chance = expit(MEAN + kernel @ found.slope)
    variance = own - np.einsum(
        "ij,ij->j", cross, np.linalg.solve(kernel + np.diag(1 / (chance * (1 - chance))), cross)
    )  # fmt: skip
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    mean = MEAN + cross.T @ found.slope
    exact = expit(mean[:, None] + np.sqrt(variance)[:, None] * nodes) @ weights / weights.sum()
    assert found.probability(at) == pytest.approx(exact, abs=0.03)  # the formula's own error


def test_far_from_what_was_evaluated_the_latent_process_is_unsure() -> None:
    features = np.random.default_rng(0).random((30, 4)) * [1, 1, 0.3, 0.3]
    failed, at = features[:, 0] > 0.8, np.array([[0.2, 0.5, 0.1, 0.1], [0.2, 0.5, 1.0, 1.0]])
    near, far = LatentProcess.fit(features, GROUPS, failed).probability(at)
    assert near > 0.9 > far
    assert Forest.fit(features, failed, 0).probability(at).tolist() == [1, 1]


def test_thresholds_differ_are_repeatable_and_rise() -> None:
    def drawn(evaluated: int) -> list[float]:
        features, failed = np.zeros((evaluated, 1)), np.zeros(evaluated, bool)
        rngs = map(np.random.default_rng, range(50))
        return [Feasibility.fit(features, np.zeros(1, int), failed, rng).threshold for rng in rngs]

    first, later, last = drawn(10), drawn(30), drawn(500)
    assert len(set(first)) == 50
    assert LENIENT <= min(first) < 0.6 < max(first) <= STRICT[1]
    assert 0.75 <= min(later) < 0.8  # 1 - 0.5 * 15 / 30
    assert STRICT[0] <= min(last) < max(last) <= STRICT[1]
    assert first == drawn(10)
