"""What outside evaluators answer: failures of every sort are recorded, and nothing that was told is lost."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from outside_spaces import QUICK, compiler, seconds

from mapper.errors import InputError, StudyError
from tuner.optimizer import Optimizer
from tuner.parameter_space import ParameterSpace
from tuner.parameters import Integer, Real


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
