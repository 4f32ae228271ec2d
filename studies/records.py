"""What a study keeps of every mapping it tried, as plain frozen data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mapper.errors import StudyError, nearest

BASELINE = -1
"""Trial number and batch of the default mapping, which is simulated beside the search."""

FIDELITIES = ("none", "estimate", "sample", "partial", "full")
"""What gave a row its numbers, in order of trust: nothing (illegal or over capacity), the cost model, the model and
the simulation of a part of the problem, a simulation that ended when the mapping had shown to be dominated, a whole
simulation."""

STATES = ("simulated", "screened", "rejected", "failed", "duplicate")
"""``simulated``: has values. ``screened``: estimated, not simulated to its end; a verdict says why. ``rejected``:
illegal or over capacity. ``failed``: deadlock, limit or error. ``duplicate``: the mapping of an earlier trial, whose
values it copies."""

Param = int | float | str | bool

Budgets = Sequence[tuple[str, float]]
"""Upper limits on what is measured; a specification calls them its constraints."""


@dataclass(frozen=True, slots=True)
class VerdictRecord:
    """Why a mapping went no further: the rule, what was measured against which limit, and where."""

    rule: str
    measured: float | str
    limit: float | str
    unit: str
    where: str


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """One asked mapping. ``distributions`` holds one JSON text per parameter; ``mapping``, ``estimate`` and
    ``profile`` are JSON objects; ``values`` one finite number per objective measured. ``fidelity``: what gave the
    numbers. ``gain``: what the sampler's model expected. ``origin``: the trial of another study that it was taken from.
    ``seconds`` is host time and, like every time stamp, no part of equality."""

    number: int
    batch: int
    state: str
    params: dict[str, Param]
    distributions: dict[str, str]
    mapping: dict[str, Any] | None = None
    mapping_key: str | None = None
    estimate: dict[str, Any] | None = None
    verdicts: tuple[VerdictRecord, ...] = ()
    profile: dict[str, Any] | None = None
    values: dict[str, float] | None = None
    failure: str | None = None
    duplicate_of: int | None = None
    model_version: str = ""
    simulator_version: str = ""
    seconds: float = field(default=0.0, compare=False)
    fidelity: str = "none"
    gain: float | None = None
    origin: str | None = None

    @property
    def ran(self) -> bool:
        """Whether it took a simulation of the whole problem, to its end or not."""
        return self.state in ("simulated", "failed") or (self.state == "screened" and self.fidelity == "partial")

    def over(self, budgets: Budgets) -> bool:
        """Whether it was measured, and something is above its limit."""
        return any((self.values or {}).get(name, -math.inf) > limit for name, limit in budgets)

    def __post_init__(self) -> None:
        """Raises StudyError for a record that no study can hold."""
        label = f"trial {self.number}"
        if self.state not in STATES:
            raise StudyError(f"{label}: unknown state {self.state!r}.{nearest(self.state, STATES)}")
        if self.fidelity not in FIDELITIES:
            raise StudyError(f"{label}: unknown fidelity {self.fidelity!r}.{nearest(self.fidelity, FIDELITIES)}")
        if self.state == "simulated" and not self.values:
            raise StudyError(f"{label}: a simulated trial needs values")
        if (self.mapping is None) != (self.mapping_key is None):
            raise StudyError(f"{label}: mapping and mapping_key must be given together")
        for name, value in (self.values or {}).items():
            if not math.isfinite(value):
                raise StudyError(f"{label}: value of {name} must be finite, got {value}; store it as a failed trial")


@dataclass(frozen=True, slots=True)
class DatasetRecord:
    """An input tensor of a study: where it came from, its content hash and size, and what reading it decided."""

    tensor: str
    key: str
    source: str
    shape: tuple[int, ...]
    nnz: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TransferRecord:
    """A mapping with which a study starts: the trial of the other ``study`` that it was taken from, and what became of
    it in the space of this one, as a JSON object."""

    study: str
    trial: int
    mapping: dict[str, Any]

    @property
    def origin(self) -> str:
        """What rows call it."""
        return f"{self.study} trial {self.trial}"


@dataclass(frozen=True, slots=True)
class StudyHandle:
    """A stored study: ``origin`` is the name that its specification has, which a fork does not get; ``batches`` are
    committed; ``finished`` says why the search ended, None while it has not.
    ``transfers``: what it starts with, None before it was looked for."""

    id: int
    name: str
    identity: dict[str, Any]
    identity_hash: str
    batches: int
    finished: str | None
    created_at: str = field(compare=False)
    transfers: tuple[TransferRecord, ...] | None = None
    origin: str = ""


@dataclass(frozen=True, slots=True)
class StudyContents:
    """A stored study with all its rows, in order."""

    handle: StudyHandle
    datasets: tuple[DatasetRecord, ...]
    baseline: TrialRecord | None
    trials: tuple[TrialRecord, ...]

    @property
    def objectives(self) -> tuple[str, ...]:
        """Objectives of the study, in the order of its specification."""
        return tuple(self.handle.identity["objectives"])

    @property
    def budgets(self) -> Budgets:
        """Upper limits that only a mapping within them may win."""
        return tuple(self.handle.identity["constraints"].items())
