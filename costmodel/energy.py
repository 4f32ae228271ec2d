"""Energy from action counts and the machine's table of energies per action."""

from __future__ import annotations

from dataclasses import dataclass

from mapper.machine import Energy


@dataclass(frozen=True, slots=True)
class Actions:
    """How often each priced action happens: ``dram_bytes`` in whole bursts, ``buffer_bytes`` the payload that passes
    an on-chip buffer once on its way to or from memory, effectual multiplies in units of an fp32 one, additions of
    reducers, accumulators and sums, turns of joins, tokens pushed."""

    dram_bytes: float = 0.0
    buffer_bytes: float = 0.0
    multiplies: float = 0.0
    additions: float = 0.0
    comparisons: float = 0.0
    tokens: float = 0.0

    def __add__(self, other: Actions) -> Actions:
        return Actions(
            self.dram_bytes + other.dram_bytes,
            self.buffer_bytes + other.buffer_bytes,
            self.multiplies + other.multiplies,
            self.additions + other.additions,
            self.comparisons + other.comparisons,
            self.tokens + other.tokens,
        )

    def energy_pj(self, table: Energy) -> float:
        """Sum over actions of count times energy, in picojoules."""
        return (
            self.dram_bytes * table.dram_pj_per_byte
            + self.buffer_bytes * table.buffer_pj_per_byte
            + self.multiplies * table.multiply_pj
            + self.additions * table.add_pj
            + self.comparisons * table.compare_pj
            + self.tokens * table.token_pj
        )
