"""How good are the points that a handful of evaluations finds: this package, its ablations and rivals.

Protocol: 20 seeds, budgets of 20, 40 and 60 evaluations; every tool starts from the same uniform legal points; failed
evaluations count. A run without a success yet stands at the time of the first point of the space that succeeds. Per
space, tool and budget: the mean over seeds of the best time so far; over spaces: the geometric mean of (rival's /
ours), with a 95 % interval from drawing seeds again with replacement, the same for both tools. ``to 5 %``: evaluations
until within 5 % of the least time of the whole space, the budget plus one for runs that never are.

    python benchmarks/search_quality.py [--quick] [--ablations] [--tools ours tpe] [--rows FILE] [--json FILE]

``--rows FILE`` keeps finished runs, one JSON object per line, and skips those that are there: a run may be interrupted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from published_spaces import SIZES, Instance, instances
from rivals import ABLATIONS, STARTING, tools

BUDGETS = (20, 40, 60)
SETTLED = 15
"""Evaluations after which failures are counted."""
RESAMPLES = 2000

Floats = npt.NDArray[np.float64]
Row = dict[str, Any]


def finished(path: Path | None) -> list[Row]:
    """Runs kept in ``path``; a last line cut short by an interruption is dropped."""
    rows: list[Row] = []
    for line in path.read_text().splitlines() if path and path.exists() else ():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows


def run_all(spaces: Sequence[Instance], names: Sequence[str], seeds: int, path: Path | None) -> list[Row]:
    """Every tool on every space with every seed."""
    every = {**tools()[0], **ABLATIONS}
    rows = finished(path)
    if path:
        path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    done = {(r["space"], r["tool"], r["seed"]) for r in rows}
    for seed in range(seeds):
        for instance in spaces:
            for name in names:
                if (instance.name, name, seed) in done:
                    continue
                run = every[name](instance, seed, BUDGETS[-1])
                rows.append(
                    {"space": instance.name, "tool": name, "seed": seed, "times_ms": run.times, "seconds": run.seconds}
                )
                if path:
                    with path.open("a") as file:
                        file.write(json.dumps(rows[-1]) + "\n")
        print(f"seed {seed} done", file=sys.stderr)
    return rows


def curves(rows: Sequence[Row], spaces: Sequence[Instance], names: Sequence[str], seeds: int) -> dict[str, Floats]:
    """Per tool float64[spaces, seeds, evaluations]: best time so far."""
    place = {s.name: n for n, s in enumerate(spaces)}
    found = {name: np.empty((len(spaces), seeds, BUDGETS[-1])) for name in names}
    for row in rows:
        if row["tool"] in found and row["space"] in place and row["seed"] < seeds:
            start = spaces[place[row["space"]]].known[1]
            times = [np.inf if t is None else t for t in row["times_ms"]]
            best = np.minimum.accumulate(times)
            found[row["tool"]][place[row["space"]], row["seed"]] = np.where(np.isinf(best), start, best)
    return found


def ratio(rival: Floats, own: Floats, budget: int, rng: np.random.Generator) -> tuple[float, float, float]:
    """Geometric mean over spaces of (rival's mean best / ours), and its 95 % interval."""

    def geomean(seeds: npt.NDArray[np.int64]) -> float:
        a, b = (curve[:, seeds, budget - 1].mean(axis=1) for curve in (rival, own))
        return float(np.exp(np.log(a / b).mean()))

    count = own.shape[1]
    drawn = [geomean(rng.integers(count, size=count)) for _ in range(RESAMPLES)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return geomean(np.arange(count)), float(low), float(high)


def summary(rows: Sequence[Row], spaces: Sequence[Instance], names: Sequence[str], seeds: int) -> list[Row]:
    """One line per tool."""
    found = curves(rows, spaces, names, seeds)
    least = np.array([s.known[0] for s in spaces])[:, None, None]
    lines = []
    for name in names:
        own = [r for r in rows if r["tool"] == name and r["seed"] < seeds]
        near = found[name] <= 1.05 * least
        reached = np.where(near.any(axis=2), near.argmax(axis=2) + 1, BUDGETS[-1] + 1)
        failed = [t is None for r in own for t in r["times_ms"][SETTLED:]]
        line: Row = {"tool": name}
        for budget in BUDGETS:
            line[f"regret_{budget}"] = float(
                np.exp(np.log(found[name][:, :, budget - 1].mean(axis=1) / least[:, 0, 0]).mean())
            )
            if "ours" in found:
                line[f"ratio_{budget}"] = ratio(found[name], found["ours"], budget, np.random.default_rng(0))
        line |= {
            "to_5_percent": float(reached.mean()),
            "failed_percent": 100 * float(np.mean(failed)),
            "without_success_20": sum(all(t is None for t in r["times_ms"][: BUDGETS[0]]) for r in own),
            "seconds_per_suggestion": float(np.mean([r["seconds"] for r in own])),
        }
        lines.append(line)
    return lines


def show(lines: Sequence[Row]) -> None:
    """A table: mean best over the least, then rival / ours with its interval."""
    print(
        f"\n{'tool':<16}"
        + "".join(f"{f'best/least {b}':>15}" for b in BUDGETS)
        + f"{'to 5 %':>8}{'failed':>8}{'s each':>8}"
    )
    for line in lines:
        regrets = "".join(f"{line[f'regret_{b}']:>15.3f}" for b in BUDGETS)
        print(
            f"{line['tool']:<16}{regrets}{line['to_5_percent']:>8.1f}{line['failed_percent']:>7.1f}%{line['seconds_per_suggestion']:>8.3f}"
        )
    print(f"\n{'/ ours':<16}" + "".join(f"{f'at {b}':>24}" for b in BUDGETS))
    for line in (line for line in lines if "ratio_20" in line and line["tool"] != "ours"):
        parts = (line[f"ratio_{b}"] for b in BUDGETS)
        print(f"{line['tool']:<16}" + "".join(f"{f'{m:.3f} [{a:.3f}, {b:.3f}]':>24}" for m, a, b in parts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two spaces, five seeds, without the slowest rival")
    parser.add_argument("--ablations", action="store_true", help="also ours without each ingredient")
    parser.add_argument("--tools", nargs="+", help="only these")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    available, notes = tools()
    names = list(given.tools or [n for n in available if not (given.quick and n == "gp")])
    names += [n for n in ABLATIONS if given.ablations and n not in names]
    if unknown := [n for n in names if n not in available and n not in ABLATIONS]:
        parser.error(f"unknown tools {unknown}; valid: {', '.join([*available, *ABLATIONS])}")
    spaces = [Instance("SpMM", 0), Instance("SDDMM", 2)] if given.quick else instances()
    seeds = min(given.seeds, 5) if given.quick else given.seeds
    for note in notes:
        print(f"note: {note}")
    for space in spaces:
        assert space.space().size == SIZES[space.kernel]
        least, _, failing = space.known
        print(f"{space.name}: {SIZES[space.kernel]:,} legal points, {100 * failing:.1f} % fail, least {least:.2f} ms")
    rows = run_all(spaces, names, seeds, given.rows)
    lines = summary(rows, spaces, names, seeds)
    print(f"\n{len(spaces)} spaces, {seeds} seeds, the first {STARTING} points shared")
    show(lines)
    if given.json:
        given.json.write_text(json.dumps({"summary": lines, "rows": rows}))


if __name__ == "__main__":
    main()
