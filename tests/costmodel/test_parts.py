from __future__ import annotations

import numpy as np
import pytest
from random_mappings import random_tensor

from costmodel import Statistics
from costmodel.counting import Leaf
from costmodel.factors import Factor
from costmodel.parts import Below
from costmodel.statistics import View
from mapper.tensor import SparseTensor

TILES: View = ((0, 4), (1, 6))


@pytest.mark.parametrize("view", [TILES, ((0, 2), (1, 6)), ((0, 1), (1, 1))])
@pytest.mark.parametrize("columns", [(("i", 4),), (("i", 8), ("j", 6)), ()])
def test_nodes_below_some_tiles_are_those_of_a_tensor_with_no_others(
    view: View, columns: tuple[tuple[str, int], ...]
) -> None:
    store, x = Statistics(), random_tensor(np.random.default_rng(1), (30, 40), 0.1)
    tiles = store.of(x).nodes(TILES)
    chosen = np.arange(0, tiles[0].size, 3)
    places = {(int(tiles[0][n]), int(tiles[1][n])) for n in chosen}
    inside = np.array([(i // 4, j // 6) in places for i, j in x.coords.T.tolist()])
    alone = SparseTensor(x.shape, np.ascontiguousarray(x.coords[:, inside]), x.values[inside])
    points = Factor((("i", 4), ("j", 6)), tuple(c[chosen] for c in tiles), np.ones(chosen.size))
    part = Below(store.of(x), ("i", "j"), view, points, "every third")
    found, expected = part.marginal(columns), Leaf(store.of(alone), ("i", "j"), view).marginal(columns)
    assert part.key != Leaf(store.of(x), ("i", "j"), view).key
    assert [c.tolist() for c in found.coords] == [c.tolist() for c in expected.coords]
    assert found.weights.tolist() == expected.weights.tolist()
