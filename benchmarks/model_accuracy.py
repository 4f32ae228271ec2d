"""How well the cost model predicts traffic, latency and energy, on every data set that fits a kernel.

    python benchmarks/model_accuracy.py [--quick] [--json FILE] [--mappings N] [--tokens N] [--kernel K] [--data D]

Random mappings (all residencies, formats and lanes; screened as a study would) of SpMSpM in four orders, SpMM, SDDMM,
TTM, MTTKRP and models whose statements are fused at random (``model_cases``), on machine ``rda``. Traffic is compared
with ``costmodel.exact``, which walks the tiles; where the run has few enough tokens the simulator gives cycles and
energy, and its bytes must equal the counter's. Rows are appended to FILE.rows as they come: a run that was stopped goes
on where it was.

A ratio is predicted over actual, its error the larger of it and its inverse; ranks are Spearman's, within a case.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import numpy as np
from model_cases import Case, cases

from costmodel import Statistics, estimate, predict_traffic, screen
from costmodel.exact import count_traffic
from costmodel.nest import Model
from hwsim import Limits
from mapper.errors import EmptySpace
from mapper.machine import load_machine
from mapper.mapping import Mapping
from mapper.residency import RESIDENCIES
from mapper.schedule import schedule
from mapper.storage import Layout, Storage, store_tensor
from mapper.tensor import SparseTensor
from tuner.evaluate import evaluate

MOST_SIMULATED = {True: 5e6, False: 5e8}
"""Tokens of a run that is simulated, by ``quick``."""

MOST_WALKED = {True: 1e7, False: 3e8}
"""Prefixes of a mapping that is drawn at all; a walk takes a second for some 10^7."""

MOST_DRAWS = 50
"""Draws from one space until a legal mapping is found: of some fusions hardly any is legal, as FIFOs are too short."""

MACHINE = load_machine("rda")

TARGETS = {
    "traffic": {"geomean": 1.05, "within_95_percent": 1.15, "worst": 1.5, "rank": 0.97},
    "latency": {"geomean": 1.15, "rank": 0.95},
}


class Drawn:
    """Random mappings of a case that pass the screen and are not too long; ``passed_over``: how many were."""

    def __init__(self, case: Case, statistics: Statistics, quick: bool) -> None:
        self.case, self.statistics, self.quick, self.passed_over = case, statistics, quick, 0

    def __call__(self, count: int) -> Iterable[tuple[Mapping, Any]]:
        workload, rng = self.case.workload, np.random.default_rng(self.case.seed)
        made = 0
        seen: set[Mapping] = set()
        for space in itertools.islice(self.case.spaces(MACHINE, tuple(RESIDENCIES), rng), 30 * count):
            if made == count:
                return
            try:
                mapping = space.sample(rng, tries=MOST_DRAWS)
            except EmptySpace:
                continue
            if mapping in seen or screen(workload, mapping, MACHINE, self.statistics):
                continue
            seen.add(mapping)
            started = time.perf_counter()
            found = estimate(workload, mapping, MACHINE, statistics=self.statistics)
            if _prefixes(self.case, mapping, self.statistics) > MOST_WALKED[self.quick]:
                self.passed_over += 1
                continue
            made += 1
            yield mapping, (found, time.perf_counter() - started)


def _prefixes(case: Case, mapping: Mapping, statistics: Statistics) -> float:
    workload = case.workload.variant(mapping.variant)
    model = Model(workload, mapping, "L2", statistics)
    nests = [nest for region in schedule(workload.program, mapping).regions for nest in model.nests(region)]
    return sum(float(nest.joined(q).sum()) for nest in nests for q in range(1, len(nest.loops) + 1))


def rows_of(case: Case, count: int, quick: bool, most_tokens: float) -> list[dict[str, Any]]:
    """One row per mapping."""
    statistics, rows = Statistics(), []
    drawn = Drawn(case, statistics, quick)
    known: dict[tuple[str, Layout], Storage] = {}

    def stored(tensor: SparseTensor, layout: Layout) -> Storage:
        key = tensor.key, layout
        if key not in known:
            if len(known) > 64:
                known.clear()
            known[key] = store_tensor(tensor, layout, MACHINE)
        return known[key]

    for mapping, (found, seconds) in drawn(count):
        started = time.perf_counter()
        counted = count_traffic(case.workload, mapping, MACHINE, stored)
        walked = time.perf_counter()
        row: dict[str, Any] = {
            "kernel": case.kernel, "data": case.data, "model": case.model, "mapping": mapping.key[:12],
            "residency": mapping.residency, "lanes": max(p.lanes for p in mapping.loops),
            "counted_bytes": sum(t.bytes for t in counted), "predicted_bytes": found.traffic_bytes,
            "tokens": found.tokens, "predicted_cycles": found.latency_cycles, "predicted_pj": found.energy_pj,
            "estimate_seconds": seconds, "count_seconds": walked - started,
        }  # fmt: skip
        for level in ("L0", "L1"):
            traffic = predict_traffic(case.workload, mapping, MACHINE, level=level, statistics=statistics)
            row[f"predicted_bytes_{level}"] = sum(t.bytes for t in traffic)
        row["parts"] = _parts(found.traffic, counted)
        if found.tokens <= most_tokens:
            row |= _simulated(case, mapping, counted)
            row["simulate_seconds"] = time.perf_counter() - walked
        rows.append(row)
    for row in rows:
        row["passed_over"] = drawn.passed_over
    return rows


def _parts(predicted: Any, counted: Any) -> dict[str, list[float]]:
    """(predicted, counted) bytes per tensor and purpose."""
    parts: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for side, traffic in enumerate((predicted, counted)):
        for t in traffic:
            parts[f"{t.purpose} {t.tensor}"][side] += t.bytes
    return dict(parts)


def _simulated(case: Case, mapping: Mapping, counted: Any) -> dict[str, Any]:
    run = evaluate(case.workload, mapping, MACHINE, Limits(max_tokens=int(2e9)))
    if run.failure:
        return {"failure": run.failure}
    moved: Counter[tuple[str, str]] = Counter()
    for _, profile in run.profiles:
        for r in profile.traffic:
            moved[r.tensor, r.direction] += r.values_bytes + r.metadata_bytes
    for t in counted:
        moved[t.tensor, t.direction] -= int(t.bytes)
    return {
        "simulated_cycles": run.latency_cycles, "simulated_pj": run.energy_pj,
        "simulated_tokens": sum(p.tokens for _, p in run.profiles), "counter_differs": any(moved.values()),
    }  # fmt: skip


def accuracy(rows: list[dict[str, Any]], predicted: str, actual: str) -> dict[str, Any]:
    """Errors of one prediction over the rows that have its actual value."""
    rows = [r for r in rows if r.get(actual)]
    if not rows:
        return {"cases": 0}
    logs = np.log([r[predicted] / r[actual] for r in rows])
    errors = np.exp(np.abs(logs))
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["kernel"], row["data"]].append(row)
    ranks = [_spearman([r[predicted] for r in g], [r[actual] for r in g]) for g in groups.values() if len(g) >= 10]
    return {
        "cases": len(rows), "geomean": float(np.exp(np.abs(logs).mean())), "bias": float(np.exp(logs.mean())),
        "within_95_percent": float(np.quantile(errors, 0.95)), "worst": float(errors.max()),
        "rank": float(np.mean(ranks)) if ranks else None, "rank_lowest": float(min(ranks)) if ranks else None,
    }  # fmt: skip


def _spearman(a: list[float], b: list[float]) -> float:
    from scipy.stats import spearmanr

    if len(set(a)) < 2 or len(set(b)) < 2:
        return 1.0 if len(set(a)) == len(set(b)) else 0.0
    return float(spearmanr(a, b).statistic)


def summary_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """All accuracies, by kernel and residency too."""
    found: dict[str, Any] = {
        "cases": len(rows), "tensors": len({r["data"] for r in rows}), "passed_over": _passed_over(rows),
        "simulator_failures": dict(Counter(r["failure"] for r in rows if "failure" in r)),
        "counter_compared": sum("counter_differs" in r for r in rows),
        "counter_differs": sum(r.get("counter_differs", False) for r in rows),
        "traffic": accuracy(rows, "predicted_bytes", "counted_bytes"),
        "traffic_L1": accuracy(rows, "predicted_bytes_L1", "counted_bytes"),
        "traffic_L0": accuracy(rows, "predicted_bytes_L0", "counted_bytes"),
        "latency": accuracy(rows, "predicted_cycles", "simulated_cycles"),
        "energy": accuracy(rows, "predicted_pj", "simulated_pj"),
        "tokens": accuracy(rows, "tokens", "simulated_tokens"),
    }  # fmt: skip
    for field in ("kernel", "residency", "lanes"):
        for value in sorted({r[field] for r in rows}, key=str):
            own = [r for r in rows if r[field] == value]
            found[f"{field} {value}"] = {
                "traffic": accuracy(own, "predicted_bytes", "counted_bytes"),
                "traffic_L0": accuracy(own, "predicted_bytes_L0", "counted_bytes"),
                "latency": accuracy(own, "predicted_cycles", "simulated_cycles"),
            }
    for what, limits in TARGETS.items():
        got = found[what]
        if got["cases"]:
            found[what]["met"] = {
                name: (got[name] or 0) >= limit if name == "rank" else got[name] <= limit
                for name, limit in limits.items()
            }
    return found


def _passed_over(rows: list[dict[str, Any]]) -> int:
    return sum({(r["kernel"], r["data"]): r["passed_over"] for r in rows}.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--mappings", type=int, help="per case (40; with --quick 8)")
    parser.add_argument("--tokens", type=float, help="of runs that are simulated, at most (5e8; with --quick 5e6)")
    parser.add_argument("--kernel")
    parser.add_argument("--data")
    options = parser.parse_args()
    count = options.mappings or (8 if options.quick else 40)
    chosen = [c for c in cases(options.quick) if options.kernel in (None, c.kernel) and options.data in (None, c.data)]
    kept = options.json and options.json.with_suffix(options.json.suffix + ".rows")
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept and kept.exists() else []
    done, started = {(r["kernel"], r["data"]) for r in rows}, time.perf_counter()
    for case in chosen:
        if (case.kernel, case.data) in done:
            continue
        begun = time.perf_counter()
        fresh = rows_of(case, count, options.quick, options.tokens or MOST_SIMULATED[options.quick])
        rows += fresh
        if kept:
            with kept.open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in fresh)
        _report(case, fresh, time.perf_counter() - begun)
    summary = {**summary_of(rows), "seconds": time.perf_counter() - started}
    print(json.dumps(summary, indent=2))
    if options.json:
        options.json.write_text(json.dumps({"summary": summary, "rows": rows}, indent=2))


def _report(case: Case, rows: list[dict[str, Any]], seconds: float) -> None:
    traffic = accuracy(rows, "predicted_bytes", "counted_bytes")
    latency = accuracy(rows, "predicted_cycles", "simulated_cycles")
    texts = [f"{case.kernel:9} {case.data[:40]:40} {len(rows):3} mappings {seconds:6.1f} s"]
    for name, found in (("traffic", traffic), ("latency", latency)):
        if found["cases"]:
            rank = found["rank"] if found["rank"] is not None else float("nan")
            texts.append(f"{name} {found['geomean']:.3f} worst {found['worst']:.2f} rank {rank:.3f}")
    print("  ".join(texts), flush=True)


if __name__ == "__main__":
    main()
