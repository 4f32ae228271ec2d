"""A made-up study: real mappings of a real program, invented measurements."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np

from mapper.canonical import plain
from mapper.default_mapping import default_mapping
from mapper.machine import load_machine
from mapper.mapping import Mapping
from mapper.notation import parse_program
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.synthetic import uniform
from mapper.workload import Workload
from studies.frames import Versions
from studies.records import BASELINE, DatasetRecord, StudyContents, StudyHandle, TrialRecord, VerdictRecord
from studies.store import StudyStore

PROGRAM = "T(i,j) = A(i,k) * B(k,j)\nZ(i,j) = relu(T(i,j))"
VERSIONS = Versions("m1", "s1")
BATCH = 20
STATES = ("simulated",) * 8 + ("screened",) * 6 + ("rejected",) * 3 + ("failed",) + ("duplicate",) * 2


@functools.cache
def mappings(count: int) -> tuple[Mapping, ...]:
    """Distinct legal mappings, the default first."""
    tensors = {"A": uniform((64, 64), 0.1, 1), "B": uniform((64, 64), 0.1, 2)}
    limits = SpaceLimits(machine={"fifo_depth": (16, 64)})
    space = MappingSpace(Workload(parse_program(PROGRAM), tensors), load_machine("rda"), limits)
    rng = np.random.default_rng(0)
    default = default_mapping(space)
    found = {default.key: default}
    while len(found) < count:
        mapping = space.sample(rng)
        found[mapping.key] = mapping
    return tuple(found.values())


def identity(objectives: tuple[str, ...] = ("latency_cycles", "traffic_bytes"), seed: int = 0) -> dict[str, Any]:
    """What a specification would give as its identity."""
    return {
        "program": PROGRAM,
        "data": {"A": "k" * 64, "B": "l" * 64},
        "machine": {"fields": plain(load_machine("rda"))},
        "space": {"machine": {"fifo_depth": [16, 64]}},
        "objectives": list(objectives),
        "constraints": {},
        "search": {"sampler": "tpe", "simulations": 60, "seed": seed, "batch": 4, "candidates": 5, "audit": 0.1},
        "limits": {"cycles": None, "tokens": None},
    }


DATASETS = (
    DatasetRecord("A", "k" * 64, "a.mtx", (64, 64), 410, ("2 duplicate entries were summed",)),
    DatasetRecord("B", "l" * 64, "uniform(density=0.1, seed=2, shape=[64, 64])", (64, 64), 410),
)


def baseline() -> TrialRecord:
    """The default mapping's record: slower than most of the others."""
    rng = np.random.default_rng(99)
    mapping = mappings(1)[0]
    values = {"latency_cycles": 2e6, "traffic_bytes": 5e6, "energy_pj": 4e8}
    return TrialRecord(
        BASELINE, BASELINE, "simulated", {}, {}, plain(mapping), mapping.key, _estimate(values, rng), (),
        _profile(values, rng), values, model_version="m1", simulator_version="s1", seconds=1.5, fidelity="full",
    )  # fmt: skip


def batch(number: int, pool: int = 60) -> list[TrialRecord]:
    """Batch ``number`` of the study: trials in every state."""
    return [_trial(number * BATCH + n, number, pool) for n in range(BATCH)]


def contents(batches: int = 3, objectives: tuple[str, ...] = ("latency_cycles", "traffic_bytes")) -> StudyContents:
    """The study without a database."""
    trials = tuple(t for b in range(batches) for t in batch(b))
    handle = StudyHandle(1, "sample", identity(objectives), "h", batches, "simulation budget used", "2026-01-01")
    return StudyContents(handle, DATASETS, baseline(), trials)


def fill(store: StudyStore, name: str = "sample", batches: int = 3) -> StudyHandle:
    """The study in a database."""
    handle = store.open(identity(), name, datasets=DATASETS)
    store.set_baseline(handle, baseline())
    for number in range(batches):
        store.commit_batch(handle, number, batch(number))
    store.finish(handle, "simulation budget used")
    return store.find(name)


