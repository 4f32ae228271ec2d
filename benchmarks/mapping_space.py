"""How long it takes to lower a whole model, to draw mappings of its space, and to count its orders.

* lowering: the graph of the decoder's longest region, from a mapping to contexts and channels;
* sampling: legal mappings of the two-layer GCN on Cora, drawn uniformly, on ``comal`` and on ``rda``, where FIFOs are
  finite and refuse many loops; the space is set up before the clock runs;
* orders: the loop orders of the GCN fused whole, all of them counted, and of the single regions.

    python benchmarks/mapping_space.py [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from fusion import DECODER, decoder_tensors, mapping_of, row_major

from mapper.lowering import lower_region
from mapper.machine import load_machine
from mapper.mapping import Mapping
from mapper.notation import parse_program
from mapper.schedule import Region, schedule
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.storage import Layout, Storage
from mapper.workload import Workload
from studies.inputs import load_workload
from studies.spec import load_spec
from tuner.evaluate import StorageCache

SAMPLES = 10_000


def lowering(scale: int) -> dict[str, Any]:
    """The decoder without attention in one region; its tensors are stored before the clock runs."""
    workload, machine = Workload(parse_program(DECODER), decoder_tensors(scale)), load_machine("comal")
    limits = SpaceLimits(variants=("",), fuse={"O": False}, fuse_others=True)
    (fusion,) = MappingSpace(workload, machine, limits).fusions
    mapping = mapping_of(workload, fusion, row_major(fusion), "")
    region = max(schedule(workload.program, mapping).regions, key=lambda region: len(region.statements))
    cache = StorageCache()

    def stored(tensor: str, layout: Layout) -> Storage:
        return cache.get(workload.tensor(tensor), layout, machine)

    first, seconds = (_lowered(workload, mapping, region, stored) for _ in range(2))
    return {
        "measure": "lowering", "of": f"{len(region.statements)} statements of a decoder", "contexts": seconds[1],
        "first_seconds": first[0], "seconds": seconds[0], "target_seconds": 1.0,
    }  # fmt: skip


def _lowered(workload: Workload, mapping: Mapping, region: Region, stored: Any) -> tuple[float, int]:
    start = time.perf_counter()
    graph = lower_region(workload, mapping, load_machine("comal"), region, stored)
    return time.perf_counter() - start, len(graph.contexts)


def sampling(workload: Workload, machine: str, count: int) -> dict[str, Any]:
    start = time.perf_counter()
    space = MappingSpace(workload, load_machine(machine))
    size = space.size()
    made = time.perf_counter()
    rng = np.random.default_rng(0)
    drawn = [space.sample(rng) for _ in range(count)]
    seconds = time.perf_counter() - made
    return {
        "measure": "sampling", "of": f"GCN on {machine}", "mappings": float(size), "samples": count,
        "distinct": len({mapping.key for mapping in drawn}), "setup_seconds": made - start, "seconds": seconds,
        "seconds_per_10000": seconds / count * 10_000, "target_seconds": 5.0,
    }  # fmt: skip


def orders(workload: Workload) -> list[dict[str, Any]]:
    """Exact counts: orders that differ in no statement count once."""
    rows = []
    for label in ("", "recompute H"):
        start = time.perf_counter()
        limits = SpaceLimits(variants=(label,), fuse_others=True)
        space = MappingSpace(workload, load_machine("comal"), limits)
        fusions = list(space.fusions)
        regions = [(region.label, region.order_count) for fusion in fusions for region in fusion.regions]
        seconds = time.perf_counter() - start
        rows.append(
            {"measure": "orders", "of": label or "as written", "regions": regions, "seconds": seconds,
             "orders": sum(fusion.order_count for fusion in fusions), "target_seconds": 10.0}
        )  # fmt: skip
    start = time.perf_counter()
    space = MappingSpace(
        workload, load_machine("comal"), SpaceLimits(rewrites=("products", "recompute", "activations"))
    )
    total = sum(fusion.order_count for fusion in space.fusions)
    rows.append({"measure": "orders", "of": "every rewriting and cut listed", "fusions": len(space.fusions),
                 "orders": total, "seconds": time.perf_counter() - start})  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples, a smaller decoder")
    parser.add_argument("--json", type=Path, help="file for the rows")
    options = parser.parse_args()

    workload = load_workload(load_spec(ROOT / "examples" / "gcn_cora.yaml"))
    rows = [lowering(8 if options.quick else 2)]
    rows += [sampling(workload, machine, SAMPLES // (10 if options.quick else 1)) for machine in ("comal", "rda")]
    rows += orders(workload)  # last: the garbage collector would walk what they list during the others
    for row in rows:
        print("  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()))
    if options.json:
        summary = {f"{row['measure']}, {row['of']}, seconds": row["seconds"] for row in rows}
        options.json.write_text(json.dumps({"summary": summary, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
