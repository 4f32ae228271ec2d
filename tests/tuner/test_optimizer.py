"""Ask and tell: no point twice, nothing illegal, failures of every sort recorded, same seed same points."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from mapper.errors import InputError, StudyError
from tuner.optimizer import Optimizer
from tuner.parameter_space import ParameterSpace
from tuner.parameters import Categorical, Integer, Ordinal, Permutation, Real
from tuner.surrogate import Ingredients

QUICK = Ingredients(candidates=200)


def compiler() -> ParameterSpace:
    """46,656 points, the SpMM space of BaCO."""
    return ParameterSpace(
        [
            Ordinal("chunk", [2**n for n in range(1, 10)], log=True),
            Ordinal("omp", [2**n for n in range(9)], log=True),
            Ordinal("threads", [2**n for n in range(6)], log=True),
            Categorical("sched", [0, 1]),
            Ordinal("unroll", [2**n for n in range(1, 10)], log=True),
            Permutation("order", 5, before=[(0, 2), (1, 2), (0, 3), (1, 3)]),
        ],
        ["unroll < chunk", "before(order, 3, 2) or before(order, 3, 4)"],
    )


def seconds(point: dict[str, Any]) -> float:
    """At least 1, at chunk 64, omp 32, threads 16, unroll 8, item 0 first and 2 last."""
    off = [math.log2(point[n]) - at for n, at in (("chunk", 6), ("omp", 5), ("threads", 4), ("unroll", 3))]
    return 1 + sum(map(abs, off)) + point["sched"] + point["order"].index(0) + (4 - point["order"].index(2))


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


def mixed() -> ParameterSpace:
    """Reals on either scale, tied by a constraint, beside what text formats turn into lists."""
    return ParameterSpace(
        [
            Real("s", 0.01, 1.0, log=True),
            Real("t", -3, 5),
            Permutation("order", ["i", "j", "k"]),
            Categorical("tile", [(1, 2), (2, 1)]),
        ],
        ["s < 0.9", "t + s < 5"],
    )


def bowl(point: dict[str, Any]) -> float:
    """At least 1, at s 0.1, t 1.3, i first."""
    return 1 + math.log10(10 * point["s"]) ** 2 + (point["t"] - 1.3) ** 2 + list(point["order"]).index("i")


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


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (math.nan, "value must be a finite number, got nan"),
        (math.inf, "value must be a finite number, got inf"),
        (None, "values must be numbers, got None"),
        ("fast", "values must be numbers, got 'fast'"),
        (True, "values must be numbers, got True"),
        ([1.0, 2.0], r"1 values \(value\) are needed, got 2"),
        ([], r"1 values \(value\) are needed, got 0"),
        ([None], "value must be a finite number, got None"),
        (np.array("fast"), "values must be numbers, got array"),
        ([10**400], "value must be a finite number, got one beyond the largest float"),
        ([-(10**5000)], "value must be a finite number, got one beyond the largest float"),
        ({"time": 1.0}, "a value of value is needed, got time"),
    ],
)
def test_unusable_values_are_recorded_failures(values: Any, message: str) -> None:
    tuner = Optimizer(compiler(), seed=0, ingredients=QUICK)
    (point,) = tuner.ask()
    trial = tuner.tell(point, values)
    assert trial.values is None
    assert re.search(message, trial.failure or "")
    assert len(tuner.ask()) == 1


def test_evaluators_that_raise_or_hang() -> None:
    def evaluate(point: dict[str, Any]) -> float:
        if point["sched"]:
            time.sleep(0.3)
        if point["threads"] > 8:
            raise TimeoutError("of its own")
        return seconds(point)

    tuner = Optimizer(compiler(), seed=0, evaluations=12, ingredients=QUICK)
    with ThreadPoolExecutor(12) as pool:
        tuner.run(evaluate, batch=12, executor=pool, timeout=0.1)
    reasons = {t.failure for t in tuner.trials}
    assert "no result within 0.1 s" in reasons
    assert None in reasons


def test_a_number_may_be_an_array_without_dimensions() -> None:
    tuner = Optimizer(compiler(), objectives=["time", "area"], budgets={"bytes": 9}, seed=0, ingredients=QUICK)
    (point,) = tuner.ask()
    trial = tuner.tell(point, [np.array(3.0), np.float32(2), 10**20])
    assert trial.values == {"time": 3.0, "area": 2.0, "bytes": 1e20}
    single = Optimizer(compiler(), seed=0, ingredients=QUICK)
    assert single.tell(point, np.array(3.0)).values == {"value": 3.0}


def test_only_what_was_evaluated_counts_as_used() -> None:
    tuner = Optimizer(compiler(), seed=0, evaluations=5, ingredients=QUICK)
    first = tuner.ask(4)
    assert len(tuner.ask(4)) == 1
    assert tuner.ask(4) == []
    assert tuner.stopped is None
    with pytest.raises(InputError, match="5 points were asked and not told"):
        tuner.run(seconds)
    for point in first:
        tuner.tell(point, 1.0)
    assert tuner.ask() == []
    assert tuner.stopped is None
    tuner.tell({**first[0], "sched": 1 - first[0]["sched"]}, 1.0)
    assert tuner.ask() == []
    assert tuner.stopped == "budget of 5 evaluations used"


@pytest.mark.parametrize("space", [compiler(), ParameterSpace([Integer("a", 0, 9)])])
def test_a_run_goes_on_after_an_interrupt(space: ParameterSpace) -> None:
    left = [2]

    def interrupted(point: dict[str, Any]) -> float:
        left[0] -= 1
        if left[0] == -1:
            raise KeyboardInterrupt
        return float(sum(v for v in point.values() if isinstance(v, int)))

    tuner = Optimizer(space, seed=0, evaluations=10, ingredients=QUICK)
    with pytest.raises(KeyboardInterrupt):
        tuner.run(interrupted, batch=4)
    assert len(tuner.trials) == 2
    assert tuner.run(interrupted, batch=4) == "budget of 10 evaluations used"
    assert len(tuner.trials) == 10


def test_what_the_caller_asked_stays_asked() -> None:
    tuner = Optimizer(ParameterSpace([Integer("a", 0, 9)]), seed=0, ingredients=QUICK)
    (mine,) = tuner.ask()
    with pytest.raises(InputError, match="1 points were asked and not told"):
        tuner.run(lambda p: p["a"])
    assert len(tuner.trials) == 9
    tuner.tell(mine, 1.0)
    assert tuner.run(lambda p: p["a"]) == "space exhausted after 10 points"


class Broken(ThreadPoolExecutor):
    """Dies at the third task."""

    left = 2

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise BrokenExecutor("a worker died")
        return super().submit(function, *args, **kwargs)


def test_a_dead_worker_loses_nothing_that_was_told() -> None:
    tuner = Optimizer(compiler(), seed=0, evaluations=6, ingredients=QUICK)
    with Broken(1) as pool, pytest.raises(StudyError, match="a worker died"):
        tuner.run(seconds, executor=pool)
    assert len(tuner.trials) == 2
    tuner.run(seconds)
    assert len(tuner.trials) == 6


def test_a_pool_that_was_shut_down_leaves_no_point_behind() -> None:
    tuner = Optimizer(compiler(), seed=0, evaluations=6, ingredients=QUICK)
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(StudyError, match=r"after shutdown.*: 0 told trials are kept"):
        tuner.run(seconds, batch=4, executor=pool)
    tuner.run(seconds, batch=4)
    assert len(tuner.trials) == 6


def test_a_pool_of_the_evaluator_that_dies_is_a_failure_of_the_point() -> None:
    def evaluate(point: dict[str, Any]) -> float:
        if point["sched"]:
            raise BrokenExecutor("inner pool died")
        return seconds(point)

    tuner = Optimizer(compiler(), seed=0, evaluations=8, ingredients=QUICK)
    tuner.run(evaluate)
    assert {t.failure for t in tuner.trials} == {None, "raised BrokenExecutor: inner pool died"}


class Gone(ThreadPoolExecutor):
    """Forgets the third task, as the client of a cluster does when the scheduler goes away."""

    left = 2

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self.left -= 1
        if self.left >= 0:
            return super().submit(function, *args, **kwargs)
        forgotten: Future[Any] = Future()
        forgotten.cancel()
        return forgotten


def test_a_scheduler_that_went_away_is_no_failure_of_points() -> None:
    tuner = Optimizer(compiler(), seed=0, evaluations=6, ingredients=QUICK)
    with Gone(1) as pool, pytest.raises(StudyError, match="2 told trials are kept"):
        tuner.run(seconds, batch=2, executor=pool)
    tuner.run(seconds)
    assert [t.failure for t in tuner.trials] == [None] * 6


def test_bad_use() -> None:
    space = compiler()
    with pytest.raises(InputError, match="Did you mean 'minimize'"):
        Optimizer(space, objectives={"time": "minimise"})
    with pytest.raises(InputError, match="different names"):
        Optimizer(space, objectives=["time", "time"])
    with pytest.raises(InputError, match=r"'speed' is maximised and cannot have a budget.* with a budget of -50"):
        Optimizer(space, objectives={"speed": "maximize"}, budgets={"speed": 50})
    for name, value in [("seed", -1), ("seed", 1.5), ("evaluations", 0), ("evaluations", "3"), ("regret", "x")]:
        with pytest.raises(InputError, match=f"{name} must be a"):
            Optimizer(space, **{name: value})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="space must be a ParameterSpace"):
        Optimizer(space.parameters)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="one per objective"):
        Optimizer(space, reference=[1, 2])
    with pytest.raises(InputError, match="needs a stopping rule"):
        Optimizer(ParameterSpace([Real("x", 0, 1)])).run(lambda p: 1.0)
    tuner = Optimizer(space)
    for count in (0, -1, 1.5, True):
        with pytest.raises(InputError, match="must be a whole number, 1 or more"):
            tuner.ask(count)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="batch must be a whole number"):
            tuner.run(seconds, batch=count)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"timeout=0\.1 needs an executor"):
        tuner.run(seconds, timeout=0.1)
    assert tuner.stopped is None
    (point,) = tuner.ask()
    tuner.tell(point, 1.0)
    with pytest.raises(InputError, match="was told before"):
        tuner.tell(point, 1.0)
    with pytest.raises(InputError, match="breaks 'unroll < chunk'"):
        tuner.tell({**point, "chunk": 2, "unroll": 4}, 1.0)
    with pytest.raises(StudyError, match="none of 0 trials"):
        _ = Optimizer(space).best
