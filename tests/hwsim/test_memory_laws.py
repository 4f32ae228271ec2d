"""Laws of off-chip memory, each against its formula (``memory_streams``)."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from memory_streams import (
    START_CYCLES,
    Reader,
    bandwidth,
    bank_cycles,
    bursts_touched,
    cycles_per_burst,
    outstanding_bandwidth,
    prefetch_bandwidth,
    read,
    read_elements,
    round_trip_cycles,
    row_bandwidth,
    stream,
    streaming_cycles,
)

from hwsim import simulate
from mapper.graph import Context, Dram, Graph
from mapper.graph_builder import dram_of
from mapper.machine import load_machine, preset_names

RDA = Dram(channels=8, bytes_per_cycle=8, burst_bytes=64, latency_cycles=100)
SLOW = Dram(channels=4, bytes_per_cycle=2, burst_bytes=64, latency_cycles=50)  # 32 cycles per burst
ONE = Dram(channels=1, bytes_per_cycle=8, burst_bytes=64, latency_cycles=10)
ROWS = dataclasses.replace(ONE, row_bytes=256, row_hit_cycles=2, row_miss_cycles=20)  # a burst takes 10 cycles or 28
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


# -------------------------------------------------------------------------------------- start-up, interleaving, rows


def test_start_up_delays_the_first_burst_and_nothing_else() -> None:
    # A burst at t=1 is there at 1 + 8 + 100; after 50 cycles of start-up at 50 + 8 + 100.
    late = dataclasses.replace(RDA, startup_cycles=50)
    assert read(RDA, stream(1, 64)).times[0].tolist() == [109]
    assert read(late, stream(1, 64)).times[0].tolist() == [158]
    tiles = 300
    assert read(late, stream(tiles, 512)).profile.cycles == 49 + read(RDA, stream(tiles, 512)).profile.cycles
    # The first request is made at t=1: a start-up of one cycle is over by then.
    soon = dataclasses.replace(RDA, startup_cycles=1)
    assert read(soon, stream(4, 64)).times[0].tolist() == read(RDA, stream(4, 64)).times[0].tolist()


def test_interleaving() -> None:
    # 4 bursts of one tile at t=1 on 2 channels: 2 each, 1 + 16 + 10; in chunks of 256 bytes all in one, 1 + 32 + 10.
    fine = dataclasses.replace(ONE, channels=2)
    coarse = dataclasses.replace(fine, interleave_bytes=256)
    assert read(fine, stream(1, 256)).times[0].tolist() == [27]
    assert read(coarse, stream(1, 256)).times[0].tolist() == [43]
    # The tile behind it is in the other channel: t=2, 2 + 32 + 10. The third is behind the first: 33 + 32 + 10.
    assert read(coarse, stream(3, 256)).times[0].tolist() == [43, 44, 75]
    # From the middle of a chunk: 2 bursts in channel 0, 2 in channel 1.
    assert read(coarse, Reader([128], [256])).times[0].tolist() == [27]


@pytest.mark.parametrize("chunk", [1, 3, 4])
def test_coarse_interleaving_streams_at_the_same_bandwidth(chunk: int) -> None:
    dram = dataclasses.replace(SLOW, interleave_bytes=chunk * SLOW.burst_bytes)
    run = read(dram, stream(300, 4 * chunk * SLOW.burst_bytes))
    assert run.profile.burst_bytes / run.profile.cycles == pytest.approx(bandwidth(dram), rel=0.01)


def test_rows() -> None:
    # 8 bursts at t=1 are rows 0 and 1: 8 * 8 to move them, 2 * 20 + 6 * 2 for their rows: 1 + 116 + 10.
    run = read(ROWS, stream(1, 512))
    assert (run.times[0].tolist(), run.profile.row_misses) == ([127], 2)
    # One burst at a time in one row: 1 + 28 + 10, then 10 each.
    run = read(ROWS, stream(4, 64))
    assert (run.times[0].tolist(), run.profile.row_misses) == ([39, 49, 59, 69], 1)
    # To and fro between two rows: 28 each.
    run = read(ROWS, Reader([0, 256, 0, 256], [64] * 4))
    assert (run.times[0].tolist(), run.profile.row_misses) == ([39, 67, 95, 123], 4)
    # Two tensors never share a row, though both begin at address 0.
    run = read(ROWS, stream(2, 64, 0), stream(2, 64, 0))
    assert run.profile.row_misses == 4
    # Without row buffers the fields do nothing.
    assert read(dataclasses.replace(ROWS, row_bytes=None), stream(4, 64)).times[0].tolist() == [19, 27, 35, 43]


def test_conversions_into_one_tensor_share_its_row() -> None:
    # A and B are read at 0: 28 cycles each, there at 38 and 66. T is written at 38, behind both: 28 more are 84; and
    # once more at 66, into the open row: 94.
    one_burst = {"read_value_bytes": 64, "read_metadata_bytes": 0, "write_value_bytes": 64, "write_metadata_bytes": 0}
    contexts = tuple(Context(f"from {n}", "convert", (), (), {"tensor": n, "result": 2} | one_burst) for n in (0, 1))
    profile = simulate(Graph(contexts, (), ("A", "B", "T"), ROWS))
    assert (profile.cycles, profile.row_misses) == (94, 3)


def test_a_row_lies_in_one_channel() -> None:
    # 2 channels by burst: 8 bursts are 4 in each channel, one row of 4 bursts: 2 misses. By 512 bytes: 2 rows in one.
    fine = dataclasses.replace(ROWS, channels=2)
    assert read(fine, stream(1, 512)).profile.row_misses == 2
    run = read(dataclasses.replace(fine, interleave_bytes=512), stream(1, 512))
    assert (run.times[0].tolist(), run.profile.row_misses) == ([127], 2)


@pytest.mark.parametrize("channels", [1, 3, 8])
def test_row_hits_and_misses_set_the_bandwidth(channels: int) -> None:
    dram = dataclasses.replace(ROWS, channels=channels)
    tiles = 400
    run = read(dram, stream(tiles, 256 * channels))  # every row is opened once for its 4 bursts
    assert run.profile.row_misses == tiles * channels
    assert run.profile.burst_bytes / run.profile.cycles == pytest.approx(row_bandwidth(dram, 3 / 4), rel=0.01)
    # Two streams in step in the same channels: they close each other's rows at every tile of a burst.
    far = 2**20 * channels
    pair = read(dram, *(Reader([far * n + t * 64 * channels for t in range(tiles)], [64] * tiles) for n in range(2)))
    assert pair.profile.row_misses == 2 * tiles
    law = row_bandwidth(dataclasses.replace(dram, channels=1), 0.0)  # all bursts are in channel 0
    assert pair.profile.burst_bytes / pair.profile.cycles == pytest.approx(law, rel=0.01)


# ----------------------------------------------------------------------------------------------- bursts in flight


def test_bursts_in_flight() -> None:
    # A tile of 4 bursts at t=1, two in flight: 2 go at once, there at 1 + 8 + 100; the others at 109, there at 217.
    # The load's clock is then at 109: it waited for its port.
    dram = dataclasses.replace(RDA, outstanding=2)
    run = read(dram, stream(1, 256))
    assert run.times[0].tolist() == [217]
    load = next(c for c in run.profile.contexts if c.kind == "tile_load")
    assert (load.memory, load.busy) == (108, 1)
    # Tiles of a burst: two per round trip of 108.
    assert read(dram, stream(6, 64)).times[0].tolist() == [109, 110, 217, 218, 325, 326]


@pytest.mark.parametrize("outstanding", [1, 2, 7, 16, 64])
@pytest.mark.parametrize("tile", [64, 512, 4096])
@pytest.mark.parametrize("latency", [20, 400])
def test_bursts_in_flight_over_latency_bound_a_stream(outstanding: int, tile: int, latency: int) -> None:
    dram = dataclasses.replace(RDA, outstanding=outstanding, latency_cycles=latency)
    run = read(dram, stream(200 * outstanding * 64 // tile + 100, tile))
    law = outstanding_bandwidth(dram)
    reached = run.profile.burst_bytes / (run.times[0][-1] - 1)  # from the first request on
    assert 0.99 * law <= reached <= law


def test_a_port_at_its_limit_leaves_the_channel_to_others() -> None:
    # One burst in flight each: a channel that is idle through most of a round trip serves two as fast as one.
    dram = dataclasses.replace(ONE, latency_cycles=100, outstanding=1)
    alone = read(dram, stream(20, 640)).times[0]
    assert alone[0] == 1 + 10 * 108
    both = read(dram, stream(20, 640), stream(20, 640))
    assert [int(t[-1] - alone[-1]) for t in both.times] == [0, 8]  # the second starts behind the first burst


# ---------------------------------------------------------------------------------------- elements, buffers, banks


@pytest.mark.parametrize("seed", range(3))
def test_a_gather_of_elements_costs_the_runs_of_bursts(seed: int) -> None:
    refs = np.random.default_rng(seed).integers(0, 2**12, 600)
    params = {"tensor": 0, "address": 0, "value_bits": 32}
    bursts = refs // 16
    runs = 1 + int(np.count_nonzero(np.diff(bursts)))
    run = read_elements(SLOW, refs.tolist(), params)
    assert run.profile.burst_bytes == runs * 64 == run.profile.traffic_bytes
    # Sorted: every burst once.
    run = read_elements(SLOW, np.sort(refs).tolist(), params)
    assert run.profile.burst_bytes == np.unique(bursts).size * 64


def test_elements_stream_at_the_bandwidth() -> None:
    # 8-byte elements, one per cycle, are what one channel moves: 8 bytes per cycle.
    run = read_elements(ONE, range(8000), {"tensor": 0, "address": 0, "value_bits": 64})
    assert 8000 * 8 / run.profile.cycles == pytest.approx(bandwidth(ONE), rel=0.01)


def test_the_fill_of_a_buffer_bounds_its_loads() -> None:
    # 64 bytes at 4 per cycle are 16 cycles. The first came in as it arrived, until 109; each other takes 16 more.
    run = read(RDA, Reader([64 * n for n in range(50)], [64] * 50, None, 4.0))
    assert run.times[0].tolist() == [109 + 16 * n for n in range(50)]
    # A fill as fast as the data: nobody notices.
    fast = read(RDA, Reader([64 * n for n in range(50)], [64] * 50, None, 64.0))
    assert fast.times[0].tolist() == read(RDA, stream(50, 64)).times[0].tolist()


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
def test_banks_share_the_elements(stride: int) -> None:
    # 4 banks, each taken for 3 cycles: by stride 1 and 3 all four serve, by 2 two, by 4 one.
    refs = list(range(0, 400 * stride, stride))
    params: dict[str, Any] = {"banks": 4, "value_bytes": 3, "bank_bytes_per_cycle": 1.0}
    run = read_elements(None, refs, params)
    law = bank_cycles(refs, 4, 3)
    assert law == {1: 400, 2: 600, 3: 400, 4: 1200}[stride]
    assert law <= run.profile.cycles <= law + 6
