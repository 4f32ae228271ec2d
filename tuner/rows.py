"""Rows: what becomes of a proposal on its way through a batch, as the record that the database keeps."""

from __future__ import annotations

import dataclasses
from typing import Any

from costmodel import MODEL_VERSION
from hwsim import SIMULATOR_VERSION
from mapper.canonical import plain
from mapper.mapping import Mapping
from studies.records import BASELINE, TrialRecord, VerdictRecord
from tuner.dominance import IN_SIMULATION
from tuner.search import Proposal
from tuner.work import Screening, Simulation


def draft(number: int, batch: int, proposal: Proposal) -> TrialRecord:
    """The row of a proposal about which nothing is known yet."""
    mapping = proposal.mapping
    verdicts = tuple(VerdictRecord(v.rule, v.measured, v.limit, "", v.where) for v in proposal.violations)
    return TrialRecord(
        number, batch, "rejected" if mapping is None else "screened", proposal.params, proposal.distributions,
        None if mapping is None else plain(mapping), None if mapping is None else mapping.key, verdicts=verdicts,
        model_version=str(MODEL_VERSION), simulator_version=str(SIMULATOR_VERSION), gain=proposal.gain,
        origin=proposal.origin,
    )  # fmt: skip


def baseline_draft(mapping: Mapping) -> TrialRecord:
    """The row of the default mapping."""
    return draft(BASELINE, BASELINE, Proposal(mapping, (), {}, {}))


def screened(row: TrialRecord, screening: Screening) -> TrialRecord:
    """The row with its estimate, or rejected."""
    if screening.estimate is None:
        return dataclasses.replace(row, state="rejected", verdicts=screening.verdicts)
    return dataclasses.replace(row, estimate=screening.estimate, verdicts=screening.verdicts, fidelity="estimate")


def simulated(row: TrialRecord, result: Simulation) -> TrialRecord:
    """The row with what was measured, the failure, or the verdict that cut the simulation short."""
    measured = dataclasses.replace(row, profile=result.summary, seconds=result.seconds, fidelity="full")
    if result.stop is not None:
        reached = (result.summary or {})["latency_cycles"]
        verdict = VerdictRecord(IN_SIMULATION, reached, result.stop.cycles, "cycles", f"trial {result.stop.trial}")
        return dataclasses.replace(measured, verdicts=(*row.verdicts, verdict), fidelity="partial")
    if result.failure is not None:
        return dataclasses.replace(measured, state="failed", failure=result.failure)
    return dataclasses.replace(measured, state="simulated", values=result.values)


def repeated(row: TrialRecord, known: dict[str, TrialRecord]) -> TrialRecord:
    """The row of a mapping that was tried before: it repeats what is known and points to the first."""
    if row.mapping_key is None:
        return row
    first = known[row.mapping_key]
    copied: dict[str, Any] = {f: getattr(first, f) for f in ("estimate", "verdicts", "values", "failure", "fidelity")}
    return dataclasses.replace(row, state="duplicate", duplicate_of=first.number, **copied)
