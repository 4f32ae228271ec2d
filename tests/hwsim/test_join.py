"""intersect, union (any number of sides) and drop_empty."""

from __future__ import annotations

import pytest
from unit_harness import run_unit

from mapper.errors import GraphError


def test_intersect() -> None:
    # t=1: 1 < 2, pop left. t=2: 2 = 2, push. t=3: left at S0 (there at 3), right at 3: pop right. t=4: S0 both, t=5: D.
    run = run_unit("intersect", ["1 2 S0 D", "2 3 S0 D", "5 6 S0 D", "7 8 S0 D"], 3)
    assert run.timed == ("2@3 S0@5 D@6", "6@3 S0@5 D@6", "7@3 S0@5 D@6")
    assert (run.unit.busy, run.unit.starved, run.profile.comparisons) == (4, 1, 4)


def test_intersect_without_coordinates() -> None:
    run = run_unit("intersect", ["1 S0 D", "1 S0 D", "5 S0 D", "7 S0 D"], 3, unconnected=[0])
    assert run.streams == ("", "5 S0 D", "7 S0 D")
    assert run.profile.tokens == 4 * 3 + 2 * 3  # nothing is counted at the open port


@pytest.mark.parametrize(
    ("left", "right", "joined"),
    [
        ("S0 D", "S0 D", "S0 D"),
        ("S0 D", "1 2 S0 D", "S0 D"),
        ("1 S0 S1 D", "2 S0 S1 D", "S0 S1 D"),
        ("S1 1 S0 3 S2 D", "S1 1 S0 4 S2 D", "S1 1 S0 S2 D"),  # empty group first, empty intersection last
    ],
)
def test_intersect_empty_fibers(left: str, right: str, joined: str) -> None:
    assert run_unit("intersect", [left, right, left, right], 3).streams == (joined, joined, joined)


def test_intersect_of_three() -> None:
    # t=1: heads 1 3 2, all below 3 go (first, third). t=2: 3 3 2 -> third goes. t=3: 3 3 3. t=4: S0 7 S0: the
    # second goes. t=5: S0.
    run = run_unit("intersect", ["1 3 S0 D", "3 7 S0 D", "2 2 3 S0 D", "0 1 S0 D", "2 3 S0 D", "4 5 6 S0 D"], 4)
    # third: 2 at 1, 2 at 2, 3 at 3, S0 at 4
    assert run.timed == ("3@4 S0@6 D@7", "1@4 S0@6 D@7", "2@4 S0@6 D@7", "6@4 S0@6 D@7")


def test_union() -> None:
    run = run_unit("union", ["1 2 S0 D", "2 3 S0 D", "5 6 S0 D", "7 8 S0 D"], 3)
    assert run.timed == ("1@2 2@3 3@4 S0@5 D@6", "5@2 6@3 N@4 S0@5 D@6", "N@2 7@3 8@4 S0@5 D@6")
    assert run.profile.comparisons == 4


def test_union_frees_its_slots_a_cycle_later() -> None:
    # Depth 1: token n+1 of a source needs the slot of token n. The turn at t=1 pops at the start of the next turn,
    # t=2, free at 3: the next token leaves at 3, is there at 4: a turn every 3 cycles (an intersect: every 2).
    union = run_unit("union", ["1 2 D", "1 2 D", "1 2 D", "1 2 D"], 3, depth=1)
    assert union.timed[0] == "1@2 2@5 D@8"
    intersect = run_unit("intersect", ["1 2 D", "1 2 D", "1 2 D", "1 2 D"], 3, depth=1)
    assert intersect.timed[0] == "1@2 2@4 D@6"


@pytest.mark.parametrize(
    ("left", "right", "joined"),
    [
        ("S0 D", "S0 D", "S0 D"),
        ("S0 D", "1 2 S0 D", "1 2 S0 D"),
        ("1 S0 S1 D", "2 S0 S1 D", "1 2 S0 S1 D"),
        ("S1 1 S2 D", "S1 S2 D", "S1 1 S2 D"),
    ],
)
def test_union_empty_fibers(left: str, right: str, joined: str) -> None:
    assert run_unit("union", [left, right, left, right], 3).streams[0] == joined


def test_union_of_three() -> None:
    run = run_unit("union", ["1 S0 D", "1 3 S0 D", "2 S0 D", "10 S0 D", "20 21 S0 D", "30 S0 D"], 4)
    assert run.streams == ("1 2 3 S0 D", "10 N N S0 D", "20 N 21 S0 D", "N 30 N S0 D")


def test_payloads_may_be_empty_or_values() -> None:
    run = run_unit("union", ["1 S0 D", "1 S0 D", "N S0 D", "2.5 S0 D"], 3, floats=[2])
    assert run.streams == ("1 S0 D", "N S0 D", "2.5 S0 D")


@pytest.mark.parametrize("kind", ["intersect", "union"])
@pytest.mark.parametrize(
    ("left", "right", "left_ref"),
    [("S0 D", "S1 D", "S0 D"), ("1 D", "D", "1 D"), ("S0 D", "D", "S0 D"), ("1 S0 D", "1 S0 D", "S0 D")],
)
def test_misaligned(kind: str, left: str, right: str, left_ref: str) -> None:
    with pytest.raises(GraphError, match=rf"'unit' \({kind}\) at cycle \d+: misaligned streams: side 1 has crd"):
        run_unit(kind, [left, right, left_ref, right], 3)


def test_drop_empty() -> None:
    # One pair per cycle, dropped or not.
    run = run_unit("drop_empty", ["1 2 S0 3 S1 D", "1.0 N S0 N S1 D"], 2, floats=[1])
    assert run.timed == ("1@2 S0@4 S1@6 D@7", "1.0@2 S0@4 S1@6 D@7")
    with pytest.raises(GraphError, match="misaligned streams: port crd has Val 1, port val has Stop 0"):
        run_unit("drop_empty", ["1 S0 D", "S0 D"], 2)
