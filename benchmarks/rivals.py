"""Tools under one roof: each evaluates ``budget`` new legal points of a task, the given starting points first.

Rivals get the best encoding known for them (``search_tasks``) and logarithms of what is measured. What they propose
against a declared constraint is told to them as infeasible; that and what they propose for the second time costs no
evaluation, and after ``PATIENCE`` such proposals in a row a random legal point is taken.
"""

from __future__ import annotations

import importlib.util
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from search_tasks import Encoding, Outcome, Point, Task, starting_points

from tuner.hyperpriors import LogNormal, Priors
from tuner.proposer import History, propose
from tuner.surrogate import Goal

PATIENCE = {"tpe": 30, "gp": 5, "smac": 10}
"""Less for one that takes long and, once it repeats itself, goes on doing so."""
STARTING = 7
SLOW, SINGLE = ("gp", "smac"), ("smac",)
"""Tools that a quick run leaves out, and those for one objective."""
PENALTY = 2.0
"""An infeasible trial is told with this times the worst seen, the default mapping included: Optuna's samplers ignore
failed trials."""


@dataclass(frozen=True)
class Run:
    """``outcomes``: per evaluation, None where it failed; ``seconds`` per suggestion."""

    outcomes: list[Outcome]
    seconds: float


Tool = Callable[[Task, int, int], Run]


def _recorded(
    task: Task, seed: int, budget: int, propose_one: Callable[[], Point], tell: Callable[[Point, Outcome], None]
) -> Run:
    outcomes: list[Outcome] = []
    for point in starting_points(task, seed, min(STARTING, budget)):
        outcomes.append(task.evaluate(point))
        tell(point, outcomes[-1])
    started = time.perf_counter()
    while len(outcomes) < budget:
        point = propose_one()
        outcomes.append(task.evaluate(point))
        tell(point, outcomes[-1])
    return Run(outcomes, (time.perf_counter() - started) / max(1, budget - STARTING))


def _unseen(task: Task, rng: np.random.Generator, seen: set[Hashable]) -> Point:
    return next(p for p in iter(lambda: task.draw(rng, 1)[0], None) if p not in seen)


def random_legal(task: Task, seed: int, budget: int) -> Run:
    """Uniform legal points, each once."""
    rng, seen = np.random.default_rng([seed, 1]), set[Hashable]()
    return _recorded(task, seed, budget, lambda: _unseen(task, rng, seen), lambda point, _: seen.add(point))


def ours(metric: str = "default", prior: bool = True, **switches: Any) -> Tool:
    """The package itself, with some ingredients switched."""

    def run(task: Task, seed: int, budget: int) -> Run:
        domain = task.domain(metric, prior and task.prior)
        ingredients = replace(task.ingredients, **switches)
        points: list[Any] = []
        outcomes: list[list[float]] = []

        def tell(point: Point, outcome: Outcome) -> None:
            points.append(point)
            outcomes.append([math.nan] * task.objectives if outcome is None else list(outcome))

        def propose_one() -> Point:
            rng = np.random.default_rng([seed, len(points)])
            hints = domain.hints(rng) if task.prior else []
            history = History(points, np.array(outcomes), hints=hints)
            return propose(domain, history, Goal(task.objectives), ingredients, 1, rng)[0].point

        return _recorded(task, seed, budget, propose_one, tell)

    return run


def optuna_tool(name: str) -> Tool:
    """An Optuna sampler: ``tpe`` or ``gp``."""

    def run(task: Task, seed: int, budget: int) -> Run:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler: optuna.samplers.BaseSampler
        if name == "tpe":
            sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTING)
        else:
            import torch

            torch.set_num_threads(1)
            sampler = optuna.samplers.GPSampler(seed=seed, n_startup_trials=STARTING, deterministic_objective=True)
        study = optuna.create_study(directions=["minimize"] * task.objectives, sampler=sampler)
        encoding = task.encoding(categorical=name == "tpe")
        rng, seen, worst = np.random.default_rng([seed, 2]), set[Hashable](), list(task.start)

        def tell(point: Point, outcome: Outcome) -> None:
            seen.add(point)
            told(encoding.params(point), outcome)

        def told(params: dict[str, Any], outcome: Outcome) -> None:
            worst[:] = np.maximum(worst, outcome or 0.0).tolist()
            values = [math.log(v) for v in outcome or (PENALTY * w for w in worst)]
            constraints = {"ok": 1.0 if outcome is None else -1.0}
            study.add_trial(
                optuna.create_trial(
                    params=params, distributions=encoding.distributions, values=values, constraints=constraints
                )
            )

        def propose_one() -> Point:
            for _ in range(PATIENCE[name]):
                trial = study.ask(encoding.distributions)
                params = dict(trial.params)
                study.tell(trial, state=optuna.trial.TrialState.FAIL)  # its twin is told with the outcome
                point = encoding.point(params)
                if point is None:
                    told(params, None)
                elif point not in seen:
                    return point
            return _unseen(task, rng, seen)

        return _recorded(task, seed, budget, propose_one, tell)

    return run


