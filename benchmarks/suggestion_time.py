"""How long one suggestion takes: a space of 20 million points with a constraint, a tenth of the points failing.

    python benchmarks/suggestion_time.py [--json FILE]

Seconds of the processor and of the wall per suggestion, for 60 and 500 observations of one, two and three objectives.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

REPEATS = 5


def space() -> Any:
    """20,412,000 legal points."""
    from tuner import Categorical, Integer, Ordinal, ParameterSpace, Permutation

    powers = [2**n for n in range(11)]
    return ParameterSpace(
        [Ordinal("chunk", powers[1:], log=True), Ordinal("unroll", powers[1:], log=True),
         Ordinal("omp", powers[:9], log=True), Ordinal("threads", powers[:7], log=True), Categorical("sched", (0, 1)),
         Permutation("order", 5), Integer("k", 0, 9), Categorical("mode", ("a", "b", "c"))],
        ["unroll < chunk"],
    )  # fmt: skip


def outcomes(point: dict[str, Any]) -> list[float] | None:
    if point["chunk"] * point["threads"] > 8192:
        return None
    c, u, t = (math.log2(point[n]) for n in ("chunk", "unroll", "threads"))
    seconds = 2 + abs(c - 6) + 0.5 * abs(u - 3) + abs(t - 4) + 0.3 * abs(point["k"] - 4) + point["order"].index(2)
    return [seconds, point["threads"] + c, 1 + point["k"] + point["order"].index(0)]


def measure(objectives: int, observations: int) -> dict[str, Any]:
    from tuner import Optimizer

    tuner = Optimizer(space(), objectives=["a", "b", "c"][:objectives])
    for codes in tuner.space.sample(np.random.default_rng(0), observations):
        point = tuner.space.point(codes)
        found = outcomes(point)
        tuner.tell(point, found and found[:objectives], failure=None if found else "too large")
    tuner.ask()  # the libraries behind it
    wall, processor = time.perf_counter(), time.process_time()
    for _ in range(REPEATS):
        tuner.ask()
    return {
        "objectives": objectives,
        "observations": observations,
        "processor_seconds": (time.process_time() - processor) / REPEATS,
        "wall_seconds": (time.perf_counter() - wall) / REPEATS,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = [measure(objectives, n) for objectives in (1, 2, 3) for n in (60, 500)]
    print(f"{'objectives':>10}{'observations':>14}{'processor s':>13}{'wall s':>8}")
    for row in rows:
        print(
            f"{row['objectives']:>10}{row['observations']:>14}{row['processor_seconds']:>13.3f}{row['wall_seconds']:>8.3f}"
        )
    if given.json:
        given.json.write_text(json.dumps({"summary": rows, "rows": rows}))


if __name__ == "__main__":
    main()
