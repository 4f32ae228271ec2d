"""scan and stream_scan: fibers, empty fibers, empty groups, and their cycles worked by hand.

A source pushes its k-th token (k = 0, 1, ...) at cycle k, so it is there at k + 1; a token that the unit pushes at
clock t is there at t + 1.
"""

from __future__ import annotations

import pytest
from unit_harness import run_unit

from mapper.errors import GraphError

LEVEL = {"pos": [0, 2, 2, 3], "crd": [1, 4, 0]}  # fibers {1, 4}, {}, {0}


def test_one_fiber() -> None:
    # t=1 ref 0; pushes 1 and 4 at t=1, 2; t=3: Done (there at 2) is no Stop, so S0; t=4: Done.
    run = run_unit("scan", ["0 D"], 2, arrays=LEVEL)
    assert run.timed == ("1@2 4@3 S0@4 D@5", "0@2 1@3 S0@4 D@5")
    assert (run.cycles, run.unit.busy, run.unit.starved, run.unit.firings) == (4, 3, 1, 3)


def test_stop_is_folded_into_the_last_fiber() -> None:
    # Fiber 1 is empty: its S0 takes one cycle. The closing stop of fiber 2 takes the outer Stop along.
    run = run_unit("scan", ["0 1 2 S0 D"], 2, arrays=LEVEL)
    assert run.timed[0] == "1@2 4@3 S0@4 S0@5 0@6 S1@7 D@8"
    assert run.streams[1] == "0 1 S0 S0 2 S1 D"


def test_closing_stop_waits_for_the_next_reference() -> None:
    # The second reference comes at cycle 10 only (pushed at 9): the stop of fiber 2 cannot leave before.
    run = run_unit("scan", ["2 0 D"], 2, arrays=LEVEL, times={0: [0, 9]})
    assert run.timed[0] == "0@2 S0@11 1@12 4@13 S0@14 D@15"
    assert run.unit.starved == 1 + 8


@pytest.mark.parametrize(
    ("refs", "crds"),
    [
        ("D", "D"),  # no reference at all
        ("S0 D", "S1 D"),  # an empty tensor: the root fiber of the level above has no element
        ("S1 D", "S2 D"),
        ("1 S0 D", "S1 D"),  # one empty fiber
        ("N S0 D", "S1 D"),  # the absent side of a union
        ("N 0 S0 D", "S0 1 4 S1 D"),
        ("S0 S0 2 S1 D", "S1 S1 0 S2 D"),  # empty groups first
        ("2 S0 S0 S1 D", "0 S1 S1 S2 D"),  # and last
    ],
)
def test_empty_fibers(refs: str, crds: str) -> None:
    assert run_unit("scan", [refs], 2, arrays=LEVEL).streams[0] == crds


def test_dense_level_and_lanes() -> None:
    dense = {"pos": [0, 3, 6]}
    assert run_unit("scan", ["1 D"], 2, arrays=dense).streams == ("0 1 2 S0 D", "3 4 5 S0 D")
    # Only coordinates 1 <= c < 9: those outside take no cycle.
    run = run_unit("scan", ["1 D"], 2, arrays=dense, params={"lo": 1, "hi": 9})
    assert run.timed == ("1@2 2@3 S0@4 D@5", "4@2 5@3 S0@4 D@5")
    run = run_unit("scan", ["0 2 S0 D"], 2, arrays=LEVEL, params={"lo": 1, "hi": 4})
    assert run.timed == ("1@2 S0@3 S1@4 D@5", "0@2 S0@3 S1@4 D@5")


def test_reference_out_of_range() -> None:
    with pytest.raises(GraphError, match=r"context 'unit' \(scan\) at cycle 1: .* reference 3, the level has 3 fibers"):
        run_unit("scan", ["3 D"], 2, arrays=LEVEL)


# Raw level below the parents 0 1 2 | (none) | 3 4: fibers {5,6} {7} {8,9} | | {1} {}.
PARENT = "0 1 2 S0 S0 3 4 S1 D"
RAW = "5 6 S0 7 S0 8 9 S1 S1 1 S0 S2 D"


def test_stream_scan_passes_the_fibers_asked_for() -> None:
    # The raw stream delivers a token per cycle from 1 on; the unit takes one per turn: 5 6 S0 discarded at 1 2 3,
    # 7 pushed at 4. Its S0 (there at 5) is taken with the closing turn at 5, folded with the Stop of ref. The lone S0
    # of ref is the empty fiber S1 at 6. Asked for fiber 4, the unit discards 8 9 S1, the lone S1 and 1 S0 at 7 to 12;
    # fiber 4 is empty and closes at 13, the Empty after it at 14.
    run = run_unit("stream_scan", ["1 S0 S0 4 N S1 D", RAW, None, PARENT], 2)
    assert run.timed[0] == "7@5 S1@6 S1@7 S0@14 S2@15 D@16"
    assert run.streams[1] == "2 S1 S1 S0 S2 D"  # 7 is the third element of the raw stream


