"""Tilings that the model chooses, against those of others; and the model's choice against an exhaustive list.

    python benchmarks/tilings.py [--quick] [--json FILE] [--question NAME] [--settings NAMES]

* ``tilings``: SpMSpM A * A (A times its transpose, or that times A, where A is not square) on all matrices, MTTKRP and
  TTM (rank 16) on all tensors of ``model_cases``, under two settings: ``extensor`` (buffers of 60 KiB per operand tile,
  an accumulator of 64 KiB, 64-bit values, 68 bytes per cycle) and ``sam``, the memory of SAM's tiling study (70,000
  bytes per tile, 16-bit values and coordinates, a dense tile of 128 x 128 of the result, same bandwidth); and under the
  five shared memories of that study, ``sam-1.1M`` to ``sam-17.1M``, where ``--settings`` names them. Every method
  has the same buffers and formats, one tile of an operand at a time (``residency: none``; Tailors: overbooked), and the
  better of two orders of tile loops. Ours is shown a second time with what Tailors has besides: recently used tiles may
  stay, and then all orders are searched. Counted is everything: loads, spilled partial results, results;
  beside it the loads of the same tilings alone. Time is modelled as the later of bytes at full bandwidth and one
  multiply per cycle in each of 128 lanes. DRT moves what an exact walk of its growing tiles counts. ``over_floor``:
  bytes over those that no tiling saves: what finds partners loaded and the result stored once, untiled. So much ours
  could gain at most.
* ``regret``: counted bytes of the shape that the model picks from a stated grid, and of the one that its search finds,
  over those of the grid's best.

With --json rows are also appended to FILE.rows as they come: a run that was stopped goes on where it was.

Published by D2T2 (MICRO 2025, abstract) on matrices that it does not name there: 2.54 times Tailors' speed, 1.13 times
less than DRT, 1.22 to 48.94 times less than conservative (SpMSpM), up to 34.31 times (TTM, MTTKRP).
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from model_cases import Case, cases

from mapper.tensor import SparseTensor

OURS, KEPT = "ours", "ours_lru"
"""Our tilings where no tile stays, and where recently used ones may."""

KERNELS = ("SpMSpM", "MTTKRP", "TTM")

RANK, LANES = 16, 128
SAM = {
    "sam": (70_000, 1),
    "sam-1.1M": (1_100_000, 4),
    "sam-1.8M": (1_800_000, 5),
    "sam-2.4M": (2_400_000, 6),
    "sam-4.3M": (4_300_000, 8),
    "sam-17.1M": (17_100_000, 16),
}
"""Memories of SAM's tiling study, the one next to the units and five shared ones: bytes, and the side of the dense tile
that one is for in units of 128."""
GRIDS = {
    3: (1, 8, 32, 128, 256, 512, 1024, 0),
    4: (1, 16, 128, 1024, 0),
    5: (1, 32, 512, 0),
    6: (1, 128, 0),
}
"""Extents of the exhaustive list per index, by the number of indices, 0: whole; at most 512 to 1024 shapes."""

Row = dict[str, Any]


def orders_of(kernel: str, indices: tuple[str, ...]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Order of the inner loops, and the two orders of tile loops that every method has."""
    if kernel == "SpMSpM":
        return ("i", "k", "j"), [("i", "k", "j"), ("i", "j", "k")]
    modes = tuple(i for i in indices if i != "r")
    return (*modes, "r"), [("r", *modes), (*modes, "r")]


def settings() -> dict[str, Any]:
    """Machines that tilings are compared on."""
    from mapper.machine import load_machine

    extensor = load_machine("extensor")
    narrow = extensor.with_fields(value_bytes=2, coordinate_bytes=2, pointer_bytes=2)
    return {
        "extensor": extensor,
        **{
            name: narrow.with_fields(buffer_bytes=buffer, accumulator_bytes=6 * (128 * side) ** 2)
            for name, (buffer, side) in SAM.items()
        },
    }


def compared(case: Case, setting: str, machine: Any) -> Row:
    """Bytes of every method."""
    from costmodel import Statistics
    from costmodel.baselines import BASELINES
    from costmodel.dynamic_tiling import dynamic_traffic
    from costmodel.tile_search import Frame, best_tiling, search_shape

    workload, kernel = case.workload, case.kernel
    inner, orders = orders_of(kernel, workload.program.statements[0].indices)
    frames = [Frame(workload, machine, inner, tiles, statistics=Statistics()) for tiles in orders]
    started, moved, loads = time.perf_counter(), dict[str, float](), dict[str, float]()
    shapes: Row = {}
    for method, tiling in BASELINES.items():
        for frame in frames:
            keep(moved, loads, shapes, method, tiling(frame), frame)
    searching = time.perf_counter()
    own = [(frame.mapping(search_shape(frame)), frame) for frame in frames]
    for mapping, frame in own:
        keep(moved, loads, shapes, OURS, mapping, frame)
    seconds = time.perf_counter() - searching
    for mapping, frame in own:
        keep(moved, loads, shapes, KEPT, mapping, frame)
    kept = best_tiling(workload, machine, order=inner, residency="lru", statistics=frames[0].statistics)
    keep(moved, loads, shapes, KEPT, kept, frames[0])
    if kernel == "SpMSpM":
        grown = dynamic_traffic(frames[0])
        moved["DRT"], loads["DRT"] = grown.bytes, grown.loads_bytes
    floor = workload.effectual_multiplies / LANES
    cycles = {method: max(b / machine.bytes_per_cycle, floor) for method, b in moved.items()}
    return {
        "question": "tilings", "setting": setting, "data": case.data, "kernel": kernel, "bytes": moved,
        "floor_bytes": floor_bytes(frames[0]), "load_bytes": loads, "cycles": cycles, "tiles": shapes,
        "search_seconds": seconds, "seconds": time.perf_counter() - started,
    }  # fmt: skip


