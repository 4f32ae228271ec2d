"""Do lower bounds stay below the simulator, and how close are they? Random programs, data, mappings and machines.

    python benchmarks/bounds.py [--quick] [--json FILE] [--cases N] [--seed N]

A third of the cases are random programs on tensors of up to 8 per mode with any format, lanes and memory; a third are
kernels, a pattern and a convolution among them, on tensors of a few hundred to thousand entries on the machine ``rda``
with small buffers; a third are chains in one region, very sparse, in lanes, with FIFOs deep enough for any order of
loops. Rows: per measure the quantiles of bound / simulated, the share of cases where the two are equal, and the number
of violations. A violation is an error.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "hwsim")]

MEASURES = ("latency_cycles", "traffic_bytes", "energy_pj")
QUANTILES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
TOLERANCE = 1e-9
"""Relative difference of sums of floating-point numbers."""

KERNELS: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "Z(i,j) = A(i,k) * B(k,j)": {
        "A": ("power_law", {"shape": (120, 120), "nnz": 900}),
        "B": ("uniform", {"shape": (120, 90), "density": 0.06}),
    },
    "Z(i,r) = X(i,j,k) * B(j,r) * C(k,r)": {
        "X": ("uniform", {"shape": (40, 30, 20), "density": 0.03}),
        "B": ("dense", {"shape": (30, 6)}),
        "C": ("dense", {"shape": (20, 6)}),
    },
    "Z(i,j) = S(i,j) * A(i,k) * B(k,j)": {
        "S": ("power_law", {"shape": (90, 90), "nnz": 500}),
        "A": ("dense", {"shape": (90, 8)}),
        "B": ("dense", {"shape": (8, 90)}),
    },
    "Z(i,m) = relu((A(i,j)*X(j,k))*W(k,m) + b(m))": {
        "A": ("power_law", {"shape": (60, 60), "nnz": 300}),
        "X": ("uniform", {"shape": (60, 40), "density": 0.1}),
        "W": ("dense", {"shape": (40, 8)}),
        "b": ("dense", {"shape": (8,)}),
    },
    "Z(i,j) = pattern(A(i,k)) * B(k,j)": {
        "A": ("power_law", {"shape": (80, 70), "nnz": 400}),
        "B": ("uniform", {"shape": (70, 60), "density": 0.08}),
    },
    "Z(o,p) = X(c,p+r) * W(o,c,r)": {
        "X": ("uniform", {"shape": (12, 40), "density": 0.2}),
        "W": ("uniform", {"shape": (8, 12, 3), "density": 0.5}),
    },
}

CHAINS: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "T(i,k) = A(i,j) * X(j,k)\nZ(i,m) = T(i,k) * W(k,m)": {
        "A": ("uniform", {"shape": (40, 36), "density": 0.04}),
        "X": ("uniform", {"shape": (36, 30), "density": 0.04}),
        "W": ("uniform", {"shape": (30, 8), "density": 0.2}),
    },
    "T(i,k) = A(i,j) * X(j,k)\nU(i,k) = B(i,l) * Y(l,k)\nZ(i,k) = T(i,k) * U(i,k)": {
        "A": ("uniform", {"shape": (30, 26), "density": 0.1}),
        "X": ("uniform", {"shape": (26, 20), "density": 0.1}),
        "B": ("uniform", {"shape": (30, 22), "density": 0.1}),
        "Y": ("uniform", {"shape": (22, 20), "density": 0.1}),
    },
    "T(i,k) = A(i,j) * X(j,k)\nZ(i,k) = T(i,k) + B(i,k)": {
        "A": ("power_law", {"shape": (30, 26), "nnz": 60}),
        "X": ("uniform", {"shape": (26, 20), "density": 0.06}),
        "B": ("uniform", {"shape": (30, 20), "density": 0.1}),
    },
    "T(i,j,k) = A(i,j,l) * X(l,k)\nZ(i,j,m) = T(i,j,k) * W(k,m)": {
        "A": ("uniform", {"shape": (12, 10, 9), "density": 0.04}),
        "X": ("uniform", {"shape": (9, 14), "density": 0.15}),
        "W": ("dense", {"shape": (14, 6)}),
    },
}

Case = tuple[Any, Any, Any]


def small_cases(rng: np.random.Generator) -> Iterator[Case]:
    """Random programs on tiny tensors, those whose values are numbers throughout."""
    from random_programs import random_case  # type: ignore[import-not-found]  # in tests/hwsim

    while True:
        with np.errstate(all="ignore"):
            workload, mapping, machine = random_case(rng)
            computed = workload.variant(mapping.variant).computed.values()
        if all(np.isfinite(tensor.values).all() for tensor in computed):
            yield workload, mapping, machine


def kernel_cases(rng: np.random.Generator) -> Iterator[Case]:
    """Random mappings of kernels, on a machine whose buffers are often too small for what is tiled."""
    return _drawn(KERNELS, rng, 64, max_lanes=4)


def chain_cases(rng: np.random.Generator) -> Iterator[Case]:
    """Random mappings of chains that are fused whole."""
    return _drawn(CHAINS, rng, 4096, max_lanes=8, fuse_others=True)


def _drawn(programs: dict[str, Any], rng: np.random.Generator, fifo_depth: int, **limits: Any) -> Iterator[Case]:
    from mapper.machine import load_machine
    from mapper.notation import parse_program
    from mapper.residency import RESIDENCIES
    from mapper.space import MappingSpace
    from mapper.space_limits import SpaceLimits
    from mapper.synthetic import generate
    from mapper.workload import Workload

    while True:
        for text, inputs in programs.items():
            machine = load_machine("rda").with_fields(
                buffer_bytes=int(rng.choice([512, 1024, 4096])), accumulator_bytes=int(rng.choice([256, 2048, 16384])),
                fifo_depth=fifo_depth,
            )  # fmt: skip
            seed = int(rng.integers(2**31))
            tensors = {n: generate(kind, seed=seed + k, **p) for k, (n, (kind, p)) in enumerate(inputs.items())}
            workload = Workload(parse_program(text), tensors)
            space = MappingSpace(workload, machine, SpaceLimits(residency=tuple(RESIDENCIES), **limits))
            for _ in range(25):
                yield workload, space.sample(rng), machine


def rows_of(source: str, cases: Iterator[Case], count: int) -> list[dict[str, Any]]:
    """Bounds and simulated values of ``count`` cases that run to their end."""
    from costmodel import Statistics
    from costmodel.bounds import bounds
    from hwsim import Limits
    from tuner.evaluate import StorageCache, evaluate

    rows: list[dict[str, Any]] = []
    statistics, cache = Statistics(), StorageCache()
    while len(rows) < count:
        workload, mapping, machine = next(cases)
        result = evaluate(workload, mapping, machine, Limits(max_cycles=5_000_000), cache)
        if result.failure is not None:
            continue  # a deadlock has no cost
        least = bounds(workload, mapping, machine, statistics=statistics)
        row: dict[str, Any] = {"source": source, "program": str(workload.program), "mapping": mapping.key}
        for measure in MEASURES:
            row |= {f"bound_{measure}": getattr(least, measure), measure: getattr(result, measure)}
        rows.append(row)
    return rows


def tightness(rows: list[dict[str, Any]], source: str, measure: str) -> dict[str, Any]:
    """Distribution of bound / simulated."""
    pairs = [(r[f"bound_{measure}"], r[measure]) for r in rows if r["source"] == source]
    bound, value = np.array(pairs, float).T
    ratio = np.divide(bound, value, out=np.ones_like(bound), where=value > 0)
    return {
        "source": source,
        "measure": measure,
        "cases": len(pairs),
        "violations": int((bound > value * (1 + TOLERANCE)).sum()),
        "exact_share": float((ratio > 1 - TOLERANCE).mean()),
        **{f"q{q:g}": float(np.quantile(ratio, q)) for q in QUANTILES},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="1,000 cases instead of 10,000")
    parser.add_argument("--json", type=Path, help="file for summary and rows")
    parser.add_argument("--cases", type=int, help="number of cases")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    count, started = options.cases or (1000 if options.quick else 10_000), time.perf_counter()
    sources = {"programs": small_cases, "kernels": kernel_cases, "chains": chain_cases}
    rows = [
        row
        for n, (source, cases) in enumerate(sources.items())
        for row in rows_of(source, cases(np.random.default_rng([options.seed, n])), -(-count // len(sources)))
    ]
    found = [tightness(rows, source, measure) for source in sources for measure in MEASURES]
    print("bound / simulated\n" + "  ".join(f"{name:>14}" for name in found[0]))
    for row in found:
        print("  ".join(f"{x:>14.3f}" if isinstance(x, float) else f"{x:>14}" for x in row.values()))
    violations, seconds = sum(row["violations"] for row in found), time.perf_counter() - started
    print(f"{len(rows)} cases, {violations} bounds above the simulator, {seconds:.0f} s")
    if options.json:
        summary = {"cases": len(rows), "violations": violations, "seconds": seconds, "tightness": found}
        options.json.write_text(json.dumps({"summary": summary, "rows": rows}, indent=2) + "\n")
    if violations:
        raise SystemExit(f"{violations} bounds exceed what was simulated, must be 0")


if __name__ == "__main__":
    main()
