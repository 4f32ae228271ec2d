"""The classifier of failures, and the threshold that is drawn anew."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.feasibility import THRESHOLDS, Feasibility


def test_all_is_feasible_until_something_fails() -> None:
    features = np.random.default_rng(0).random((20, 3))
    found = Feasibility.fit(features, np.zeros(20, bool), np.random.default_rng(0))
    assert (found.log_weight(features) == 0).all()


def test_it_learns_where_failures_are() -> None:
    rng = np.random.default_rng(0)
    features = rng.random((80, 4))
    found = Feasibility.fit(features, features[:, 1] > 0.7, rng)
    at = rng.random((400, 4))
    probability = found.probability(at)
    assert probability[at[:, 1] < 0.6].mean() > 0.9
    assert probability[at[:, 1] > 0.8].mean() < 0.1
    assert found.forest is not None
    assert probability == pytest.approx(found.forest.predict_proba(at)[:, 1])
    assert (found.log_weight(at)[probability < found.threshold] == -np.inf).all()


def test_nothing_but_failures() -> None:
    features = np.random.default_rng(0).random((5, 2))
    found = Feasibility.fit(features, np.ones(5, bool), np.random.default_rng(0))
    assert (found.probability(features) == 0).all()


def test_thresholds_differ_and_are_repeatable() -> None:
    features = np.zeros((1, 1))
    drawn = [Feasibility.fit(features, np.zeros(1, bool), np.random.default_rng(n)).threshold for n in range(50)]
    assert len(set(drawn)) == 50
    assert THRESHOLDS[0] <= min(drawn) < max(drawn) <= THRESHOLDS[1]
    assert drawn[7] == Feasibility.fit(features, np.zeros(1, bool), np.random.default_rng(7)).threshold
