"""A study that is killed between commits ends with the rows of an undisturbed one; so does any number of workers."""

from __future__ import annotations

import importlib.util
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mapper.errors import StudyError
from studies.records import STATES, TrialRecord
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
search: {{sampler: {sampler}, simulations: {simulations}, batch: {batch}, candidates: 3, seed: {seed}, audit: 0.25}}
storage: sqlite:///study.db
"""

RUN = "from tuner.cli import main; main()"


def write_spec(folder: Path, sampler: str = "tpe", seed: int = 3, batch: int = 4, simulations: int = 20) -> Path:
    path = folder / "small.yaml"
    path.write_text(SPEC.format(sampler=sampler, seed=seed, batch=batch, simulations=simulations))
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


def run_inline(spec: Path, workers: int = 1, scheduler: str | None = None) -> str:
    session = open_session(load_problem(load_spec(spec)))
    reason = run_session(session, workers, show=False, scheduler=scheduler)
    session.store.close()
    return reason


KILLS = 10
RUNS = (("--workers", "1"), ("--workers", "2"), ("--workers", "4"), ("--workers", "2", "--scheduler", "local"))
"""Ways to run a study, none of which may change a row."""


def ways() -> list[tuple[str, ...]]:
    return [way for way in RUNS if "local" not in way or importlib.util.find_spec("distributed")]


def killed(spec: Path, way: tuple[str, ...], batches: int) -> bool:
    """Runs a study and kills it, children and all, at once when it has committed ``batches`` in all, and so between two
    commits unless it was about to start; True if it was still running."""
    command = [sys.executable, "-c", RUN, "tune", str(spec), "--quiet", *way]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if committed_batches(spec.parent / "study.db") >= batches:
            break
        time.sleep(0.005)
    running = process.poll() is None
    os.killpg(process.pid, signal.SIGKILL) if running else None
    process.wait()
    return running


def test_killed_ten_times_and_rerun(tmp_path: Path) -> None:
    """Every run is killed after it committed a batch more (three of ten right at its start), another way each time."""
    folders = tmp_path / "killed", tmp_path / "undisturbed"
    for folder in folders:
        folder.mkdir()
    cut, whole = (write_spec(folder, batch=2) for folder in folders)
    between, seen = 0, 0
    for kill in range(KILLS):
        before = committed_batches(cut.parent / "study.db")
        early = kill in (0, 4, 8)
        assert killed(cut, ways()[kill % len(ways())], before if early else before + 1)
        done = committed_batches(cut.parent / "study.db")
        assert done >= before
        between += done > before
        seen = done
    assert between >= 7
    assert seen < 10
    assert run_inline(cut) == "simulation budget used"
    assert run_inline(whole) == "simulation budget used"
    after, undisturbed = rows_of(cut), rows_of(whole)
    assert [r.number for r in after] == [-1, *range(len(after) - 1)]  # none lost, none doubled
    assert {r.state for r in after} <= set(STATES)  # none is left running
    assert after == undisturbed


@pytest.mark.parametrize("sampler", ["random", "sparseloom"])
def test_rows_do_not_depend_on_who_works(tmp_path: Path, sampler: str) -> None:
    found = []
    for n, (workers, scheduler) in enumerate([(1, None), (2, None), (4, None), (2, "local")]):
        if scheduler and not importlib.util.find_spec("distributed"):
            continue
        (tmp_path / str(n)).mkdir()
        spec = write_spec(tmp_path / str(n), sampler, simulations=4, batch=2)
        run_inline(spec, workers, scheduler)
        found.append(rows_of(spec))
    assert len(found[0]) > 4
    assert all(rows == found[0] for rows in found)


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
