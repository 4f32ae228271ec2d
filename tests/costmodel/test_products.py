from __future__ import annotations

import numpy as np
import pytest

from costmodel import products
from costmodel.factors import Column, Factor
from costmodel.products import sum_product

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
    ([(("i", 2), ("j", 1)), (("i", 1),)], (("j", 1), ("i", 1))),  # pairs are listed along i first
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
    assert sum_product([empty, sparse(rng, (("i", 1),))], (("i", 1),), EXTENTS).weights.size == 0


def test_a_share_of_too_many_pairs_estimates_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    extents = {"i": 300, "j": 300, "k": 300}
    parts = []
    for a, b in (("i", "j"), ("j", "k"), ("i", "k")):
        at = np.nonzero(rng.random((300, 300)) < 0.1)
        parts.append(Factor(((a, 1), (b, 1)), tuple(c.astype(np.int64) for c in at), np.ones(at[0].size)))
    exact = sum_product(parts, (), extents).total
    monkeypatch.setattr(products, "MOST_PAIRS", 60_000)
    assert sum_product(parts, (), extents).total == pytest.approx(exact, rel=0.1)
    assert exact == pytest.approx(300**3 * 0.1**3, rel=0.1)


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("cells_per_pair", [0, 10**6])
def test_matrix_products_have_the_sums_of_listed_pairs(
    monkeypatch: pytest.MonkeyPatch, case: int, cells_per_pair: int
) -> None:
    """Every sum by sparse matrices, and every one by a table: as weights are whole, all sums are the same."""
    monkeypatch.setattr(products, "FEW_PAIRS", 0)
    monkeypatch.setattr(products, "CELLS_PER_PAIR", cells_per_pair)
    monkeypatch.setattr(products, "PIECE", 12)
    rng = np.random.default_rng(case)
    columns, keep = CASES[case]
    parts = [sparse(rng, c) for c in columns]
    result = sum_product(parts, keep, EXTENTS)
    points = zip(*(c.tolist() for c in result.coords), strict=True) if keep else [()]
    got = {p: w for p, w in zip(points, result.weights.tolist(), strict=True) if w}
    assert got == brute_force(parts, keep)
