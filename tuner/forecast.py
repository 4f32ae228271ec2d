"""Forecast: what a study will cost, from uniform samples of its space and a short run of the engine."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from costmodel import Statistics, estimate, screen
from hwsim import Limits
from mapper.machine import load_machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.synthetic import generate
from mapper.workload import Workload
from tuner.evaluate import StorageCache, evaluate
from tuner.problem import Problem

SAMPLES = 40


def forecast(problem: Problem, workers: int | None = None) -> dict[str, Any]:
    """Size of the space, tokens per simulation and the minutes that simulating takes with so many ``workers`` (default:
    those of the specification); screening comes on top.

    Simulates nothing of the study itself.
    """
    spec, space = problem.spec, problem.space
    workers = workers or spec.search.workers
    statistics = Statistics()
    rng = np.random.default_rng(spec.search.seed)
    mappings = [space.sample(rng) for _ in range(SAMPLES)]
    inputs = space.inputs.values()
    fitting = [m for m in mappings if not any(screen(w, m, space.machine_of(m), statistics) for w in inputs)]
    tokens = [sum(estimate(w, m, space.machine_of(m), statistics=statistics).tokens for w in inputs) for m in fitting]
    cap = (spec.limits.tokens or float("inf")) * len(inputs)
    counted = np.array([t for t in tokens if t <= cap] or [0.0])
    speed = engine_speed()
    seconds = spec.search.simulations * float(counted.mean()) / speed / workers
    return {
        "mappings": float(space.size()),
        "fusions": len(space.fusions),
        "sampled": SAMPLES,
        "within_capacity": len(fitting),
        "tokens_median": float(np.median(counted)),
        "tokens_p90": float(np.quantile(counted, 0.9)),
        "tokens_per_second": speed,
        "simulations": spec.search.simulations,
        "workers": workers,
        "minutes": seconds / 60,
    }


def engine_speed() -> float:
    """Tokens per second of the simulator on this machine, on a small product with finite FIFOs."""
    sides = {name: generate("uniform", shape=(300, 300), density=0.05, seed=seed) for seed, name in enumerate("AB")}
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), sides)
    csr = ("dense", "compressed")
    mapping = Mapping((), (Loops(("i", "k", "j")),), (("A", csr), ("B", csr), ("Z", csr)))
    machine, cache = load_machine("comal").with_fields(fifo_depth=64), StorageCache()
    evaluate(workload, mapping, machine, Limits(), cache)  # builds what a study builds once
    started = time.perf_counter()
    result = evaluate(workload, mapping, machine, Limits(), cache)
    return float(result.summary["tokens"]) / (time.perf_counter() - started)
