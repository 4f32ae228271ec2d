"""Surrogate: what is believed of points not evaluated yet, and how much a point is worth evaluating.

A Gaussian process per measured quantity (of its logarithm where it is positive), a classifier of failures, and the
acquisition: log expected (hypervolume) improvement + log P(no failure) + log P(budgets met).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from studies.pareto import pareto_front
from tuner.acquisition import expected_hypervolume_improvement, log_expected_improvement, log_probability_below
from tuner.feasibility import Feasibility
from tuner.gp import GaussianProcess
from tuner.hyperpriors import Priors
from tuner.permutation_features import FloatArray

NEVER = -1e300
"""Log acquisition of a point that offers nothing."""


@dataclass(frozen=True, slots=True)
class Ingredients:
    """Switches, for comparison. ``prior``: the estimate as prior mean. ``classifier``: of failures. ``local_search``:
    beside drawn candidates. ``fantasies``: a batch foresees its own results. ``log_objective``: positive quantities are
    modelled by their logarithm. ``exploration``: what deviations are multiplied by in the expected improvement; below
    1 a search of few evaluations settles sooner. ``candidates``: points drawn per suggestion; ``starts`` and ``rounds``
    of local search. ``startup``: evaluations before the model is asked. ``priors``: of the hyperparameters."""

    prior: bool = True
    classifier: bool = True
    local_search: bool = True
    fantasies: bool = True
    log_objective: bool = True
    exploration: float = 0.5
    candidates: int = 2000
    starts: int = 8
    rounds: int = 20
    startup: int = 6
    priors: Priors = field(default_factory=Priors)


@dataclass(frozen=True, slots=True)
class Goal:
    """``objectives``: how many of the measured quantities, the first ones, are minimised; ``limits``: (quantity, upper
    limit) of budgets; ``reference``: corner of the hypervolume (None: a little beyond the worst seen)."""

    objectives: int
    limits: tuple[tuple[int, float], ...] = ()
    reference: tuple[float, ...] | None = None

    def met(self, outcomes: FloatArray) -> npt.NDArray[np.bool_]:
        """bool[rows]: measured, within all budgets."""
        inside = measured(outcomes)
        for column, limit in self.limits:
            inside &= outcomes[:, column] <= limit
        return inside


@dataclass(frozen=True, slots=True)
class Surrogate:
    """``processes``: one per measured quantity, ``logs``: which are of the logarithm; ``front``: float64[n, objectives]
    of what is known or foreseen within budgets, and ``reference``, both on the scale of the processes; ``exploration``:
    as in ``Ingredients``."""

    processes: tuple[GaussianProcess, ...]
    logs: tuple[bool, ...]
    goal: Goal
    feasibility: Feasibility
    front: FloatArray
    reference: FloatArray
    exploration: float

    @classmethod
    def fit(
        cls,
        features: FloatArray,
        groups: npt.NDArray[np.int64],
        outcomes: FloatArray,
        prior: FloatArray | None,
        goal: Goal,
        ingredients: Ingredients,
        rng: np.random.Generator,
    ) -> Surrogate:
        """From float64[n, features] and float64[n, quantities]; rows of NaN are failures, at least one row is not.
        ``prior``: float64[n, quantities], estimates of the same quantities."""
        known_rows = measured(outcomes)
        limits = dict(goal.limits)
        logs, processes = [], []
        for column, values in enumerate(outcomes[known_rows].T):
            estimate = None if prior is None or not ingredients.prior else prior[known_rows, column]
            positive = ingredients.log_objective and bool((values > 0).all()) and limits.get(column, 1.0) > 0
            logs.append(positive and (estimate is None or bool((estimate > 0).all())))
            known = scaled(values, logs[-1])
            foreseen = None if estimate is None else scaled(estimate, logs[-1])
            processes.append(
                GaussianProcess.fit(features[known_rows], groups, known, rng, foreseen, ingredients.priors)
            )
        failed = ~known_rows if ingredients.classifier else np.zeros(len(known_rows), np.bool_)
        feasibility = Feasibility.fit(features, groups, failed, rng)
        columns = [scaled(outcomes[known_rows, c], logs[c]) for c in range(goal.objectives)]
        every = np.column_stack(columns)
        margin = 0.1 * np.array([p.unit for p in processes[: goal.objectives]])
        reference = every.max(axis=0) + margin
        if goal.reference is not None:
            reference = np.array(
                [float(scaled(np.array(r), flag)) for r, flag in zip(goal.reference, logs, strict=False)]
            )
        front = every[goal.met(outcomes)[known_rows]]
        front = front[pareto_front(front)]
        return cls(tuple(processes), tuple(logs), goal, feasibility, front, reference, ingredients.exploration)

    def score(self, features: FloatArray, prior: FloatArray | None) -> FloatArray:
        """float64[points]: log acquisition."""
        return self._score(features, prior, self.exploration)

    def _score(self, features: FloatArray, prior: FloatArray | None, exploration: float) -> FloatArray:
        beliefs = self._beliefs(features, prior)
        found = np.maximum(self.feasibility.log_weight(features), NEVER)
        for column, limit in self.goal.limits:
            mean, deviation = beliefs[column]
            found = found + log_probability_below(mean, deviation, float(scaled(np.array(limit), self.logs[column])))
        if len(self.front):  # before, what counts is to find a point within the budgets
            found = found + self._log_gain([(mean, exploration * deviation) for mean, deviation in beliefs])
        return np.maximum(found, NEVER)

    def gain(self, features: FloatArray, prior: FloatArray | None) -> FloatArray:
        """float64[points]: expected improvement times the probability of success, on the scale of the processes: for
        one positive objective the expected relative improvement, for several the expected gain in log-hypervolume."""
        return np.asarray(np.exp(self._score(features, prior, 1.0)), np.float64)

    def foreseeing(self, features: FloatArray, prior: FloatArray | None) -> Surrogate:
        """As if the point at ``features`` (float64[1, features]) had been evaluated, with the expected outcome."""
        beliefs = self._beliefs(features, prior)
        expected = np.array([mean[0] for mean, _ in beliefs])
        limits = [(c, float(scaled(np.array(limit), self.logs[c]))) for c, limit in self.goal.limits]
        front = self.front
        if all(expected[c] <= limit for c, limit in limits):
            front = np.concatenate([front, expected[None, : self.goal.objectives]])
        processes = tuple(
            p.condition(features, self._prior_of(prior, column)) for column, p in enumerate(self.processes)
        )
        return replace(self, processes=processes, front=front[pareto_front(front)])

    def redrawn(self, rng: np.random.Generator) -> Surrogate:
        """The same with a new threshold of feasibility."""
        return replace(self, feasibility=self.feasibility.redrawn(rng))

    def _log_gain(self, beliefs: Sequence[tuple[FloatArray, FloatArray]]) -> FloatArray:
        own = beliefs[: self.goal.objectives]
        if len(own) == 1:
            return log_expected_improvement(*own[0], best=float(self.front[:, 0].min()))
        means, deviations = (np.column_stack(part) for part in zip(*own, strict=True))
        found = expected_hypervolume_improvement(means, deviations, self.front, self.reference)
        return np.log(np.maximum(found, 1e-300))

    def _beliefs(self, features: FloatArray, prior: FloatArray | None) -> list[tuple[FloatArray, FloatArray]]:
        return [p.predict(features, self._prior_of(prior, column)) for column, p in enumerate(self.processes)]

    def _prior_of(self, prior: FloatArray | None, column: int) -> FloatArray | None:
        return None if prior is None else scaled(prior[:, column], self.logs[column])


def measured(outcomes: FloatArray) -> npt.NDArray[np.bool_]:
    """bool[rows]: rows without NaN."""
    return np.asarray(np.isfinite(outcomes).all(axis=1), np.bool_)


def scaled(values: FloatArray, log: bool) -> FloatArray:
    """The logarithm, or the values as they are."""
    return np.log(np.maximum(values, 1e-300)) if log else values
