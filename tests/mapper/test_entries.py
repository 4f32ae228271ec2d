"""Products of coordinate lists, whole and in pieces, against einsum."""

from __future__ import annotations

import numpy as np
import pytest

from mapper import entries
from mapper.entries import Entries, product
from mapper.tensor import SparseTensor


def listed(indices: str, dense: np.ndarray) -> Entries:
    tensor = SparseTensor.from_dense(dense)
    return Entries(tuple(indices), tensor.coords, tensor.values)


def dense(found: Entries, indices: str, shape: tuple[int, ...]) -> np.ndarray:
    out = np.zeros((*shape, 1))  # the last mode is for results without any
    at = tuple(found.coords[found.indices.index(i)] for i in indices)
    np.add.at(out, (*at, np.zeros(found.values.size, np.int64)), found.values)
    return out[..., 0]


@pytest.mark.parametrize("most", [1, 7, 1 << 23])
@pytest.mark.parametrize("target", ["tuh", "t", "", "ue"])
def test_a_mask_and_what_it_samples(most: int, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mapper.entries.MOST_PAIRS", most)
    rng, extents = np.random.default_rng(0), {"t": 9, "u": 8, "h": 2, "e": 5}
    operands = [
        np.where(rng.random([extents[i] for i in names]) < share, rng.integers(1, 9, [extents[i] for i in names]), 0)
        for names, share in (("tu", 0.2), ("the", 1.0), ("uhe", 0.7))
    ]
    found = product([listed(n, a * 1.0) for n, a in zip(("tu", "the", "uhe"), operands, strict=True)], tuple(target))
    expected = np.einsum(f"tu,the,uhe->{target}", *operands)
    assert not target or np.unique(found.columns(tuple(target)), axis=1).shape[1] == found.values.size
    np.testing.assert_array_equal(dense(found, target, expected.shape), expected)


def test_rank_is_lexicographic_also_when_keys_overflow() -> None:
    far = 2**62
    columns = np.array([[far, 0, far, far], [5, far, 5, 4], [far, 1, far, 0]])
    rank, first = entries._rank(columns)
    assert rank.tolist() == [2, 0, 2, 1]
    assert first.tolist() == [1, 3, 0]
