"""Dominance: candidates that cannot improve the front of what was simulated, or hardly can.

``dominated-by-bound`` is safe: even the lower bounds of a candidate are no better than a simulated row anywhere and
worse somewhere. ``dominated-confidently`` says the same of the lower ends of its intervals, which are right with a
stated chance only; audits tell what it costs. Both depend on committed rows alone, and on none that is over a budget,
which is no reason to do without a candidate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from costmodel.intervals import Intervals, features
from studies.pareto import pareto_front
from studies.records import Budgets, TrialRecord, VerdictRecord
from tuner.work import Stop

BY_BOUND, CONFIDENTLY = "dominated-by-bound", "dominated-confidently"
IN_SIMULATION = "dominated-in-simulation"
"""Rule of a simulation that was cut short: it could no longer improve the front."""

Floats = npt.NDArray[np.float64]


def dominance_verdicts(
    estimates: Sequence[dict[str, Any]], rows: Sequence[TrialRecord], objectives: Sequence[str], budgets: Budgets = ()
) -> list[tuple[tuple[VerdictRecord, ...], tuple[VerdictRecord, ...]]]:
    """For every candidate (its estimate as a JSON object, with bounds, and those of ``with_intervals``) the verdicts
    that speak against it by the simulated ones of ``rows`` within ``budgets``: the safe one and the confident one, none
    or one of each."""
    known = _within(rows, budgets)
    if not known:
        return [((), ())] * len(estimates)
    values = np.array([[(r.values or {})[o] for o in objectives] for r in known])
    front = pareto_front(values)

    def verdicts_of(rule: str, point: Sequence[float]) -> tuple[VerdictRecord, ...]:
        at = _dominating(values[front], point)[:1]
        return tuple(
            VerdictRecord(
                rule, _text(point), _text(values[front[k]]), ", ".join(objectives), f"trial {known[front[k]].number}"
            )
            for k in at
        )

    found = []
    for estimate in estimates:
        least = [estimate["bounds"][o] for o in objectives]
        low = [estimate.get("intervals", {}).get(o, [bound])[0] for o, bound in zip(objectives, least, strict=True)]
        found.append((verdicts_of(BY_BOUND, least), verdicts_of(CONFIDENTLY, low)))
    return found


def stop_of(
    estimate: dict[str, Any], rows: Sequence[TrialRecord], objectives: Sequence[str], budgets: Budgets = ()
) -> Stop | None:
    """Cycles after which a simulation need not go on, by the simulated ones of ``rows`` within ``budgets``: one of them
    is faster still and, even by the lower bounds of the candidate, no worse in any other objective. None: it may always
    pay."""
    others = [o for o in objectives if o != "latency_cycles"]
    known = _within(rows, budgets) if "latency_cycles" in objectives else []
    beyond = [
        ((r.values or {})["latency_cycles"], r.number)
        for r in known
        if all((r.values or {})[o] <= estimate["bounds"][o] for o in others)
    ]
    return Stop(math.ceil(min(beyond)[0]), min(beyond)[1]) if beyond else None


def with_intervals(
    estimates: Sequence[dict[str, Any]], rows: Sequence[TrialRecord], objectives: Sequence[str]
) -> list[dict[str, Any]]:
    """The candidates' estimates with ``intervals``: objective -> [low, high], as far as there are rows enough."""
    known = [r for r in rows if r.state == "simulated" and r.values and r.estimate]
    found = [dict(estimate) for estimate in estimates]
    if not estimates:
        return found
    new = [features(e) for e in estimates]
    for objective in objectives:
        pairs = [(r.estimate or {}, (r.values or {})[objective]) for r in known]
        pairs = [(estimate, value) for estimate, value in pairs if estimate[objective] > 0 and value > 0]
        if not pairs:
            continue
        estimated, measured = [e[objective] for e, _ in pairs], [value for _, value in pairs]
        intervals = Intervals([features(e) for e, _ in pairs], estimated, measured)
        ends = intervals.around(new, [e[objective] for e in found], [e["bounds"][objective] for e in found])
        for estimate, (low, high) in zip(found, ends.tolist(), strict=True):
            if np.isfinite(high):
                estimate["intervals"] = {**estimate.get("intervals", {}), objective: [low, high]}
    return found


def _within(rows: Sequence[TrialRecord], budgets: Budgets) -> list[TrialRecord]:
    """The simulated ones that meet all budgets."""
    return [r for r in rows if r.state == "simulated" and r.values and not r.over(budgets)]


def _dominating(front: Floats, point: Sequence[float]) -> npt.NDArray[np.int64]:
    """Rows of ``front`` that are no worse than ``point`` anywhere and better somewhere."""
    return np.flatnonzero((front <= point).all(axis=1) & (front < point).any(axis=1))


def _text(point: Sequence[float] | Floats) -> str:
    return ", ".join(f"{x:.6g}" for x in point)
