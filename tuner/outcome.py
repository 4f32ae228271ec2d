"""Outcome: what a study found, beside the default mapping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mapper.describe import describe_mapping
from mapper.mapping import Mapping
from studies.records import TrialRecord
from tuner.session import Session

UNITS = {"latency_cycles": "cycles", "traffic_bytes": "bytes", "energy_pj": "pJ"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """``best``: per objective the simulated row with the smallest value; ``counts``: rows per state."""

    name: str
    program: str
    baseline: TrialRecord | None
    best: dict[str, TrialRecord]
    words: str
    counts: dict[str, int]
    distinct_screened: int
    orders_simulated: int
    storage: str
    effectual_multiplies: int
    output_nnz: dict[str, int]


def outcome(session: Session) -> Outcome:
    """Reads the finished study from its database."""
    spec, workload = session.problem.spec, session.problem.workload
    rows = session.store.trials(session.study.id)
    done = [r for r in rows if r.state == "simulated" and r.values]
    best = {o: min(done, key=lambda r: (r.values or {})[o]) for o in spec.objectives} if done else {}
    first = best.get(spec.objectives[0])
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.state] = counts.get(row.state, 0) + 1
    return Outcome(
        spec.name,
        str(workload.program),
        session.store.baseline(session.study.id),
        best,
        describe_mapping(workload.program, Mapping.from_json(first.mapping)) if first and first.mapping else "",
        counts,
        len({r.mapping_key for r in rows if r.estimate}),
        len({_orders(r) for r in done}),
        spec.storage,
        workload.effectual_multiplies,
        {t: workload.computed[t].nnz for t in workload.program.outputs},
    )


def _orders(row: TrialRecord) -> str:
    return repr([entry["order"] for entry in (row.mapping or {"loops": []})["loops"]])


def print_outcome(found: Outcome, reason: str, as_json: bool) -> None:
    """A table of the best mappings against the default, and the winner in words."""
    from rich.console import Console

    console = Console()
    if as_json:
        console.print_json(data=_as_json(found, reason))
        return
    console.print(f"\n[bold]{found.name}[/bold]: {reason}")
    counts = ", ".join(f"{n} {state}" for state, n in sorted(found.counts.items()))
    console.print(
        f"{counts}; {found.distinct_screened} distinct legal mappings screened, {found.orders_simulated} loop orders simulated"
    )
    nnz = ", ".join(f"nnz({t}) = {n:,}" for t, n in found.output_nnz.items())
    console.print(f"effectual multiplies = {found.effectual_multiplies:,}; {nnz}")
    console.print(_table(found))
    if found.words:
        console.print(f"\nbest by {next(iter(found.best))}:", style="bold")
        console.print(found.words, markup=False, highlight=False)
    console.print(f"\nstored in {found.storage}; see it with: sparseloom report {found.name}", highlight=False)


def _table(found: Outcome) -> Any:
    from rich.table import Table

    table = Table("mapping", "trial", title="best against default")
    objectives = list(UNITS)
    for objective in objectives:
        table.add_column(UNITS[objective], justify="right")
    table.add_column("speed-up", justify="right")
    table.add_column("traffic saved", justify="right")
    base = found.baseline.values if found.baseline else None
    if base:
        table.add_row("default", "", *(f"{base[o]:,.0f}" for o in objectives), "1.00x", "1.00x")
    for objective, row in found.best.items():
        values = row.values or {}
        ratios = [f"{base[o] / values[o]:.2f}x" if base and values[o] else "-" for o in objectives[:2]]
        table.add_row(f"best {objective}", str(row.number), *(f"{values[o]:,.0f}" for o in objectives), *ratios)
    return table


def _as_json(found: Outcome, reason: str) -> dict[str, Any]:
    return {
        "study": found.name,
        "reason": reason,
        "program": found.program,
        "counts": found.counts,
        "distinct_screened": found.distinct_screened,
        "orders_simulated": found.orders_simulated,
        "effectual_multiplies": found.effectual_multiplies,
        "output_nnz": found.output_nnz,
        "default": found.baseline.values if found.baseline else None,
        "best": {o: {"trial": r.number, "values": r.values, "mapping": r.mapping} for o, r in found.best.items()},
        "words": found.words,
        "storage": found.storage,
    }
