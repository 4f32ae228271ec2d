"""How fast the cost model is, in seconds of one core's time.

    python benchmarks/model_speed.py [--quick] [--json FILE]

* ``statistics``: profile of a matrix of 1,000,000 entries: tile pyramid, entries per slice, fibers, prefixes.
* ``first``: estimate of a random mapping of A * A at a tile shape not seen before, wiki-Vote, the result known.
* ``variant``: the same tile shape on a machine with other FIFOs, so that all but counts is computed anew.
* ``again``: the same estimate once more, as searches ask for it.
* ``thousand``: 1,000 mappings whose estimates are known, at once.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np

from costmodel import Statistics, estimate, screen
from costmodel.tensor_profile import tensor_profile
from mapper.datasets import find_data, load_tensor
from mapper.machine import load_machine
from mapper.mapping import Mapping
from mapper.notation import parse_program
from mapper.residency import RESIDENCIES
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.synthetic import generate
from mapper.workload import Workload

LIMITS = {"statistics": 2.0, "first": 0.030, "again": 0.001, "thousand": 0.3}
"""Seconds that are aimed at."""

MACHINE = load_machine("rda")


def seconds(run: Callable[[], Any]) -> float:
    """CPU time of a call, which other processes do not lengthen."""
    started = time.process_time()
    run()
    return time.process_time() - started


def of_statistics() -> list[dict[str, Any]]:
    rows = []
    for kind, size in (("uniform", {"density": 1e-4}), ("power_law", {"nnz": 1_000_000})):
        tensor = generate(kind, seed=1, shape=(100_000, 100_000), **size)
        rows.append(
            {
                "question": "statistics", "what": kind, "entries": tensor.nnz,
                "seconds": seconds(lambda t=tensor: tensor_profile(Statistics().of(t))),  # type: ignore[misc]
            }
        )  # fmt: skip
    return rows


def of_estimates(count: int) -> list[dict[str, Any]]:
    a = load_tensor(find_data("wiki-Vote", None))
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), {"A": a, "B": a})
    space = MappingSpace(workload, MACHINE, SpaceLimits(residency=tuple(RESIDENCIES), variants=("",)))
    rng, shapes, rows, known = np.random.default_rng(0), set[Any](), list[dict[str, Any]](), list[Mapping]()
    statistics = Statistics()
    _ = workload.computed
    while len(known) < count:
        mapping = space.sample(rng)
        tiles = tuple(sorted(mapping.loops[0].tiles))
        if tiles in shapes or screen(workload, mapping, MACHINE, Statistics()):
            continue
        shapes.add(tiles)
        known.append(mapping)
        others = MACHINE.with_fields(fifo_depth=32)
        for question, machine in (("first", MACHINE), ("again", MACHINE), ("variant", others)):
            spent = seconds(lambda m=mapping, on=machine: estimate(workload, m, on, statistics=statistics))  # type: ignore[misc]
            rows.append({"question": question, "what": mapping.residency, "seconds": spent})
    thousand = [known[n % count] for n in range(1000)]
    spent = seconds(lambda: [estimate(workload, m, MACHINE, statistics=statistics) for m in thousand])
    return [*rows, {"question": "thousand", "what": "known", "seconds": spent}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = [*of_statistics(), *of_estimates(20 if options.quick else 100)]
    summary: dict[str, Any] = {}
    for question in dict.fromkeys(r["question"] for r in rows):
        spent = [r["seconds"] for r in rows if r["question"] == question]
        summary[question] = {
            "median_seconds": float(np.median(spent)), "quantile90_seconds": float(np.quantile(spent, 0.9)),
            "most_seconds": max(spent),
        }  # fmt: skip
        if question in LIMITS:
            limit = LIMITS[question]
            summary[question] |= {"limit_seconds": limit, "share_within": float(np.mean([s <= limit for s in spent]))}
    print(json.dumps(summary, indent=2))
    if options.json:
        options.json.write_text(json.dumps({"summary": summary, "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
