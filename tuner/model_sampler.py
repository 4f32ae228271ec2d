"""ModelSampler: the search of ``proposer`` as one Optuna sampler over a whole mapping space.

    sampler = ModelSampler(space, ("latency_cycles", "energy_pj"))
    study = optuna.create_study(directions=["minimize"] * 2, sampler=sampler)
    study.optimize(lambda trial: simulate(space.choose(TrialChooser(trial))), n_trials=40)

A suggestion follows from the trials of the study, the seed and the number of the trial alone, so that a study that was
rebuilt asks what the first one would have asked. A trial that was pruned or failed is a hidden failure; one that is
running is foreseen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

from mapper.errors import IllegalMapping
from mapper.mapping import Mapping as MappingValue
from mapper.space import MappingSpace
from tuner.mapping_domain import Estimate, Features, MappingDomain, Replay
from tuner.proposer import History, propose
from tuner.samplers import MEASURED, UNSIMULATED
from tuner.surrogate import Goal, Ingredients, measured

MAPPING_INGREDIENTS = Ingredients(candidates=64, startup=4, starts=3, rounds=4)
"""Mappings cost milliseconds to draw and to estimate, so fewer are looked at than of an outside space."""


class ModelSampler(optuna.samplers.BaseSampler):
    """``objectives``: names of the values of a trial, all minimised; ``budgets``: upper limits on quantities, which
    need not be objectives (a trial then has all of them as its attribute ``measured``); ``estimate``: the cost model,
    which without the ingredient ``prior`` still says what may not be simulated."""

    def __init__(
        self,
        space: MappingSpace,
        objectives: Sequence[str],
        *,
        seed: int = 0,
        budgets: Sequence[tuple[str, float]] = (),
        estimate: Estimate | None = None,
        features: Features | None = None,
        ingredients: Ingredients = MAPPING_INGREDIENTS,
    ) -> None:
        limits = dict(budgets)
        quantities = (*objectives, *(n for n in limits if n not in objectives))
        if features is None:
            from mapper.features import FeatureMap

            features = FeatureMap(space)
        self._space, self._seed, self._ingredients = space, seed, ingredients
        self._domain = MappingDomain(space, quantities, features, estimate)
        self._goal = Goal(len(objectives), tuple((quantities.index(n), limit) for n, limit in limits.items()))
        self._hints: list[MappingValue] = []
        self._proposed: dict[int, dict[str, Any]] = {}
        self.gains: dict[int, float | None] = {}
        self._mappings: dict[int, MappingValue | None] = {}

    def hint(self, params: Sequence[Mapping[str, Any]]) -> None:
        """Parameters of mappings that others think good: candidates of the next suggestions."""
        self._hints = [m for m in map(self._mapping, params) if m is not None]

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The knobs of the mapping proposed for this trial: which knobs there are depends on other knobs, so the
        proposal comes first. Empty if no mapping is left that was not tried."""
        rng = np.random.default_rng([self._seed, trial.number])
        found = propose(self._domain, self._history(study, trial.number), self._goal, self._ingredients, 1, rng)
        if not found:
            return {}
        params = self._space.params(found[0].point)
        self.gains[trial.number] = found[0].gain
        replay = Replay(params)
        self._space.choose(replay)
        self._proposed[trial.number] = params
        return {
            name: IntDistribution(choices[0], choices[-1])
            if isinstance(choices, range)
            else CategoricalDistribution(choices)
            for name, choices in replay.offered.items()
        }

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The parameters of the proposal."""
        params = self._proposed.pop(trial.number, {})
        return {name: params[name] for name in search_space}

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A draw: for knobs that a trial fixed in advance has left open, and when no new mapping is left."""
        seed = [self._seed, trial.number, *param_name.encode()]
        if isinstance(param_distribution, CategoricalDistribution):
            choices = param_distribution.choices
            return choices[int(np.random.default_rng(seed).integers(len(choices)))]
        assert isinstance(param_distribution, IntDistribution)
        return int(np.random.default_rng(seed).integers(param_distribution.low, param_distribution.high + 1))

    def _history(self, study: optuna.Study, number: int) -> History[MappingValue]:
        points: list[MappingValue] = []
        outcomes: list[list[float]] = []
        pending: list[MappingValue] = []
        for trial in study.get_trials(deepcopy=False):
            if trial.number == number or trial.user_attrs.get(UNSIMULATED):
                continue
            if trial.state == TrialState.RUNNING:
                mapping = self._mapping(trial.params)
                pending += [mapping] if mapping is not None else []
                continue
            if trial.number not in self._mappings:
                self._mappings[trial.number] = self._mapping(trial.params)
            mapping = self._mappings[trial.number]
            if trial.state != TrialState.WAITING and mapping is not None:
                points.append(mapping)
                outcomes.append(self._measured(trial))
        values = np.array(outcomes, np.float64).reshape(len(points), len(self._domain.quantities))
        return History(points, values, pending, self._hints, self._barren(study, number))

    def _barren(self, study: optuna.Study, number: int) -> int:
        """Trials in a row before ``number`` that are draws for want of a proposal: nothing forbidden is proposed."""
        found = 0
        for trial in reversed(study.get_trials(deepcopy=False)[:number]):
            mapping = self._mapping(trial.params)
            estimates = None if mapping is None else self._domain.estimates([mapping])
            if mapping is not None and (estimates is None or measured(estimates)[0]):
                break
            found += 1
        return found

    def _measured(self, trial: FrozenTrial) -> list[float]:
        if trial.state != TrialState.COMPLETE:
            return [math.nan] * len(self._domain.quantities)
        known = trial.user_attrs.get(MEASURED) or dict(zip(self._domain.quantities, trial.values, strict=False))
        return [float(known[q]) for q in self._domain.quantities]

    def _mapping(self, params: Mapping[str, Any]) -> MappingValue | None:
        """The mapping of parameters; None if they make none (any more)."""
        try:
            return self._space.choose(Replay(params))
        except (KeyError, IllegalMapping):
            return None