def floor_bytes(frame: Any) -> float:
    """What no tiling saves: of each operand what finds partners loaded, and the result stored, once, untiled, in
    buffers without limit. More tiles have no fewer nodes at any level."""
    from costmodel import predict_traffic
    from mapper.formats import DENSE
    from mapper.workload import Workload

    workload, untiled = frame.workload, frame.mapping(frame.extents)
    operands, tensors = workload.program.statements[0].operands, dict(workload.tensors)
    dense = dict[str, float]()  # shares of what is found by its place
    for own in operands:
        tensor = workload.tensors[own.tensor]
        met = np.ones(tensor.nnz, bool)
        for other in operands:
            for index in set(own.indices) & set(other.indices):
                theirs = workload.tensors[other.tensor].coords[other.indices.index(index)]
                met &= np.isin(tensor.coords[own.indices.index(index)], theirs)
        if DENSE in untiled.kinds(own.tensor):
            dense[own.tensor] = float(met.mean())
        else:
            tensors[own.tensor] = SparseTensor(tensor.shape, tensor.coords[:, met], tensor.values[met])
    unbounded = frame.machine.with_fields(buffer_bytes=1 << 60, accumulator_bytes=1 << 60)
    found = predict_traffic(Workload(workload.program, tensors), untiled, unbounded, statistics=frame.statistics)
    return sum(t.bytes * dense.get(t.tensor, 1.0) for t in found)


def keep(moved: dict[str, float], loads: dict[str, float], shapes: Row, method: str, mapping: Any, frame: Any) -> None:
    """Notes a method's mapping if it is its best so far."""
    from costmodel import predict_traffic

    found = predict_traffic(frame.workload, mapping, frame.machine, statistics=frame.statistics)
    total = sum(t.bytes for t in found)
    if total < moved.get(method, math.inf):
        moved[method], shapes[method] = total, dict(mapping.loops[0].tiles)
        loads[method] = sum(t.bytes for t in found if t.purpose == "load")


def regret(case: Case, machine: Any) -> Row:
    """What the model chooses, of the grid and by search, against the grid's best, all counted. Loads and stores are
    exact, so that shapes whose loads and stores alone exceed the best count need not be counted."""
    from costmodel import Statistics, predict_traffic
    from costmodel.exact import count_traffic
    from costmodel.tile_search import Frame, search_shape

    workload = case.workload
    inner, orders = orders_of(case.kernel, workload.program.statements[0].indices)
    frame = Frame(workload, machine, inner, orders[1], statistics=Statistics())
    sides = [sorted({min(g or e, e) for g in GRIDS[len(inner)]}) for e in frame.extents]
    grid = [shape for shape in itertools.product(*sides) if frame.fits(shape)]
    counted: dict[tuple[int, ...], float] = {}

    def count(shape: tuple[int, ...]) -> float:
        if shape not in counted:
            counted[shape] = sum(t.bytes for t in count_traffic(workload, frame.mapping(shape), machine))
        return counted[shape]

    predicted, least = dict[tuple[int, ...], float](), dict[tuple[int, ...], float]()
    for shape in grid:
        found = predict_traffic(workload, frame.mapping(shape), machine, statistics=frame.statistics)
        predicted[shape] = sum(t.bytes for t in found)
        least[shape] = sum(t.bytes for t in found if t.purpose != "spill")
    picked = min(grid, key=lambda s: (predicted[s], s))
    best = picked
    for shape in sorted(grid, key=lambda s: (least[s], s)):
        if least[shape] >= count(best):
            break
        best = min(best, shape, key=lambda s: (count(s), s))
    searched = search_shape(frame)
    return {
        "question": "regret", "data": case.data, "kernel": case.kernel, "points": math.prod(map(len, sides)),
        "fitting": len(grid), "counted": len(counted), "best": best, "picked": picked, "searched": searched,
        "best_bytes": count(best),
        "regret": count(picked) / count(best), "searched_over_best": count(searched) / count(best),
    }  # fmt: skip


def spread(ratios: list[float]) -> Row:
    """Means and range of ratios."""
    return {
        "geomean": float(np.exp(np.log(ratios).mean())), "mean": float(np.mean(ratios)),
        "least": min(ratios), "most": max(ratios), "sets": len(ratios),
    }  # fmt: skip


