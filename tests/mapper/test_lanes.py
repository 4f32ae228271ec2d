"""Slices of lanes: complete, without overlap, balanced by stored entries where that is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from mapper.lanes import Slice, common_levels, lane_slices
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.tensor import SparseTensor
from mapper.workload import Workload

KINDS = (("A", ("compressed", "compressed")), ("x", ("dense",)), ("y", ("compressed",)))


def slices(rows: list[int], lanes: int, tile: int = 0, partition: str = "balanced") -> tuple[Slice, ...]:
    """Slices of y(i) = A(i,j) * x(j) where row i of A holds ``rows[i]`` entries."""
    width = max([*rows, 1])
    a = SparseTensor.from_dense((np.arange(width) < np.array(rows)[:, None]).astype(float))
    x = SparseTensor.from_dense(np.ones(width), keep_zeros=True)
    workload = Workload(parse_program("y(i) = A(i,j) * x(j)"), {"A": a, "x": x})
    loops = Loops(("i", "j"), (("i", tile),) if tile else (), (("i", lanes, partition),))
    return lane_slices(workload, Mapping((), (loops,), KINDS), (0,))[0][0]


@pytest.mark.parametrize(
    ("rows", "lanes", "tile", "expected"),
    [
        ([5] * 64, 4, 0, ((0, 16), (16, 32), (32, 48), (48, 64))),
        ([9, 1, 1, 1], 2, 0, ((0, 1), (1, 4))),  # 9 of 12 entries stand in the first row
        ([0, 0, 0, 0], 2, 0, ((0, 2), (2, 4))),  # nothing stored: equal lengths
        ([1, 1, 12, 1, 1], 4, 0, ((0, 3), (3, 3), (3, 3), (3, 5))),  # one row outweighs two lanes
        ([2] * 10, 2, 4, ((0, 2), (2, 3))),  # tiles of 4, 4 and 2 rows: 16 of 20 entries, then 4
    ],
)
def test_boundaries(rows: list[int], lanes: int, tile: int, expected: tuple[tuple[int, int], ...]) -> None:
    assert tuple((s.lo, s.hi) for s in slices(rows, lanes, tile)) == expected


def test_blocks_look_at_no_data() -> None:
    assert [(s.lo, s.hi) for s in slices([9, 1, 1, 1], 2, partition="block")] == [(0, 2), (2, 4)]


def test_lanes_take_turns() -> None:
    found = slices([1, 2, 3, 4, 5], 2, partition="cyclic")
    assert [s.params for s in found] == [{"phase": 0, "step": 2}, {"phase": 1, "step": 2}]
    assert {s.params["step"] for s in slices([1] * 10, 3, tile=2, partition="cyclic")} == {3}


@pytest.mark.parametrize(
    ("order", "tiles", "lanes", "common"),
    [
        ("kij", "", "k", 0),
        ("ikj", "", "k", 1),
        ("ijk", "", "k", 1),  # a lane leaves out the j of which it has nothing
        ("kij", "ijk", "k", 2),
        ("ijk", "ikj", "k", 1),
        ("kij", "ijk", "ik", 2),  # lanes that share a sum have the same i
    ],
)
def test_levels_that_lanes_have_in_common(order: str, tiles: str, lanes: str, common: int) -> None:
    program = parse_program("Z(i,j) = A(i,k) * B(k,j)")
    loops = Loops(tuple(order), tuple((i, 4) for i in tiles), tuple((i, 2, "cyclic") for i in lanes))
    assert common_levels(program, [loops], (), 0) == common


def test_levels_in_common_end_where_a_stream_is_a_sum() -> None:
    program = parse_program("T(i,j) = A(i,k) * B(k,j)\nz(i) = T(i,j) * C(i,j)")
    reader = Loops(("i", "j"), (("i", 4), ("j", 4)), (("j", 2, "block"),))
    for tiles, common in (("ij", 1), ("ikj", 1), ("kij", 0)):  # under a sum over k a lane has tiles of its own
        made = Loops(("i", "k", "j"), tuple((i, 4) for i in tiles), (("j", 2, "block"),))
        assert common_levels(program, [made, reader], program.edges, 1) == common
