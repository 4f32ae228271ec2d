"""A study that is killed between commits ends with the rows of an undisturbed one; so does any number of workers."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mapper.errors import StudyError
from studies.records import TrialRecord
from studies.spec import load_spec
from studies.store import StudyStore
from tuner.problem import load_problem
from tuner.session import open_session, run_session

SPEC = """
program: Z(i,j) = A(i,k) * B(k,j)
tensors:
  A: {{random: {{kind: power_law, shape: [120, 120], nnz: 700, seed: 1}}}}
  B: {{random: {{kind: power_law, shape: [120, 120], nnz: 700, seed: 2}}}}
machine: {{preset: rda, fifo_depth: [4, 64]}}
search: {{sampler: {sampler}, simulations: 20, batch: 4, candidates: 3, seed: {seed}, audit: 0.25}}
storage: sqlite:///study.db
"""

RUN = "from tuner.cli import main; main()"


def write_spec(folder: Path, sampler: str = "tpe", seed: int = 3) -> Path:
    path = folder / "small.yaml"
    path.write_text(SPEC.format(sampler=sampler, seed=seed))
    return path


def rows_of(spec: Path) -> list[TrialRecord]:
    store = StudyStore(load_spec(spec).storage)
    contents = store.load("small")
    store.close()
    assert contents.baseline is not None
    return [contents.baseline, *contents.trials]


def committed_batches(database: Path) -> int:
    """Batches visible to another process; 0 while the database or its table is not there yet."""
    if not database.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
            row = connection.execute("select batches from dse_studies").fetchone()
    except sqlite3.OperationalError:
        return 0
    return int(row[0]) if row else 0


def run_inline(spec: Path, workers: int = 1) -> str:
    session = open_session(load_problem(load_spec(spec)))
    reason = run_session(session, workers, show=False)
    session.store.close()
    return reason


def test_killed_between_commits_and_rerun(tmp_path: Path) -> None:
    killed, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    for folder in (killed, undisturbed):
        folder.mkdir()
    spec = write_spec(killed)
    command = [sys.executable, "-c", RUN, "tune", str(spec), "--workers", "1", "--quiet"]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while committed_batches(killed / "study.db") < 2 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = committed_batches(killed / "study.db")
    assert done >= 2
    assert run_inline(spec) == "simulation budget used"
    assert run_inline(write_spec(undisturbed)) == "simulation budget used"
    after, before = rows_of(spec), rows_of(undisturbed / "small.yaml")
    assert [r.number for r in after] == [-1, *range(len(after) - 1)]  # none lost, none doubled
    assert {r.state for r in after} <= {"simulated", "screened", "rejected", "failed", "duplicate"}  # none RUNNING
    assert after == before


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_rows_do_not_depend_on_the_number_of_workers(tmp_path: Path, sampler: str) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, workers in ((one, 1), (two, 2)):
        folder.mkdir()
        run_inline(write_spec(folder, sampler), workers)
    assert rows_of(one / "small.yaml") == rows_of(two / "small.yaml")


def test_a_changed_specification_is_refused(tmp_path: Path) -> None:
    spec = write_spec(tmp_path)
    run_inline(spec)
    changed = write_spec(tmp_path, seed=4)
    with pytest.raises(StudyError, match="seed"):
        open_session(load_problem(load_spec(changed)))
    session = open_session(load_problem(load_spec(changed)), fork=True)
    assert session.study.name == "small-2"
    session.store.close()


def test_a_space_smaller_than_the_budget_ends_as_exhausted(tmp_path: Path) -> None:
    path = write_spec(tmp_path)
    pinned = "mapping: {parallel: {max: 1}, tiles: {i: none, j: none, k: 32}, residency: none, orders: {Z: [i,k,j]}}\n"
    text = path.read_text().replace("seed: 1}}", "seed: 1}, format: csr}")
    path.write_text(text.replace("storage:", pinned + "storage:"))
    assert run_inline(path) == "space exhausted"
    simulated = [r for r in rows_of(path)[1:] if r.state in ("simulated", "failed")]
    assert len(simulated) == len({r.mapping_key for r in simulated}) <= 12  # 1, 2, 3 formats of A, B, Z, 2 FIFO depths