def summarize(rows: list[Row]) -> Row:
    """Geometric means and ranges of others over ours."""
    summary: Row = {}
    compared = [r for r in rows if r["question"] == "tilings"]
    for setting, kernel in dict.fromkeys((r["setting"], r["kernel"]) for r in compared):
        own = [r for r in compared if (r["setting"], r["kernel"]) == (setting, kernel)]
        methods = dict.fromkeys(m for r in own for m in r["bytes"])
        for mine, method in itertools.product((m for m in (OURS, KEPT) if m in methods), methods):
            for measure in ("bytes", "load_bytes", "cycles") if mine != method else ():
                ratios = [r[measure][method] / r[measure][mine] for r in own if method in r[measure]]
                summary[f"{setting}_{kernel}_{method}_over_{mine}_{measure}"] = spread(ratios)
        for method in methods:
            ratios = [r["bytes"][method] / r["floor_bytes"] for r in own if method in r["bytes"]]
            summary[f"{setting}_{kernel}_{method}_over_floor"] = spread(ratios)
    asked = [r for r in rows if r["question"] == "regret"]
    for kernel in dict.fromkeys(r["kernel"] for r in asked):
        for measure in ("regret", "searched_over_best"):
            found = [r[measure] for r in asked if r["kernel"] == kernel]
            mean = float(np.exp(np.log(found).mean()))
            summary[f"{kernel}_{measure}"] = {"geomean": mean, "worst": max(found), "sets": len(found)}
    return summary


def print_rows(rows: list[Row], summary: Row) -> None:
    methods = ("conservative", "prescient", "overbooked", "uniform", "DRT", KEPT)
    print(
        f"{'setting':<10}{'data':<40}{'kernel':<8}{'ours MB':>10}"
        + "".join(f"{m:>14}" for m in methods)
        + "   tiles of ours"
    )
    for row in (r for r in rows if r["question"] == "tilings"):
        ratios = [row["bytes"].get(m, math.nan) / row["bytes"][OURS] for m in methods]
        own = " ".join(f"{i}/{t}" for i, t in row["tiles"][OURS].items())
        print(f"{row['setting']:<10}{row['data'][:39]:<40}{row['kernel']:<8}{row['bytes']['ours'] / 1e6:>10.2f}"
              + "".join(f"{x:>13.2f}x" for x in ratios) + f"   {own}")  # fmt: skip
    for name, found in summary.items():
        if name.endswith("over_floor") or ("over_ours" in name and not name.endswith("cycles")):
            ends = f"{found['least']:.2f} to {found['most']:.2f}"
            print(f"{name:<50} {found['geomean']:>7.2f}x ({ends}), {found['sets']} sets")
    print("published: Tailors 2.54x (time), DRT 1.13x (bytes), conservative up to 48.9x (SpMSpM), 34.3x (TTM, MTTKRP)")
    for row in (r for r in rows if r["question"] == "regret"):
        name = f"{row['kernel']:<8}{row['data'][:39]:<40}"
        print(f"regret {name} {row['regret']:.4f} of {row['points']} points, {row['fitting']} fit, "
              f"{row['counted']} counted; searched {row['searched_over_best']:.4f}")  # fmt: skip
    for measure in (m for m in summary if m.endswith(("_regret", "_searched_over_best"))):
        print(f"{measure}: geometric mean {summary[measure]['geomean']:.4f}, worst {summary[measure]['worst']:.4f}")


def tasks(quick: bool, question: str | None, names: list[str]) -> Iterator[tuple[str, Callable[[], Row]]]:
    """(name, what makes its row) of everything that is asked."""
    machines = settings()
    kernels = [case for case in cases(quick) if case.kernel in KERNELS]
    if question in (None, "tilings"):
        for case in kernels:
            own = replace(case, columns=RANK)
            for setting in names:
                yield f"{setting} {case.kernel} {case.data}", partial(compared, own, setting, machines[setting])
    if question in (None, "regret"):
        for case in kernels[-3:] if quick else kernels:
            own = replace(case, columns=RANK)
            yield f"regret {case.kernel} {case.data}", partial(regret, own, machines["extensor"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sets")
    parser.add_argument("--json", type=Path, help="file for summary and rows")
    parser.add_argument("--question", choices=("tilings", "regret"), help="this alone")
    parser.add_argument(
        "--settings", nargs="+", choices=["extensor", *SAM], default=["extensor", "sam"], help="machines of tilings"
    )
    options = parser.parse_args()

    started, kept = time.perf_counter(), options.json and options.json.with_suffix(options.json.suffix + ".rows")
    rows: list[Row] = [json.loads(line) for line in kept.read_text().splitlines()] if kept and kept.exists() else []
    done = {row["task"] for row in rows}
    for name, run in tasks(options.quick, options.question, options.settings):
        if name in done:
            continue
        begun = time.perf_counter()
        rows.append({"task": name, **run()})
        print(f"{name}: {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
        if kept:
            with kept.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    summary = summarize(rows) | {"seconds": time.perf_counter() - started}
    print_rows(rows, summary)
    print(f"{summary['seconds']:.0f} s")
    if options.json:
        options.json.write_text(json.dumps({"summary": summary, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
