"""What the search finds for the GCN on Cora, beside FuseFlow's three fusions made by hand, on one machine (``rda``).

By hand: nothing fused, each layer fused, everything fused; row-major orders, row-dense compressed formats. Their tiles,
lanes and residency are not left to luck: descents over the model tune them, and every end is simulated. The search is
``examples/gcn_cora.yaml`` as it stands. All use the units of the same machine, so the same area.

    python benchmarks/hand_made.py [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import numpy as np
import sqlalchemy as sa
from fusion import row_major

from hwsim import Limits
from mapper.errors import EmptySpace
from mapper.formats import default_formats
from mapper.regions import stored_tensors
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from studies.frames import best
from studies.spec import load_spec
from tuner.descent import Descent, Recorder
from tuner.problem import Problem, load_problem
from tuner.session import open_session, run_session
from tuner.work import DescentSettings, Worker

BY_HAND: dict[str, tuple[tuple[str, ...] | None, str]] = {
    "unfused": (None, ""), "partial": (("H",), ""), "full": ((), "recompute H")
}  # fmt: skip
"""Tensors that are stored between fused statements (None: all are), and the rewriting without which it is no fusion."""


def by_hand(problem: Problem, name: str, descents: int) -> dict[str, Any]:
    """The best simulated of the tuned versions of one fusion; ``failure`` says why there is none."""
    start, (cut, variant) = time.perf_counter(), BY_HAND[name]
    fuse = {} if cut is None else dict.fromkeys(cut, False)
    limits = SpaceLimits(variants=(variant,), fuse=fuse, fuse_others=cut is not None, max_lanes=4)
    workload = problem.workload.variant(variant)
    (fusion,) = MappingSpace(problem.workload, problem.spec.machine, limits).fusions
    orders = zip(fusion.program.statements, row_major(fusion), strict=True)
    formats = {t: default_formats(d.ndim, d.density)[:1] for t in stored_tensors(workload.program, fusion.cuts)
               for d in (workload.tensor(t),)}  # fmt: skip
    limits = dataclasses.replace(limits, orders={s.target.tensor: (order,) for s, order in orders}, formats=formats)
    space = MappingSpace(problem.workload, problem.spec.machine, limits)
    worker, settings = Worker(space, "mean"), DescentSettings(("latency_cycles",), (), problem.spec.limits.tokens)
    found: dict[str, dict[str, Any]] = {}
    reason = "no legal mapping"
    for seed in range(descents):
        try:
            params = worker.descend(Descent((), (1.0,), seed), settings)
            mapping = space.choose(Recorder(params, np.random.default_rng(seed)))
        except EmptySpace as error:
            reason = str(error)
            break
        if worker.estimate(mapping).verdicts:
            reason = "; ".join(f"{v.rule} {v.where}: {v.measured}" for v in worker.estimate(mapping).verdicts)
            continue
        run = worker.simulate(mapping, Limits(max_tokens=problem.spec.limits.tokens))
        reason = run.failure or reason
        if run.failure is None:
            found[mapping.key] = {"latency_cycles": run.values["latency_cycles"], **run.values}
    winner = min(found.values(), key=lambda row: row["latency_cycles"], default=None)
    return {"choice": name, "regions": len(fusion.regions), "simulated": len(found),
            **(winner or {"failure": reason}), "seconds": time.perf_counter() - start}  # fmt: skip


def searched(problem: Problem) -> dict[str, Any]:
    """The best latency of the example's study, run anew."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        spec = dataclasses.replace(problem.spec, storage=sa.URL.create("sqlite", database=f"{folder}/studies.db"))
        session = open_session(dataclasses.replace(problem, spec=spec))
        run_session(session, spec.search.workers, show=False)
        contents = session.store.load(session.study.name)
        session.store.close()
    row = best(contents, "latency_cycles")
    assert row is not None and row.values is not None and row.mapping is not None
    simulated = [t for t in contents.trials if t.state in ("simulated", "failed")]
    return {"choice": "searched", "variant": row.mapping["variant"], "simulated": len(simulated), **row.values,
            "failed": sum(t.state == "failed" for t in simulated), "seconds": time.perf_counter() - start}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two descents by hand instead of eight, 16 simulations")
    parser.add_argument("--json", type=Path, help="file for the rows")
    options = parser.parse_args()

    problem = load_problem(load_spec(ROOT / "examples" / "gcn_cora.yaml"))
    if options.quick:
        search = dataclasses.replace(problem.spec.search, simulations=16)
        problem = dataclasses.replace(problem, spec=dataclasses.replace(problem.spec, search=search))
    rows = []
    for name in (*BY_HAND, "searched"):
        rows.append(by_hand(problem, name, 2 if options.quick else 8) if name in BY_HAND else searched(problem))
        print(
            "  ".join(f"{k} {v:,.0f}" if isinstance(v, float) else f"{k} {v}" for k, v in rows[-1].items()), flush=True
        )
    made = [row["latency_cycles"] for row in rows[:-1] if "latency_cycles" in row]
    summary = {"by_hand_latency_cycles": min(made, default=None), "searched_latency_cycles": rows[-1]["latency_cycles"]}
    summary["times_faster"] = min(made) / rows[-1]["latency_cycles"] if made else None
    print(summary)
    if options.json:
        options.json.write_text(json.dumps({"summary": summary, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
