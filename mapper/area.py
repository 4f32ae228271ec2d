"""Area of a machine from a table of square millimetres, so that searches can trade it against time and energy.

Every figure is at 45 nm. SRAM comes from CACTI; units and FIFOs are stated assumptions, good to compare machines of
this table with each other, not with a die. For another process only a scaled estimate exists (``process_scale``).
"""

from __future__ import annotations

import numpy as np

from mapper.graph import CONTEXT_KINDS
from mapper.machine import Machine

REFERENCE_NM = 45.0

SRAM_MM2: dict[int, float] = {64: 0.21, 1024: 3.3, 4 * 1024: 13.0, 17 * 1024: 55.0, 30 * 1024: 91.0}
"""Capacity in KiB -> mm2 of one SRAM (CACTI by hwcomponents-cacti 1.0.40, 45 nm)."""

UNIT_UM2: dict[str, float] = {
    "scan": 1500,  # two address counters and a bound
    "repeat": 500,
    "intersect": 1000,  # comparator and multiplexers
    "union": 1000,
    "array": 800,  # address and port
    "alu": 11_900,  # an fp32 multiplier of 7,700 and an adder of 4,200
    "map": 11_900,  # as alu
    "reduce": 4700,  # adder and identity
    "accumulate": 6200,  # adder and search by key; its SRAM is counted apart
    "tile_load": 3000,  # a DMA engine
    "store": 3000,
    "locate": 800,  # as array
    "block_mac": 11_900,  # an alu per product of values that it makes in a cycle
    "block_accumulate": 11_900,  # the same
}
"""Assumption: um2 of the logic of one unit of each kind, without its FIFOs and memories."""

FREE_KINDS = frozenset({
    "root", "fork", "repeat_signal", "source", "sink", "convert",  # wiring, the host's side, whole units in sequence
    "number", "drop_empty", "stream_scan",  # Assumption: a counter or a comparator in a unit beside them
    "crd_write", "value_write",  # Comal's, whose machine is endless
    "mask", "hold", "drop_fiber", "scatter", "gather", "combine", "block_alu", "python",  # in no mapping
    "block_store",  # a store
})  # fmt: skip
"""Kinds that no machine budgets and that have no area."""

FIFO_UM2_PER_BIT = 1.6
"""Assumption: four times the 0.40 um2 per bit of the 64 KiB SRAM, for two ports and the overhead of small arrays."""


def area_mm2(machine: Machine, process_nm: float = REFERENCE_NM) -> float | None:
    """Area in mm2: the sum of ``area_parts_mm2``, times ``process_scale(process_nm)``; None if that is None."""
    parts = area_parts_mm2(machine)
    return None if parts is None else sum(parts.values()) * process_scale(process_nm)


def area_parts_mm2(machine: Machine) -> dict[str, float] | None:
    """mm2 of ``logic``, ``fifos``, ``buffers`` and ``accumulators`` at 45 nm.

    Each unit has a FIFO of ``fifo_depth`` words at each input port (two for a repeated port); a word is the widest
    of value, coordinate and pointer and one control bit. Each tile_load has ``prefetch_tiles`` buffers of
    ``buffer_bytes``, as many tiles as may wait behind it; each accumulator has its own ``accumulator_bytes``.
    None for a machine without limits: unbounded FIFOs, buffers, accumulators or units have no area.
    """
    if None in (machine.units, machine.fifo_depth, machine.buffer_bytes, machine.accumulator_bytes):
        return None
    assert machine.units is not None and machine.fifo_depth is not None  # for the type checker
    assert machine.buffer_bytes is not None and machine.accumulator_bytes is not None
    word_bits = 8 * max(machine.value_bytes, machine.coordinate_bytes, machine.pointer_bytes) + 1
    fifos = sum(count * _input_ports(kind) for kind, count in machine.units.items())
    width = dict.fromkeys(("block_mac", "block_accumulate"), machine.block_operations_per_cycle or 1)
    logic = sum(count * UNIT_UM2[kind] * width.get(kind, 1) for kind, count in machine.units.items())
    accumulators = machine.units["accumulate"] + machine.units.get("block_accumulate", 0)
    return {
        "logic": logic * 1e-6,
        "fifos": fifos * machine.fifo_depth * word_bits * FIFO_UM2_PER_BIT * 1e-6,
        "buffers": machine.units["tile_load"] * machine.prefetch_tiles * sram_mm2(machine.buffer_bytes),
        "accumulators": accumulators * sram_mm2(machine.accumulator_bytes),
    }


def sram_mm2(capacity_bytes: float) -> float:
    """mm2 at 45 nm of one SRAM: between the table's rows straight in log-log, outside at the nearest row's density
    (below 64 KiB that leaves out the growing share of the periphery: a lower estimate)."""
    kib = capacity_bytes / 1024
    capacities = np.array(list(SRAM_MM2))
    areas = np.array(list(SRAM_MM2.values()))
    inside = float(np.clip(kib, capacities[0], capacities[-1]))
    return float(np.exp(np.interp(np.log(inside), np.log(capacities), np.log(areas)))) * kib / inside


def process_scale(process_nm: float) -> float:
    """Factor on an area at 45 nm: the square of the ratio of feature sizes. Assumption: ideal scaling, which flatters
    newer processes, above all in SRAM."""
    return (process_nm / REFERENCE_NM) ** 2


def _input_ports(kind: str) -> int:
    return sum(2 if "*" in port else 1 for port in CONTEXT_KINDS[kind][0])
