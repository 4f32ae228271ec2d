"""A sampler of one's own over a mapping space: change one knob of the best mapping so far, by Optuna's interface."""

import numpy as np
import optuna

from mapper.machine import load_machine
from mapper.notation import parse_program
from mapper.space import MappingSpace
from mapper.synthetic import uniform
from mapper.workload import Workload
from tuner.samplers import TrialChooser
from tuner.work import Worker


class OneKnob(optuna.samplers.RandomSampler):
    """Keeps the best trial's choices but for one knob, which is drawn, as are knobs that it brings."""

    def infer_relative_search_space(self, study, trial):
        kept = dict(study.best_trial.distributions) if trial.number else {}
        return {name: kept[name] for n, name in enumerate(kept) if n != trial.number % len(kept)}

    def sample_relative(self, study, trial, search_space):
        return {name: study.best_trial.params[name] for name in search_space}


a, b = (uniform((300, 300), 0.02, seed) for seed in (1, 2))
space = MappingSpace(Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), {"A": a, "B": b}), load_machine("rda"))
worker = Worker(space, "mean")


def cycles(trial: optuna.Trial) -> float:
    """The model's estimate; what may not be simulated counts as endless."""
    return (worker.screen(space.choose(TrialChooser(trial))).estimate or {"latency_cycles": np.inf})["latency_cycles"]


study = optuna.create_study(sampler=OneKnob(seed=0))
study.optimize(cycles, n_trials=100)
print(study.best_trial)
