"""Galloping and leader-follower intersections: cycles worked by hand, results those of the two-finger unit.

A source pushes its k-th token at cycle k (or at the stated time); it is there a cycle later.
"""

from __future__ import annotations

import random

import pytest
from unit_harness import done, run_unit

from mapper.errors import GraphError

GALLOP = {"strategy": "galloping"}
LEAD = {"strategy": "leader_follower"}
LEVEL = {"pos_2": [0, 4, 4, 5], "crd_2": [1, 4, 6, 9, 0]}  # fibers {1, 4, 6, 9}, {}, {0}


def test_two_finger_is_the_default() -> None:
    streams = ["1 2 3 S0 D", "3 S0 D", "5 6 7 S0 D", "8 S0 D"]
    assert (
        run_unit("intersect", streams, 3).timed
        == run_unit("intersect", streams, 3, params={"strategy": "two_finger"}).timed
    )


@pytest.mark.parametrize(("skipped", "cycles"), [(1, 1), (2, 2), (3, 2), (4, 3), (7, 3), (8, 4)])
def test_a_jump_costs_its_logarithm(skipped: int, cycles: int) -> None:
    # The right side comes at t = 21; the left side, there long before, jumps: 21 + cycles is the turn of the match.
    left = " ".join(map(str, range(skipped + 1))) + " S0 D"
    late = [20, 21, 22]
    right = f"{skipped} S0 D"
    run = run_unit("intersect", [left, right, left, right], 3, params=GALLOP, times={1: late, 3: late})
    match = 21 + cycles
    assert run.timed[0] == f"{skipped}@{match + 1} S0@{match + 2} D@{match + 3}"
    assert run.profile.comparisons == cycles + 2  # the jump, the match, the stop
    assert (run.unit.busy, run.unit.firings) == (cycles + 2, 3)


def test_a_jump_waits_for_where_it_lands() -> None:
    # t=1: 1, 2, 3 go as they come (t = 1, 2, 3); 4 is there at 4, later than 1 + 2. t=4: match.
    run = run_unit("intersect", ["1 2 3 4 S0 D", "4 S0 D", "1 2 3 4 S0 D", "4 S0 D"], 3, params=GALLOP)
    assert run.timed[0] == "4@5 S0@6 D@7"
    assert (run.unit.busy, run.unit.starved) == (2 + 0, 1 + 3)


def test_jumps_to_the_end_and_of_two_sides_at_once() -> None:
    late = [20, 21]
    sides = ["1 2 3 S0 D", "S0 D", "1 2 3 S0 D", "S0 D"]
    assert run_unit("intersect", sides, 3, params=GALLOP, times={1: late, 3: late}).timed[0] == "S0@24 D@25"
    # t=21: the first side skips 3 (2 cycles), the second 1 (1 cycle), together 2 cycles. t=23: match.
    crds = ["1 2 3 9 S0 D", "8 9 S0 D", "9 S0 D"]
    run = run_unit("intersect", crds * 2, 4, params=GALLOP, times={2: [20, 21, 22], 5: [20, 21, 22]})
    assert run.timed[0] == "9@24 S0@25 D@26"


@pytest.mark.parametrize("seed", range(8))
def test_galloping_agrees_and_is_never_later(seed: int) -> None:
    pick = random.Random(seed)
    sides = 2 + seed % 2
    nests = [[sorted(pick.sample(range(30), pick.randrange(20))) for _ in range(4)] for _ in range(sides)]
    streams = [done(nest, 2) for nest in nests] * 2
    for depth in (None, 3):
        two = run_unit("intersect", streams, 1 + sides, depth=depth)
        fast = run_unit("intersect", streams, 1 + sides, depth=depth, params=GALLOP)
        assert fast.streams == two.streams
        assert fast.cycles <= two.cycles


def test_galloping_misaligned() -> None:
    with pytest.raises(GraphError, match="misaligned streams"):
        run_unit("intersect", ["1 2 3 S0 D", "3 S0 D", "1 S0 D", "3 S0 D"], 3, params=GALLOP)


def test_lookup_costs_a_binary_search() -> None:
    # 4 elements: 3 steps. t=1: 1 is found, leaves at 3; t=4: 4 leaves at 6; t=7: S0, t=8: Done.
    run = run_unit("intersect", ["1 4 S0 D", None, "5 6 S0 D", "0 D"], 3, params=LEAD, arrays=LEVEL)
    assert run.timed == ("1@4 4@7 S0@8 D@9", "5@4 6@7 S0@8 D@9", "0@4 1@7 S0@8 D@9")
    assert (run.unit.busy, run.unit.firings, run.unit.starved) == (7, 3, 1)
    assert run.profile.comparisons == 7


