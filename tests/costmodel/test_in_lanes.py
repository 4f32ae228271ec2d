from __future__ import annotations

import numpy as np
import pytest

from costmodel import Statistics
from costmodel.counting import Lanes
from costmodel.in_lanes import InLanes
from mapper.tensor import SparseTensor

LANES = [
    {1: Lanes("j", 1, (5, 11, 17))},
    {1: Lanes("j", 1, (6, 12, 18), cyclic=True)},
    {0: Lanes("i", 1, (20, 23)), 1: Lanes("j", 1, (17, 17), cyclic=True)},
]
VIEWS = [
    ((0, 4), (3, 1)), ((0, 1), (3, 1)), ((1, 3), (3, 1)), ((3, 1),), ((0, 1), (1, 1), (2, 2), (3, 1)),
    ((0, 4), (1, 1), (2, 1), (3, 1)), ((0, 1), (1, 1), (2, 1), (3, 1)), ((0, 4), (1, 2)), ((2, 3), (3, 1)),
]  # fmt: skip


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("view", VIEWS)
def test_counts_equal_those_of_the_tensor_with_lanes(
    lanes: dict[int, Lanes], view: tuple[tuple[int, int], ...]
) -> None:
    rng = np.random.default_rng(0)
    x = SparseTensor.from_dense(rng.integers(1, 9, (23, 17, 9)) * (rng.random((23, 17, 9)) < 0.05))
    number, count = np.zeros(x.nnz, np.int64), 1
    for mode, own in lanes.items():
        number, count = number * own.count + own.of(x.coords[mode]), count * own.count
    tagged = SparseTensor((*x.shape, count), np.concatenate([x.coords, number[None]]), x.values)
    plain, store = Statistics().of(tagged), Statistics()
    ours = InLanes(store.of(x), lanes, "x in lanes", store)
    assert ours.shape == plain.shape and ours.tensor.key == tagged.key
    assert ours.count(view) == plain.count(view)
    assert [c.tolist() for c in ours.nodes(view)] == [c.tolist() for c in plain.nodes(view)]
    for keep in VIEWS:
        if all(m in dict(view) and g % dict(view)[m] == 0 for m, g in keep):
            (points, found), (expected, sums) = ours.marginal(view, keep), plain.marginal(view, keep)
            assert [c.tolist() for c in points] == [c.tolist() for c in expected]
            assert found.tolist() == sums.tolist()
