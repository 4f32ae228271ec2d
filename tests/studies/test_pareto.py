"""Fronts and hypervolumes against brute force."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studies.pareto import hypervolume, pareto_front

Rows = list[list[int]]


def rows(least: int, most: int) -> st.SearchStrategy[Rows]:
    """Up to 14 points of ``least`` to ``most`` objectives on a small grid, so that ties are common."""
    width = st.integers(least, most)
    return width.flatmap(lambda d: st.lists(st.lists(st.integers(0, 5), min_size=d, max_size=d), max_size=14))


def dominated(point: np.ndarray, points: np.ndarray) -> bool:
    return bool(((points <= point).all(axis=1) & (points < point).any(axis=1)).any())


def volume(points: np.ndarray, reference: np.ndarray) -> float:
    """Sum of the grid cells whose lower corner some point reaches."""
    axes = [np.unique(np.append(np.minimum(points[:, k], reference[k]), reference[k])) for k in range(len(reference))]
    total = 0.0
    for cell in itertools.product(*(itertools.pairwise(axis) for axis in axes)):
        if (points <= np.array([low for low, _ in cell])).all(axis=1).any():
            total += float(np.prod([high - low for low, high in cell]))
    return total


@settings(deadline=None, max_examples=200)
@given(rows(1, 4))
def test_front_is_what_nothing_dominates(given_rows: Rows) -> None:
    if not given_rows:
        return
    points = np.array(given_rows, dtype=float)
    found = pareto_front(points)
    assert sorted(found) == [n for n, point in enumerate(points) if not dominated(point, points)]
    ordered = [(*points[n], n) for n in found]
    assert ordered == sorted(ordered)


@settings(deadline=None, max_examples=150)
@given(rows(1, 3), st.integers(2, 6))
def test_hypervolume_is_the_sum_of_cells(given_rows: Rows, corner: int) -> None:
    if not given_rows:
        return
    points = np.array(given_rows, dtype=float)
    reference = np.full(points.shape[1], float(corner))
    assert hypervolume(points, reference) == pytest.approx(volume(points, reference))


def test_known_volumes() -> None:
    assert hypervolume([[1, 3], [2, 2], [3, 1]], [4, 4]) == 6
    assert hypervolume([[0, 0, 0]], [2, 3, 4]) == 24
    assert hypervolume([[5, 5]], [4, 4]) == 0
    assert hypervolume(np.zeros((0, 2)), [1, 1]) == 0


def test_equal_points_are_all_kept_in_order() -> None:
    assert pareto_front([[1, 1], [2, 0], [1, 1], [1, 2]]).tolist() == [0, 2, 1]


def test_empty_sets() -> None:
    assert pareto_front(np.zeros((0, 3))).tolist() == []


@pytest.mark.parametrize("bad", [[[float("nan"), 1.0]], [[float("inf"), 1.0]], [1.0, 2.0]])
def test_points_must_be_a_finite_matrix(bad: list[object]) -> None:
    with pytest.raises(ValueError, match=r"finite|points\[n, d\]"):
        pareto_front(bad)


def test_hypervolume_knows_up_to_three_objectives() -> None:
    with pytest.raises(ValueError, match="d from 1 to 3"):
        hypervolume(np.zeros((1, 4)), np.ones(4))
    with pytest.raises(ValueError, match="d from 1 to 3"):
        hypervolume(np.zeros((1, 2)), np.ones(3))


def test_large_sets_are_fast() -> None:
    rng = np.random.default_rng(0)
    started = time.process_time()
    pareto_front(rng.random((200_000, 2)))
    pareto_front(rng.random((50_000, 3)))
    assert time.process_time() - started < 5
