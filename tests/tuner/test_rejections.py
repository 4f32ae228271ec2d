"""Rejections of a whole study: what bounds reject is nowhere near the front, and audits are marked and counted."""

from __future__ import annotations

import numpy as np
import pytest

from hwsim import Limits
from mapper.mapping import Mapping
from studies.audits import audits, coverages
from studies.pareto import pareto_front
from studies.records import StudyContents
from studies.spec import load_spec
from studies.store import StudyStore
from tuner.dominance import BY_BOUND, CONFIDENTLY
from tuner.problem import Problem, load_problem
from tuner.session import open_session, run_session
from tuner.work import Worker

SPEC = """
program: Z(i,j) = A(i,k) * B(k,j)
tensors:
  A: {random: {kind: power_law, shape: [80, 80], nnz: 400, seed: 1}}
  B: {random: {kind: power_law, shape: [80, 80], nnz: 400, seed: 2}}
machine: {preset: rda, fifo_depth: 64}
objectives: [latency_cycles, traffic_bytes]
search: {sampler: random, simulations: 48, batch: 8, candidates: 4, descents: 0, seed: 5, audit: 0.25}
storage: sqlite:///study.db
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Problem, StudyContents]:
    path = tmp_path_factory.mktemp("study") / "small.yaml"
    path.write_text(SPEC)
    problem = load_problem(load_spec(path))
    session = open_session(problem)
    run_session(session, 1, show=False)
    session.store.close()
    store = StudyStore(load_spec(path).storage)
    contents = store.load("small")
    store.close()
    return problem, contents


def test_what_bounds_reject_is_dominated(finished: tuple[Problem, StudyContents]) -> None:
    problem, contents = finished
    rejected = [t for t in contents.trials if t.state == "screened" and t.verdicts[0].rule == BY_BOUND]
    screened = [t for t in contents.trials if t.state in ("screened", "simulated")]
    assert len(rejected) >= 0.2 * len(screened)
    ran = [t for t in contents.trials if t.state == "simulated"]
    points = [[(t.values or {})[o] for o in contents.objectives] for t in ran]
    front = np.array(points)[pareto_front(points)]
    worker = Worker(problem.space, "mean")
    for trial in rejected[:20]:
        values = worker.simulate(Mapping.from_json(trial.mapping or {}), Limits()).values
        own = np.array([values[o] for o in contents.objectives])
        assert ((front <= own).all(axis=1) & (front < own).any(axis=1)).any(), trial


def test_audits_are_counted(finished: tuple[Problem, StudyContents]) -> None:
    _, contents = finished
    marked = [t for t in contents.trials if t.state == "simulated" and t.verdicts]
    found = audits(contents)
    assert sum(a.audited for a in found) == len(marked) > 0
    assert {a.rule for a in found} <= {BY_BOUND, CONFIDENTLY, "ranked-below"}
    for audit in found:
        stopped = [t for t in contents.trials if t.state == "screened" and t.verdicts[0].rule == audit.rule]
        assert audit.stopped == len(stopped)
        assert audit.regret >= 1.0
        if audit.rule == BY_BOUND:
            assert (audit.on_front, audit.regret) == (0, 1.0)


def test_each_batch_audits_a_quarter_at_most(finished: tuple[Problem, StudyContents]) -> None:
    for batch in range(1, finished[1].handle.batches):
        rows = [t for t in finished[1].trials if t.batch == batch and t.state == "simulated"]
        assert sum(bool(t.verdicts) for t in rows) <= 2


def test_intervals_are_kept_with_estimates(finished: tuple[Problem, StudyContents]) -> None:
    covered = {c.measure: c for c in coverages(finished[1])}
    assert set(covered) == set(finished[1].objectives)
    for measure in covered.values():
        assert measure.trials >= 24  # from the fourth batch on there are 20 rows and more
        assert measure.inside >= 0.6 * measure.trials
