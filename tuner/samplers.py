"""Samplers by name, and the chooser through which a trial makes a mapping."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mapper.errors import InputError, nearest
from studies.spec import SAMPLERS
from tuner.surrogate import Ingredients

if TYPE_CHECKING:
    import optuna

STARTUP_TRIALS = 40
"""Random trials before TPE starts to model: screening is cheap, so the start may be broad."""

MODEL_SAMPLER = "sparseloom"
"""``sparseloom-no-...`` leaves out an ingredient, its name with dashes for underscores."""

MEASURED, UNSIMULATED = "measured", "unsimulated"
"""User attributes of a trial: all quantities measured, by name; whether it was not simulated and teaches nothing."""

POPULATION, GENERATION = 16, "NSGAIISampler:generation"
"""Of NSGA-II, whose populations are small as studies are short; the attribute by which it finds the last one."""


def make_sampler(name: str, seed: int) -> optuna.samplers.BaseSampler:
    """A fresh Optuna sampler. Raises InputError for unknown names."""
    import optuna

    with warnings.catch_warnings():  # group and deterministic_objective are marked experimental
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        if name == "tpe":  # group: some knobs are conditional
            return optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=STARTUP_TRIALS, multivariate=True, group=True, constant_liar=True
            )
        if name == "gp":
            if importlib.util.find_spec("torch") is None:
                raise InputError("sampler 'gp' is Optuna's GPSampler and needs torch: pip install 'sparseloom[torch]'")
            return optuna.samplers.GPSampler(seed=seed, deterministic_objective=True)
    if name == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    if name == "nsga2":
        return optuna.samplers.NSGAIISampler(seed=seed, population_size=POPULATION)
    raise InputError(f"unknown sampler {name!r}.{nearest(name, SAMPLERS)}")


def ingredients_of(name: str) -> Ingredients | None:
    """What the model sampler of that name uses; None for other samplers."""
    own, _, left_out = name.partition("-no-")
    if own != MODEL_SAMPLER:
        return None
    from tuner.model_sampler import MAPPING_INGREDIENTS

    off: dict[str, Any] = {left_out.replace("-", "_"): False} if left_out else {}
    return dataclasses.replace(MAPPING_INGREDIENTS, **off)


def batch_seed(seed: int, batch: int, purpose: str = "sampler") -> int:
    """Seed of one batch, independent of how earlier batches were run: a resumed study draws the same."""
    return int.from_bytes(hashlib.sha256(f"{purpose}/{seed}/{batch}".encode()).digest()[:4], "big")


class TrialChooser:
    """Asks an Optuna trial for every knob."""

    def __init__(self, trial: optuna.Trial) -> None:
        self._trial = trial

    def categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """A categorical parameter."""
        return self._trial.suggest_categorical(name, choices)

    def integer(self, name: str, low: int, high: int) -> int:
        """An integer parameter; tile knobs are positions in a list of powers of two, so this is a log scale."""
        return self._trial.suggest_int(name, low, high)