@pytest.mark.parametrize(
    ("refs", "crds", "numbers"),
    [
        ("0 1 2 S0 S0 3 4 S1 D", "5 6 S0 7 S0 8 9 S1 S1 1 S0 S2 D", "0 1 S0 2 S0 3 4 S1 S1 5 S0 S2 D"),
        ("S0 S0 S1 D", "S1 S1 S2 D", "S1 S1 S2 D"),  # nothing asked for
        ("N 2 S0 N S0 4 S1 D", "S0 8 9 S1 S1 S2 D", "S0 3 4 S1 S1 S2 D"),
    ],
)
def test_stream_scan_groups(refs: str, crds: str, numbers: str) -> None:
    assert run_unit("stream_scan", [refs, RAW, None, PARENT], 2).streams == (crds, numbers)


def test_stream_scan_payload_and_one_level() -> None:
    # Depth 0 references under a root: one fiber in all. The payload goes with its element, Empty included.
    run = run_unit("stream_scan", ["0 D", "3 8 S0 D", "1.5 N S0 D", "0 D"], 2, floats=[1])
    assert run.streams == ("3 8 S0 D", "1.5 N S0 D")
    assert run_unit("stream_scan", ["N D", "3 8 S0 D", None, "0 D"], 2).streams == ("S0 D", "S0 D")
    assert run_unit("stream_scan", ["S0 D", "S1 D", None, "S0 D"], 2).streams == ("S1 D", "S1 D")


@pytest.mark.parametrize(
    ("refs", "crds"),
    [
        ("4 S0 D", "S1 D"),  # an intersection left whole groups out
        ("S0 1 S0 S0 3 S1 D", "S1 7 S1 S1 1 S2 D"),  # a union put empty groups in
        ("0 2 3 S0 D", "5 6 S0 8 9 S0 1 S1 D"),  # fibers of two raw groups in one
    ],
)
def test_stream_scan_follows_the_groups_of_ref(refs: str, crds: str) -> None:
    assert run_unit("stream_scan", [refs, RAW, None, PARENT], 2).streams[0] == crds


def test_stream_scan_discards_the_rest_of_aligned_groups() -> None:
    # As above up to the S0 of 7, taken at 5. From level 0 on groups are the same: 8 9 S1 go as they come, at 6 7 8, and
    # the group closes at 9; the lone S0 stands for the raw S1, taken at 10, and closes at 11. 1 S0 go at 12 13, fiber 4
    # closes with its S2 at 14. With level 1 alone only the last group ends with its raw tokens.
    refs = "1 S0 S0 4 S1 D"
    run = run_unit("stream_scan", [refs, RAW, None, PARENT], 2, params={"aligned": 0})
    assert run.timed[0] == "7@5 S1@10 S1@12 S2@15 D@16"
    late = run_unit("stream_scan", [refs, RAW, None, PARENT], 2, params={"aligned": 1})
    assert late.timed[0] == "7@5 S1@6 S1@7 S2@14 D@15"
    with pytest.raises(GraphError, match="port ref has Stop 0, port parent has Stop 1"):
        run_unit("stream_scan", ["1 S0 S0 S0 S1 D", RAW, None, PARENT], 2, params={"aligned": 0})


def test_stream_scan_takes_the_stops_of_empty_groups_as_they_end() -> None:
    # Three raw groups without fibers before the one asked for. Their Stops leave the channels of depth 1 as the Stops
    # of ref come, so that the source of both is never held up; else they stay until fiber 0 is asked for.
    refs, raw, parent = "S0 S0 S0 0 S1 D", "S1 S1 S1 5 S2 D", "S0 S0 S0 0 S1 D"
    for aligned, taken in ((0, "S1@2 S1@3 S1@4"), (1, "S1@2 S1@3 S1@4")):
        run = run_unit("stream_scan", [refs, raw, None, parent], 2, params={"aligned": aligned})
        assert run.streams == ("S1 S1 S1 5 S2 D", "S1 S1 S1 0 S2 D")
        assert run.timed[0].startswith(taken if aligned else "S1@3")


@pytest.mark.parametrize(
    ("refs", "raw", "message"),
    [
        ("1 0 S0 D", RAW, "asks for fiber 0 but the stream is at fiber 2"),
        ("5 S0 D", RAW, "port ref has Val 5, port parent has Done"),  # there are fibers 0 to 4
        ("2 S0 D", "5 S1 S0 D", "port parent has Val 1, port crd has Stop 1"),
    ],
)
def test_stream_scan_misaligned(refs: str, raw: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        run_unit("stream_scan", [refs, raw, None, PARENT], 2)
