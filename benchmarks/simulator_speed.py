"""Speed of the token engine: tokens per second on the golden ikj and ijk graphs.

Every row runs in a process of its own, on one core, and is the best of several runs; it counts the whole call of
``simulate``, with checks and results. Cycles are compared with Comal's. ``peak_memory_bytes`` is that of the whole
process: Python, numpy, the inputs and their generation included.

    python benchmarks/simulator_speed.py [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "hwsim")]

CYCLES: dict[tuple[str, str], dict[int | None, int]] = {
    ("ikj", "s200"): {8: 44555, 1024: 40315, None: 40315},
    ("ikj", "s500"): {None: 250683},
    ("ikj", "s1000"): {8: 1001145, 1024: 1001145, None: 1001145},
    ("ijk", "s200"): {8: 887808, 1024: 887808, None: 887808},
    ("ijk", "s500"): {8: 5663172, 1024: 5663172, None: 5663172},
    ("ijk", "s1000"): {8: 22904589, 1024: 22904589, None: 22904589},
}
"""Comal's cycles by FIFO depth (``None``: unbounded), from the golden ``cycles.json`` and the notes beside it."""

REQUIRED_TOKENS_PER_SECOND = {1024: 120e6, 8: 90e6}


def measure(graph_name: str, data: str, depth: int | None, seconds: float) -> dict[str, Any]:
    """One row: runs for about ``seconds`` and keeps the best."""
    from golden_graphs import golden_graph  # type: ignore[import-not-found]  # in tests/hwsim

    from hwsim import simulate

    graph, _ = golden_graph(graph_name, data, depth)
    best, spent, profile = math.inf, 0.0, simulate(graph)
    while spent < seconds:
        start = time.perf_counter()
        profile = simulate(graph)
        took = time.perf_counter() - start
        best, spent = min(best, took), spent + took
    expected = CYCLES[graph_name, data].get(depth)
    if expected is not None and profile.cycles != expected:
        raise SystemExit(f"{graph_name} {data} at depth {depth}: {profile.cycles} cycles, must be {expected}")
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        "graph": graph_name,
        "data": data,
        "fifo_depth": depth,
        "cycles": profile.cycles,
        "tokens": profile.tokens,
        "tokens_per_second": profile.tokens / best,
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit,
    }


def summarize(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Slowest and geometric mean speed by depth, against what is required."""
    summary = {}
    for depth in dict.fromkeys(row["fifo_depth"] for row in rows):
        speeds = [row["tokens_per_second"] for row in rows if row["fifo_depth"] == depth]
        required = REQUIRED_TOKENS_PER_SECOND.get(depth)
        summary["unbounded" if depth is None else f"fifo_{depth}"] = {
            "slowest_tokens_per_second": min(speeds),
            "mean_tokens_per_second": math.exp(sum(map(math.log, speeds)) / len(speeds)),
            "required_tokens_per_second": required,
            "met": required is None or min(speeds) >= required,
        }
    return summary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write summary and rows there")
    parser.add_argument("--quick", action="store_true", help="only 200 and 500 rows, a fraction of the time")
    options = parser.parse_args()
    sizes = ("s200", "s500") if options.quick else ("s200", "s500", "s1000")
    rows = []
    print(f"{'graph':6}{'data':7}{'depth':>10}{'cycles':>12}{'tokens':>12}{'M tokens/s':>12}{'peak MiB':>10}")
    for depth in (1024, 8, None):
        for graph in ("ikj", "ijk"):
            for data in sizes:
                with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                    row = pool.submit(measure, graph, data, depth, 0.3 if options.quick else 2.0).result()
                rows.append(row)
                print(
                    f"{graph:6}{data:7}{depth or 'unbounded':>10}{row['cycles']:>12,}{row['tokens']:>12,}"
                    f"{row['tokens_per_second'] / 1e6:>12.1f}{row['peak_memory_bytes'] / 2**20:>10.0f}"
                )
    summary = summarize(rows)
    for depth_name, figures in summary.items():
        required = figures["required_tokens_per_second"]
        met = "met" if figures["met"] else "NOT MET"
        verdict = "" if required is None else f", required {required / 1e6:.0f}: {met}"
        print(
            f"{depth_name}: slowest {figures['slowest_tokens_per_second'] / 1e6:.1f}, "
            f"mean {figures['mean_tokens_per_second'] / 1e6:.1f} M tokens/s{verdict}"
        )
    if options.json:
        options.json.write_text(json.dumps({"summary": summary, "rows": rows}, indent=1) + "\n")
    sys.exit(0 if all(figures["met"] for figures in summary.values()) else 1)


if __name__ == "__main__":
    main()
