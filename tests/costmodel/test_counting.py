"""Leaves whose granules do not divide each other."""

from __future__ import annotations

import numpy as np
import pytest
from random_mappings import random_tensor

from costmodel.counting import Counter, Cut, Leaf, nested
from costmodel.statistics import Statistics


@pytest.mark.parametrize(("extent", "sides"), [(12, (2, 3)), (13, (4, 6)), (11, (3, 2)), (12, (3, 6))])
def test_blocks_of_two_operands_meet_where_both_have_some(extent: int, sides: tuple[int, int]) -> None:
    """Against blocks that are filled: the positions (i, k) at which some j lies in a block of A and one of B."""
    rng, statistics = np.random.default_rng(extent), Statistics()
    a, b = random_tensor(rng, (7, extent), 0.1), random_tensor(rng, (extent, 9), 0.1)
    leaves = [
        Leaf(statistics.of(a), ("i", "j"), ((0, 1), (1, sides[0]))),
        Leaf(statistics.of(b), ("j", "k"), ((0, sides[1]), (1, 1))),
    ]
    assert any(isinstance(leaf, Cut) for leaf in nested(leaves)) == bool(sides[1] % sides[0])
    filled = np.zeros((7, extent)), np.zeros((extent, 9))
    for i, j in a.coords.T:
        filled[0][i, j // sides[0] * sides[0] : (j // sides[0] + 1) * sides[0]] = 1
    for j, k in b.coords.T:
        filled[1][j // sides[1] * sides[1] : (j // sides[1] + 1) * sides[1], k] = 1
    together = filled[0] @ filled[1]
    counter = Counter(statistics, "L2", {"i": 7, "j": extent, "k": 9}, ())
    found = counter.by(leaves, {"i": 1, "j": 1, "k": 1}, (("i", 1), ("k", 1)))
    assert list(zip(*(c.tolist() for c in found.coords), strict=True)) == list(zip(*np.nonzero(together), strict=True))
    assert found.weights.tolist() == together[np.nonzero(together)].tolist()
    assert counter.total(leaves, {"i": 1, "j": 1, "k": 1}) == together.sum()
