"""How good are the points that a handful of evaluations finds: this package, its ablations and rivals.

Tasks: the mapping spaces of ``mapping_cases`` for one and for two objectives (exact tables of simulations), and the
published spaces over a stated response. Protocol: budgets of 20, 40 and 60 evaluations; every tool starts from the same
uniform legal points; failed evaluations count.

* One objective: the best so far; a run without a success yet stands at the default mapping. Per task, tool and budget
  the mean over seeds; over tasks the geometric mean of (rival's / ours). ``to 5 %``: evaluations until within 5 % of
  the least of the whole space; runs that are not within the budget go on until they are, ``--longest`` evaluations at
  most, and count that plus one if they never are.
* Two objectives: the hypervolume of the logarithms below the medians of everything that succeeds, as a share of that of
  the exact front.

Intervals (95 %) draw seeds again with replacement, the same for both tools. Every second task was held out while the
sampler was worked on (``HELD_OUT``); both halves are shown. ``--wide`` has six wider mapping spaces instead, which were
stated after it.

    python benchmarks/search_quality.py [--quick] [--ablations | --wide] [--tools ours tpe] [--longest 200]
        [--rows FILE]

``--rows FILE`` keeps finished runs, one JSON object per line, and skips those that are there: a run may be interrupted.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from mapping_cases import CASES, WIDE
from mapping_tables import FOLDER, load
from published_spaces import instances
from rivals import ABLATIONS, SINGLE, SLOW, STARTING, tools
from search_runs import Row, first_near, go_on, run_all
from search_tasks import PublishedTask, TableTask, Task

from studies.pareto import hypervolume, pareto_front

BUDGETS = (20, 40, 60)
SETTLED = 15
"""Evaluations after which failures are counted."""
RESAMPLES = 2000
OWN = "ours"

HELD_OUT = {
    *list(CASES)[1::2],
    *WIDE,
    *(i.name for i in instances()[1::2]),
}  # fmt: skip
ABLATED = ("spgemm-power-law", "spmv", "SDDMM-2")
"""Tasks of the ablations."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Results:
    """``curves``: per tool float64[tasks, seeds, evaluations], the best so far or the share of the hypervolume;
    ``least``: float64[tasks], of the whole space; ``arrived``: per tool float64[tasks, seeds], evaluations to come
    within 5 % of it; ``failed``: per tool float64[tasks], share after ``SETTLED``; ``seconds``: per tool, of a
    suggestion. Only seeds that all tools have run."""

    tasks: Sequence[Task]
    curves: dict[str, Floats]
    least: Floats
    arrived: dict[str, Floats]
    failed: dict[str, Floats]
    seconds: dict[str, float]


def curve(task: Task, outcomes: Sequence[Sequence[float] | None]) -> Floats:
    """float64[evaluations]: the best so far, or the share of the hypervolume."""
    if task.objectives == 1:
        best = np.minimum.accumulate([np.inf if o is None else o[0] for o in outcomes])
        return np.where(np.isinf(best), task.start[0], best)
    known = np.log(task.known())
    reference = np.median(known, axis=0)
    every = np.array([reference if o is None else np.log(o) for o in outcomes])
    whole = hypervolume(known[pareto_front(known)], reference)
    return np.array([hypervolume(every[:n], reference) for n in range(1, len(every) + 1)]) / whole


def gather(rows: Sequence[Row], tasks: Sequence[Task], names: Sequence[str], budget: int) -> Results:
    """The first ``budget`` evaluations of ``names`` on ``tasks``; where there is no prior, ours stands for both."""
    own = {
        (r["task"], r["tool"], r["seed"]): {**r, "outcomes": r["outcomes"][:budget]}
        for r in rows if len(r.get("outcomes", ())) >= budget
    }  # fmt: skip
    later = {(r["task"], r["tool"], r["seed"]): r["arrived"] for r in rows if "arrived" in r}
    for task in (t for t in tasks if not t.prior):
        for each in (own, later):
            each |= {(t, "ours, no prior", s): r for (t, n, s), r in each.items() if t == task.name and n == OWN}
    seeds = sorted({s for _, _, s in own if all((t.name, n, s) in own for t in tasks for n in names)})
    curves = {n: np.array([[curve(t, own[t.name, n, s]["outcomes"]) for s in seeds] for t in tasks]) for n in names}
    failed = {
        n: np.array(
            [np.mean([o is None for s in seeds for o in own[t.name, n, s]["outcomes"][SETTLED:]]) for t in tasks]
        )
        for n in names
    }
    seconds = {n: float(np.mean([own[t.name, n, s]["seconds"] for t in tasks for s in seeds])) for n in names}
    least = np.array([t.known()[:, 0].min() for t in tasks])
    arrived = {
        n: np.array(
            [
                [first_near(t, own[key]["outcomes"]) or later.get(key, budget + 1) for s in seeds
                 for key in [(t.name, n, s)]]
                for t in tasks
            ], np.float64,
        )
        for n in names
    }  # fmt: skip
    return Results(tasks, curves, least, arrived, failed, seconds)


