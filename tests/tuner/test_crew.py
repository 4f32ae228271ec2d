"""The workers of a study, wherever they are: the same answers; a death, a delay, an error cost one row."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hard_tasks
import numpy as np
import pytest

from hwsim import Limits
from mapper.errors import InputError, StudyError
from mapper.mapping import Mapping
from studies.records import TrialRecord
from studies.spec import load_spec
from tuner.crew import Crew
from tuner.problem import Problem, load_problem
from tuner.session import open_session, run_session
from tuner.work import Task

SPEC = """
program: Z(i,j) = A(i,k) * B(k,j)
tensors:
  A: {random: {kind: power_law, shape: [60, 60], nnz: 300, seed: 1}}
  B: {random: {kind: power_law, shape: [60, 60], nnz: 300, seed: 2}}
mapping: {parallel: {max: 2}}
search: {sampler: random, simulations: 4, batch: 2, candidates: 2, seed: 3}
storage: sqlite:///study.db
"""


def loaded(folder: Path, seconds: float | None = None) -> Problem:
    path = folder / "small.yaml"
    path.write_text(SPEC + (f"limits: {{seconds: {seconds}}}\n" if seconds else ""))
    return load_problem(load_spec(path))


@pytest.fixture
def scheduler() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Address and process of a Dask cluster of two workers."""
    pytest.importorskip("distributed", reason="the extra sparseloom[dask] is not installed")
    command = [sys.executable, hard_tasks.__file__, "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    yield process.stdout.readline().strip(), process
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


def rows(problem: Problem, workers: int = 1, scheduler: str | None = None) -> list[TrialRecord]:
    session = open_session(problem)
    run_session(session, workers, show=False, scheduler=scheduler)
    found = session.store.load(session.study.name)
    session.store.close()
    assert found.baseline is not None
    return [found.baseline, *found.trials]


def trapped(problem: Problem, kind: type[hard_tasks.Trap]) -> Problem:
    space = problem.space
    return dataclasses.replace(problem, space=kind(space.workload, space.machine, space.limits, space.inputs))


def wide(row: TrialRecord) -> bool:
    return any(loops.lanes > 1 for loops in Mapping.from_json(row.mapping or {}).loops)


def check_trapped(found: list[TrialRecord], message: str) -> None:
    """Mappings with lanes have failed, each with the message, and the others have not."""
    ran = [row for row in found[1:] if row.state in ("simulated", "failed")]
    assert len(ran) == 4
    assert {wide(row) for row in ran} == {True, False}
    assert [row.state for row in ran] == ["failed" if wide(row) else "simulated" for row in ran]
    assert all(message in str(row.failure) for row in ran if wide(row))


def test_a_worker_that_dies_costs_one_row(tmp_path: Path) -> None:
    problem = trapped(loaded(tmp_path), hard_tasks.DeadlyTrap)
    check_trapped(rows(problem, 2), "the worker process died with exit code -9")


def test_a_chance_death_leaves_no_trace(tmp_path: Path) -> None:
    for name in ("killed", "whole"):
        (tmp_path / name).mkdir()
    problem = trapped(loaded(tmp_path / "killed"), hard_tasks.UnluckyTrap)
    problem.space.marks = tmp_path  # type: ignore[attr-defined]
    assert rows(problem, 2) == rows(loaded(tmp_path / "whole"))
    assert (tmp_path / "mark").exists()


def test_a_simulation_that_hangs_costs_one_row(tmp_path: Path) -> None:
    problem = trapped(loaded(tmp_path, seconds=1), hard_tasks.HangingTrap)
    check_trapped(rows(problem, 1), "no result within 1 s")


def test_an_error_in_a_simulation_costs_one_row(tmp_path: Path) -> None:
    problem = trapped(loaded(tmp_path), hard_tasks.RaisingTrap)
    check_trapped(rows(problem, 1), "ZeroDivisionError: lanes")


def test_measurements_that_are_not_finite_are_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.evaluate.energy_pj", lambda *_: float("nan"))
    found = rows(loaded(tmp_path))
    ran = [row for row in found if row.state in ("simulated", "failed")]
    assert {row.failure for row in ran} == {"no finite result: energy_pj is nan"}


def test_a_dask_cluster_gives_the_same_rows(tmp_path: Path, scheduler: tuple[str, Any]) -> None:
    for name in ("inline", "cluster"):
        (tmp_path / name).mkdir()
    assert rows(loaded(tmp_path / "cluster"), scheduler=scheduler[0]) == rows(loaded(tmp_path / "inline"))


def test_a_dask_worker_that_dies_or_hangs_costs_one_row(tmp_path: Path) -> None:
    """A cluster of one's own lets two workers die over a task."""
    pytest.importorskip("distributed", reason="the extra sparseloom[dask] is not installed")
    problem = trapped(loaded(tmp_path, seconds=1), hard_tasks.HangingTrap)
    check_trapped(
        rows(problem, 2, scheduler="local"), "the worker process died; out of memory or no result within 1 s?"
    )


def test_data_are_sent_once_per_worker(tmp_path: Path, scheduler: tuple[str, Any]) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra sparseloom[dask] is not installed")
    problem = loaded(tmp_path)
    space = hard_tasks.Counted(problem.space)
    mappings = [problem.space.sample(np.random.default_rng(n)) for n in range(12)]
    client = distributed.Client(scheduler[0], set_as_default=False)
    with Crew(space, "mean", scheduler=scheduler[0]) as crew:
        assert len(crew.screen(mappings)) == len(crew.simulate(mappings, Limits())) == 12
        assert sorted(client.run(hard_tasks.arrivals).values()) == [1, 1]
        assert sorted(client.run(hard_tasks.held).values()) == [1, 1]
    assert sorted(client.run(hard_tasks.held).values()) == [0, 0]  # and taken away at the end
    client.close()


def test_a_scheduler_that_goes_away_leaves_a_study_to_resume(tmp_path: Path, scheduler: tuple[str, Any]) -> None:
    for name in ("cut", "whole"):
        (tmp_path / name).mkdir()
    address, process = scheduler
    problem = loaded(tmp_path / "cut")
    session = open_session(problem)

    def kill_after_a_batch() -> None:
        while not session.store.trials(session.study.id):
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_after_a_batch)
    killer.start()
    with pytest.raises(StudyError, match=r"is of no use any more.*run the same command to go on"):
        run_session(session, 2, show=False, scheduler=address)
    killer.join()
    assert session.study.finished is None
    session.store.close()
    assert rows(problem) == rows(loaded(tmp_path / "whole"))


def test_workers_of_another_version_are_refused(
    tmp_path: Path, scheduler: tuple[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.dask_executor.VERSIONS", ("2", "3"))
    with pytest.raises(StudyError, match="install the same sparseloom there"):
        Crew(loaded(tmp_path).space, "mean", scheduler=scheduler[0])


def test_a_task_without_its_data_says_so() -> None:
    with pytest.raises(StudyError, match="a worker has not got the data of the study"):
        Task("unknown", "screen")(None)


def test_schedulers_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="the extra sparseloom[dask] is not installed")
    monkeypatch.setattr("tuner.dask_executor.CONNECT_SECONDS", 0.5)
    space = loaded(tmp_path).space
    for address in ("tcp://127.0.0.1:9", "what://host:1", "nowhere"):
        with pytest.raises(StudyError, match="no Dask scheduler answers at"):
            Crew(space, "mean", scheduler=address)


def test_without_dask_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tuner.dask_executor", raising=False)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install 'sparseloom\[dask\]'"):
        Crew(loaded(tmp_path).space, "mean", scheduler="local")