def test_lookup_misses_and_fibers() -> None:
    # Fiber 0: 3 is missing. Fiber 1 (empty) and an Empty reference: a cycle, nothing found. Fiber 2: 0 is at place 4.
    run = run_unit(
        "intersect", ["1 3 S0 1 S0 1 S0 0 2 S1 D", None, "10 11 S0 12 S0 13 S0 14 15 S1 D", "0 1 N 2 S0 D"], 3,
        params=LEAD, arrays=LEVEL,
    )  # fmt: skip
    assert run.streams == ("1 S0 S0 S0 0 S1 D", "10 S0 S0 S0 14 S1 D", "0 S0 S0 S0 4 S1 D")
    # 3 + 3 + 1, 1 + 1, 1 + 1, 1 + 1 (one element: one step) + 1
    assert run.unit.busy == 7 + 2 + 2 + 3


def test_lookup_in_two_followers_takes_the_longer_search() -> None:
    arrays = {**LEVEL, "pos_3": [0, 2], "crd_3": [4, 5]}
    run = run_unit("intersect", ["1 4 S0 D", None, None, "5 6 S0 D", "0 D", "0 D"], 4, params=LEAD, arrays=arrays)
    assert run.timed == ("4@7 S0@8 D@9", "6@7 S0@8 D@9", "1@7 S0@8 D@9", "0@7 S0@8 D@9")


@pytest.mark.parametrize("seed", range(6))
def test_a_looked_up_follower_replaces_a_scan(seed: int) -> None:
    pick = random.Random(seed)
    leader = [[sorted(pick.sample(range(12), pick.randrange(8))) for _ in range(pick.randrange(4))] for _ in range(3)]
    fibers = [sorted(pick.sample(range(12), pick.randrange(8))) for group in leader for _ in group]
    numbers = iter(range(len(fibers)))
    refs = [[next(numbers) for _ in group] for group in leader]
    follower = [[fibers[r] for r in group] for group in refs]
    pos = [sum(map(len, fibers[:r])) for r in range(len(fibers) + 1)]
    places = [[[pos[r] + k for k in range(len(fibers[r]))] for r in group] for group in refs]
    streamed = run_unit("intersect", [done(leader, 3), done(follower, 3), done(leader, 3), done(places, 3)], 3)
    level = {"pos_2": pos, "crd_2": [c for fiber in fibers for c in fiber]}
    for depth in (None, 1):
        looked_up = run_unit(
            "intersect", [done(leader, 3), None, done(leader, 3), done(refs, 2)], 3, params=LEAD, arrays=level,
            depth=depth,
        )  # fmt: skip
        assert looked_up.streams == streamed.streams


@pytest.mark.parametrize(
    ("streams", "message"),
    [
        (["1 S0 D", "1 S0 D", "1 S0 D", "0 D"], "port crd_2 must be open"),
        (["1 S0 D", None, "1 S0 D", "3 D"], "port ref_2 has reference 3, its level has 3 fibers"),
        (["1 S0 D", None, "1 S0 D", "S0 D"], "port crd_1 has Val 1, port ref_2 has Stop 0"),
        (["1 S1 D", None, "1 S1 D", "0 D"], "port crd_1 has Stop 1, port ref_2 has Done"),
        (["1 S0 D", None, "S0 D", "0 D"], "port crd_1 has Val 1, port ref_1 has Stop 0"),
    ],
)
def test_lookup_errors(streams: list[str | None], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        run_unit("intersect", streams, 3, params=LEAD, arrays=LEVEL)


def test_open_inputs_are_for_followers_only() -> None:
    with pytest.raises(GraphError, match="input port crd_2 must be a channel number"):
        run_unit("intersect", ["1 S0 D", None, "1 S0 D", "1 S0 D"], 3)
    with pytest.raises(GraphError, match="array 'crd_2' must be"):
        run_unit("intersect", ["1 S0 D", None, "1 S0 D", "0 D"], 3, params=LEAD)
    with pytest.raises(GraphError, match=r"unknown strategy 'gallop'\. Did you mean 'galloping'"):
        run_unit("intersect", ["S0 D"] * 4, 3, params={"strategy": "gallop"})
