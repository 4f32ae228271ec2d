"""Energy of a simulated run, from its action counts and the machine's energy per action."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .result import Profile

if TYPE_CHECKING:
    from mapper.machine import Energy


def energy_pj(profile: Profile, energy: Energy, multiply_scale: float = 1.0) -> float:
    """Energy in picojoules: the sum over actions of their count times their energy.

    Off-chip: ``burst_bytes`` (whole bursts, as the memory moves them; without a memory model the payload bytes).
    On-chip buffer: every payload byte is written into or read out of it once on its way to or from off-chip memory.
    Units: effectual multiplies (each ``multiply_scale`` of an fp32 one), additions (reduce, accumulate, alu) and
    coordinate comparisons (joins).
    FIFOs: every token is written and read once, which ``token_pj`` covers as one action.
    """
    off_chip_bytes = profile.burst_bytes or profile.traffic_bytes
    return (
        off_chip_bytes * energy.dram_pj_per_byte
        + profile.traffic_bytes * energy.buffer_pj_per_byte
        + profile.effectual_multiplies * multiply_scale * energy.multiply_pj
        + profile.additions * energy.add_pj
        + profile.comparisons * energy.compare_pj
        + profile.tokens * energy.token_pj
    )
