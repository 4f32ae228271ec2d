"""Readers that do nothing but load tiles from one memory, and the laws that say how long that takes.

Symbols: C channels, b bytes per burst, s = ceil(b / bytes per cycle) cycles per burst, L latency, R = 1 the response
latency of the FIFO behind a load.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hwsim import Profile, simulate
from mapper.graph import Channel, Context, Dram, Graph

START_CYCLES = 4
"""From the start to the first request and from the last data to the end of the reader."""


@dataclass(frozen=True)
class Reader:
    """Loads tiles of ``sizes`` bytes at ``addresses`` in turn, at most ``prefetch`` of them not yet consumed."""

    addresses: Sequence[int]
    sizes: Sequence[int]
    prefetch: int | None = None
    fill_bytes_per_cycle: float | None = None


@dataclass(frozen=True)
class Reading:
    """A finished run: the profile and, per reader, the cycle at which each tile was consumed."""

    profile: Profile
    times: tuple[np.ndarray, ...]


def stream(tiles: int, tile_bytes: int, start: int = 0, prefetch: int | None = None) -> Reader:
    """``tiles`` tiles one after another in memory."""
    return Reader([start + n * tile_bytes for n in range(tiles)], [tile_bytes] * tiles, prefetch)


def read(dram: Dram, *readers: Reader) -> Reading:
    """Runs all readers at once: source -> tile_load -> sink each, sources and sinks at one token per cycle or more."""
    contexts: list[Context] = []
    channels: list[Channel] = []
    for n, reader in enumerate(readers):
        refs, loaded = len(channels), len(channels) + 1
        channels += [Channel(f"refs {n}", None), Channel(f"loaded {n}", reader.prefetch)]
        tokens: list[tuple[Any, ...]] = [*(("val", t) for t in range(len(reader.sizes))), ("done",)]
        arrays = {
            "value_bytes": np.array(reader.sizes, np.int64),
            "metadata_bytes": np.zeros(len(reader.sizes), np.int64),
            "address": np.array(reader.addresses, np.int64),
        }
        contexts += [
            Context(f"source {n}", "source", (), (refs,), {"tokens": tokens}),
            Context(f"load {n}", "tile_load", (refs,), (loaded,), _load_parameters(n, reader), arrays),
            Context(f"sink {n}", "sink", (loaded,)),
        ]
    return _run(Graph(tuple(contexts), tuple(channels), tuple(f"T{n}" for n in range(len(readers))), dram))


def read_elements(dram: Dram | None, refs: Sequence[int], params: dict[str, Any]) -> Reading:
    """source -> array -> sink: the elements ``refs``, ``params`` being those of the array; tensor 0 is T0."""
    tokens: list[tuple[Any, ...]] = [*(("val", int(ref)) for ref in refs), ("done",)]
    values = {"values": np.zeros(max(refs, default=0) + 1)}
    contexts = (
        Context("source 0", "source", (), (0,), {"tokens": tokens}),
        Context("array", "array", (0,), (1,), params, values),
        Context("sink 0", "sink", (1,)),
    )
    return _run(Graph(contexts, (Channel("refs", None), Channel("values", None)), ("T0",), dram))


def _load_parameters(n: int, reader: Reader) -> dict[str, Any]:
    params: dict[str, Any] = {"tensor": n, "residency": "none"}
    rate = reader.fill_bytes_per_cycle
    return params if rate is None else params | {"fill_bytes_per_cycle": rate}


def _run(graph: Graph) -> Reading:
    profile = simulate(graph)
    assert profile.status == "done"
    assert simulate(graph, shuffle_seed=1).to_json() == profile.to_json()
    times = (np.array([at for _, at in profile.sinks[f"sink {n}"][:-1]]) for n in range(len(profile.sinks)))
    return Reading(profile, tuple(times))


def cycles_per_burst(dram: Dram) -> int:
    """s: a channel moves whole cycles only."""
    return math.ceil(dram.burst_bytes / dram.bytes_per_cycle)


def bandwidth(dram: Dram) -> float:
    """C * b / s, in bytes per cycle: the configured C * bytes_per_cycle where a burst takes whole cycles."""
    return dram.channels * dram.burst_bytes / cycles_per_burst(dram)


def bursts_touched(dram: Dram, reader: Reader) -> np.ndarray:
    """Bursts of every channel that the reader's tiles touch: one tile from byte a to byte z touches
    floor(z / b) - floor(a / b) + 1 of them, and burst n belongs to channel n mod C. Shape: (channels,)."""
    touched = np.zeros(dram.channels, np.int64)
    for a, size in zip(reader.addresses, reader.sizes, strict=True):
        for burst in range(a // dram.burst_bytes, (a + size - 1) // dram.burst_bytes + 1):
            touched[burst % dram.channels] += 1
    return touched


def outstanding_bandwidth(dram: Dram) -> float:
    """Bytes per cycle of one stream of tiles with N bursts in flight: min(bandwidth, N * b / (s + L))."""
    assert dram.outstanding is not None
    return min(bandwidth(dram), dram.outstanding * dram.burst_bytes / (cycles_per_burst(dram) + dram.latency_cycles))


def row_bandwidth(dram: Dram, hits: float) -> float:
    """C * b / (s + hits * h + (1 - hits) * m): a burst takes h cycles more in an open row and m in another."""
    row = hits * dram.row_hit_cycles + (1 - hits) * dram.row_miss_cycles
    return dram.channels * dram.burst_bytes / (cycles_per_burst(dram) + row)


def bank_cycles(refs: Sequence[int], banks: int, cycles: int) -> int:
    """At least so long takes reading elements out of banks that give one per ``cycles``: as long as the bank with most
    of them, and one cycle for each."""
    return max(len(refs), int(np.bincount(np.array(refs) % banks).max()) * cycles)


def streaming_cycles(dram: Dram, total_bytes: int) -> float:
    """Total bytes / bandwidth + L, as long as requests come fast enough."""
    return total_bytes / bandwidth(dram) + dram.latency_cycles


def round_trip_cycles(dram: Dram, tile_bytes: int) -> int:
    """From one request to the next in the same slot of the FIFO: bursts of the busiest channel * s + L + R."""
    bursts = math.ceil(tile_bytes / dram.burst_bytes)
    return math.ceil(bursts / dram.channels) * cycles_per_burst(dram) + dram.latency_cycles + 1


def prefetch_bandwidth(dram: Dram, tile_bytes: int, prefetch: int) -> float:
    """Bytes per cycle of one stream of burst-aligned tiles: min(bandwidth, prefetch * tile / round trip)."""
    return min(bandwidth(dram), prefetch * tile_bytes / round_trip_cycles(dram, tile_bytes))
