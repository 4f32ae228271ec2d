"""Outcome: what ``tune`` says at the end of a study."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from studies.frames import best, failures_frame, simulated, why_no_winner, winners_frame
from studies.records import StudyContents
from studies.summary import winner_words
from tuner.cli_output import print_json, print_table, records

MOST_FAILURES = 3
"""Reasons for failures that are told."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """``counts``: trials per state; ``winners``: default and best mappings with their measures and gains, rows of
    ``winners_frame``; ``words``: the winner by the first objective; multiplies and nnz: what its simulation counted;
    ``inputs``: its measures for each input where there are several; ``no_winner``: why there is none; ``failures``:
    rows of ``failures_frame``."""

    study: str
    reason: str
    counts: dict[str, int]
    mappings_screened: int
    orders_simulated: int
    effectual_multiplies: int | None
    output_nnz: dict[str, int]
    winners: list[dict[str, Any]]
    words: str
    inputs: dict[str, dict[str, float]]
    no_winner: str
    failures: list[dict[str, Any]]

    @property
    def failed(self) -> bool:
        """Whether no simulation succeeded."""
        return not self.counts.get("simulated")


def outcome(contents: StudyContents, reason: str) -> Outcome:
    """The outcome of a finished study."""
    winner = best(contents, contents.objectives[0])
    profile = (winner.profile if winner else None) or {"effectual_multiplies": None, "output_nnz": {}}
    states = [t.state for t in contents.trials]
    orders = {repr([loop["order"] for loop in (t.mapping or {})["loops"]]) for t in simulated(contents)}
    return Outcome(
        study=contents.handle.name,
        reason=reason,
        counts={state: states.count(state) for state in sorted(set(states))},
        mappings_screened=len({t.mapping_key for t in contents.trials if t.estimate}),
        orders_simulated=len(orders),
        effectual_multiplies=profile["effectual_multiplies"],
        output_nnz=profile["output_nnz"],
        winners=records(winners_frame(contents)),
        words=winner_words(contents),
        inputs=profile.get("inputs", {}),
        no_winner=why_no_winner(contents),
        failures=records(failures_frame(contents.trials)),
    )


def print_outcome(found: Outcome, as_json: bool) -> None:
    """The counts, a table of the best mappings against the default, and the winner in words."""
    if as_json:
        print_json(asdict(found))
        return
    import pandas as pd
    import typer

    typer.echo(f"\n{found.study}: {found.reason}")
    typer.echo("trials: " + ", ".join(f"{n} {state}" for state, n in found.counts.items()))
    typer.echo(f"{found.mappings_screened} distinct legal mappings screened, {found.orders_simulated} orders simulated")
    for row in found.failures[:MOST_FAILURES]:
        typer.echo(f"{row['trials']} failed: {row['failure']} (e.g. trial {row['example']})")
    if len(found.failures) > MOST_FAILURES:
        typer.echo(f"{len(found.failures) - MOST_FAILURES} more reasons: sparseloom study show {found.study}")
    if found.effectual_multiplies is not None:
        nnz = "".join(f", nnz({t}) = {n:,}" for t, n in found.output_nnz.items())
        typer.echo(f"effectual multiplies = {found.effectual_multiplies:,}{nnz}\n")
    gains = {"latency_cycles_gain": "speed-up", "traffic_bytes_gain": "traffic saved", "energy_pj_gain": "energy saved"}
    table = pd.DataFrame(found.winners).rename(columns=gains)
    for column in gains.values():
        table[column] = [f"{g:.2f}x" if pd.notna(g) else "" for g in table[column]]
    print_table(table)
    if found.no_winner:
        typer.echo(f"no best mapping: {found.no_winner}")
    if found.words:
        typer.echo(f"{found.winners[-1]['mapping'] if len(found.winners) < 2 else found.winners[1]['mapping']}:")
        typer.echo(found.words)
    for name, measures in found.inputs.items():
        typer.echo(f"{name}: " + ", ".join(f"{measure} = {value:,.0f}" for measure, value in measures.items()))