def interval(measure: Any, found: dict[str, Floats], name: str, rng: np.random.Generator) -> tuple[float, float, float]:
    """``measure(rival's, ours)`` of what is ``found`` per tool ([tasks, seeds, ...]), over all seeds, and its 95 %
    interval over seeds drawn again."""
    rival, own = found[name], found[OWN]
    count = own.shape[1]
    drawn = []
    for _ in range(RESAMPLES):
        seeds = rng.integers(count, size=count)
        drawn.append(measure(rival[:, seeds], own[:, seeds]))
    low, high = np.quantile(drawn, [0.025, 0.975])
    return measure(rival, own), float(low), float(high)


def ratio_at(budget: int) -> Any:
    """Geometric mean over tasks of (rival's mean best / ours)."""

    def measure(rival: Floats, own: Floats) -> float:
        a, b = (known[:, :, budget - 1].mean(axis=1) for known in (rival, own))
        return float(np.exp(np.log(a / b).mean()))

    return measure


def sooner(rival: Floats, own: Floats) -> float:
    """Geometric mean over tasks of (rival's mean evaluations to come within 5 % / ours)."""
    return float(np.exp(np.log(rival.mean(axis=1) / own.mean(axis=1)).mean()))


def budgets(results: Results) -> list[int]:
    """Those that the runs have."""
    return [b for b in BUDGETS if b <= results.curves[OWN].shape[2]]


def summary(results: Results, names: Sequence[str]) -> list[Row]:
    """One line per tool, over tasks with one objective."""
    lines = []
    for name in names:
        found = results.curves[name]
        line: Row = {"tool": name}
        for budget in budgets(results):
            means = found[:, :, budget - 1].mean(axis=1)
            line[f"best_over_least_{budget}"] = float(np.exp(np.log(means / results.least).mean()))
            line[f"ratio_{budget}"] = interval(ratio_at(budget), results.curves, name, np.random.default_rng(0))
        line |= {
            "to_5_percent": float(results.arrived[name].mean()),
            "sooner": interval(sooner, results.arrived, name, np.random.default_rng(0)),
            "failed_percent": 100 * float(results.failed[name].mean()),
            "failed_percent_worst": 100 * float(results.failed[name].max()),
            "seconds_per_suggestion": results.seconds[name],
        }
        lines.append(line)
    return lines


def show(title: str, results: Results, lines: Sequence[Row]) -> None:
    """Two tables: mean best over the least, then rival / ours with its interval."""
    known = budgets(results)
    print(f"\n{title}: {len(results.tasks)} tasks, {results.curves[OWN].shape[1]} seeds")
    print(
        f"{'tool':<16}" + "".join(f"{f'best/least {b}':>15}" for b in known)
        + f"{'to 5 %':>8}{'x ours':>8}{'failed':>8}{'worst':>8}{'s each':>8}"
    )  # fmt: skip
    for line in lines:
        print(
            f"{line['tool']:<16}" + "".join(f"{line[f'best_over_least_{b}']:>15.3f}" for b in known)
            + f"{line['to_5_percent']:>8.1f}{line['sooner'][0]:>8.2f}{line['failed_percent']:>7.1f}%"
            + f"{line['failed_percent_worst']:>7.1f}%{line['seconds_per_suggestion']:>8.3f}"
        )  # fmt: skip
    print(f"{'/ ours':<16}" + "".join(f"{f'at {b}':>24}" for b in known) + f"{'to 5 %':>24}")
    for line in (line for line in lines if line["tool"] != OWN):
        parts = (line[f"ratio_{b}"] for b in known)
        text = "{:.2f} [{:.2f}, {:.2f}]".format(*line["sooner"])
        print(
            f"{line['tool']:<16}" + "".join(f"{f'{m:.3f} [{a:.3f}, {b:.3f}]':>24}" for m, a, b in parts)
            + f"{text:>24}"
        )  # fmt: skip


def show_each(results: Results, names: Sequence[str], budget: int) -> None:
    """Per task the mean best over the least, or the mean share of the hypervolume, of every tool."""
    print(f"{f'at {budget}':<28}" + "".join(f"{name:>16}" for name in names) + f"{'ours failed':>14}")
    for n, task in enumerate(results.tasks):
        scale = results.least[n] if task.objectives == 1 else 1.0
        means = (results.curves[name][n, :, budget - 1].mean() / scale for name in names)
        mark = " (held out)" if task.name.partition(" and ")[0] in HELD_OUT else ""
        print(
            f"{task.name + mark:<40}"[: 40] + "".join(f"{m:>10.3f}" for m in means)
            + f"{100 * results.failed[OWN][n]:>9.1f}%"
        )  # fmt: skip


