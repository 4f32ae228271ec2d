"""Ask and tell: good points soon, none twice, none illegal, same seed same points."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from outside_spaces import QUICK, bowl, compiler, mixed, seconds

from mapper.errors import InputError
from tuner.optimizer import Optimizer
from tuner.parameter_space import ParameterSpace
from tuner.parameters import Categorical, Integer, Real
from tuner.surrogate import Ingredients


def test_it_finds_what_random_draws_do_not() -> None:
    found, drawn = [], []
    for seed in range(3):
        model = Optimizer(compiler(), seed=seed, evaluations=30, ingredients=QUICK)
        model.run(seconds)
        found.append(model.best.values["value"])  # type: ignore[index]
        random = Optimizer(compiler(), seed=seed, evaluations=30, ingredients=Ingredients(startup=30))
        random.run(seconds)
        drawn.append(random.best.values["value"])  # type: ignore[index]
    assert max(found) < min(drawn)
    assert np.mean(found) < 2.5


def test_no_point_twice_and_none_illegal() -> None:
    tuner = Optimizer(compiler(), seed=1, evaluations=40, ingredients=QUICK)
    tuner.run(seconds, batch=4)
    codes = [tuner.space.codes(t.point) for t in tuner.trials]
    assert len(set(codes)) == 40
    assert tuner.stopped == "budget of 40 evaluations used"


def test_hidden_failures_are_learned() -> None:
    def hidden(point: dict[str, Any]) -> float:
        if point["chunk"] * point["threads"] < 256:
            raise RuntimeError("does not compile")
        return seconds(point)

    failed = []
    for seed in range(2):
        tuner = Optimizer(compiler(), seed=seed, evaluations=40, ingredients=QUICK)
        tuner.run(hidden)
        assert any(t.failure == "raised RuntimeError: does not compile" for t in tuner.trials)
        failed.append(sum(t.failure is not None for t in tuner.trials[15:]) / 25)
    assert np.mean(failed) < 0.15  # 42 % of all points fail


def test_several_objectives_reach_more_than_random_draws() -> None:
    from studies.pareto import hypervolume

    def both(point: dict[str, Any]) -> tuple[float, float]:
        return 3 + seconds(point), 4 + point["threads"] * (1 + point["sched"])

    corner = np.log([40, 64])
    space = compiler()
    drawn = [
        hypervolume(np.log([both(space.point(c)) for c in space.sample(np.random.default_rng(n), 30)]), corner)
        for n in range(10)
    ]
    reached = []
    for seed in range(3):
        tuner = Optimizer(space, objectives=["time", "area"], seed=seed, evaluations=30, ingredients=QUICK)
        tuner.run(both)
        points = [[math.log(t.values[n]) for n in ("time", "area")] for t in tuner.front() if t.values]
        reached.append(hypervolume(points, corner))
    assert min(reached) > max(drawn)


def test_budgets_are_met() -> None:
    def evaluate(point: dict[str, Any]) -> dict[str, float]:
        return {"time": seconds(point), "bytes": point["chunk"] * point["unroll"]}

    tuner = Optimizer(
        compiler(), objectives=["time"], budgets={"bytes": 128}, seed=0, evaluations=30, ingredients=QUICK
    )
    tuner.run(evaluate)
    assert tuner.best.values["bytes"] <= 128  # type: ignore[index]
    assert tuner.best.values["time"] <= 5  # type: ignore[index] - 3 within the budget, 1 without
    assert sum(t.values["bytes"] <= 128 for t in tuner.trials[15:]) >= 12  # type: ignore[index]


def test_maximising_is_minimising_the_negative() -> None:
    one = Optimizer(compiler(), objectives={"speed": "maximize"}, seed=0, evaluations=12, ingredients=QUICK)
    one.run(lambda p: 20 - seconds(p))
    values = [t.values["speed"] for t in one.trials]  # type: ignore[index]
    assert one.best.values["speed"] == max(values)  # type: ignore[index]


def test_the_prior_finds_the_optimum_sooner() -> None:
    space = compiler()
    informed = ParameterSpace(space.parameters, ["unroll < chunk", "before(order, 3, 2) or before(order, 3, 4)"],
                              estimate=lambda p: [2 * seconds(p) + p["sched"]])  # fmt: skip
    tuner = Optimizer(informed, seed=0, evaluations=10, ingredients=Ingredients(candidates=200, startup=2))
    tuner.run(seconds)
    assert tuner.best.values["value"] <= 2  # type: ignore[index]


def test_the_estimate_of_a_maximised_quantity_is_given_as_it_is_measured() -> None:
    def speed(point: dict[str, Any]) -> float:
        return 1000 - math.hypot(point["x"] - 700, point["y"] - 200)

    space = ParameterSpace([Integer("x", 0, 999), Integer("y", 0, 999)], estimate=lambda p: [speed(p)])
    quick = Ingredients(candidates=200, startup=2)
    up = Optimizer(space, objectives={"speed": "maximize"}, evaluations=6, ingredients=quick)
    up.run(speed)
    assert up.best.values["speed"] > 995  # type: ignore[index]
    assert up.trials[0].values["speed"] > 900  # type: ignore[index]
    negative = ParameterSpace(space.parameters, estimate=lambda p: [-speed(p)])
    down = Optimizer(negative, objectives=["slowness"], evaluations=6, ingredients=quick)
    down.run(lambda p: -speed(p))
    assert [t.point for t in down.trials] == [t.point for t in up.trials]


@pytest.mark.parametrize(
    ("estimate", "message"),
    [
        (lambda p: None, "one number per measured quantity, at every point as many, got None at {'x': "),
        (lambda p: "ab", "one number per measured quantity, at every point as many, got 'ab' at {'x': "),
        (lambda p: [1.0, None], "at every point as many, got [1.0, None] at {'x': "),
        (lambda p: [1.0] * (1 + p["x"] % 2), "at every point as many, got [1.0"),
        (lambda p: 1.0, "the estimate of the space must give 2 numbers (a, b), got 1"),
        (lambda p: [1.0, 2.0, 3.0], "the estimate of the space must give 2 numbers (a, b), got 3"),
    ],
)
def test_estimates_that_are_not_one_number_per_quantity(estimate: Callable[..., Any], message: str) -> None:
    space = ParameterSpace([Integer("x", 0, 9)], estimate=estimate)
    with pytest.raises(InputError, match=re.escape(message)):
        Optimizer(space, objectives=["a", "b"]).ask()


def test_a_history_told_again_resumes() -> None:
    whole = Optimizer(compiler(), seed=3, evaluations=14, ingredients=QUICK)
    whole.run(seconds, batch=2)
    again = Optimizer(compiler(), seed=3, evaluations=14, ingredients=QUICK)
    for trial in whole.trials[:8]:
        again.tell(trial.point, trial.values, failure=trial.failure)
    again.run(seconds, batch=2)
    assert again.trials == whole.trials
    other = Optimizer(compiler(), seed=4, evaluations=14, ingredients=QUICK)
    other.run(seconds, batch=2)
    assert other.trials != whole.trials


def test_points_that_come_back_as_text_are_those_asked() -> None:
    tuner = Optimizer(mixed(), seed=0, evaluations=24, ingredients=QUICK)
    asked = []
    while points := tuner.ask(4):
        asked += points
        for point in points:
            sent = json.loads(json.dumps(point))
            tuner.tell({**sent, "t": float(f"{sent['t']:.15g}")}, bowl(sent))
    assert len(asked) == len(tuner.trials) == 24
    assert tuner.stopped == "budget of 24 evaluations used"
    assert all(t.point == {**p, "t": pytest.approx(p["t"])} for t, p in zip(tuner.trials, asked, strict=True))


def test_a_history_with_reals_told_again_resumes() -> None:
    whole = Optimizer(mixed(), seed=3, evaluations=20, ingredients=QUICK)
    whole.run(bowl, batch=2)
    for kept in (8, 14):
        again = Optimizer(mixed(), seed=3, evaluations=20, ingredients=QUICK)
        for trial in whole.trials[:kept]:
            again.tell(trial.point, trial.values)
        again.run(bowl, batch=2)
        assert again.trials == whole.trials


def test_no_point_with_reals_is_told_twice() -> None:
    tuner = Optimizer(mixed(), seed=0, ingredients=QUICK)
    points = tuner.ask(8)
    for point in points:
        tuner.tell(point, 1.0)
    for point in points:
        with pytest.raises(InputError, match="was told before"):
            tuner.tell(point, 1.0)
    assert len(tuner.trials) == 8


def test_reals_are_kept_and_judged_as_they_were_told() -> None:
    hundredths = [n / 100 for n in range(10, 71)]  # of which 0.34 and nine others have no code
    for value in hundredths:
        tuner = Optimizer(ParameterSpace([Real("s", 0.1, 0.7)], [f"{value} <= s <= {value}"]))
        assert tuner.tell({"s": value}, 1.0).point == {"s": value}
    switched = ParameterSpace([Real("s", 0.1, 0.7), Categorical("c", [0, 1], when="s >= 0.34")])
    assert Optimizer(switched).tell({"s": 0.34, "c": 1}, 1.0).point == {"s": 0.34, "c": 1}
    with pytest.raises(InputError, match="'c' is missing"):
        Optimizer(switched).tell({"s": 0.34}, 1.0)
    with pytest.raises(InputError, match="'c' is inactive"):
        Optimizer(switched).tell({"s": 0.33, "c": 1}, 1.0)


def test_threads_do_not_change_the_points() -> None:
    found = []
    for workers in (None, 1, 4):
        tuner = Optimizer(compiler(), seed=3, evaluations=12, ingredients=QUICK)
        if workers is None:
            tuner.run(seconds, batch=4)
        else:
            with ThreadPoolExecutor(workers) as pool:
                tuner.run(seconds, batch=4, executor=pool)
        found.append(tuner.trials)
    assert found[0] == found[1] == found[2]


def test_a_batch_does_not_collapse() -> None:
    tuner = Optimizer(compiler(), seed=0, ingredients=QUICK)
    for point in tuner.ask(8):
        tuner.tell(point, seconds(point))
    batch = tuner.ask(6)
    assert len({str(p) for p in batch}) == 6
    assert len({str(p) for p in batch + tuner.ask(2)}) == 8  # pending points are not asked again


def test_an_exhausted_space_ends() -> None:
    space = ParameterSpace([Integer("a", 0, 4), Integer("b", 0, 4)], ["a < b"])
    tuner = Optimizer(space, seed=0)
    assert tuner.run(lambda p: p["a"] - p["b"]) == "space exhausted after 10 points"
    assert {(t.point["a"], t.point["b"]) for t in tuner.trials} == {(a, b) for a in range(5) for b in range(a + 1, 5)}
    assert tuner.ask() == []


def test_regret_stops_the_search() -> None:
    tuner = Optimizer(ParameterSpace([Real("x", 0, 1)]), seed=0, evaluations=60, regret=1e-3, ingredients=QUICK)
    reason = tuner.run(lambda p: 1 + (p["x"] - 0.3) ** 2)
    assert "below 0.001 in 3 asks in a row" in reason
    assert len(tuner.trials) < 40
    assert tuner.best.values["value"] < 1.001  # type: ignore[index]
