"""Laws of off-chip memory, each against its formula (``memory_streams``)."""

from __future__ import annotations

import numpy as np
import pytest
from memory_streams import (
    START_CYCLES,
    Reader,
    bandwidth,
    bursts_touched,
    cycles_per_burst,
    prefetch_bandwidth,
    read,
    round_trip_cycles,
    stream,
    streaming_cycles,
)

from mapper.graph import Dram
from mapper.graph_builder import dram_of
from mapper.machine import load_machine, preset_names

RDA = Dram(channels=8, bytes_per_cycle=8, burst_bytes=64, latency_cycles=100)
SLOW = Dram(channels=4, bytes_per_cycle=2, burst_bytes=64, latency_cycles=50)  # 32 cycles per burst
WITH_MEMORY = [name for name in preset_names() if load_machine(name).dram_channels is not None]


@pytest.mark.parametrize("name", WITH_MEMORY)
def test_streaming_reaches_the_configured_bandwidth_of_every_machine(name: str) -> None:
    machine = load_machine(name)
    dram = dram_of(machine)
    assert dram is not None
    tile = 128 * dram.burst_bytes * dram.channels // 8
    tiles = int(machine.bytes_per_cycle * 200 * (dram.latency_cycles + START_CYCLES)) // tile
    run = read(dram, stream(tiles, tile))
    reached = tiles * tile / run.profile.cycles
    assert 0.99 * machine.bytes_per_cycle <= reached <= 1.001 * machine.bytes_per_cycle


@pytest.mark.parametrize("dram", [RDA, SLOW, Dram(1, 64, 64, 0), Dram(3, 16, 32, 7)])
@pytest.mark.parametrize("bursts", [1, 6, 24])
def test_streaming_takes_bytes_over_bandwidth_plus_latency(dram: Dram, bursts: int) -> None:
    # One request per cycle: a load of less than the bandwidth per cycle is bound by its own requests.
    tiles, tile = 600, bursts * dram.burst_bytes
    run = read(dram, stream(tiles, tile))
    law = max(streaming_cycles(dram, tiles * tile), tiles + dram.latency_cycles)
    assert law <= run.profile.cycles <= law + cycles_per_burst(dram) + START_CYCLES


def test_a_burst_takes_whole_cycles() -> None:
    dram = Dram(channels=2, bytes_per_cycle=6, burst_bytes=64, latency_cycles=10)  # 10.7 cycles are 11
    assert bandwidth(dram) == 2 * 64 / 11
    run = read(dram, stream(1000, 1280))
    assert 1_280_000 / run.profile.cycles == pytest.approx(bandwidth(dram), rel=0.001)


@pytest.mark.parametrize("prefetch", [None, 16])
@pytest.mark.parametrize("readers", [2, 3])
def test_readers_share_the_memory_fairly(readers: int, prefetch: int | None) -> None:
    tiles, tile = 400, 512  # a tile is one burst of every channel
    run = read(RDA, *(stream(tiles, tile, n * tiles * tile, prefetch) for n in range(readers)))
    law = streaming_cycles(RDA, readers * tiles * tile)
    assert law <= run.profile.cycles <= law + START_CYCLES + readers
    for at in range(RDA.latency_cycles + 20, int(law), 97):  # at every moment they have got the same, to one tile
        got = [int(np.searchsorted(times, at)) for times in run.times]
        assert max(got) - min(got) <= 1


def test_two_readers_of_one_channel_share_it() -> None:
    tiles = 300
    at = [n * RDA.channels * RDA.burst_bytes for n in range(2 * tiles)]  # every burst in channel 0
    run = read(RDA, Reader(at[:tiles], [64] * tiles), Reader(at[tiles:], [64] * tiles))
    law = 2 * tiles * cycles_per_burst(RDA) + RDA.latency_cycles
    assert law <= run.profile.cycles <= law + START_CYCLES
    first, second = run.times
    assert set(second - first) == {cycles_per_burst(RDA)}  # in turn
    alone = read(RDA, Reader(at[:tiles], [64] * tiles)).profile.cycles
    assert alone <= law / 2 + RDA.latency_cycles / 2 + START_CYCLES


def test_readers_of_different_channels_do_not_meet() -> None:
    stride = RDA.channels * RDA.burst_bytes
    readers = [Reader([c * 64 + n * stride for n in range(300)], [64] * 300) for c in range(2)]
    assert read(RDA, *readers).profile.cycles == read(RDA, readers[0]).profile.cycles


def test_the_longer_reader_gets_everything_once_alone() -> None:
    short, long = stream(200, 512, 0, 16), stream(600, 512, 2**20, 16)
    run = read(RDA, short, long)
    assert run.times[0][-1] == pytest.approx(streaming_cycles(RDA, 2 * 200 * 512), rel=0.01)
    assert run.times[1][-1] == pytest.approx(streaming_cycles(RDA, 800 * 512), rel=0.01)


@pytest.mark.parametrize("size", [4, 24, 64, 100])
@pytest.mark.parametrize("seed", range(3))
def test_a_random_gather_costs_the_bursts_touched(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    gather = Reader((rng.integers(0, 2**20, 500) * 4).tolist(), [size] * 500)
    touched = bursts_touched(SLOW, gather)
    run = read(SLOW, gather)
    assert run.profile.burst_bytes == touched.sum() * SLOW.burst_bytes
    assert run.profile.traffic_bytes == 500 * size
    # The busiest channel never idles once requests, 1 per cycle, have outrun it.
    law = touched.max() * cycles_per_burst(SLOW) + SLOW.latency_cycles
    assert law <= run.profile.cycles <= law + cycles_per_burst(SLOW) + START_CYCLES


def test_unaligned_tiles_touch_one_burst_more() -> None:
    aligned, unaligned = (read(SLOW, Reader([n * 128 + off for n in range(100)], [64] * 100)) for off in (0, 4))
    assert aligned.profile.burst_bytes == 100 * 64
    assert unaligned.profile.burst_bytes == 200 * 64


@pytest.mark.parametrize("latency", [20, 100, 400])
@pytest.mark.parametrize("prefetch", [1, 2, 4, 7, 64])
@pytest.mark.parametrize("tile", [64, 512, 2048])
def test_prefetch_times_tile_over_round_trip_bounds_a_stream(latency: int, prefetch: int, tile: int) -> None:
    dram = Dram(RDA.channels, RDA.bytes_per_cycle, RDA.burst_bytes, latency)
    run = read(dram, stream(1000, tile, 0, prefetch))
    times = run.times[0]
    skip = 4 * prefetch + 4  # until the pattern repeats
    rounds = (times.size - 1 - skip) // prefetch
    steady = rounds * prefetch * tile / (times[skip + rounds * prefetch] - times[skip])
    law = prefetch_bandwidth(dram, tile, prefetch)
    assert steady == pytest.approx(law, rel=0.01)


def test_one_slot_is_one_round_trip() -> None:
    run = read(RDA, stream(50, 64, 0, 1))
    assert set(np.diff(run.times[0])) == {round_trip_cycles(RDA, 64)} == {8 + 100 + 1}
