"""``sparseloom tune`` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SPEC = """
program: Z(i,j) = A(i,k) * B(k,j)
tensors:
  A: {random: {shape: [60, 50], density: 0.1, seed: 1}}
  B: {random: {shape: [50, 40], density: 0.1, seed: 2}}
machine: {preset: rda, fifo_depth: [8, 64]}
search: {simulations: 6, batch: 3, candidates: 3, workers: 1}
report: out.html
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from tuner.cli import main; main()"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def write(folder: Path, text: str = SPEC) -> str:
    (folder / "small.yaml").write_text(text)
    return "small.yaml"


def test_dry_run_simulates_nothing_of_the_study(tmp_path: Path) -> None:
    done = run(tmp_path, "tune", write(tmp_path), "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["mappings"] > 1000
    assert found["fusions"] == 1
    assert found["minutes"] > 0
    assert not (tmp_path / "studies.db").exists()
    assert found["workers"] == 1
    more = run(tmp_path, "tune", "small.yaml", "--dry-run", "--workers", "7").stdout
    assert "for 6 simulations on 7 workers" in " ".join(more.split())


def test_tune_prints_the_winner_beside_the_default(tmp_path: Path) -> None:
    done = run(tmp_path, "tune", write(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["counts"]["simulated"] + found["counts"].get("failed", 0) == 6
    assert [w["mapping"] for w in found["winners"]] == ["default", "best latency_cycles", "best traffic_bytes"]
    assert found["effectual_multiplies"] > 0
    assert found["words"].startswith(("region S0", "convert"))
    assert "<html" in (tmp_path / "out.html").read_text()
    again = run(tmp_path, "tune", "small.yaml", "--quiet")  # a finished study is only shown
    assert again.returncode == 0, again.stderr
    assert "simulation budget used" in again.stdout
    assert run(tmp_path, "study", "show", "small", "--json").returncode == 0


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("Z(i,j)", "Z(i,jj)", "small.yaml:2:14: index 'jj' of the target appears nowhere"),
        ("  B: {", "  C: {", "small.yaml:5:3: unknown name 'C' in tensors"),
        ("preset: rda", "preset: rad", "Did you mean 'rda'"),
        ("fifo_depth", "fifo_dept", "Did you mean 'fifo_depth'"),
        ("simulations", "simulation", "Did you mean 'simulations'"),
        ("seed: 1}}", "seed: 1}, format: crs}", "Did you mean 'csr'"),
    ],
)
def test_misspelt_names_are_placed(tmp_path: Path, old: str, new: str, told: str) -> None:
    done = run(tmp_path, "tune", write(tmp_path, SPEC.replace(old, new, 1)))
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_an_empty_space_names_the_rule(tmp_path: Path) -> None:
    text = SPEC.replace("seed: 1}}", "seed: 1}, format: csr}") + "mapping: {orders: {Z: [j, k, i]}}\n"
    done = run(tmp_path, "tune", write(tmp_path, text))
    assert done.returncode == 2
    assert "the mapping space is empty: format-order at A" in done.stderr


def test_a_space_that_screening_empties_names_the_rule(tmp_path: Path) -> None:
    text = SPEC.replace("fifo_depth: [8, 64]", "buffer_bytes: 64") + "mapping: {tiles: {i: none, j: none, k: none}}\n"
    done = run(tmp_path, "tune", write(tmp_path, text), "--quiet")
    assert done.returncode == 2
    assert "no mapping of the space may be simulated: tile-over-capacity" in done.stderr


def test_a_study_whose_simulations_all_fail_says_why(tmp_path: Path) -> None:
    text = SPEC + "limits: {cycles: 3}\n"
    done = run(tmp_path, "tune", write(tmp_path, text), "--quiet")
    assert done.returncode == 1
    assert "6 failed: S0: limit:cycles (e.g. trial " in done.stdout
    assert "no best mapping: all simulations failed, 6 of them by: S0: limit:cycles" in done.stdout
    again = run(tmp_path, "tune", "small.yaml", "--json")
    assert again.returncode == 1
    (row,) = json.loads(again.stdout)["failures"]
    assert (row["failure"], row["trials"]) == ("S0: limit:cycles", 6)
    shown = run(tmp_path, "study", "show", "small").stdout
    assert "simulations that failed" in shown
    assert "limit:cycles" in shown


def test_a_study_in_which_nothing_may_be_simulated_fails(tmp_path: Path) -> None:
    text = SPEC.replace("search: {", "search: {descents: 0, ") + "constraints: {latency_cycles: 1}\n"
    done = run(tmp_path, "tune", write(tmp_path, text), "--quiet")
    assert done.returncode == 1
    assert "nothing within budgets and limits in 25 batches in a row" in done.stdout
    assert "no best mapping: no mapping was simulated to its end" in done.stdout
