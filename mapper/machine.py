"""Machines: what lowering, the cost model and the simulator need to know of the hardware.

Presets are YAML files in ``mapper/machines``, every figure with its source. A preset is only a set of fields:
no code looks at its name.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mapper.canonical import content_hash
from mapper.errors import InputError, nearest

PRESETS = Path(__file__).parent / "machines"

SOURCE_GROUPS: dict[str, tuple[str, ...]] = {
    "clock": ("clock_ghz",),
    "fifos": ("fifo_depth", "channel_latency_cycles", "response_latency_cycles"),
    "buffers": ("prefetch_tiles", "buffer_bytes", "accumulator_bytes"),
    "drain": ("drain_cycles_per_entry",),
    "widths": ("value_bytes", "coordinate_bytes", "pointer_bytes", "descriptor_bytes"),
    "buffer_ports": ("buffer_banks", "buffer_bytes_per_cycle"),
    "dram": ("dram_channels", "dram_bytes_per_cycle", "dram_burst_bytes", "dram_latency_cycles"),
    "dram_control": (
        "dram_interleave_bytes", "dram_startup_cycles", "dram_row_bytes", "dram_row_hit_cycles", "dram_row_miss_cycles",
        "dram_outstanding",
    ),
    "units": ("units",),
    "blocks": ("block_operations_per_cycle",),
}  # fmt: skip
"""Fields of a machine that share one entry in the ``sources`` of a preset; figures of energy have one each, and
``area`` says what is known of the silicon."""

REAL_FIELDS = ("clock_ghz", "buffer_bytes_per_cycle", "dram_bytes_per_cycle")
"""Numeric fields that need not be integers."""

OPTIONAL_FIELDS = (
    "fifo_depth", "buffer_bytes", "buffer_bytes_per_cycle", "accumulator_bytes", "dram_channels",
    "dram_interleave_bytes", "dram_row_bytes", "dram_outstanding", "block_operations_per_cycle",
)  # fmt: skip
"""Numeric fields that may be None."""

ZERO_FIELDS = (
    "descriptor_bytes", "drain_cycles_per_entry", "dram_latency_cycles", "dram_startup_cycles", "dram_row_hit_cycles",
    "dram_row_miss_cycles",
)  # fmt: skip
"""Numeric fields that may be 0."""


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy per action in picojoules."""

    dram_pj_per_byte: float
    buffer_pj_per_byte: float
    multiply_pj: float
    add_pj: float
    compare_pj: float
    token_pj: float


