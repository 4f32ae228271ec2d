"""Loops are numbered without gaps, and only those are left out that FIFOs refuse."""

from __future__ import annotations

import pytest

from mapper.fusion import fuse
from mapper.notation import parse_program
from mapper.reconvergence import held_back, meetings
from mapper.region_space import RegionSpace
from mapper.space_limits import SpaceLimits
from mapper.synthetic import uniform
from mapper.tensor import SparseTensor
from mapper.workload import Workload

DATA = {"A": uniform((12, 9), 0.3, 1), "B": uniform((9, 8), 0.3, 2), "C": uniform((8, 12), 0.4, 3)}
PRODUCT = "Z(i,k) = A(i,j) * B(j,k)"
CHAIN = "T(i,k) = A(i,j) * B(j,k)\nR(i,k) = relu(T(i,k))\nZ(i,m) = R(i,k) * C(k,m)"
SOFTMAX = "T(i,k) = A(i,j) * B(j,k)\nZ(i,k) = softmax(k, T(i,k))"


def space(text: str, limits: SpaceLimits, depth: int | None) -> RegionSpace:
    program = parse_program(text)
    (region,) = fuse(program, (False,) * len(program.edges), limits.orders).regions
    workload = Workload(program, {name: DATA[name] for name in program.inputs})
    return RegionSpace(workload, region, limits, depth=depth)


def made(space: RegionSpace) -> list[str]:
    """What every number stands for."""
    return [str(space.loops(space.choices.unrank(number))) for number in range(space.choices.count)]


def test_every_number_is_a_choice_of_its_own() -> None:
    limits = SpaceLimits(tiles={"i": (4, 0), "j": (3, 2), "k": (0,)}, max_lanes=2)
    loops = made(space(CHAIN.rsplit("\n", 1)[0], limits, None))
    assert len(set(loops)) == len(loops) > 100


@pytest.mark.parametrize("text", [PRODUCT, CHAIN, SOFTMAX])
@pytest.mark.parametrize(("depth", "tiles"), [(6, (2, 4, 8, 0)), (10, (3, 4, 6, 0)), (16, (8, 4)), (64, (4, 0))])
def test_what_is_left_out_is_what_fifos_refuse(text: str, depth: int, tiles: tuple[int, ...]) -> None:
    """Of all loops, numbered as if FIFOs held everything, each is checked by the rule."""
    limits = SpaceLimits(tiles={"i": tiles, "k": tiles, "j": (0,), "m": (0,)}, max_lanes=2, partitions=("block",))
    free, counted = space(text, limits, None), space(text, limits, depth)
    met = meetings(free.region.program, free.region.statements)
    held, every = set(), 0
    for number in range(free.choices.count):
        loops = free.loops(free.choices.unrank(number))
        every += 1
        if not any(held_back(free.workload, met, loops, depth)):
            held.add(str(loops))
    left = made(counted)
    assert len(set(left)) == len(left) and held <= set(left)
    assert set(left) == held or not counted.choices.held
    assert counted.choices.held == (text != SOFTMAX)  # whose maximum comes late, which takes more to tell
    assert len(left) < every or depth > 10


def test_large_regions_are_counted_without_looking_at_fifos(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = SpaceLimits(max_lanes=2)
    exact = space(CHAIN, limits, 6).choices.count
    monkeypatch.setattr("mapper.loop_choices.MOST_CELLS", 10)
    loose, free = space(CHAIN, limits, 6).choices, space(CHAIN, limits, None).choices
    assert exact < loose.count == free.count
    assert free.held and not loose.held


def test_loops_that_fifos_never_hold_are_none() -> None:
    """A full matrix of 40 columns, summed from two lanes: a row waits whatever the order."""
    program = parse_program("Z(i,j) = A(i,k) * B(k,j)")
    full = Workload(
        program, {"A": SparseTensor.from_dense([[1.0] * 8] * 8), "B": SparseTensor.from_dense([[1.0] * 40] * 8)}
    )
    (region,) = fuse(program, (), {"Z": (("k", "i", "j"),)}).regions
    limits = SpaceLimits(orders={"Z": (("k", "i", "j"),)}, tiles={"i": (0,), "j": (0,), "k": (0,)}, max_lanes=2)
    choices = RegionSpace(full, region, limits, depth=16).choices
    # one lane, or two over i or j in any of the ways to deal them out; none over k
    assert choices.count == 1 + 2 * len(limits.partitions)
    assert all(not choices.unrank(n).lanes or choices.unrank(n).lanes[0][0] != (0, "k") for n in range(choices.count))
