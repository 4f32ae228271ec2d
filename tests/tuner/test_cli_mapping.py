"""``sparseloom simulate``, ``estimate`` and ``explain`` as a user runs them, on a tuned study."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

Run = Callable[..., tuple[int, str, str]]

SPEC = """
program: |
  H(i,j) = A(i,k) * B(k,j)
  Z(i,j) = H(i,j) * W(i,j)
tensors:
  A: {random: {shape: [30, 20], density: 0.1, seed: 1}}
  B: {random: {shape: [20, 25], density: 0.1, seed: 2}}
  W: {random: {shape: [30, 25], density: 0.4, seed: 3}}
machine: {preset: rda, fifo_depth: [16, 64]}
search: {simulations: 4, batch: 2, candidates: 3, workers: 1}
storage: sqlite:///studies.db
"""


def told(run: Run, *words: str) -> Any:
    code, out, err = run(*words, "--json")
    assert code == 0, err
    return json.loads(out)


def test_a_trial_again_through_its_text(run: Run, folder: Path) -> None:
    """Cycles, traffic, energy and key of every simulated row come back, from its number and from its text."""
    rows = told(run, "study", "query", "small", "--where", "state == 'simulated'", "--columns", "all")
    assert rows
    for row in rows:
        number = str(row["number"])
        code, text, err = run("explain", "small.yaml", "--trial", number, "--as", "text")
        assert code == 0, err
        (folder / "one.yaml").write_text(text)
        for words in (("--trial", number), ("--mapping", "one.yaml")):
            found = told(run, "simulate", "small.yaml", *words)
            assert found["key"] == row["mapping_key"]
            for measure in ("latency_cycles", "traffic_bytes", "energy_pj"):
                assert found[measure] == pytest.approx(row[measure], rel=1e-12)
            assert sum(t["values_bytes"] + t["metadata_bytes"] for t in found["traffic"]) == found["traffic_bytes"]
            assert sum(s["latency_cycles"] for s in found["steps"]) == found["latency_cycles"]
            assert found["failure"] is None and found["bottleneck"]
            assert found["multiplies_per_byte"] == found["effectual_multiplies"] / found["traffic_bytes"]
        code, again, _ = run("explain", "small.yaml", "--mapping", "one.yaml", "--as", "text")
        assert (code, again) == (0, text)


def test_the_best_and_the_default(run: Run) -> None:
    best = told(run, "study", "query", "small", "--best", "latency_cycles", "--columns", "all")[0]
    assert told(run, "simulate", "small.yaml", "--trial", "best")["mapping"] == f"trial {best['number']}"
    first = told(run, "simulate", "small.yaml")
    assert first["mapping"] == "default"
    assert first["key"] == told(run, "simulate", "small.yaml", "--trial", "-1")["key"]
    code, out, _ = run("simulate", "small.yaml")
    assert code == 0 and f"latency_cycles         {first['latency_cycles']:,}" in out and "bottleneck" in out


def test_estimate_agrees_with_the_study_and_advises(run: Run) -> None:
    row = told(run, "study", "query", "small", "--best", "latency_cycles", "--columns", "all")[0]
    found = told(run, "estimate", "small.yaml", "--trial", "best")
    assert found["latency_cycles"] == pytest.approx(row["model_latency_cycles"])
    assert sum(t["values_bytes"] + t["metadata_bytes"] for t in found["traffic"]) == pytest.approx(
        found["traffic_bytes"]
    )
    found = told(run, "estimate", "small.yaml", "--changes", "3")
    for of in ("mapping", "machine"):
        gains = [change["latency_cycles_gain"] for change in found["changes"][of]]
        assert len(gains) <= 3 and gains == sorted(gains, reverse=True)
    assert found["changes"]["mapping"][0]["latency_cycles_gain"] > 1.5  # lanes, at least
    assert told(run, "estimate", "small.yaml", "--changes", "0")["changes"] == {"mapping": [], "machine": []}
    code, out, _ = run("estimate", "small.yaml")
    assert code == 0 and "one choice changed" in out and "speed-up" in out and "sparse_efficiency_gap" in out


def test_other_forms(run: Run) -> None:
    code, out, _ = run("explain", "small.yaml")
    assert code == 0 and out.startswith("region S0\n")
    spec = yaml.safe_load(run("explain", "small.yaml", "--as", "teaal")[1])
    assert spec["mapping"]["loop-order"] == {"H": ["I", "K", "J"], "Z": ["I", "J"]}
    assert "#A = #sparse_tensor.encoding<{" in run("explain", "small.yaml", "--as", "mlir")[1]
    assert told(run, "explain", "small.yaml")["mapping"]["loops"][0]["order"] == ["i", "k", "j"]


def test_refusals(run: Run, folder: Path) -> None:
    text = run("explain", "small.yaml", "--as", "text")[1]
    (folder / "bad.yaml").write_text(text.replace("H: i > k > j", "H: i > k > q"))
    code, _, err = run("simulate", "small.yaml", "--mapping", "bad.yaml")
    assert code == 2 and "bad.yaml:5:14: unknown index 'q'. Valid: i, j, k." in err
    (folder / "illegal.yaml").write_text(text.replace("H: i > k > j", "H: i.tile(99) > i > k > j"))
    code, _, err = run("simulate", "small.yaml", "--mapping", "illegal.yaml")
    assert code == 2 and "mapping illegal.yaml is illegal: tile-extent" in err
    code, _, err = run("simulate", "small.yaml", "--trial", "three")
    assert code == 2 and "--trial must be a number, -1 for the default mapping, or best, got 'three'" in err
    code, _, err = run("estimate", "small.yaml", "--trial", "1", "--mapping", "bad.yaml")
    assert code == 2 and "not from both" in err
    code, _, err = run("explain", "small.yaml", "--trial", "999")
    assert code == 2 and "has no trial 999" in err
    (folder / "short.yaml").write_text(SPEC.replace("storage:", "limits: {cycles: 10}\nstorage:"))
    edited = text.replace("residency: none", "residency: lru")
    (folder / "lru.yaml").write_text(edited)
    code, out, err = run("simulate", "short.yaml", "--mapping", "lru.yaml")
    assert code == 1 and "latency_cycles" in out and "mapping lru.yaml does not run: S0: limit:cycles" in err
