"""Which stored study a trial is taken from."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from mapper.canonical import plain
from mapper.default_mapping import default_mapping
from mapper.errors import StudyError
from studies.records import TrialRecord
from studies.spec import load_spec
from studies.store import StudyStore
from tuner.mapping_source import stored_trial
from tuner.problem import Problem, load_problem

SPEC = """
program: Z(i,j) = A(i,k) * B(k,j)
tensors:
  A: {random: {shape: [40, 40], density: 0.1, seed: 1}}
  B: {random: {shape: [40, 40], density: 0.1, seed: 2}}
search: {seed: SEED}
EXTRA
storage: sqlite:///study.db
"""


def problem(folder: Path, seed: int, extra: str = "") -> Problem:
    path = folder / "small.yaml"
    path.write_text(SPEC.replace("SEED", str(seed)).replace("EXTRA", extra))
    return load_problem(load_spec(path))


def stored(problem: Problem, cycles: float, fork: bool = False) -> TrialRecord:
    """A study of the problem with one row."""
    mapping, values = default_mapping(problem.space), {"latency_cycles": cycles, "traffic_bytes": 1.0}
    row = TrialRecord(0, 0, "simulated", {}, {}, plain(mapping), mapping.key, values=values)
    store = StudyStore(problem.spec.storage)
    store.commit_batch(store.open(problem.identity, problem.spec.name, fork=fork), 0, [row])
    store.close()
    return row


def test_a_fork_is_looked_at_where_it_has_the_specification(tmp_path: Path) -> None:
    first, fork = problem(tmp_path, 0), problem(tmp_path, 1)
    rows = [stored(first, 5.0), stored(fork, 6.0, fork=True)]
    assert [stored_trial(each, None) for each in (first, fork)] == rows
    assert [stored_trial(each, 0) for each in (first, fork)] == rows
    with pytest.raises(StudyError, match=r"study 'small' was made from another specification(.|\n)*seed: 0 -> 2"):
        stored_trial(problem(tmp_path, 2), None)


def test_the_best_must_meet_the_constraints(tmp_path: Path) -> None:
    loose, tight = (problem(tmp_path, 0, f"constraints: {{latency_cycles: {limit}}}") for limit in (50, 4))
    row = stored(loose, 5.0)
    assert stored_trial(loose, None) == row
    tight = dataclasses.replace(tight, spec=dataclasses.replace(tight.spec, name="tight"))
    stored(tight, 5.0)
    with pytest.raises(StudyError, match="no best mapping: no simulated mapping meets the constraints"):
        stored_trial(tight, None)
    assert stored_trial(tight, 0).values == row.values
