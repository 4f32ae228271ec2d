"""Executors: results in order, and a task that dies, hangs or raises harms nothing but itself."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import hard_tasks
import pytest

from mapper.errors import SparseLoomError, StudyError
from tuner import Categorical, Optimizer, ParameterSpace
from tuner.executors import InlineExecutor, NotStarted, Overdue, ProcessExecutor, WorkerLost


def test_results_come_in_the_order_asked() -> None:
    with ProcessExecutor(2) as processes:
        assert list(processes.map(hard_tasks.slow_square, range(6))) == [0, 1, 4, 9, 16, 25]
    with InlineExecutor() as inline:
        assert list(inline.map(hard_tasks.square, range(3))) == [0, 1, 4]


def test_a_process_is_prepared_once() -> None:
    with ProcessExecutor(2, initializer=hard_tasks.prepare) as executor:
        found = {executor.submit(hard_tasks.how_often_prepared).result() for _ in range(6)}
    assert {times for _, times in found} == {1}
    assert os.getpid() not in {process for process, _ in found}


def test_a_death_harms_no_other_task() -> None:
    with ProcessExecutor(2) as executor:
        dead = executor.submit(hard_tasks.die)
        others = list(executor.map(hard_tasks.square, range(8)))
        with pytest.raises(WorkerLost, match="the worker process died with exit code -9"):
            dead.result()
        assert others == [n * n for n in range(8)]
        assert executor.submit(hard_tasks.square, 3).result() == 9


@pytest.mark.parametrize("size", [1, 1 << 20])  # what a pipe holds, and more
def test_processes_that_cannot_start_are_an_error(size: int) -> None:
    started = time.monotonic()
    with ProcessExecutor(2, initializer=hard_tasks.die_at_start, initargs=(bytes(size),)) as executor:
        for future in [executor.submit(hard_tasks.square, n) for n in range(3)]:
            with pytest.raises(NotStarted, match="exit code -9 while it started"):
                future.result()
        tuner = Optimizer(ParameterSpace([Categorical("x", ["works", "too"])]))
        with pytest.raises(StudyError, match=r"the executor broke .*: 0 told trials are kept"):
            tuner.run(hard_tasks.evaluated, executor=executor)
    assert time.monotonic() - started < 60
    with (
        ProcessExecutor(1, initializer=hard_tasks.die_at_start, initargs=(lambda: size,)) as executor,
        pytest.raises(Exception, match="pickle"),
    ):
        executor.submit(hard_tasks.square, 1).result()


SCRIPT = """
import numpy as np
from tuner import tune
dense = np.ones((100, 100))  # more than a pipe holds
tune("Z(i,j) = A(i,k) * B(k,j)", {"A": dense, "B": dense}, simulations=2, search={"workers": 2})
"""


def test_a_script_without_a_guard_is_told(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script)]
    run = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert run.returncode == 1
    assert run.stderr.rstrip().splitlines()[-1].startswith("tuner.executors.NotStarted: a worker process ended with")
    assert "__name__ == '__main__'" in run.stderr


def test_what_hangs_is_ended() -> None:
    started = time.monotonic()
    with ProcessExecutor(2, seconds=0.5) as executor:
        stuck = executor.submit(hard_tasks.hang)
        assert list(executor.map(hard_tasks.square, range(4))) == [0, 1, 4, 9]
        with pytest.raises(Overdue, match=r"no result within 0\.5 s"):
            stuck.result()
        with pytest.raises(TimeoutError, match="the compiler"):  # an evaluator's own
            executor.submit(hard_tasks.late_by_itself).result()
    assert time.monotonic() - started < 30


def test_exceptions_travel_even_if_they_cannot_be_pickled() -> None:
    with ProcessExecutor(1) as executor:
        with pytest.raises(ZeroDivisionError):
            executor.submit(divmod, 1, 0).result()
        with pytest.raises(SparseLoomError, match="NotationError: line 1, column 1: odd"):
            executor.submit(hard_tasks.misread).result()
        with pytest.raises(Exception, match="pickle"):
            executor.submit(lambda: 1).result()
        assert executor.submit(hard_tasks.square, 2).result() == 4


def test_an_error_in_the_block_ends_the_processes_at_once() -> None:
    def interrupted() -> None:
        with ProcessExecutor(1) as executor:
            executor.submit(hard_tasks.square, 1).result()
            executor.submit(hard_tasks.hang)
            time.sleep(0.2)
            raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.monotonic() - started < 30


def test_an_optimizer_survives_every_evaluator() -> None:
    """Each outcome is one recorded trial; the search goes on to the end of the space."""
    bad = ["dies", "hangs", "is late", "nan", "inf"]
    tuner = Optimizer(ParameterSpace([Categorical("x", [*bad, "works"])]))
    with ProcessExecutor(2, seconds=1.0) as executor:
        assert tuner.run(hard_tasks.evaluated, batch=3, executor=executor) == "space exhausted after 6 points"
    failures = {t.point["x"]: t.failure for t in tuner.trials}
    assert failures.pop("works") is None
    assert [failures[x] for x in bad] == [
        "raised WorkerLost: the worker process died with exit code -9; out of memory?",
        "raised Overdue: no result within 1 s",
        "raised TimeoutError: the compiler",
        "value must be a finite number, got nan",
        "value must be a finite number, got inf",
    ]
