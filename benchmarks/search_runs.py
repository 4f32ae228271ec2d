"""Runs of tools on tasks: made, kept as rows and taken up again.

A row is {task, tool, seed, outcomes, seconds}, or {task, tool, seed, longest, arrived} of a run that went on until it
came within 5 % of the least.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rivals import ABLATIONS, SINGLE, tools
from search_tasks import Task

NEAR = 1.05

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


def run_all(tasks: Sequence[Task], names: Sequence[str], seeds: int, budget: int, path: Path | None) -> list[Row]:
    """Every tool on every task with every seed, ``budget`` evaluations or more of each."""
    every = {**tools()[0], **ABLATIONS}
    rows = finished(path)
    if path:
        path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    done = {(r["task"], r["tool"], r["seed"]) for r in rows if len(r.get("outcomes", ())) >= budget}
    for seed in range(seeds):
        for task in tasks:
            for name in names:
                unfit = not task.prior if name == "ours, no prior" else task.objectives > 1 and name in SINGLE
                if unfit or (task.name, name, seed) in done:
                    continue
                run = every[name](task, seed, budget)
                rows.append(
                    {"task": task.name, "tool": name, "seed": seed, "outcomes": run.outcomes, "seconds": run.seconds}
                )
                if path:
                    with path.open("a") as file:
                        file.write(json.dumps(rows[-1]) + "\n")
        print(f"seed {seed} done", file=sys.stderr)
    return rows


class _Arrived(Exception):
    """An evaluation came within 5 % of the least."""


class _Watched:
    """``task``, ending the run that searches it by ``_Arrived``; ``count``: evaluations."""

    def __init__(self, task: Task) -> None:
        self._task, self._near, self.count = task, NEAR * task.known()[:, 0].min(), 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def evaluate(self, point: Any) -> Any:
        outcome, self.count = self._task.evaluate(point), self.count + 1
        if outcome and outcome[0] <= self._near:
            raise _Arrived
        return outcome


def go_on(rows: list[Row], tasks: Sequence[Task], names: Sequence[str], longest: int, path: Path | None) -> None:
    """Adds rows that say when runs with one objective arrive that have not within their evaluations, ``longest`` + 1 if
    they have not then. A longer run repeats the shorter one."""
    every, known = {**tools()[0], **ABLATIONS}, {t.name: t for t in tasks if t.objectives == 1}
    done = {(r["task"], r["tool"], r["seed"]) for r in rows if r.get("longest") == longest}
    for row in [r for r in rows if r["task"] in known and r["tool"] in names and "outcomes" in r]:
        task, name, seed = known[row["task"]], row["tool"], row["seed"]
        if (task.name, name, seed) in done or first_near(task, row["outcomes"]) or len(row["outcomes"]) >= longest:
            continue
        watched = _Watched(task)
        try:
            every[name](watched, seed, longest)
            arrived = longest + 1
        except _Arrived:
            arrived = watched.count
        rows.append({"task": task.name, "tool": name, "seed": seed, "longest": longest, "arrived": arrived})
        if path:
            with path.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")


def first_near(task: Task, outcomes: Sequence[Sequence[float] | None]) -> int | None:
    """Evaluations until within 5 % of the least; None if never."""
    near = NEAR * task.known()[:, 0].min()
    return next((n for n, o in enumerate(outcomes, 1) if o and o[0] <= near), None)
