"""tile_load, its residency, and convert; the time of off-chip memory by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from unit_harness import run_unit

from hwsim import simulate
from mapper.errors import GraphError
from mapper.graph import Channel, Context, Dram, Graph

DRAM = Dram(channels=2, bytes_per_cycle=8, burst_bytes=64, latency_cycles=10)  # a burst takes 8 cycles
TILES = {"value_bytes": [64, 128, 0], "metadata_bytes": [0, 8, 0], "address": [0, 64, 200]}


def load(refs: str, residency: str = "none", capacity: int = 0, **options: Any) -> Any:
    params = {"tensor": 0, "residency": residency, "capacity_bytes": capacity}
    return run_unit("tile_load", [refs], params=params, arrays=TILES, tensors=("A",), dram=DRAM, **options)


def test_loads_are_pipelined() -> None:
    # t=1: tile 0, burst 0 on channel 0: 1 + 8 + 10 = 19. t=2: tile 1, bytes 64..199 are bursts 1 2 3: channel 1 is
    # busy 2..18 with two of them, channel 0 9..17: there at 28. t=3: tile 2 has no bytes: at 4, but behind 28.
    run = load("0 1 2 D")
    assert run.timed == ("0@19 1@28 2@28 D@28",)
    assert (run.cycles, run.unit.busy, run.unit.memory) == (4, 3, 0)
    assert [(r.tensor, r.direction, r.values_bytes, r.metadata_bytes, r.requests) for r in run.profile.traffic] == [
        ("A", "read", 192, 8, 2)
    ]
    assert (run.profile.burst_bytes, run.profile.tile_hits, run.profile.tile_misses) == (4 * 64, 0, 2)


def test_waiting_for_a_tile_counts_as_memory() -> None:
    run = load("0 1 D")
    sink = next(c for c in run.profile.contexts if c.name == "sink 0")
    assert (sink.memory, sink.starved) == (28, 0)


def test_output_capacity_is_the_prefetch_depth() -> None:
    # Depth 1: the second load needs the slot of the first, which the sink frees at 19 + 1.
    run = load("0 1 D", depth=1)
    assert run.timed[0] == "0@19 1@46 D@48"  # issued at 20: channel 1 until 36, + 10
    # Tile 1 comes at 3 (the source, too, waits for its slot) and waits until 20; Done waits from 21 until 47.
    assert run.unit.blocked == 17 + 26


def test_control_tokens_pass() -> None:
    assert load("2 S0 N S1 D").timed == ("2@2 S0@3 N@4 S1@5 D@6",)


def test_none_fetches_at_every_visit_and_lru_does_not() -> None:
    run = load("0 0 D")
    assert run.profile.tile_misses == 2
    run = load("0 0 D", "lru")
    assert run.timed == ("0@19 0@19 D@19",)
    assert (run.profile.tile_hits, run.profile.tile_misses, run.profile.traffic_bytes) == (1, 1, 64)


def test_lru_against_a_plain_list() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 40, 30)
    refs = rng.integers(0, 30, 400)
    kept: list[int] = []
    misses, moved = 0, 0
    for ref in refs.tolist():
        size = int(sizes[ref])
        if size == 0:
            continue
        if ref in kept:
            kept.remove(ref)
        else:
            misses, moved = misses + 1, moved + size
        kept.append(ref)
        while sum(int(sizes[tile]) for tile in kept) > 100:
            kept.pop(0)
    run = run_unit(
        "tile_load", [[*(("val", int(r)) for r in refs), ("done",)]], tensors=("A",),
        params={"tensor": 0, "residency": "lru", "capacity_bytes": 100},
        arrays={"value_bytes": sizes, "metadata_bytes": np.zeros(30), "address": np.cumsum(sizes) - sizes},
    )  # fmt: skip
    assert (run.profile.tile_misses, run.profile.traffic_bytes) == (misses, moved)
    assert run.profile.tile_hits == int((sizes[refs] > 0).sum()) - misses


def test_keep_pins_what_came_first() -> None:
    # 64 bytes of tile 0 stay; tile 1 (136 bytes) never fits beside it and comes at each visit, though tile 0 is idle.
    run = load("0 1 1 0 1 D", "keep", 150)
    assert (run.profile.tile_hits, run.profile.tile_misses) == (1, 4)
    assert run.profile.traffic_bytes == 64 + 3 * 136
    # A later tile may still fit: 64 of 100 bytes are taken, tile 1 is too large, 30 bytes of tile 3 fit.
    sizes = {"value_bytes": [64, 136, 0, 30], "metadata_bytes": [0] * 4, "address": [0, 64, 200, 200]}
    params = {"tensor": 0, "residency": "keep", "capacity_bytes": 100}
    run = run_unit("tile_load", ["0 1 3 0 3 1 D"], params=params, arrays=sizes, tensors=("A",), dram=DRAM)
    assert (run.profile.tile_hits, run.profile.traffic_bytes) == (2, 64 + 136 + 30 + 136)


def test_overbooked_streams_the_tail_of_a_large_tile_at_every_visit() -> None:
    # Tile 1 has 136 bytes for a buffer of 96, of which 32 stream: 64 stay, so each later visit fetches 72 bytes from
    # address 64 + 64 on, the last of the tile: values. Tile 0 (64 bytes) needs room and drives it out.
    options = {"capacity": 96, "streaming": 32}
    for refs, traffic, hits, misses in (
        ("1 D", 136, 0, 1),
        ("1 1 1 D", 136 + 2 * 72, 0, 3),
        ("1 0 0 1 D", 136 + 64 + 136, 1, 3),
        ("0 1 0 D", 64 + 136 + 64, 0, 3),
    ):
        run = overbooked(refs, **options)
        found = run.profile.traffic_bytes, run.profile.tile_hits, run.profile.tile_misses
        assert found == (traffic, hits, misses), refs
    (row,) = overbooked("1 1 D", **options).profile.traffic
    assert (row.values_bytes, row.metadata_bytes) == (128 + 72, 8)
    # t=1: bursts 1 2 3 (bytes 64 to 199): channel 1 until 17, channel 0 until 9: there at 27. t=2: bytes 128 to 199 are
    # bursts 2 and 3: channel 0 from 9 to 17, channel 1 from 17 to 25: there at 35.
    assert overbooked("1 1 D", **options).timed == ("1@27 1@35 D@35",)
    # With a buffer that holds it whole, nothing streams.
    assert overbooked("1 1 D", capacity=136, streaming=32).profile.traffic_bytes == 136


def overbooked(refs: str, capacity: int, streaming: int) -> Any:
    params = {"tensor": 0, "residency": "overbooked", "capacity_bytes": capacity, "streaming_bytes": streaming}
    return run_unit("tile_load", [refs], params=params, arrays=TILES, tensors=("A",), dram=DRAM)


@pytest.mark.parametrize("streaming", [-1, 97])
def test_the_streaming_region_is_a_part_of_the_buffer(streaming: int) -> None:
    with pytest.raises(GraphError, match=f"'streaming_bytes' must be between 0 and 'capacity_bytes', got {streaming}"):
        overbooked("0 D", 96, streaming)


@pytest.mark.parametrize(("prefetch", "starts", "cycles"), [(1, [20, 46, 72], 81), (2, [20, 29, 46], 53)])
def test_one_prefetched_tile_is_no_overlap_and_two_are_double_buffering(
    prefetch: int, starts: list[int], cycles: int
) -> None:
    """Three tiles of one burst each, all on one channel (8 cycles, latency 10), each walked as a fiber of 6 elements.

    Tile 0 is asked for at 1 and there at 19. The scan walks it from 19 to 24 (its first coordinate is seen at 20) and
    leaves it at 25: its buffer is free at 26. The Stop after a fiber waits for the next tile and takes a turn.
    One buffer: tile 1 is asked for at 26 and there at 44; Stop at 44, walk 45 to 50, free at 52. Tile 2 is there at 70;
    Stop at 70, walk 71 to 76, free at 78. Done takes the buffer at 78, is there at 79; Stop, Done at 80, seen at 81.
    Two buffers: tile 1 is asked for at 2, its burst waits until 9, is there at 27; Stop at 27, walk 28 to 33. Tile 2 is
    asked for at 26, during the walk of tile 1, and there at 44; Stop at 44, walk 45 to 50; Stop at 51, Done seen at 53.
    """
    refs = {"tokens": [("val", 0), ("val", 1), ("val", 2), ("done",)]}
    tiles = {"value_bytes": [64] * 3, "metadata_bytes": [0] * 3, "address": [0, 64, 128]}
    arrays = {name: np.array(a, dtype=np.int64) for name, a in tiles.items()}
    graph = Graph(
        (
            Context("refs", "source", (), (0,), refs),
            Context("load", "tile_load", (0,), (1,), {"tensor": 0, "residency": "none"}, arrays),
            Context("walk", "scan", (1,), (2, 3), {}, {"pos": np.array([0, 6, 12, 18])}),
            Context("crd", "sink", (2,), ()),
            Context("ref", "sink", (3,), ()),
        ),
        (Channel("refs", None), Channel("tiles", prefetch), Channel("crd", None), Channel("ref", None)),
        ("A",),
        Dram(channels=1, bytes_per_cycle=8, burst_bytes=64, latency_cycles=10),
    )
    profile = simulate(graph)
    times = [time for (token, time) in profile.sinks["crd"] if token == ("val", 0)]
    assert (times, profile.cycles) == (starts, cycles)


def test_without_memory_loads_take_no_time() -> None:
    run = run_unit("tile_load", ["0 1 D"], params={"tensor": 0, "residency": "none"}, arrays=TILES, tensors=("A",))
    assert run.timed == ("0@2 1@3 D@4",)
    assert (run.profile.traffic_bytes, run.profile.burst_bytes) == (200, 0)


def test_tile_out_of_range() -> None:
    with pytest.raises(GraphError, match="port ref has tile 3, the tensor has 3 tiles"):
        load("3 D")


def convert(read: tuple[int, int], write: tuple[int, int], dram: Dram | None = DRAM) -> Any:
    params = {"tensor": 0, "read_value_bytes": read[0], "read_metadata_bytes": read[1],
              "write_value_bytes": write[0], "write_metadata_bytes": write[1]}  # fmt: skip
    return run_unit("convert", [], 0, params=params, tensors=("A",), dram=dram)


def test_convert() -> None:
    # 4 KiB are 4 pieces of 16 bursts, each 8 bursts per channel: read until 64, 128, 192, 256, there 10 later. The
    # 100 bytes (2 bursts) are written from 256 on, behind the reads. The last piece is there at 266.
    run = convert((4000, 96), (60, 40))
    assert run.profile.cycles == run.unit.memory == 266
    assert [(r.direction, r.values_bytes, r.metadata_bytes, r.requests) for r in run.profile.traffic] == [
        ("read", 4000, 96, 4), ("write", 60, 40, 1)
    ]  # fmt: skip
    # 1 burst read: there at 18; 3 bursts written: two of them on channel 0, 18 + 16.
    assert convert((64, 0), (192, 0)).profile.cycles == 34


def test_windows_are_written_for_another_tensor() -> None:
    params = {"tensor": 0, "result": 1, "read_value_bytes": 4000, "read_metadata_bytes": 96,
              "write_value_bytes": 60, "write_metadata_bytes": 40}  # fmt: skip
    run = run_unit("convert", [], 0, params=params, tensors=("A", "T"), dram=DRAM)
    assert run.profile.cycles == convert((4000, 96), (60, 40)).profile.cycles
    assert [(r.tensor, r.direction, r.values_bytes, r.metadata_bytes, r.requests) for r in run.profile.traffic] == [
        ("A", "read", 4000, 96, 4), ("T", "write", 60, 40, 1)
    ]  # fmt: skip
    with pytest.raises(GraphError, match="'result' must be the number of a traffic account below 1, got 1"):
        run_unit("convert", [], 0, params=params, tensors=("A",), dram=DRAM)


def test_convert_is_bound_by_bandwidth_when_large() -> None:
    run = convert((64 * 10_000, 0), (64 * 10_000, 0))
    assert 20_000 / 2 * 8 <= run.profile.cycles < 1.01 * 20_000 / 2 * 8
    assert run.profile.burst_bytes == 20_000 * 64


def test_convert_without_bytes_or_memory() -> None:
    assert convert((0, 0), (0, 0)).profile.cycles == 0
    run = convert((100, 0), (50, 0), None)
    assert (run.profile.cycles, run.profile.traffic_bytes) == (0, 150)