def _trial(number: int, batch_number: int, pool: int) -> TrialRecord:
    rng = np.random.default_rng(number)
    state = STATES[number % len(STATES)]
    mapping = mappings(pool + 1)[1 + number % pool]
    place = rng.uniform(0, 1)
    ups = {"latency_cycles": place, "traffic_bytes": 1 - place, "energy_pj": abs(2 * place - 1)}
    values = {n: float(np.round(10 ** (low + 1.2 * ups[n] + 0.3 * rng.random()))) for n, low in _LOWS.items()}
    common = TrialRecord(
        number, batch_number, "screened", {"tile.S0.i": number % 5, "residency": "lru"},
        {"tile.S0.i": '{"name": "IntDistribution"}', "residency": '{"name": "CategoricalDistribution"}'},
        plain(mapping), mapping.key, _estimate(values, rng), model_version="m1", simulator_version="s1",
        seconds=float(rng.random()), fidelity="estimate",
    )  # fmt: skip
    verdicts = {
        "screened": (VerdictRecord("ranked-below", "40 candidates", "8 simulated", "", "model"),),
        "rejected": (VerdictRecord("tile-over-capacity", 131072.0, 65536, "bytes", "B of S0"),),
    }
    match state:
        case "simulated":
            return replace(
                common, state=state, values=values, profile=_profile(values, rng), fidelity="full", gain=place
            )
        case "screened":
            return replace(common, verdicts=verdicts[state])
        case "rejected" if number % 3:
            return replace(common, state=state, estimate=None, verdicts=verdicts[state], fidelity="none")
        case "rejected":
            broken = (VerdictRecord("units", "80 alu", "at most 64", "", "S0+S1"),)
            return replace(
                common, state=state, estimate=None, verdicts=broken, mapping=None, mapping_key=None, fidelity="none"
            )
        case "failed":
            stopped = {"status": "deadlock", "traffic": [], "steps": []}
            return replace(common, state=state, failure="S0+S1: deadlock", profile=stopped, fidelity="full")
        case _:
            return replace(
                common, state=state, duplicate_of=number - number % BATCH, values=values, origin="other trial 3",
                fidelity="full",
            )  # fmt: skip


_LOWS = {"latency_cycles": 5.0, "traffic_bytes": 5.5, "energy_pj": 7.0}


def _estimate(values: dict[str, float], rng: np.random.Generator) -> dict[str, Any]:
    guessed = {name: value * float(rng.uniform(0.9, 1.3)) for name, value in values.items()}
    return {**guessed, "bottleneck": "intersect k of S0", "tokens": 1e6, "traffic": [], "largest_tiles": []}


_FLOWS = (
    ("A", "load", "read", 0.2),
    ("B", "load", "read", 0.25),
    ("T", "spill", "write", 0.05),
    ("Z", "store", "write", 0.1),
)


def _profile(values: dict[str, float], rng: np.random.Generator) -> dict[str, Any]:
    cycles = int(values["latency_cycles"])
    contexts = []
    for kind in ("scan", "intersect", "repeat", "alu", "accumulate", "tile_load", "store"):
        for lane in range(3):
            cuts = np.sort(rng.integers(0, cycles, 4))
            parts = np.diff([0, *cuts, cycles]).tolist()
            shares = dict(zip(("busy", "starved", "blocked", "memory", "finished"), parts, strict=True))
            contexts.append({"name": f"{kind} k.{lane}", "kind": kind, **shares})
    total = values["traffic_bytes"]
    traffic = [
        {"tensor": tensor, "purpose": purpose, "direction": direction}
        | {"values_bytes": int(total * share), "metadata_bytes": int(total * share * 0.7)}
        for tensor, purpose, direction, share in _FLOWS
    ]
    return {
        "status": "done", **values, "tokens": 10**6, "effectual_multiplies": 2624, "output_nnz": {"Z": 1800},
        "traffic": traffic, "steps": [{"name": "S0+S1", "cycles": cycles, "status": "done", "contexts": contexts}],
        "deadlock": None,
    }  # fmt: skip
