"""Simulations that end early: only where it is certain that they cannot improve the front."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from hwsim import Limits
from mapper.default_mapping import default_mapping
from mapper.errors import InputError
from mapper.mapping import Mapping
from studies.records import TrialRecord
from studies.spec import load_spec
from tuner.crew import Crew
from tuner.dominance import IN_SIMULATION, stop_of
from tuner.evaluate import TOO_SLOW, evaluate
from tuner.problem import Problem, load_problem
from tuner.session import open_session, run_session
from tuner.work import Stop, Worker

SPEC = """
program: |
  H(i,k) = A(i,j) * X(j,k)
  Z(i,m) = H(i,k) * W(k,m)
tensors:
  A: {random: {kind: power_law, shape: [60, 60], nnz: 300, seed: 1}}
  X: {random: {kind: uniform, shape: [60, 20], density: 0.2, seed: 2}}
  W: {random: {kind: uniform, shape: [20, 8], density: 1.0, seed: 3}}
mapping: {parallel: {max: 4}}
objectives: OBJECTIVES
search: {sampler: random, simulations: 24, batch: 4, candidates: 2, seed: 1, workers: 1, audit: 1.0, early_stop: true}
storage: sqlite:///study.db
"""


def problem(folder: Path, objectives: str = "[latency_cycles, traffic_bytes]") -> Problem:
    folder.mkdir(exist_ok=True)
    path = folder / "small.yaml"
    path.write_text(SPEC.replace("OBJECTIVES", objectives))
    return load_problem(load_spec(path))


def rows_of(problem: Problem, workers: int = 1) -> list[TrialRecord]:
    session = open_session(problem)
    run_session(session, workers, show=False)
    found = session.store.trials(session.study.id)
    session.store.close()
    return found


def row(number: int, cycles: float, traffic: float) -> TrialRecord:
    return TrialRecord(number, 0, "simulated", {}, {}, values={"latency_cycles": cycles, "traffic_bytes": traffic})


def test_the_fastest_of_those_that_are_no_worse_otherwise() -> None:
    """With at least 50 bytes: of the rows with 50 bytes or less the faster one stops it, if there is any."""
    rows, both = [row(0, 10, 60), row(1, 30, 50), row(2, 20, 40)], ("latency_cycles", "traffic_bytes")
    estimate: dict[str, Any] = {"bounds": {"latency_cycles": 1.0, "traffic_bytes": 50.0}}
    assert stop_of(estimate, rows, both) == Stop(20, 2)
    assert stop_of(estimate, rows[:2], both) == Stop(30, 1)
    assert stop_of(estimate, rows[:1], both) is None
    assert stop_of(estimate, rows, ("latency_cycles",)) == Stop(10, 0)
    assert stop_of(estimate, rows, ("traffic_bytes",)) is None
    assert stop_of(estimate, [], both) is None
    assert stop_of(estimate, rows, both, (("latency_cycles", 30), ("traffic_bytes", 40))) == Stop(20, 2)
    assert stop_of(estimate, rows, both, (("traffic_bytes", 39),)) is None


def test_cycles_of_all_steps_together(tmp_path: Path) -> None:
    """The default mapping has two regions: one cycle less than it takes ends it, exactly as many do not."""
    space = problem(tmp_path).space
    mapping = default_mapping(space)
    machine = space.machine_of(mapping)
    whole = evaluate(space.workload, mapping, machine, Limits())
    assert len(whole.profiles) > 1
    assert whole.failure is None
    enough = evaluate(space.workload, mapping, machine, Limits(), most_cycles=whole.latency_cycles)
    assert enough.summary == whole.summary
    cut = evaluate(space.workload, mapping, machine, Limits(), most_cycles=whole.latency_cycles - 1)
    assert cut.failure == TOO_SLOW
    limited = evaluate(space.workload, mapping, machine, Limits(max_cycles=5), most_cycles=whole.latency_cycles)
    assert limited.failure is not None
    assert limited.failure.endswith("limit:cycles")


def test_several_inputs(tmp_path: Path) -> None:
    """By the worst case each input may take what the stop says, by the mean all of them together."""
    one = problem(tmp_path).space
    two = dataclasses.replace(problem(tmp_path), space=one).space
    two.inputs = {"a": one.workload, "b": one.workload}
    mapping = default_mapping(one)
    cycles = int(Worker(one).simulate(mapping, Limits()).values["latency_cycles"])
    for how in ("mean", "worst"):
        worker = Worker(two, how)
        assert worker.simulate(mapping, Limits(), Stop(cycles, 0)).stop is None
        assert worker.simulate(mapping, Limits(), Stop(cycles - 1, 0)).stop == Stop(cycles - 1, 0)


def test_what_was_cut_short_was_dominated(tmp_path: Path) -> None:
    """Every such row, simulated to its end, is dominated by the trial that its verdict names; and who works where, as
    well as a second run, changes nothing."""
    mine = problem(tmp_path / "one")
    rows = rows_of(mine)
    assert rows == rows_of(problem(tmp_path / "two"), workers=2)
    partial = [r for r in rows if r.fidelity == "partial" and r.state == "screened"]
    assert partial
    assert sum(r.ran for r in rows) == 24
    with Crew(mine.space, "mean") as crew:
        whole = crew.simulate([Mapping.from_json(r.mapping or {}) for r in partial], Limits())
    for row, result in zip(partial, whole, strict=True):
        (verdict,) = (v for v in row.verdicts if v.rule == IN_SIMULATION)
        better = next(r for r in rows if f"trial {r.number}" == verdict.where).values or {}
        assert row.values is None
        assert (row.profile or {})["status"] == TOO_SLOW
        assert better["latency_cycles"] <= float(verdict.limit) < float(verdict.measured)
        assert result.failure is None
        assert result.values["latency_cycles"] >= float(verdict.measured)
        assert result.values["traffic_bytes"] >= better["traffic_bytes"]


def test_cycles_must_be_an_objective(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"small\.yaml:11:\d+: early_stop counts cycles"):
        problem(tmp_path, "[traffic_bytes]")
