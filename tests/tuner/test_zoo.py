"""Mappings drawn uniformly from the whole space of every model of the examples, and of random programs: legal, and
simulated to the values of plain numpy. SPARSELOOM_ZOO_MAPPINGS says how many per model."""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import pytest
from random_dags import STATEMENTS, random_dag
from zoo import EXAMPLES, MODELS, TOLERANCE, Outcome, example, outcomes, shapes_of, small_workload, trial, whole_space

from mapper.datasets import DATA_VARIABLE
from mapper.notation import parse_program
from studies.inputs import load_workload
from studies.spec import load_spec
from tuner.evaluate import StorageCache

MAPPINGS = int(os.environ.get("SPARSELOOM_ZOO_MAPPINGS", "12"))
MOST_FAILURES = 0.1
"""Share of mappings that may stop at what no rule foresees, such as a deadlock behind a FIFO of 4."""

PER_CUT = 2


def judge(found: list[Outcome]) -> None:
    """All values right, no failure but what the simulator itself reports, and few of these."""
    failures = [o for o in found if o.failure]
    counted = Counter(str(o.failure).split(": ")[1] for o in failures)
    print(
        f"{len(found)} mappings, failed: {dict(counted) or 'none'}; worst difference {max(o.difference for o in found)}"
    )
    assert set(counted) <= {"deadlock"}, failures[0]
    assert len(failures) <= max(1, MOST_FAILURES * len(found)), failures[0]
    assert all(o.difference <= TOLERANCE for o in found if not o.failure)


@pytest.mark.parametrize("name", MODELS)
def test_sampled_mappings(name: str) -> None:
    judge(list(outcomes(name, MAPPINGS)))


@pytest.mark.parametrize("seed", range(20))
def test_every_cut_of_a_random_program(seed: int) -> None:
    workload, expected = random_dag(seed)
    assert len(workload.program.statements) >= STATEMENTS
    space, cache, rng = whole_space(workload, rewrites=()), StorageCache(), np.random.default_rng(seed)
    judge([trial(space, expected, rng, cache, [f]) for f in space.fusions for _ in range(PER_CUT)])


def test_random_programs_differ_in_shape() -> None:
    programs = [random_dag(seed)[0].program for seed in range(20)]
    assert len(set(map(str, programs))) == 20
    assert sum(len(p.outputs) > 1 for p in programs) >= 5
    assert sum(len(p.edges) > len({e.tensor for e in p.edges}) for p in programs) >= 3  # read more than once
    kinds = {(s.kind, s.combine, s.reduction) for p in programs for s in p.statements}
    assert {("contract", "mul", "sum"), ("contract", "sub", "sum"), ("contract", "div", "sum"), ("add", "mul", "sum"),
            ("map", "mul", "sum"), ("contract", "mul", "max")} <= kinds  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_example_has_a_small_version(name: str) -> None:
    """The extents of the small version name the indices of the program, all of them."""
    program = parse_program(example(name)["program"])
    assert {*shapes_of(program, MODELS[name].extents)} == {*program.inputs}
    assert max(small_workload(name).extents[0].values()) <= 12


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_example_loads(path, data_dir, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    if path.stem == "gpt3_decoder":
        load_spec(path)  # its 10 million weights say nothing more
        return
    monkeypatch.setenv(DATA_VARIABLE, str(data_dir))
    assert load_workload(load_spec(path)).extents
