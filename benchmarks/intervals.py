"""Do intervals around estimates hold what they promise? All data sets, random mappings, three measures.

    python benchmarks/intervals.py [--quick] [--json FILE] [--mappings N]

Every data set that SPARSELOOM_DATA has is one study, through its leading block with 1,500 entries at most, so that a
simulation takes a fraction of a second: a matrix A in Z = A * A (or A * A^T), S = A . (P * Q) and Y = A * X, a tensor
of three modes in MTTKRP and TTM. Random mappings that pass the screening are simulated on ``rda``. In each study
intervals of nominal 90 % are calibrated on three random quarters and tested on the fourth, in ten such splits. Where
estimates are exact more rows than promised lie inside, as an interval holds all or none of them: a measure that is
exact more often than promised is covered more often, too. Sets with too few rows are one study together.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

MEASURES = ("latency_cycles", "traffic_bytes", "energy_pj")
TOKENS = 400_000
ENTRIES = 1500
SPLITS = 10
LEAST_ROWS = 26
"""Rows of a study, so that three quarters of them give intervals."""
REST = "sets with fewer rows"
RANK = 2
PROMISED = (0.87, 0.93)

Row = dict[str, Any]


def workloads(tensor: Any) -> list[tuple[str, Any]]:
    """(kernel, workload) for which a tensor serves; none for one of more than three modes."""
    from mapper.notation import parse_program
    from mapper.synthetic import generate
    from mapper.workload import Workload

    def dense(*shape: int) -> Any:
        return generate("dense", shape=shape, seed=1)

    def made(kernel: str, text: str, **others: Any) -> tuple[str, Any]:
        return kernel, Workload(parse_program(text), {"A": tensor, **others})

    if tensor.ndim == 2:
        m, n = tensor.shape
        square = "Z(i,j) = A(i,k) * A(k,j)" if m == n else "Z(i,j) = A(i,k) * A(j,k)"
        return [
            made("SpMSpM", square),
            made("SDDMM", "S(i,j) = A(i,j) * P(i,k) * Q(k,j)", P=dense(m, RANK), Q=dense(RANK, n)),
            made("SpMM", "Y(i,r) = A(i,k) * X(k,r)", X=dense(n, RANK)),
        ]
    if tensor.ndim == 3:
        _, j, k = tensor.shape
        return [
            made("MTTKRP", "Z(i,r) = A(i,j,k) * B(j,r) * C(k,r)", B=dense(j, RANK), C=dense(k, RANK)),
            made("TTM", "Z(i,j,r) = A(i,j,k) * C(k,r)", C=dense(k, RANK)),
        ]
    return []


def leading_block(tensor: Any) -> Any:
    """The tensor within the largest leading share of every mode that has ENTRIES entries at most."""
    from mapper.tensor import SparseTensor

    def shape(share: float) -> tuple[int, ...]:
        return tuple(max(1, round(share * extent)) for extent in tensor.shape)

    def inside(share: float) -> Any:
        return (tensor.coords < np.array(shape(share))[:, None]).all(axis=0)

    low, high = 0.0, 1.0
    while tensor.nnz > ENTRIES and high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle).sum() <= ENTRIES else (low, middle)
    kept, share = inside(high if low == 0.0 else low), high if low == 0.0 else low
    return SparseTensor(shape(share), tensor.coords[:, kept], tensor.values[kept])


def study(name: str, tensor: Any, count: int) -> list[Row]:
    """Simulated rows of one data set: ``count`` per kernel, fewer where hardly any mapping is small enough."""
    from costmodel import Statistics, estimate, screen
    from costmodel.bounds import bounds
    from costmodel.intervals import features
    from hwsim import Limits
    from mapper.canonical import plain
    from mapper.machine import load_machine
    from mapper.space import MappingSpace
    from tuner.evaluate import StorageCache, evaluate

    machine, rows = load_machine("rda"), list[Row]()
    for kernel, workload in workloads(tensor):
        space, rng, statistics, cache = (
            MappingSpace(workload, machine),
            np.random.default_rng(0),
            Statistics(),
            StorageCache(),
        )
        found, tries = 0, 0
        while found < count and tries < 4 * count:
            tries += 1
            mapping = space.sample(rng)
            if screen(workload, mapping, machine, statistics):
                continue
            guess = plain(estimate(workload, mapping, machine, statistics=statistics))
            if guess["tokens"] > TOKENS:
                continue
            result = evaluate(workload, mapping, machine, Limits(max_tokens=10 * TOKENS), cache)
            if result.failure is not None:
                continue
            guess["bounds"] = plain(bounds(workload, mapping, machine, statistics=statistics))
            row: Row = {"data": name, "kernel": kernel, "features": features(guess)}
            for m in MEASURES:
                row |= {m: getattr(result, m), f"model_{m}": guess[m], f"bound_{m}": guess["bounds"][m]}
            rows.append(row)
            found += 1
    return rows


def coverage(rows: list[Row], measure: str, rng: np.random.Generator) -> tuple[int, int, list[float]]:
    """(rows inside, rows tested, widths high / low) over random splits of one study."""
    from costmodel.intervals import Intervals

    rows = [r for r in rows if r[measure] > 0 and r[f"model_{measure}"] > 0]
    inside, tested, widths = 0, 0, list[float]()
    for _ in range(SPLITS):
        order = rng.permutation(len(rows))
        known, new = ([rows[n] for n in part] for part in np.split(order, [3 * len(rows) // 4]))
        fitted = Intervals(
            [r["features"] for r in known], [r[f"model_{measure}"] for r in known], [r[measure] for r in known]
        )
        estimated, least = ([r[f"{kind}_{measure}"] for r in new] for kind in ("model", "bound"))
        ends = fitted.around([r["features"] for r in new], estimated, least)
        values = np.array([r[measure] for r in new], float)
        inside += int(((ends[:, 0] <= values * (1 + 1e-9)) & (values <= ends[:, 1] * (1 + 1e-9))).sum())
        tested += len(new)
        widths += (ends[:, 1] / np.maximum(ends[:, 0], 1e-9)).tolist()
    return inside, tested, widths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a third of the data sets and of the mappings")
    parser.add_argument("--json", type=Path, help="file for summary and rows")
    parser.add_argument("--mappings", type=int, help="mappings per kernel and data set")
    options = parser.parse_args()

    from mapper.datasets import data_files, load_tensor

    started, studies = time.perf_counter(), dict[str, list[Row]]()
    files = data_files()[:: 3 if options.quick else 1]
    for path in files:
        tensor = leading_block(load_tensor(path))
        name = str(path.relative_to(os.environ["SPARSELOOM_DATA"]))
        rows = study(name, tensor, options.mappings or (14 if options.quick else 16))
        studies.setdefault(name if len(rows) >= LEAST_ROWS else REST, []).extend(rows)
        print(f"{name:<68}{len(rows):>5} rows", flush=True)
    summary: Row = {"studies": len(studies), "rows": sum(map(len, studies.values())), "nominal": 0.9}
    missed = []
    for measure in MEASURES:
        rng = np.random.default_rng(0)
        parts = [coverage(rows, measure, rng) for rows in studies.values()]
        inside, tested = sum(p[0] for p in parts), sum(p[1] for p in parts)
        widths = np.concatenate([p[2] for p in parts])
        each = [p[0] / p[1] for p in parts]
        share = inside / tested
        exact = float(np.mean([abs(r[measure] - r[f"model_{measure}"]) <= 1e-9 * r[measure]
                               for rows in studies.values() for r in rows]))  # fmt: skip
        summary[measure] = {
            "coverage": share, "exact_share": exact, "lowest_study": min(each), "highest_study": max(each),
            "median_width": float(np.median(widths)),
        }  # fmt: skip
        print(f"{measure:<16} coverage {share:.3f} (studies {min(each):.3f} to {max(each):.3f}), "
              f"high / low {np.median(widths):.3f} in the median, {exact:.1%} of the estimates exact")  # fmt: skip
        if not PROMISED[0] <= share <= max(PROMISED[1], exact + (1 - exact) * PROMISED[1]):
            missed.append(f"{measure} {share:.3f}")
    summary["seconds"] = time.perf_counter() - started
    print(f"{summary['rows']} rows of {len(files)} data sets in {len(studies)} studies, {summary['seconds']:.0f} s")
    if options.json:
        options.json.write_text(json.dumps({"summary": summary, "rows": studies}, indent=2) + "\n")
    if missed and not options.quick:
        raise SystemExit(f"coverage must be within {PROMISED}, got {', '.join(missed)}")


if __name__ == "__main__":
    main()
