"""Each way to compare orders is a metric, and the distances are those worked out by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mapper.errors import InputError
from tuner.permutation_features import METRICS, permutation_features

ORDERS = np.array(list(itertools.permutations(range(4))))


def squared(metric: str) -> np.ndarray:
    found = permutation_features(ORDERS, metric)
    return ((found[:, None] - found[None]) ** 2).sum(axis=2)


@pytest.mark.parametrize("metric", METRICS)
def test_it_is_a_metric(metric: str) -> None:
    distance = np.sqrt(squared(metric))
    assert np.allclose(distance, distance.T)
    assert ((distance < 1e-9) == np.eye(24, dtype=bool)).all()  # zero for equal orders alone
    assert (distance[:, None, :] <= distance[:, :, None] + distance[None, :, :] + 1e-9).all()
    assert distance.max() == pytest.approx(1.0)


@pytest.mark.parametrize("metric", METRICS)
def test_names_of_items_do_not_matter(metric: str) -> None:
    # Renaming the items permutes the columns of positions, in both orders alike.
    renamed = permutation_features(ORDERS[:, [2, 0, 3, 1]], metric)
    assert np.allclose(((renamed[:, None] - renamed[None]) ** 2).sum(axis=2), squared(metric))


@pytest.mark.parametrize(
    ("metric", "slow"),
    [
        ("spearman", lambda a, b: sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) / 20),  # 4 (16 - 1) / 3
        ("kendall", lambda a, b: sum((a[i] < a[j]) != (b[i] < b[j]) for i in range(4) for j in range(i)) / 6),
        ("hamming", lambda a, b: sum(x != y for x, y in zip(a, b, strict=True)) / 4),
    ],
)  # fmt: skip
def test_distances_against_their_definitions(metric: str, slow: object) -> None:
    expected = [[slow(a, b) for b in ORDERS.tolist()] for a in ORDERS.tolist()]  # type: ignore[operator]
    assert np.allclose(squared(metric), expected)


@pytest.mark.parametrize("metric", METRICS)
def test_the_centre_is_equally_far_from_all(metric: str) -> None:
    assert np.ptp((permutation_features(ORDERS, metric) ** 2).sum(axis=1)) < 1e-12


def test_unknown_metric() -> None:
    with pytest.raises(InputError, match="Did you mean 'kendall'"):
        permutation_features([[0, 1]], "kendal")
