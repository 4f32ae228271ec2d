"""wiki-Vote squared on an ExTensor-like machine: our estimate and simulation beside published cycle counts.

    python benchmarks/extensor.py [--quick] [--json FILE]

The preset ``extensor`` (sources of its figures in ``mapper/machines/extensor.yaml``) has no level between DRAM and the
buffers of its lanes. So two things are shown: the time that DRAM needs for the published tiles of the shared 30 MB
buffer (TeAAL's specification: M1, K1, N1 of 12, 64, 128 micro-tiles of 128, order N2, K2, M2, results as 64-bit
coordinates and values), and whole runs on 128 lanes that all load for themselves. ``--quick``: nothing is simulated, no
list of mappings.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from model_cases import cases
from tilings import LANES, Row

PUBLISHED = {"reported": 681_000, "Sparseloop": 767_977, "TeAAL": 616_754}
"""Cycles of wiki-Vote squared on ExTensor, as in the artifact of TeAAL (MICRO 2023)."""

SHARED_BUFFER, SHARED_TILES = 30 << 20, {"i": 1536, "k": 8192, "j": 16384}
"""Of ExTensor, as in TeAAL's specification of wiki-Vote: 12 x 64 x 128 micro-tiles of 128."""

GRIDS = ((128, 1), (64, 2), (32, 4), (16, 8), (8, 16))
"""Lanes over rows and columns of the result."""

MOST_TOKENS = 400_000_000


def published(machine: Any, quick: bool) -> list[Row]:
    """wiki-Vote squared: DRAM time of the published tiles; of two lists of mappings on 128 lanes, tiles of 128 over
    rows as published and others, the one that the model finds fastest. Simulated unless ``quick``."""
    from costmodel import Statistics, estimate, screen
    from mapper.canonical import plain
    from mapper.legality import violations

    workload = next(c.workload for c in cases(False) if (c.kernel, c.data) == ("SpMSpM", "wiki-Vote"))
    statistics = Statistics()
    rows, fastest = [_shared(workload, machine, statistics, quick)], dict[str, tuple[float, Row, Any]]()
    for label, mapping in extensor_mappings(workload, machine, statistics, quick):
        if violations(workload, mapping, machine) or screen(workload, mapping, machine, statistics):
            continue
        guess = estimate(workload, mapping, machine, statistics=statistics)
        if guess.tokens <= MOST_TOKENS and guess.latency_cycles < fastest.get(label, (math.inf,))[0]:
            row = {
                "question": "extensor", "list": label, "loops": plain(mapping.loops[0]),
                "residency": mapping.residency, "estimated_cycles": guess.latency_cycles,
                "estimated_bytes": guess.traffic_bytes, "limit": guess.bottleneck,
            }  # fmt: skip
            fastest[label] = (guess.latency_cycles, row, mapping)
    for _, row, mapping in fastest.values():
        if not quick:
            result = _run(workload, mapping, machine)
            row |= {"simulated_cycles": result.latency_cycles, "simulated_bytes": result.traffic_bytes}
        rows.append(row)
    return rows


