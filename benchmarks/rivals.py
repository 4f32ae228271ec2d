"""Tools under one roof: each evaluates ``budget`` new legal points of a space, the given starting points first.

Rivals get the best encoding known for them: exponents of ordinals, the number of the order among the legal ones, a
categorical for TPE. What they propose against a declared constraint or for the second time is told to them as
infeasible and costs no evaluation; after ``PATIENCE`` such proposals in a row a random legal point is taken.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from published_spaces import Instance, Point, starting_points

from mapper.errors import InputError
from tuner.optimizer import Optimizer
from tuner.surrogate import Ingredients

PATIENCE = 30
STARTING = 7
PENALTY = 2.0
"""An infeasible trial is told with this times the worst time seen: Optuna's samplers ignore failed trials."""


@dataclass(frozen=True)
class Run:
    """``times``: per evaluation, None where it failed; ``seconds`` per suggestion."""

    times: list[float | None]
    seconds: float


Tool = Callable[[Instance, int, int], Run]


def _recorded(
    instance: Instance,
    seed: int,
    budget: int,
    propose: Callable[[], Point],
    tell: Callable[[Point, float | None], None],
) -> Run:
    times: list[float | None] = []
    for point in starting_points(instance.space(), seed, min(STARTING, budget)):
        times.append(instance.time(point))
        tell(point, times[-1])
    started = time.perf_counter()
    while len(times) < budget:
        point = propose()
        times.append(instance.time(point))
        tell(point, times[-1])
    return Run(times, (time.perf_counter() - started) / max(1, budget - STARTING))


def random_legal(instance: Instance, seed: int, budget: int) -> Run:
    """Uniform legal points, each once."""
    space, rng, seen = instance.space(), np.random.default_rng([seed, 1]), set[str]()

    def propose() -> Point:
        return next(p for p in iter(lambda: space.point(space.sample(rng, 1)[0]), None) if str(p) not in seen)

    return _recorded(instance, seed, budget, propose, lambda point, _: seen.add(str(point)))


def ours(metric: str = "spearman", **switches: Any) -> Tool:
    """The package itself, with some ingredients switched."""

    def run(instance: Instance, seed: int, budget: int) -> Run:
        tuner = Optimizer(
            instance.space(metric), objectives=["time"], seed=seed, ingredients=replace(Ingredients(), **switches)
        )

        def tell(point: Point, value: float | None) -> None:
            tuner.tell(point, value, failure="failed" if value is None else None)

        return _recorded(instance, seed, budget, lambda: tuner.ask()[0], tell)

    return run


def optuna_tool(name: str) -> Tool:
    """An Optuna sampler: ``tpe`` or ``gp``."""

    def run(instance: Instance, seed: int, budget: int) -> Run:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTING) if name == "tpe" else (
            optuna.samplers.GPSampler(seed=seed, n_startup_trials=STARTING, deterministic_objective=True))  # fmt: skip
        study = optuna.create_study(sampler=sampler)
        space, encoding = instance.space(), _Encoding(instance, categorical=name == "tpe")
        rng, seen, worst = np.random.default_rng([seed, 2]), set[str](), [1.0]

        def tell(point: Point, value: float | None, illegal: bool = False) -> None:
            seen.add(str(point))
            worst[0] = max(worst[0], value or 0.0)
            study.add_trial(
                optuna.create_trial(
                    params=encoding.params(point), distributions=encoding.distributions,
                    value=math.log(PENALTY * worst[0] if value is None else value),
                    constraints={"ok": 1.0 if value is None or illegal else -1.0},
                )
            )  # fmt: skip

        def propose() -> Point:
            for _ in range(PATIENCE):
                trial = study.ask(encoding.distributions)
                point = encoding.point(trial.params)
                study.tell(trial, state=optuna.trial.TrialState.FAIL)  # its twin is told with the outcome
                if str(point) in seen:
                    continue
                try:
                    space.codes(point)
                except InputError:
                    tell(point, None, illegal=True)
                    continue
                return point
            return next(p for p in iter(lambda: space.point(space.sample(rng, 1)[0]), None) if str(p) not in seen)

        return _recorded(instance, seed, budget, propose, tell)

    return run


class _Encoding:
    """Points as parameters of Optuna."""

    def __init__(self, instance: Instance, categorical: bool) -> None:
        from optuna.distributions import CategoricalDistribution, IntDistribution

        space, self._categorical = instance.space(), categorical
        by_name = dict(zip(space.names, space.parameters, strict=True))
        free = {n: v for n, v in space.point(next(iter(space.enumerate()))).items() if n != "order"}
        free |= {"chunk": 4, "unroll": 2}
        self._orders = [o for o in itertools.permutations(range(5)) if _legal(space, {**free, "order": o})]
        self.distributions: dict[str, Any] = {
            n: IntDistribution(round(math.log2(p.value(0))), round(math.log2(p.value(p.count - 1))))
            for n, p in by_name.items() if n not in ("order", "sched") and p.count
        }  # fmt: skip
        self.distributions["sched"] = CategoricalDistribution((0, 1))
        texts = ["".join(map(str, o)) for o in self._orders]
        self.distributions["order"] = (
            CategoricalDistribution(texts) if categorical else IntDistribution(0, len(texts) - 1)
        )

    def params(self, point: Point) -> dict[str, Any]:
        found = {n: point[n] if n == "sched" else round(math.log2(point[n])) for n in point if n != "order"}
        order = tuple(point["order"])
        return {**found, "order": "".join(map(str, order)) if self._categorical else self._orders.index(order)}

    def point(self, params: dict[str, Any]) -> Point:
        found = {n: v if n == "sched" else 2**v for n, v in params.items() if n != "order"}
        order = params["order"]
        return {**found, "order": tuple(map(int, order)) if self._categorical else self._orders[order]}


def _legal(space: Any, point: Point) -> bool:
    try:
        space.codes(point)
    except InputError:
        return False
    return True


def tools() -> tuple[dict[str, Tool], list[str]]:
    """(tools by name, notes on those that are not to be had)."""
    found: dict[str, Tool] = {"ours": ours(), "random": random_legal, "tpe": optuna_tool("tpe")}
    notes = []
    if importlib.util.find_spec("torch"):
        found["gp"] = optuna_tool("gp")
    else:
        notes.append("gp (Optuna's GPSampler) is left out: torch is not installed")
    notes.append("SMAC3 needs an environment of its own (ConfigSpace 1.x) and is not part of this run")
    return found, notes


ABLATIONS: dict[str, Tool] = {
    "no classifier": ours(classifier=False),
    "no local search": ours(local_search=False),
    "no logarithm": ours(log_objective=False),
    "Kendall": ours("kendall"),
    "Hamming": ours("hamming"),
}


def names(ablations: bool) -> Sequence[str]:
    """Everything that may be run."""
    return [*tools()[0], *(ABLATIONS if ablations else ())]
