from __future__ import annotations

import numpy as np
import pytest

from costmodel.factors import Factor, distinct, group_sum, pack, unpack


def test_keys_survive_spaces_beyond_64_bits() -> None:
    coords = [np.array(c, np.int64) for c in ([1, 0, 1, 1], [3, 3, 3, 2], [5, 5, 5, 5])]
    key = pack(coords, [2**40, 2**40, 2**40])
    assert key[0] == key[2] and len(set(key.tolist())) == 3
    assert np.argsort(key, kind="stable").tolist() == np.lexsort(coords[::-1]).tolist()
    points, sums = group_sum(coords, [2**40, 2**40, 2**40], np.array([1.0, 2.0, 4.0, 8.0]))
    assert [p.tolist() for p in points] == [[0, 1, 1], [3, 2, 3], [5, 5, 5]]
    assert sums.tolist() == [2.0, 8.0, 5.0]


def test_look_up_in_a_wide_space() -> None:
    rng = np.random.default_rng(2)
    crd = np.sort(rng.choice(10**9, 50, replace=False))
    factor = Factor((("i", 1),), (crd,), np.arange(1.0, 51.0))
    asked = np.concatenate([crd[::-1], crd + 1])
    expected = [dict(zip(crd.tolist(), factor.weights.tolist(), strict=True)).get(c, 0.0) for c in asked.tolist()]
    assert factor.at([asked], [10**9]).tolist() == expected


@pytest.mark.parametrize(
    "sizes", [(7,), (5, 4), (90, 80, 70), (3000, 2, 4000), (2**30, 2**20, 2**12), (2**31,) * 3, (2**40,)]
)
def test_groups_in_any_space(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(sizes))
    for count in (0, 1, 50, 400):
        coords = [rng.integers(max(0, size - 3), size, count) for size in sizes]
        weights = rng.integers(1, 9, count) * 1.0
        expected = dict[tuple[int, ...], list[float]]()
        for *point, weight in zip(*(c.tolist() for c in coords), weights.tolist(), strict=True):
            expected.setdefault(tuple(point), []).append(weight)
        points, sums = group_sum(coords, sizes, weights)
        assert list(zip(*(p.tolist() for p in points), strict=True)) == sorted(expected)
        assert sums.tolist() == [sum(expected[p]) for p in sorted(expected)]
        assert group_sum(coords, sizes, None)[1].tolist() == [len(expected[p]) for p in sorted(expected)]
        before = [c.tolist() for c in coords]
        assert [p.tolist() for p in distinct(coords, sizes)] == [p.tolist() for p in points]
        assert before == [c.tolist() for c in coords]


def test_points_come_back_from_their_numbers() -> None:
    sizes, rng = (6, 1, 50, 3), np.random.default_rng(0)
    coords = [rng.integers(0, size, 20) for size in sizes]
    assert [c.tolist() for c in unpack(pack(coords, sizes), sizes)] == [c.tolist() for c in coords]