def wins(results: Results, names: Sequence[str]) -> list[Row]:
    """Per rival: in how many two-objective tasks the mean share of the hypervolume at 40 is below ours, the mean
    difference and its interval."""

    def measure(rival: Floats, own: Floats) -> float:
        return float((own[:, :, BUDGETS[1] - 1] - rival[:, :, BUDGETS[1] - 1]).mean())

    found = []
    for name in (n for n in names if n != OWN):
        own, rival = (results.curves[n][:, :, BUDGETS[1] - 1].mean(axis=1) for n in (OWN, name))
        found.append(
            {
                "tool": name, "higher_in": int((own > rival).sum()), "tasks": len(own),
                "difference": interval(measure, results.curves, name, np.random.default_rng(0)),
            }
        )  # fmt: skip
    return found


def all_tasks(folder: Path, half: bool, wide: bool) -> list[Task]:
    """Every task, the half that was held out, or the wider spaces; tables that are not there are built."""
    tables = [load(name, folder) for name in (WIDE if wide else CASES) if not half or name in HELD_OUT]
    return [
        *(TableTask(table, objectives) for objectives in (1, 2) for table in tables),
        *(PublishedTask(i) for i in instances() if not wide and (not half or i.name in HELD_OUT)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="the held-out tasks with one seed, without the slow rivals"
    )
    parser.add_argument("--ablations", action="store_true", help="ours without each ingredient, on three tasks")
    parser.add_argument("--wide", action="store_true", help="the wider mapping spaces")
    parser.add_argument("--tools", nargs="+", help="only these")
    parser.add_argument("--tasks", nargs="+", help="only these")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--budget", type=int, help="evaluations of a run: 60, or 40 where quick")
    parser.add_argument("--longest", type=int, default=0, help="where runs end that have not come within 5 %%")
    parser.add_argument("--tables", type=Path, default=FOLDER, help="folder of the tables of simulations")
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    available, notes = tools()
    names = list(given.tools or [n for n in available if not (given.quick and n in SLOW)])
    if given.ablations:
        names = [OWN, "ours, no prior", *ABLATIONS]
    if unknown := [n for n in names if n not in available and n not in ABLATIONS]:
        parser.error(f"unknown tools {unknown}; valid: {', '.join([*available, *ABLATIONS])}")
    started = time.perf_counter()
    tasks = [t for t in all_tasks(given.tables, given.quick, given.wide) if not given.tasks or t.name in given.tasks]
    if given.ablations:
        tasks = [t for t in tasks if t.name in ABLATED]
    seeds = given.seeds or (1 if given.quick else 10 if given.ablations else 20)
    budget = given.budget or BUDGETS[1 if given.quick else -1]
    for note in notes:
        print(f"note: {note}")
    rows = run_all(tasks, names, seeds, budget, given.rows)
    if given.longest:
        go_on(rows, tasks, names, given.longest, given.rows)
    print(f"{time.perf_counter() - started:.0f} s; the first {STARTING} points of every run are shared")
    report(rows, tasks, names, budget, given.json)


def report(rows: Sequence[Row], tasks: Sequence[Task], names: Sequence[str], budget: int, path: Path | None) -> None:
    """Prints the tables of one and of two objectives, and writes ``path``."""
    told: Row = {"rows": list(rows)}
    one, two = ([t for t in tasks if t.objectives == n] for n in (1, 2))
    halves = {
        "all": one,
        "development": [t for t in one if t.name not in HELD_OUT],
        "held out": [t for t in one if t.name in HELD_OUT],
        "mapping spaces": [t for t in one if t.prior],
        "published spaces": [t for t in one if not t.prior],
    }
    for title, chosen in halves.items():
        if chosen and OWN in names and (title == "all" or chosen != one):
            results = gather(rows, chosen, names, budget)
            told[title] = summary(results, names)
            show(title, results, told[title])
    if one:
        print()
        show_each(gather(rows, one, names, budget), names, BUDGETS[0])
    if two and budget >= BUDGETS[1]:
        able = [n for n in names if n not in SINGLE]
        results = gather(rows, two, able, budget)
        print()
        show_each(results, able, BUDGETS[1])
        told["two objectives"] = wins(results, able)
        for line in told["two objectives"]:
            mean, low, high = line["difference"]
            print(
                f"hypervolume at 40 higher than {line['tool']}'s in {line['higher_in']} of {line['tasks']}, "
                f"by {mean:.3f} [{low:.3f}, {high:.3f}] of the exact front's"
            )
    if path:
        path.write_text(json.dumps({"summary": {k: v for k, v in told.items() if k != "rows"}, "rows": told["rows"]}))


if __name__ == "__main__":
    main()
