"""locate, mask, hold and drop_fiber: cycles worked by hand."""

from __future__ import annotations

import random

import pytest
from unit_harness import done, run_unit

from mapper.errors import GraphError


def test_locate() -> None:
    # Fiber 0 is places 0 to 2, fiber 1 places 3 to 6. A token a cycle, control tokens too.
    run = run_unit("locate", ["0 2 S0 3 N S1 D", "0 0 S0 1 1 S1 D"], arrays={"pos": [0, 3, 7]})
    assert run.timed == ("0@2 2@3 S0@4 6@5 N@6 S1@7 D@8",)
    assert (run.unit.busy, run.unit.starved) == (6, 1)
    assert run_unit("locate", ["1 D", "N D"], arrays={"pos": [0, 3]}).streams == ("N D",)


@pytest.mark.parametrize(
    ("crd", "ref", "message"),
    [
        ("3 S0 D", "0 S0 D", "port crd has coordinate 3, fiber 0 of the level has extent 3"),
        ("-1 S0 D", "0 S0 D", "port crd has coordinate -1"),
        ("0 S0 D", "2 S0 D", "port ref has reference 2, the level has 2 fibers"),
        ("0 S0 D", "0 S1 D", "port crd has Stop 0, port ref has Stop 1"),
    ],
)
def test_locate_errors(crd: str, ref: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        run_unit("locate", [crd, ref], arrays={"pos": [0, 3, 7]})


def test_mask() -> None:
    # An element that goes takes its cycle.
    run = run_unit("mask", ["1 2 3 4 S0 D", "5 6 7 N S0 D", "1.0 0.0 N 2.0 S0 D"], 2)
    assert run.timed == ("1@2 4@5 S0@6 D@7", "5@2 N@5 S0@6 D@7")
    with pytest.raises(GraphError, match="port mask has Stop 0"):
        run_unit("mask", ["1 S0 D", "5 S0 D", "S0 D"], 2)


def test_hold() -> None:
    run = run_unit("hold", ["7 8 S0 D", "1 2 S0 N S1 D"])
    assert run.timed == ("7@2 7@3 S0@4 8@5 S1@6 D@7",)
    assert run_unit("hold", ["7 D", "1 2 S0 D"]).streams == ("7 7 S0 D",)
    with pytest.raises(GraphError, match="port outer has Stop 0, port in has Val 3"):
        run_unit("hold", ["7 S0 D", "1 S0 3 S1 D"])
    with pytest.raises(GraphError, match="port outer has Done, port in has Stop 1"):
        run_unit("hold", ["7 D", "1 S1 D"])


def test_drop_fiber() -> None:
    # t=1: 1 with its 7. t=2, 3: the stop of 7 is held back, 8 goes. t=4: the stop, 2 and its 9. t=5: S1.
    run = run_unit("drop_fiber", ["7 8 9 S0 D", "1 S0 S0 2 S1 D"], 2)
    assert run.timed == ("7@2 9@5 S0@6 D@7", "1@2 S0@5 2@5 S1@6 D@7")
    assert run.unit.busy == 5


@pytest.mark.parametrize(
    ("outer", "inner", "message"),
    [
        ("7 S0 D", "1 S0 2 S1 D", "port outer has Stop 0, port crd has Val 2"),
        ("7 8 S0 D", "1 S1 D", "port outer has Val 8, port crd has Stop 1"),
        ("S0 D", "S0 S1 D", "port outer has Stop 0, port crd has Stop 0"),
        ("7 S0 D", "N S1 D", "port crd has Empty"),
    ],
)
def test_drop_fiber_misaligned(outer: str, inner: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        run_unit("drop_fiber", [outer, inner], 2)


@pytest.mark.parametrize("seed", range(10))
def test_nests(seed: int) -> None:
    pick = random.Random(seed)
    inner = [[[pick.randrange(9) for _ in range(pick.randrange(3))] for _ in range(pick.randrange(4))] for _ in "abc"]
    outer = [[pick.randrange(9) for _ in group] for group in inner]
    kept = [[(o, f) for o, f in zip(*pair, strict=True) if f] for pair in zip(outer, inner, strict=True)]
    held = [[[o] * len(f) for o, f in zip(*pair, strict=True)] for pair in zip(outer, inner, strict=True)]
    for depth in (None, 1):
        dropped = run_unit("drop_fiber", [done(outer, 2), done(inner, 3)], 2, depth=depth)
        wanted = run_unit("drop_fiber", [done([[o for o, _ in g] for g in kept], 2),
                                         done([[f for _, f in g] for g in kept], 3)], 2)  # fmt: skip
        assert dropped.streams == wanted.streams
        assert sum(token[0][0] == "val" for token in dropped.profile.sinks["sink 0"]) == sum(map(len, kept))
        repeated = run_unit("hold", [done(outer, 2), done(inner, 3)], depth=depth)
        assert [t for t, _ in repeated.profile.sinks["sink 0"]] == done(held, 3)
