"""Energy is the sum of counts times the machine's energy per action."""

from __future__ import annotations

import dataclasses

from hwsim import Profile, TrafficRow, energy_pj
from mapper.machine import Energy

PROFILE = Profile(
    status="done", cycles=100, tokens=1000, contexts=(), channels=(),
    traffic=(TrafficRow("A", "read", 60, 4, 1), TrafficRow("Z", "write", 30, 6, 1)), burst_bytes=192,
    effectual_multiplies=50, additions=40, comparisons=70, spilled_entries=0, tile_hits=0, tile_misses=1,
)  # fmt: skip


def test_each_action_counts_once() -> None:
    nothing = Energy(0, 0, 0, 0, 0, 0)
    counts = {"dram_pj_per_byte": 192, "buffer_pj_per_byte": 100, "multiply_pj": 50, "add_pj": 40, "compare_pj": 70,
              "token_pj": 1000}  # fmt: skip
    for action, count in counts.items():
        assert energy_pj(PROFILE, dataclasses.replace(nothing, **{action: 0.5})) == 0.5 * count
    everything = Energy(1, 10, 100, 1000, 10_000, 100_000)
    assert energy_pj(PROFILE, everything) == 192 + 1000 + 5000 + 40_000 + 700_000 + 100_000_000


def test_without_a_memory_model_payload_bytes_count() -> None:
    bare = dataclasses.replace(PROFILE, burst_bytes=0)
    assert energy_pj(bare, Energy(2, 0, 0, 0, 0, 0)) == 200
