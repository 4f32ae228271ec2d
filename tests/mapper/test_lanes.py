"""Lane ranges: contiguous, complete, balanced by stored entries."""

from __future__ import annotations

import numpy as np
import pytest

from mapper.lanes import lane_ranges
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.tensor import SparseTensor
from mapper.workload import Workload

KINDS = (("A", ("compressed", "compressed")), ("x", ("dense",)), ("y", ("compressed",)))


def ranges(rows: list[int], lanes: int, tile: int = 0) -> tuple[tuple[int, int] | None, ...]:
    """Ranges of y(i) = A(i,j) * x(j) where row i of A holds ``rows[i]`` entries."""
    width = max([*rows, 1])
    a = SparseTensor.from_dense((np.arange(width) < np.array(rows)[:, None]).astype(float))
    x = SparseTensor.from_dense(np.ones(width), keep_zeros=True)
    workload = Workload(parse_program("y(i) = A(i,j) * x(j)"), {"A": a, "x": x})
    loops = Loops(("i", "j"), (("i", tile),) if tile else (), ("i", lanes))
    return lane_ranges(workload, Mapping((), (loops,), KINDS), (0,))


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
    assert ranges(rows, lanes, tile) == expected
