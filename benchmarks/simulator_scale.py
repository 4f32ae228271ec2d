"""How the simulator scales: graph size, threads, small graphs, memory.

    python benchmarks/simulator_scale.py [--quick] [--json FILE]

* ``contexts``: nanoseconds per token of pipelines side by side, from 100 to 30,000 contexts, set-up apart.
* ``threads``: throughput of two simulations in two threads over that of one (the GIL is released; needs two cores).
* ``small``: milliseconds for the golden ikj graph of 7,944 tokens, checks and set-up included.
* ``memory``: peak bytes beyond a process that only built the graph, golden ijk s1000 (ikj s1000 with ``--quick``).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "hwsim")]

STAGES = 8
"""Contexts of one pipeline: a source, maps, a writer."""

DEPTH = 64


def pipelines(contexts: int, tokens: int) -> Any:
    """About ``contexts`` contexts in pipelines that share ``tokens`` values evenly."""
    import numpy as np

    from mapper.graph import Channel, Context, Graph

    lines = max(1, contexts // STAGES)
    made: list[Context] = []
    channels: list[Channel] = []
    length = max(1, tokens // (lines * (STAGES - 1)))
    values, pos = np.ones(length), np.array([0, length], np.int64)
    for line in range(lines):
        first = len(channels)
        channels += [Channel(f"{line}.{n}", DEPTH) for n in range(STAGES - 1)]
        made.append(Context(f"root {line}", "root", (), (first,)))
        made.append(Context(f"scan {line}", "scan", (first,), (-1, first + 1), {}, {"pos": pos}))
        made.append(Context(f"array {line}", "array", (first + 1,), (first + 2,), {}, {"values": values}))
        for n in range(2, STAGES - 2):
            made.append(Context(f"map {line}.{n}", "map", (first + n,), (first + n + 1,), {"op": "neg"}))
        made.append(Context(f"write {line}", "value_write", (first + STAGES - 2,), ()))
    return Graph(tuple(made), tuple(channels))


def best_seconds(run: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """The shortest of several runs and the last result."""
    best, result = float("inf"), None
    for _ in range(repeats):
        started = time.perf_counter()
        result = run()
        best = min(best, time.perf_counter() - started)
    return best, result


def by_contexts(quick: bool) -> list[dict[str, Any]]:
    """Set-up and time per token apart, from a short and a long run of the same graph."""
    from hwsim import simulate

    rows = []
    for contexts in (104, 1000, 10_000, 30_000):
        timed = []
        for tokens in (2_000_000, 20_000_000 if quick else 80_000_000):
            graph = pipelines(contexts, tokens)
            seconds, profile = best_seconds(lambda g=graph: simulate(g), 2 if quick else 3)  # type: ignore[misc]
            timed.append((seconds, profile.tokens))
        each = (timed[1][0] - timed[0][0]) / (timed[1][1] - timed[0][1])
        rows.append(
            {
                "question": "contexts",
                "contexts": len(graph.contexts),
                "tokens": timed[1][1],
                "ns_per_token": each * 1e9,
                "setup_microseconds_per_context": (timed[0][0] - each * timed[0][1]) / len(graph.contexts) * 1e6,
            }
        )
    return rows


def by_threads(quick: bool) -> dict[str, Any]:
    from golden_graphs import golden_graph  # type: ignore[import-not-found]  # in tests/hwsim

    from hwsim import simulate

    graph, _ = golden_graph("ijk", "s500", 1024)
    repeats = 2 if quick else 5
    one, profile = best_seconds(lambda: simulate(graph), repeats)
    with ThreadPoolExecutor(2) as pool:
        two, _ = best_seconds(lambda: list(pool.map(simulate, [graph, graph])), repeats)
    return {"question": "threads", "tokens": profile.tokens, "throughput_ratio": 2 * one / two}


def small() -> dict[str, Any]:
    from golden_graphs import golden_graph

    from hwsim import simulate

    graph, _ = golden_graph("ikj", "s20x30x25", 64)
    seconds, profile = best_seconds(lambda: simulate(graph), 50)
    return {"question": "small", "tokens": profile.tokens, "milliseconds": seconds * 1e3}


def peak_bytes(graph_name: str, data: str, depth: int | None) -> int:
    """Peak memory that simulating the golden graph adds to a process that has built it (Linux)."""
    from golden_graphs import golden_graph

    from hwsim import simulate

    graph, _ = golden_graph(graph_name, data, depth)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    before = _status("VmRSS")
    simulate(graph)
    return _status("VmHWM") - before


def _status(field: str) -> int:
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(field))
    return int(line.split()[1]) * 1024


def memory(quick: bool) -> list[dict[str, Any]]:
    name, rows = ("ikj" if quick else "ijk"), []
    for depth in (1024, None):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            peak = pool.submit(peak_bytes, name, "s1000", depth).result()
        rows.append({"question": "memory", "graph": name, "fifo_depth": depth, "peak_bytes_beyond": peak})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = [*by_contexts(options.quick), by_threads(options.quick), small(), *memory(options.quick)]
    sizes = [r["ns_per_token"] for r in rows if r["question"] == "contexts"]
    summary = {
        "time_ratio_largest_to_smallest": sizes[-1] / sizes[0],
        "thread_throughput_ratio": next(r["throughput_ratio"] for r in rows if r["question"] == "threads"),
        "small_graph_milliseconds": next(r["milliseconds"] for r in rows if r["question"] == "small"),
        "peak_megabytes_beyond": {
            str(r["fifo_depth"]): r["peak_bytes_beyond"] / 1e6 for r in rows if r["question"] == "memory"
        },
    }
    for row in rows:
        print("  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()))
    print(json.dumps(summary, indent=2))
    if options.json:
        options.json.write_text(json.dumps({"summary": summary, "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