@dataclass(frozen=True, slots=True)
class Machine:
    """A dataflow accelerator. ``None`` means unbounded (FIFO depth, buffers, their ports, requests in flight), absent
    (DRAM: no memory time; row buffers: all bursts alike) or, for the interleave, one burst.

    A buffer has ``buffer_banks`` that each move ``buffer_bytes_per_cycle``: it takes a tile in at the rate of all of
    them, and gives a value out of the one bank that holds it. Fields of the DRAM are those of ``mapper.graph.Dram``.
    Units that multiply blocks make ``block_operations_per_cycle`` products of values (None: there are none).
    """

    name: str
    clock_ghz: float
    fifo_depth: int | None
    channel_latency_cycles: int
    response_latency_cycles: int
    prefetch_tiles: int
    buffer_bytes: int | None
    buffer_banks: int
    buffer_bytes_per_cycle: float | None
    accumulator_bytes: int | None
    drain_cycles_per_entry: int
    value_bytes: int
    coordinate_bytes: int
    pointer_bytes: int
    descriptor_bytes: int
    dram_channels: int | None
    dram_bytes_per_cycle: float
    dram_burst_bytes: int
    dram_latency_cycles: int
    dram_interleave_bytes: int | None
    dram_startup_cycles: int
    dram_row_bytes: int | None
    dram_row_hit_cycles: int
    dram_row_miss_cycles: int
    dram_outstanding: int | None
    block_operations_per_cycle: int | None
    units: dict[str, int] | None
    energy: Energy

    @property
    def key(self) -> str:
        """Content hash."""
        return content_hash(self)

    @property
    def bytes_per_cycle(self) -> float:
        """Peak DRAM bandwidth; infinite without DRAM."""
        return float("inf") if self.dram_channels is None else self.dram_channels * self.dram_bytes_per_cycle

    @property
    def streaming_bytes_per_cycle(self) -> float:
        """DRAM bandwidth of a long stream: a burst keeps its channel for whole cycles, and one in every row opens it,
        which the others find open. Infinite without DRAM."""
        if self.dram_channels is None:
            return float("inf")
        cycles: float = math.ceil(self.dram_burst_bytes / self.dram_bytes_per_cycle)
        if self.dram_row_bytes is not None:
            misses = self.dram_burst_bytes / self.dram_row_bytes
            cycles += misses * self.dram_row_miss_cycles + (1 - misses) * self.dram_row_hit_cycles
        return self.dram_channels * self.dram_burst_bytes / cycles

    def port_bytes_per_cycle(self, direction: str) -> float:
        """The most that one unit can ``"read"`` or ``"write"`` with its bursts in flight; infinite without a limit."""
        if self.dram_outstanding is None or self.dram_channels is None:
            return float("inf")
        burst = math.ceil(self.dram_burst_bytes / self.dram_bytes_per_cycle)
        in_flight = burst + (self.dram_latency_cycles if direction == "read" else 0)
        return self.dram_outstanding * self.dram_burst_bytes / in_flight

    @property
    def buffer_fill_bytes_per_cycle(self) -> float:
        """At what rate a buffer takes a tile in; infinite without a limit."""
        rate = self.buffer_bytes_per_cycle
        return float("inf") if rate is None else self.buffer_banks * rate

    @property
    def bank_read_cycles(self) -> int:
        """Cycles for which a bank gives out one value."""
        rate = self.buffer_bytes_per_cycle
        return 1 if rate is None else math.ceil(self.value_bytes / rate)

    def with_fields(self, **changes: Any) -> Machine:
        """A copy with other numeric fields; unknown names and non-numeric values raise InputError."""
        for name, value in changes.items():
            check_field(name, value)
        return dataclasses.replace(self, **changes)


def numeric_fields() -> tuple[str, ...]:
    """Fields that a specification may override or turn into a knob."""
    return tuple(f.name for f in dataclasses.fields(Machine) if f.name not in ("name", "units", "energy"))


def preset_names() -> tuple[str, ...]:
    """Names of the bundled machines."""
    return tuple(sorted(p.stem for p in PRESETS.glob("*.yaml")))


def load_machine(name: str) -> Machine:
    """The bundled machine ``name``. Raises InputError with the valid names otherwise."""
    fields = _preset(name)
    fields.pop("sources")
    return Machine(name=name, energy=Energy(**fields.pop("energy")), **fields)


def machine_sources(name: str) -> dict[str, str]:
    """Where the figures of the bundled machine ``name`` come from, by group of fields (``SOURCE_GROUPS``), figure of
    energy, and ``area``. Raises InputError as ``load_machine``."""
    sources: dict[str, str] = _preset(name)["sources"]
    return sources


def _preset(name: str) -> dict[str, Any]:
    if name not in preset_names():
        raise InputError(f"unknown machine {name!r}.{nearest(name, preset_names())}")
    fields: dict[str, Any] = yaml.safe_load((PRESETS / f"{name}.yaml").read_text())
    return fields


def check_field(name: str, value: Any) -> None:
    """Raises InputError for an unknown field, one that is no number, and a value that it cannot have."""
    if name not in numeric_fields():
        raise InputError(f"unknown machine field {name!r}.{nearest(name, numeric_fields())}")
    if value is None and name in OPTIONAL_FIELDS:
        return
    real = name in REAL_FIELDS
    if isinstance(value, bool) or not isinstance(value, int | float if real else int):
        raise InputError(f"machine field {name!r} must be {'a number' if real else 'an integer'}, got {value!r}")
    if value < (0 if name in ZERO_FIELDS else 1e-9):
        raise InputError(f"machine field {name!r} must be positive, got {value!r}")
