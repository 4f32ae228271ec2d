"""Random graphs on which the compiled simulator must agree with a plain-Python one and with the oracle.

Every graph runs three times: compiled, compiled in a shuffled host order, and plainly. Cycles, tokens, traffic, outputs
and the time budget of every context must be equal, values of lowered programs the oracle's. Prints the distribution of
the graphs; ends with status 1 if a graph disagrees, crashes or hangs, or the distribution is too narrow.

    python benchmarks/random_graphs.py [--quick] [--count 10000] [--first 0] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "hwsim")]

REQUIRED_SHARES = {"share_with_reconvergent_fork": 0.5, "share_deadlocking": 0.1}


def measure(first: int, count: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The distribution over all graphs, and a row per graph."""
    from random_graphs import distribution, random_case, run_case  # type: ignore[import-not-found]  # in tests/hwsim

    outcomes, crashes, start = [], [], time.perf_counter()
    for seed in range(first, first + count):
        try:
            outcomes.append(run_case(random_case(seed)))
        except Exception as error:
            crashes.append({"seed": seed, "status": "crash", "faults": [f"{type(error).__name__}: {error}"]})
    summary = distribution(outcomes) | {"crashes": len(crashes), "seconds": round(time.perf_counter() - start, 1)}
    rows = [
        {
            "seed": o.seed, "status": o.status, "contexts": o.contexts, "tokens": o.tokens, "cycles": o.cycles,
            "lowered": o.lowered, "reconvergent": o.reconvergent, "dram": o.dram, "faults": list(o.faults),
        }
        for o in outcomes
    ]  # fmt: skip
    return summary, [*rows, *crashes]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="500 graphs")
    parser.add_argument("--count", type=int, default=10_000, help="number of graphs")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--json", type=Path, help="also write summary and rows there")
    arguments = parser.parse_args()
    summary, rows = measure(arguments.first, 500 if arguments.quick else arguments.count)
    for name, figure in summary.items():
        print(f"{name:36} {figure}")
    faulty = [row for row in rows if row["faults"]]
    for row in faulty:
        print(f"\nseed {row['seed']}:", *row["faults"], sep="\n  ")
    if arguments.json:
        arguments.json.write_text(json.dumps({"summary": summary, "rows": rows}, indent=1) + "\n")
    narrow = [f"{name} is below {least}" for name, least in REQUIRED_SHARES.items() if summary[name] < least]
    if faulty or narrow:
        raise SystemExit("\n" + "; ".join([f"{len(faulty)} graphs disagree or crash"] * bool(faulty) + narrow))


if __name__ == "__main__":
    main()
