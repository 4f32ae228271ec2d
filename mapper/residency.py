"""Residency: what the buffer behind a tile load does with tiles that it held before."""

from __future__ import annotations

from mapper.machine import Machine

KEEP, OVERBOOKED = "keep", "overbooked"

RESIDENCIES: dict[str, str] = {
    "none": "tiles are fetched at every visit",
    "lru": "recently used tiles stay on chip",
    KEEP: "the first tiles that fit stay on chip",
    OVERBOOKED: "recently used tiles stay on chip, of a tile larger than its buffer the head",
}
"""Every policy in words; ``docs/simulator.md`` has the rules."""


def streaming_bytes(machine: Machine) -> int:
    """Bytes of a buffer through which the tail of a tile larger than the buffer streams; the rest holds its head.

    As in Tailors (MICRO 2023, section 3) the streaming region hides the latency of DRAM: bandwidth times latency, here
    at most half of the buffer, and rounded up so that the head is whole bursts. 0 for an unlimited buffer.
    """
    if machine.buffer_bytes is None or machine.dram_channels is None:
        return 0
    hiding = machine.bytes_per_cycle * machine.dram_latency_cycles
    head = machine.buffer_bytes - min(hiding, machine.buffer_bytes / 2)
    return machine.buffer_bytes - int(head // machine.dram_burst_bytes) * machine.dram_burst_bytes


def tiles_ahead(machine: Machine, residency: str) -> int:
    """Tiles of a tile load that are on their way, wait or are walked, each in one of its ``prefetch_tiles`` buffers.

    Under ``keep`` one buffer is for the tiles that stay, even while others stream through; under ``lru`` and
    ``overbooked`` the tile asked for last is among those that stay, so that no buffer more is needed.
    """
    return machine.prefetch_tiles - (residency == KEEP)
