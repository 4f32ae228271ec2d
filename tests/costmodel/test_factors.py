from __future__ import annotations

import numpy as np
import pytest

from costmodel import factors
from costmodel.factors import Column, Factor, group_sum, pack, sum_product

EXTENTS = {"i": 7, "j": 6, "k": 8, "l": 5}


def sparse(rng: np.random.Generator, columns: tuple[Column, ...]) -> Factor:
    shape = [-(-EXTENTS[i] // g) for i, g in columns]
    array = rng.integers(1, 5, shape) * (rng.random(shape) < 0.5)
    at = np.nonzero(array)
    return Factor(columns, tuple(c.astype(np.int64) for c in at), array[at].astype(float))


def brute_force(parts: list[Factor], keep: tuple[Column, ...]) -> dict[tuple[int, ...], float]:
    """Sum over all full-resolution coordinates of the indices, each cell of a coarse-only index counted once."""
    finest: dict[str, int] = {}
    for columns in [keep, *(f.columns for f in parts)]:
        for index, granule in columns:
            finest[index] = min(granule, finest.get(index, granule))
    names = list(finest)
    tables = [dict(zip(zip(*f.coords, strict=True), f.weights, strict=True)) for f in parts]
    found: dict[tuple[int, ...], float] = {}
    for point in np.ndindex(*(-(-EXTENTS[i] // finest[i]) for i in names)):
        at = {i: c * finest[i] for i, c in zip(names, point, strict=True)}
        product = 1.0
        for factor, table in zip(parts, tables, strict=True):
            product *= table.get(tuple(at[i] // g for i, g in factor.columns), 0.0)
        if product:
            key = tuple(at[i] // g for i, g in keep)
            found[key] = found.get(key, 0.0) + product
    return found


CASES: list[tuple[list[tuple[Column, ...]], tuple[Column, ...]]] = [
    ([(("i", 1), ("k", 1)), (("k", 1), ("j", 1))], ()),  # a matrix product: marginals alone
    ([(("i", 1), ("k", 1)), (("k", 1), ("j", 1))], (("i", 1),)),
    ([(("i", 2), ("k", 1)), (("k", 4), ("j", 3))], (("k", 4),)),  # k at two resolutions
    ([(("i", 1), ("k", 2)), (("k", 1), ("j", 3))], (("j", 3), ("k", 2))),
    ([(("i", 1), ("j", 1)), (("j", 1), ("k", 1)), (("i", 1), ("k", 1))], ()),  # a triangle: cyclic
    ([(("i", 1), ("j", 1), ("k", 1)), (("j", 1), ("l", 1)), (("k", 1), ("l", 1))], (("i", 1), ("l", 1))),
    ([(("i", 1), ("j", 1)), (("k", 2), ("l", 1))], (("i", 1), ("k", 2))),  # no common index
    ([(("i", 1),), (("i", 1),), (("i", 1), ("j", 1))], (("j", 1),)),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_sum_product_equals_enumeration(case: int) -> None:
    rng = np.random.default_rng(case)
    columns, keep = CASES[case]
    parts = [sparse(rng, c) for c in columns]
    result = sum_product(parts, keep, EXTENTS)
    assert result.columns == keep
    points = zip(*(c.tolist() for c in result.coords), strict=True) if keep else [()]
    got = {p: w for p, w in zip(points, result.weights.tolist(), strict=True) if w}
    assert got == pytest.approx(brute_force(parts, keep))


def test_an_empty_factor_makes_everything_zero() -> None:
    rng = np.random.default_rng(0)
    empty = Factor((("k", 1),), (np.zeros(0, np.int64),), np.zeros(0))
    assert sum_product([sparse(rng, (("i", 1), ("k", 1))), empty], (), EXTENTS).total == 0
    assert sum_product([empty, sparse(rng, (("i", 1), ("k", 2)))], (("i", 1),), EXTENTS).total == 0


def test_a_share_of_too_many_pairs_estimates_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    extents = {"i": 300, "j": 300, "k": 300}
    parts = []
    for a, b in (("i", "j"), ("j", "k"), ("i", "k")):
        at = np.nonzero(rng.random((300, 300)) < 0.1)
        parts.append(Factor(((a, 1), (b, 1)), tuple(c.astype(np.int64) for c in at), np.ones(at[0].size)))
    exact = sum_product(parts, (), extents).total
    monkeypatch.setattr(factors, "MOST_PAIRS", 60_000)
    assert sum_product(parts, (), extents).total == pytest.approx(exact, rel=0.1)
    assert exact == pytest.approx(300**3 * 0.1**3, rel=0.1)


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
