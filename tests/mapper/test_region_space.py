"""Knobs of a region: chosen by name, the same for all its statements."""

from __future__ import annotations

import itertools
import math

from mapper.fusion import fuse
from mapper.notation import parse_program
from mapper.region_space import RegionSpace
from mapper.space_limits import SpaceLimits
from mapper.synthetic import uniform
from mapper.workload import Workload

PROGRAM = parse_program("T(i,k) = A(i,j) * X(j,k)\nZ(i,k) = relu(T(i,k))")
DATA = {"A": uniform((12, 9), 0.3, 1), "X": uniform((9, 8), 0.3, 2)}


def region_space(limits: SpaceLimits) -> RegionSpace:
    (region,) = fuse(PROGRAM, (False,), limits.orders).regions
    return RegionSpace(Workload(PROGRAM, DATA), region, limits)


def test_statements_agree_on_tiles_lanes_and_order() -> None:
    space = region_space(SpaceLimits())
    for number in range(0, space.choices.count, space.choices.count // 50):
        loops = space.loops(space.choices.unrank(number))
        made = [loop for loop in loops[0].nest if loop[0] != "j"]
        assert list(loops[1].nest) == made
        assert loops[1].parallel == tuple(lane for lane in loops[0].parallel if lane[0] != "j")


def test_lanes_are_powers_of_two_over_any_indices() -> None:
    program = parse_program("Z(i,j) = A(i,k) * B(k,j)")
    data = {"A": uniform((20, 20), 0.3, 1), "B": uniform((20, 20), 0.3, 2)}
    (region,) = fuse(program, (), {}).regions
    lanes = RegionSpace(Workload(program, data), region, SpaceLimits(max_lanes=16)).lanes
    counts = [tuple(dict(known).get((0, i), 1) for i in "ikj") for known in lanes]
    every = itertools.product((1, 2, 4, 8, 16), (1, 2, 4, 8), (1, 2, 4, 8, 16))  # eight partial sums at most, over k
    assert sorted(counts) == sorted(c for c in every if math.prod(c) <= 16)
    assert lanes[0] == () and [len(known) for known in lanes] == sorted(len(known) for known in lanes)


class First:
    """Takes the first choice, notes what was asked."""

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}

    def categorical(self, name: str, choices):  # type: ignore[no-untyped-def]
        self.asked[name] = len(choices)
        return choices[0]

    def integer(self, name: str, low: int, high: int) -> int:
        self.asked[name] = high - low + 1
        return low


def test_knobs_by_name() -> None:
    chooser = First()
    loops = region_space(SpaceLimits(max_lanes=4)).choose(chooser)
    assert loops[0].tiles and not loops[0].parallel
    # three indices in any order with i and k told apart from j, as the second statement must see them: 6 orders
    assert chooser.asked["order.S0+S1"] == 6
    assert chooser.asked["tileorder.S0+S1"] == 6
    assert {"tiled.S0.i", "tile.S0.i", "lanes.S0+S1"} <= set(chooser.asked)
    assert not any(name.startswith("partition") for name in chooser.asked)  # one lane is not dealt out


def test_many_orders_become_a_number() -> None:
    text = "Z(a,b,c,d,e,f) = A(a,b,c) * B(d,e,f)"
    program = parse_program(text)
    data = {"A": uniform((2, 2, 2), 1.0, 1), "B": uniform((2, 2, 2), 1.0, 2)}
    (region,) = fuse(program, (), {}).regions
    chooser = First()
    RegionSpace(Workload(program, data), region, SpaceLimits()).choose(chooser)
    assert chooser.asked["order.S0"] == 720
