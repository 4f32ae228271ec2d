from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from costmodel.statistics import Statistics
from costmodel.tensor_profile import draw, tensor_profile
from mapper.synthetic import generate
from mapper.tensor import SparseTensor


def test_a_small_matrix_by_hand() -> None:
    """Rows {0, 1, 2}, {}, {2}, {0, 3}: 6 entries; tiles of 2 x 2 hold 2, 1, 1 and 2."""
    dense = np.array([[1, 1, 1, 0], [0, 0, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1]])
    found = tensor_profile(Statistics().of(SparseTensor.from_dense(dense)), tile=2)
    assert (found.shape, found.nnz, found.density) == ((4, 4), 6, 6 / 16)
    fine, coarse = found.pyramid
    assert (fine.tile, fine.tiles, fine.nonempty, fine.mean, fine.most) == (2, 4, 4, 1.5, 2)
    assert (coarse.tile, coarse.tiles, coarse.nonempty, coarse.most) == (4, 1, 1, 6)
    rows, columns = found.marginals
    assert (rows.empty, rows.mean, rows.median, rows.most) == (1, 1.5, 1.5, 3)
    assert (columns.empty, columns.most) == (0, 2)
    level0, level1 = found.fibers
    assert (level0.nodes, level0.tile_nodes, level0.histogram) == (3, 2, (0, 1))  # one fiber of 3 rows
    assert (level1.nodes, level1.tile_nodes, level1.histogram) == (6, 4, (1, 2))  # rows of 3, 1 and 2


@pytest.mark.parametrize("shape", [(300,), (90, 70), (30, 20, 17), (9, 8, 7, 6), (6, 5, 4, 4, 3)])
def test_every_number_of_modes_against_plain_counting(shape: tuple[int, ...]) -> None:
    x = generate("uniform", seed=3, shape=shape, density=0.05)
    found = tensor_profile(Statistics().of(x), tile=4)
    points = list(zip(*x.coords.tolist(), strict=True))
    for level in found.pyramid:
        held = Counter(tuple(c // level.tile for c in p) for p in points)
        assert (level.nonempty, level.most) == (len(held), max(held.values()))
        assert level.quantile90 == pytest.approx(np.quantile(list(held.values()), 0.9))
    assert found.pyramid[-1].nonempty == 1
    for own in found.fibers:
        assert own.nodes == len({p[: own.level + 1] for p in points})
        assert own.tile_nodes == len({tuple(c // 4 for c in p[: own.level + 1]) for p in points})
        assert sum(own.histogram) == len({p[: own.level] for p in points})


@pytest.mark.parametrize("shape", [(0, 3), (4, 4), ()])
def test_tensors_without_entries(shape: tuple[int, ...]) -> None:
    found = tensor_profile(Statistics().of(SparseTensor.from_dense(np.zeros(shape))))
    assert sum(o.nonempty for o in found.pyramid) == 0 if shape else found.pyramid == ()
    assert len(draw(found).data) > 0
