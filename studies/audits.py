"""Audits: what rules said against mappings that were simulated all the same, and whether they were right.

A simulated trial that carries a verdict was drawn for an audit; the verdict is what would have stopped it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from studies.frames import Versions, eligible, front, simulated
from studies.records import StudyContents, TrialRecord


@dataclass(frozen=True, slots=True)
class Audit:
    """A rule, how many distinct mappings it ``stopped``, how many more were ``audited``, how many of these are
    ``on_front``, and its ``regret``: how many times larger the best value of an objective would be without them, 1
    where they brought nothing. Only what meets the constraints counts as a best value."""

    rule: str
    stopped: int
    audited: int
    on_front: int
    regret: float


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many of the ``trials`` that had an interval for a measure before they were simulated lie ``inside`` it."""

    measure: str
    inside: int
    trials: int


def audits(contents: StudyContents, versions: Versions | None = None) -> list[Audit]:
    """One entry per rule with an audited trial, in order of first appearance."""
    ran, able = simulated(contents, versions), eligible(contents, versions)
    optimal = {t.number for t in front(contents, versions)}
    found = []
    for rule in dict.fromkeys(t.verdicts[0].rule for t in ran if t.verdicts):
        audited = [t for t in ran if t.verdicts and t.verdicts[0].rule == rule]
        stopped = [t for t in contents.trials if t.state == "screened" and any(v.rule == rule for v in t.verdicts)]
        others = [t for t in able if t not in audited]
        regret = max(
            (_best(others, o) / max(1e-300, _best(able, o)) for o in contents.objectives if others), default=1.0
        )
        found.append(Audit(rule, len(stopped), len(audited), sum(t.number in optimal for t in audited), regret))
    return found


def coverages(contents: StudyContents, versions: Versions | None = None) -> list[Coverage]:
    """One entry per objective for which some simulated trial had an interval."""
    found = []
    for measure in contents.objectives:
        pairs = [
            ((t.estimate or {})["intervals"][measure], (t.values or {})[measure])
            for t in simulated(contents, versions)
            if measure in (t.estimate or {}).get("intervals", {})
        ]
        if pairs:
            found.append(Coverage(measure, sum(low <= value <= high for (low, high), value in pairs), len(pairs)))
    return found


def _best(trials: Sequence[TrialRecord], objective: str) -> float:
    return min((t.values or {})[objective] for t in trials)