def _shared(workload: Any, machine: Any, statistics: Any, quick: bool) -> Row:
    """Bytes over bandwidth of the published tiles in one buffer for all; partial results stay in it, so they are not
    written twice."""
    from dataclasses import replace

    from costmodel import predict_traffic
    from costmodel.tile_search import Frame
    from mapper.canonical import plain
    from mapper.formats import parse_format

    machine = machine.with_fields(buffer_bytes=SHARED_BUFFER // 2, accumulator_bytes=None)
    frame = Frame(workload, machine, ("i", "k", "j"), ("j", "k", "i"), statistics=statistics)
    mapping = frame.mapping(tuple(SHARED_TILES[i] for i in frame.tiles))
    kinds = {**dict(mapping.formats), "Z": parse_format("coo", 2).kinds}
    mapping = replace(mapping, formats=tuple(sorted(kinds.items())))
    moved = sum(t.bytes for t in predict_traffic(workload, mapping, machine, statistics=statistics))
    row = {
        "question": "extensor", "list": "DRAM time of the published tiles", "loops": plain(mapping.loops[0]),
        "residency": mapping.residency, "estimated_cycles": moved / machine.bytes_per_cycle, "estimated_bytes": moved,
        "limit": "memory bandwidth",
    }  # fmt: skip
    if not quick:
        counted = _run(workload, mapping, machine).traffic_bytes
        row |= {"simulated_cycles": round(counted / machine.bytes_per_cycle), "simulated_bytes": counted}
    return row


def _run(workload: Any, mapping: Any, machine: Any) -> Any:
    from hwsim import Limits
    from tuner.evaluate import evaluate

    result = evaluate(workload, mapping, machine, Limits(max_tokens=4 * MOST_TOKENS))
    if result.failure is not None:
        raise SystemExit(f"simulation failed: {result.failure}")
    return result


def extensor_mappings(workload: Any, machine: Any, statistics: Any, quick: bool) -> Iterator[tuple[str, Any]]:
    """(list, mapping) with lanes over rows and columns of the result."""
    from dataclasses import replace

    from costmodel.tile_search import Frame

    def mapped(
        inner: tuple[str, ...], tiles: tuple[str, ...], sides: dict[str, int], residency: str, lanes: tuple[int, int]
    ) -> Any:
        frame = Frame(workload, machine, inner, tiles, residency, statistics=statistics)
        mapping = frame.mapping(tuple(min(sides[i], e) for i, e in zip(tiles, frame.extents, strict=True)))
        loops, extents = mapping.loops[0], workload.extents[0]
        count = ((i, min(n, loops.steps(i, extents[i]))) for i, n in zip("ij", lanes, strict=True))
        own = tuple((i, n, "balanced") for i, n in count if n > 1)
        return replace(mapping, loops=(replace(loops, parallel=own),))

    for inner in (("i", "j", "k"), ("i", "k", "j")):
        yield "tiles of 128", mapped(inner, ("i", "j", "k"), dict.fromkeys("ijk", 128), "lru", (LANES, 1))
    if not quick:
        orders = ("i", "j", "k"), ("j", "i", "k"), ("j", "k", "i")
        for tiles, residency, lanes in itertools.product(orders, ("lru", "keep"), GRIDS):
            for sides in itertools.product((16, 64, 128), (256, 1024), (32, 128, 512)):
                by_index = dict(zip("ijk", sides, strict=True))
                yield "fastest by the model", mapped(("i", "k", "j"), tiles, by_index, residency, lanes)


def print_rows(rows: list[Row]) -> None:
    """Ours beside the published counts."""
    print("published: " + ", ".join(f"{name} {cycles:,}" for name, cycles in PUBLISHED.items()))
    for row in rows:
        ran = f", simulated {row['simulated_cycles']:,}" if row.get("simulated_cycles") else ""
        tiles = " ".join(f"{i}/{t}" for i, t in row["loops"]["tiles"])
        lanes = " x ".join(str(n) for _, n, _ in row["loops"]["parallel"]) or "1"
        print(f"{row['list']} ({tiles}; {row['residency']}; lanes {lanes}): estimated {row['estimated_cycles']:,.0f} "
              f"cycles{ran}, {row['estimated_bytes'] / 1e6:.1f} MB; limited by {row['limit']}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="nothing simulated, no list")
    parser.add_argument("--json", type=Path, help="file for summary and rows")
    options = parser.parse_args()

    from mapper.machine import load_machine

    started = time.perf_counter()
    rows = published(load_machine("extensor"), options.quick)
    print_rows(rows)
    summary = {"published": PUBLISHED, "seconds": time.perf_counter() - started}
    if options.json:
        options.json.write_text(json.dumps({"summary": summary, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
