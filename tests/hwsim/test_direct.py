"""Arrays and levels read in place: coalescing within a burst, what a request costs, and banks of a buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from unit_harness import Run, done, run_unit, text

from mapper.errors import GraphError
from mapper.graph import Dram

DRAM = Dram(channels=2, bytes_per_cycle=8, burst_bytes=64, latency_cycles=10)  # a burst takes 8 cycles
VALUES = np.arange(400) / 2


def array(refs: Any, bits: int = 32, address: int = 0, dram: Dram | None = DRAM, **options: Any) -> Run:
    params = {"tensor": 0, "address": address, "value_bits": bits}
    arrays = {"values": VALUES}
    return run_unit("array", [refs], floats=[0], params=params, arrays=arrays, tensors=("A",), dram=dram, **options)


def scan(refs: str, arrays: dict[str, Any], **params: Any) -> Run:
    widths = {"tensor": 0, "pos_bits": 32} | params
    return run_unit("scan", [refs], 2, params=widths, arrays=arrays, tensors=("A",), dram=DRAM)


def moved(run: Run) -> tuple[int, int, int, int]:
    """Bytes of values and metadata, requests, bursts."""
    (row,) = run.profile.traffic
    assert (row.tensor, row.direction) == ("A", "read")
    return row.values_bytes, row.metadata_bytes, row.requests, run.profile.burst_bytes // DRAM.burst_bytes


def test_elements_of_one_burst_are_one_request() -> None:
    # t=1: element 0 is in burst 0, channel 0: 1 + 8 + 10 = 19. Elements 1 and 15 (bytes 60 to 63) are in it, too.
    # t=4: element 16 is in burst 1, channel 1: 4 + 8 + 10 = 22. The clock waits for nothing.
    run = array("0 1 15 16 D")
    assert run.timed == ("0.0@19 0.5@19 7.5@19 8.0@22 D@22",)
    assert moved(run) == (128, 0, 2, 2)
    assert (run.cycles, run.unit.busy, run.unit.memory) == (5, 4, 0)


def test_an_element_across_bursts_needs_both() -> None:
    # Bytes 60 to 67: bursts 0 and 1 in one request, a channel each: 1 + 8 + 10. Bytes 68 to 75 lie in the latter.
    run = array("0 1 D", bits=64, address=60)
    assert run.timed == ("0.0@19 0.5@19 D@19",)
    assert moved(run) == (128, 0, 1, 2)
    # Backwards the held burst is the last one: burst 1 at t=1, burst 0 alone at t=2: 2 + 8 + 10.
    run = array("1 0 D", bits=64, address=60)
    assert run.timed == ("0.5@19 0.0@20 D@20",)
    assert moved(run) == (128, 0, 2, 2)


def test_a_burst_that_was_left_is_fetched_again() -> None:
    assert moved(array("0 16 0 16 D")) == (256, 0, 4, 4)


def test_requests_wait_for_a_place_in_the_output() -> None:
    # Depth 1: element 16 needs the slot of element 0, which the sink frees at 19 + 1: 20 + 8 + 10 = 38.
    assert array("0 16 D", depth=1).timed == ("0.0@19 8.0@38 D@40",)


def test_stops_and_empties_ask_for_nothing() -> None:
    run = array("N 3 S0 N S1 D")
    assert run.timed == ("0.0@2 1.5@20 S0@20 0.0@20 S1@20 D@20",)  # burst 0 at t=2
    assert moved(run) == (64, 0, 1, 1)


def test_waiting_for_elements_counts_as_memory() -> None:
    sink = next(c for c in array("0 D").profile.contexts if c.name == "sink 0")
    assert (sink.memory, sink.starved) == (19, 0)


def test_without_memory_every_element_counts_its_bytes() -> None:
    run = array("0 1 1 D", dram=None)
    assert run.timed == ("0.0@2 0.5@3 0.5@4 D@5",)
    assert run.profile.traffic[0].values_bytes == 12


@pytest.mark.parametrize("bits", [4, 16, 32, 64])
@pytest.mark.parametrize("seed", range(3))
def test_bursts_against_numpy(bits: int, seed: int) -> None:
    # Elements do not straddle bursts here: bursts fetched = runs of equal burst numbers.
    refs = np.random.default_rng(seed).integers(0, 400, 300)
    refs = np.sort(refs) if seed == 0 else refs
    bursts = refs * bits // 512
    run = array([*(("val", r) for r in refs.tolist()), ("done",)], bits)
    fetched = 1 + int((np.diff(bursts) != 0).sum())
    assert moved(run) == (64 * fetched, 0, fetched, fetched)
    if seed == 0:
        assert fetched == np.unique(bursts).size


COMPRESSED = {"pos": [0, 2, 2, 3], "crd": [4, 9, 7]}


def test_scan_waits_for_places_and_reads_coordinates_ahead() -> None:
    # t=1: pos 0 and 1, burst 0, channel 0: the clock goes to 19. Coordinate 0 is in burst 1, channel 1: 19 + 8 + 10.
    # All else is there: an element, a Stop or a Done per cycle; references do not wait for coordinates.
    run = scan("0 1 2 D", COMPRESSED, crd_address=64, crd_bits=32)
    assert run.timed == ("4@37 9@37 S0@37 S0@37 7@37 S0@37 D@37", "0@20 1@21 S0@22 S0@23 2@24 S0@25 D@26")
    assert moved(run) == (0, 128, 2, 2)
    assert (run.unit.memory, run.unit.busy) == (18, 6)


def test_places_of_neighbouring_fibers_coalesce_and_jumps_do_not() -> None:
    pos = np.arange(101)  # fiber r holds coordinate place r; 16 places per burst
    level = {"pos": pos, "crd": np.zeros(100)}
    # Places 0 to 100: 7 bursts; coordinates from byte 1024: 100 of 2 bytes are 4 bursts.
    run = scan(text(done(list(range(100)), 0 + 1)), level, crd_address=1024, crd_bits=16)
    assert moved(run)[1] == 64 * (7 + 4)
    # Fibers 0, 48, 0, 48: bursts 0 and 3 of the places and 0 and 1 of the coordinates, each time anew.
    assert moved(scan("0 48 0 48 D", level, crd_address=1024, crd_bits=16))[1:] == (64 * 8, 8, 8)


def test_bitmask_reads_the_words_it_walks() -> None:
    # t=1: the first element's number: the clock goes to 19. Word 0 is in burst 2, channel 0, free at 9: 19 + 8 + 10.
    # t=20: words 1 to 9 hold bit 599 alone: burst 3, channel 1: 20 + 8 + 10 = 38; 8 cycles over empty words.
    mask = np.zeros(10, np.int64)
    mask[0], mask[9] = 1 << 3, 1 << (599 - 576)
    arrays = {"pos": [0, 2], "mask": mask}
    run = scan("0 D", arrays, storage="bitmask", size=600, crd_address=128)
    assert run.timed == ("3@37 599@38 S0@38 D@38", "0@37 1@38 S0@38 D@38")
    assert moved(run) == (0, 64 * 3, 3, 3)
    assert (run.unit.memory, run.unit.busy) == (18, 1 + 8 + 1 + 1)


@pytest.mark.parametrize(
    ("storage", "arrays", "extra", "entries"),
    [
        # 2 fibers of 70 coordinates are 2 words each: 32 bytes.
        ("bitmask", {"pos": [0, 2, 3], "mask": [1 << 5, 1 << 2, 1, 0]}, {"size": 70}, 1),
        # 3 runs of 8 bytes.
        ("run_length", {"pos": [0, 2, 3], "crd": [3, 9, 1], "length": [2, 0, 3]}, {"crd_bits": 64}, 1),
        # 200 places of 2 bits: 50 bytes.
        ("n_of_m", {"pos": [0, 100, 200], "crd": [1, 3] * 100}, {"n": 2, "m": 4, "crd_bits": 2}, 1),
        ("n_of_m", {"pos": [0, 100, 200], "crd": [1, 3] * 100}, {"n": 2, "m": 4, "crd_bits": 8}, 4),
    ],
)
def test_stored_levels_give_the_same_streams_off_chip(
    storage: str, arrays: dict[str, Any], extra: dict[str, Any], entries: int
) -> None:
    inside = {k: v for k, v in extra.items() if k != "crd_bits"}
    near = run_unit("scan", ["0 1 N S0 D"], 2, params={"storage": storage, **inside}, arrays=arrays)
    far = scan("0 1 N S0 D", arrays, storage=storage, crd_address=64, **extra)
    assert far.streams == near.streams
    assert moved(far) == (0, 64 * (1 + entries), 1 + entries, 1 + entries)


@pytest.mark.parametrize(
    ("arrays", "params", "message"),
    [
        ({"pos": [0, 2]}, {"crd_bits": 32}, "a dense level stores nothing"),
        (COMPRESSED, {"crd_bits": 32, "lo": 1}, "lanes cannot share a level"),
        (COMPRESSED, {}, "parameter 'crd_bits' is missing"),
        (COMPRESSED, {"crd_bits": 0}, "widths of elements at least 1 bit"),
        (COMPRESSED, {"crd_bits": 8, "crd_address": -1}, "'crd_address' must not be negative"),
    ],
)
def test_levels_that_cannot_be_read(arrays: dict[str, Any], params: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        scan("0 D", arrays, **params)


def banked(refs: str, banks: int, rate: float, **more: Any) -> Run:
    params = {"banks": banks, "value_bytes": 4, "bank_bytes_per_cycle": rate} | more
    return run_unit("array", [refs], floats=[0], params=params, arrays={"values": VALUES}, tensors=("A",))


def test_banks() -> None:
    # 4 bytes at 2 per cycle: a bank is taken for 2 cycles, a value leaves in the second. Two banks in turn: one per
    # cycle.
    run = banked("0 1 2 3 D", 2, 2.0)
    assert run.timed == ("0.0@3 0.5@4 1.0@5 1.5@6 D@6",)
    assert run.unit.busy == 4
    # Always the same bank: 1 per 2 cycles, at t = 1, 3, 5.
    run = banked("0 2 4 D", 2, 2.0)
    assert run.timed == ("0.0@3 1.0@5 2.0@7 D@7",)
    assert (run.unit.busy, run.cycles) == (1 + 2 + 2, 6)
    # The element read last is still there: its bank, taken until 3, is not asked again.
    run = banked("0 0 S0 0 2 D", 2, 2.0)
    assert run.timed == ("0.0@3 0.0@3 S0@4 0.0@5 1.0@7 D@7",)
    # A bank that gives a value per cycle holds nobody up: an array as ever.
    assert banked("0 2 4 D", 1, 4.0).timed == ("0.0@2 1.0@3 2.0@4 D@5",)


def test_banks_that_cannot_be() -> None:
    for banks, rate in ((0, 1.0), (1, 0.0)):
        with pytest.raises(GraphError, match="must be above 0"):
            banked("0 D", banks, rate)
    with pytest.raises(GraphError, match="give one"):
        banked("0 D", 1, 1.0, tensor=0, value_bits=32)
