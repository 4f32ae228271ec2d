"""A study in a few facts and small tables: what ``study show`` prints and the report opens with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from mapper.describe import describe_mapping
from mapper.mapping import Mapping
from studies.frames import (
    Versions,
    best,
    eligible,
    failures_frame,
    front,
    model_errors,
    program_of,
    simulated,
    verdicts_frame,
    why_no_winner,
    winners_frame,
)
from studies.reasons import reasons
from studies.records import StudyContents, TrialRecord

if TYPE_CHECKING:
    import pandas as pd

CAPACITY_RULE = "tile-over-capacity"


@dataclass(frozen=True, eq=False)
class Summary:
    """``facts``: label -> text; ``funnel``: trials left after each stage; ``model_errors``: one
    object per measure; ``no_winner``: why there is no best mapping. Rows made by other versions than the given ones are
    left out of all but the funnel."""

    facts: dict[str, str]
    funnel: tuple[tuple[str, int], ...]
    winners: pd.DataFrame
    verdicts: pd.DataFrame
    failures: pd.DataFrame
    model_errors: list[dict[str, Any]]
    no_winner: str


def summarize(contents: StudyContents, versions: Versions | None = None) -> Summary:
    """The summary of a study."""
    return Summary(
        facts=_facts(contents, versions),
        funnel=funnel(contents, versions),
        winners=winners_frame(contents, versions),
        verdicts=verdicts_frame(contents.trials),
        failures=failures_frame(contents.trials),
        model_errors=[asdict(e) for e in model_errors(simulated(contents, versions))],
        no_winner=why_no_winner(contents, versions),
    )


def funnel(contents: StudyContents, versions: Versions | None = None) -> tuple[tuple[str, int], ...]:
    """Trials that passed each stage, from all that were asked to the Pareto front."""
    distinct = [t for t in contents.trials if t.state != "duplicate"]
    too_large = [t for t in distinct if t.state == "rejected" and any(v.rule == CAPACITY_RULE for v in t.verdicts)]
    passed = [t for t in distinct if t.state != "rejected"]
    ran = [t for t in passed if t.ran]
    return (
        ("asked", len(contents.trials)),
        ("distinct", len(distinct)),
        ("legal", len(passed) + len(too_large)),
        ("within capacity", len(passed)),
        ("simulated", len(ran)),
        ("completed", sum(t.state == "simulated" for t in ran)),
        *([("within the constraints", len(eligible(contents)))] if contents.budgets else []),
        ("on the front", len(front(contents, versions))),
    )


def words_of(contents: StudyContents) -> Callable[[TrialRecord], str]:
    """A function that says a trial's mapping in words; empty text for a trial without mapping."""
    program = program_of(contents)
    return lambda trial: describe_mapping(program, Mapping.from_json(trial.mapping)) if trial.mapping else ""


def winner_words(contents: StudyContents, versions: Versions | None = None) -> str:
    """The best mapping by the first objective in words; empty text without one."""
    winner = best(contents, contents.objectives[0], versions)
    return words_of(contents)(winner) if winner else ""


def winner_reasons(contents: StudyContents, versions: Versions | None = None) -> tuple[str, ...]:
    """Why the best mapping by the first objective beats the default."""
    winner = best(contents, contents.objectives[0], versions)
    if winner is None or contents.baseline is None or winner.number == contents.baseline.number:
        return ()
    return reasons(program_of(contents), winner, contents.baseline)


def _facts(contents: StudyContents, versions: Versions | None) -> dict[str, str]:
    identity, handle = contents.handle.identity, contents.handle
    machine, knobs = identity["machine"]["fields"]["name"], identity["space"]["machine"]
    facts = {
        "study": handle.name,
        "status": handle.finished or f"open after {handle.batches} batches",
        "created": f"{handle.created_at[:16].replace('T', ' ')} UTC",
        "program": identity["program"],
        "inputs": "\n".join(
            f"{d.tensor}: {d.source}, {' x '.join(map(str, d.shape)) or 'scalar'}, {d.nnz:,} stored"
            + "".join(f" ({note})" for note in d.notes)
            for d in contents.datasets
        ),
        "machine": ", ".join([machine, *(f"{field} in {values}" for field, values in sorted(knobs.items()))]),
        "objectives": ", ".join(contents.objectives),
        "constraints": ", ".join(f"{name} <= {limit:g}" for name, limit in identity["constraints"].items()),
        "search": ", ".join(f"{name} {value}" for name, value in identity["search"].items()),
        "starts from": ", ".join(transfer.origin for transfer in handle.transfers or ()),
    }
    stale = sum(versions.stale(t) for t in contents.trials) if versions else 0
    if stale:
        facts["stale"] = f"{stale} trials of other model or simulator versions are left out"
    return {name: text for name, text in facts.items() if text}
