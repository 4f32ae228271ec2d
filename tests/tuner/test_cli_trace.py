"""``sparseloom trace`` as a user runs it: a study is tuned, then mappings of it are traced."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., tuple[int, str, str]]

SPEC = """
program: |
  H(i,j) = A(i,k) * B(k,j)
  Z(i,j) = relu(H(i,j))
tensors:
  A: {random: {shape: [30, 20], density: 0.1, seed: 1}}
  B: {random: {shape: [20, 25], density: 0.1, seed: 2}}
machine: {preset: rda}
search: {simulations: 4, batch: 2, candidates: 2, workers: 1}
storage: sqlite:///studies.db
"""


def test_the_best_and_the_default(run: Run, folder: Path) -> None:
    code, out, _ = run("study", "query", "small", "--best", "latency_cycles", "--json", "--columns", "all")
    assert code == 0
    best = json.loads(out)[0]
    code, out, err = run("trace", "small.yaml", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert (told["trial"], told["status"], told["file"]) == (best["number"], "done", "small.trace.json")
    assert sum(step["cycles"] for step in told["runs"]) == best["latency_cycles"]
    trace = json.loads((folder / "small.trace.json").read_text())
    assert trace["otherData"]["runs"] == told["runs"]
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert max(e["ts"] + e["dur"] for e in slices) == best["latency_cycles"]
    code, out, err = run("trace", "small.yaml", "--trial", "-1", "-o", "default.json", "--max-slices", "200")
    assert code == 0, err
    assert "slices, merged within" in out and "wrote default.json (trial -1)" in out
    steps = json.loads((folder / "default.json").read_text())["otherData"]["runs"]
    assert len(steps) >= 2 and all(step["slices"] <= 200 for step in steps)  # nothing is fused


def test_refusals(run: Run, folder: Path) -> None:
    code, _, err = run("trace", "small.yaml", "--trial", "999")
    assert (code, "has no trial 999; it has -1 (default) to" in err) == (2, True)
    (folder / "none.yaml").write_text(SPEC)
    code, _, err = run("trace", "none.yaml")
    assert code == 2 and "none" in err
    changed = folder / "other"
    changed.mkdir()
    (changed / "small.yaml").write_text(SPEC.replace("seed: 2", "seed: 3").replace("studies.db", "../studies.db"))
    code, _, err = run("trace", "other/small.yaml")
    assert code == 2 and "was made from another specification; tune it again" in err
