"""The score of a point is improvement, feasibility and budgets together; a foreseen point changes what others offer."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tuner.acquisition import expected_hypervolume_improvement, log_expected_improvement, log_probability_below
from tuner.feasibility import LENIENT
from tuner.surrogate import NEVER, Goal, Ingredients, Surrogate

RNG = np.random.default_rng(11)
FEATURES = RNG.random((20, 2))
TIME = np.exp(1 + FEATURES[:, 0])
AREA = 5 + 3 * FEATURES[:, 1]
GROUPS = np.arange(2)
AT = RNG.random((50, 2))
EXPLORATION = Ingredients().exploration


def fitted(outcomes: np.ndarray, goal: Goal, ingredients: Ingredients | None = None) -> Surrogate:
    return Surrogate.fit(FEATURES, GROUPS, outcomes, None, goal, ingredients or Ingredients(), np.random.default_rng(0))


def test_one_objective_is_expected_improvement_of_the_logarithm() -> None:
    found = fitted(TIME[:, None], Goal(1))
    mean, deviation = found.processes[0].predict(AT)
    assert found.logs == (True,)
    assert found.score(AT, None) == pytest.approx(
        np.maximum(log_expected_improvement(mean, EXPLORATION * deviation, math.log(TIME.min())), NEVER)
    )
    honest = np.maximum(log_expected_improvement(mean, deviation, math.log(TIME.min())), NEVER)
    assert found.gain(AT, None) == pytest.approx(np.exp(honest))


def test_values_below_zero_are_modelled_as_they_are() -> None:
    assert fitted((TIME - 4)[:, None], Goal(1)).logs == (False,)
    assert fitted(TIME[:, None], Goal(1), Ingredients(log_objective=False)).logs == (False,)


def test_two_objectives_are_hypervolume_improvement() -> None:
    found = fitted(np.column_stack([TIME, AREA]), Goal(2, reference=(10.0, 10.0)))
    (a, s), (b, t) = (p.predict(AT) for p in found.processes)
    slow = expected_hypervolume_improvement(
        np.column_stack([a, b]), EXPLORATION * np.column_stack([s, t]), np.log(np.column_stack([TIME, AREA])),
        np.log([10.0, 10.0]),
    )  # fmt: skip
    assert np.exp(found.score(AT, None)) == pytest.approx(slow, rel=1e-6, abs=1e-12)


def test_budgets_weigh_and_decide_alone_while_none_is_met() -> None:
    outcomes = np.column_stack([TIME, AREA])
    met = fitted(outcomes, Goal(1, limits=((1, 6.5),)))
    best = math.log(TIME[AREA <= 6.5].min())
    (a, s), (b, t) = (p.predict(AT) for p in met.processes)
    expected = log_expected_improvement(a, EXPLORATION * s, best) + log_probability_below(b, t, math.log(6.5))
    assert met.score(AT, None) == pytest.approx(np.maximum(expected, NEVER))
    unmet = fitted(outcomes, Goal(1, limits=((1, 4.0),)))
    b, t = unmet.processes[1].predict(AT)
    assert unmet.score(AT, None) == pytest.approx(np.maximum(log_probability_below(b, t, math.log(4.0)), NEVER))


def test_failures_are_left_out_of_the_models_and_kept_away_from() -> None:
    outcomes = TIME[:, None].copy()
    failing = FEATURES[:, 1] > 0.6
    outcomes[failing] = math.nan
    found = fitted(outcomes, Goal(1))
    assert len(found.processes[0].solved) == (~failing).sum()
    chances = found.feasibility.probability(AT)
    assert (found.score(AT, None)[chances < LENIENT] == NEVER).all()
    blind = fitted(outcomes, Goal(1), Ingredients(classifier=False))
    assert (blind.score(AT, None) > NEVER).all()


def test_a_foreseen_point_offers_nothing_more() -> None:
    for goal in (Goal(1), Goal(2)):
        found = fitted(np.column_stack([TIME, AREA])[:, : goal.objectives], goal)
        best = int(np.argmax(found.score(AT, None)))
        after = found.foreseeing(AT[best : best + 1], None)
        assert after.gain(AT, None)[best] < 0.5 * found.gain(AT, None)[best]
        assert len(after.processes[0].solved) == 21