def smac(task: Task, seed: int, budget: int) -> Run:
    """SMAC3 as its facade for such searches sets it up, for one objective, fitted anew for every suggestion. Failures
    are told as with Optuna, and the order between parameters that the encoding knows is declared."""
    from smac import HyperparameterOptimizationFacade, Scenario
    from smac.runhistory.dataclasses import TrialInfo, TrialValue

    encoding, rng, known, worst = task.encoding(categorical=True), np.random.default_rng([seed, 3]), {}, [task.start[0]]
    space = _config_space(encoding, encoding.params(starting_points(task, seed, 1)[0]), seed)

    def told(info: Any, outcome: Outcome) -> None:
        worst[0] = max(worst[0], *(outcome or (0.0,)))
        optimizer.tell(info, TrialValue(cost=outcome[0] if outcome else PENALTY * worst[0]), save=False)

    def tell(point: Point, outcome: Outcome) -> None:
        known[point] = outcome
        told(asked.pop(point, None) or TrialInfo(_configuration(space, encoding.params(point)), seed=0), outcome)

    def propose_one() -> Point:
        for _ in range(PATIENCE["smac"]):
            info = optimizer.ask()
            point = encoding.point({n: getattr(v, "item", lambda v=v: v)() for n, v in info.config.items()})
            if point is not None and point not in known:
                asked[point] = info
                return point
            told(info, known.get(point))
        return _unseen(task, rng, set(known))

    asked: dict[Point, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        scenario = Scenario(space, output_directory=Path(folder), deterministic=True, n_trials=10**6, seed=seed)
        facade = HyperparameterOptimizationFacade
        optimizer = facade(
            scenario, lambda config, seed=0: (config, seed), logging_level=False, overwrite=True,
            initial_design=facade.get_initial_design(
                scenario, n_configs=0, additional_configs=[space.get_default_configuration()]
            ),
            config_selector=facade.get_config_selector(scenario, retrain_after=1),
        )  # fmt: skip
        return _recorded(task, seed, budget, propose_one, tell)


def _config_space(encoding: Encoding, default: dict[str, Any], seed: int) -> Any:
    """The parameters of ``encoding`` as SMAC3 takes them; the default must be legal."""
    from ConfigSpace import Categorical, ConfigurationSpace, ForbiddenGreaterThanEqualsRelation, Integer

    space = ConfigurationSpace(seed=seed)
    space.add(
        Integer(name, (given.low, given.high), default=default[name])
        if hasattr(given, "low") and given.low < given.high
        else Categorical(name, getattr(given, "choices", None) or [given.low], default=default[name])
        for name, given in encoding.distributions.items()
    )
    space.add(ForbiddenGreaterThanEqualsRelation(space[low], space[high]) for low, high in encoding.rising)
    return space


def _configuration(space: Any, params: dict[str, Any]) -> Any:
    from ConfigSpace import Configuration

    return Configuration(space, values=params)


def tools() -> tuple[dict[str, Tool], list[str]]:
    """(tools by name, notes on those that are not to be had)."""
    found: dict[str, Tool] = {
        "ours": ours(), "ours, no prior": ours(prior=False), "random": random_legal, "tpe": optuna_tool("tpe"),
    }  # fmt: skip
    notes = []
    if importlib.util.find_spec("torch"):
        found["gp"] = optuna_tool("gp")
    else:
        notes.append("gp (Optuna's GPSampler) is left out: torch is not installed")
    if importlib.util.find_spec("smac"):
        found["smac"] = smac
    else:
        notes.append("SMAC3 is left out: it is not installed (pip install smac)")
    return found, notes


ABLATIONS: dict[str, Tool] = {
    "no classifier": ours(classifier=False),
    "no local search": ours(local_search=False),
    "no logarithm": ours(log_objective=False),
    "no additive part": ours(priors=Priors(additive=LogNormal(-8.0, 0.1))),
    "whole deviations": ours(exploration=1.0),
    "Spearman": ours("spearman"),
    "Kendall": ours("kendall"),
    "Hamming": ours("hamming"),
}
