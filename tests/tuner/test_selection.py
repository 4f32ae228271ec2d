"""Which candidates are simulated: the model's best, and a drawn share of the rest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.selection import confident_verdicts, pareto_layers, select

ESTIMATE = {"tokens": 5e6, "latency_cycles": 1e5, "traffic_bytes": 2e6, "energy_pj": 1e9}


def test_layers_by_hand() -> None:
    # (1,4), (2,2), (4,1) are the front; (3,3) is behind (2,2); (5,5) behind (3,3); a copy of (2,2) is no worse.
    points = np.array([[1, 4], [3, 3], [2, 2], [5, 5], [4, 1], [2, 2]], float)
    assert pareto_layers(points).tolist() == [0, 1, 0, 2, 0, 0]


@given(st.integers(0, 40), st.integers(1, 3), st.integers(0, 2**20))
def test_layers_against_repeated_fronts(count: int, objectives: int, seed: int) -> None:
    points = np.random.default_rng(seed).integers(0, 5, (count, objectives)).astype(float)
    layers, left, expected = pareto_layers(points), list(range(count)), np.full(count, -1)
    for layer in range(count):
        front = [
            n for n in left
            if not any((points[m] <= points[n]).all() and (points[m] < points[n]).any() for m in left)
        ]  # fmt: skip
        expected[front] = layer
        left = [n for n in left if n not in front]
    assert layers.tolist() == expected.tolist()


def chosen(points: np.ndarray, count: int, audit: float, seed: int, explore: bool = False, **more: list[int]):  # type: ignore[no-untyped-def]
    passed = np.ones(len(points), bool)
    passed[more.get("dominated", [])] = False
    return select(points, passed, count, audit, seed, explore)


def test_the_best_go_first_and_a_share_is_drawn() -> None:
    points = np.array([[float(n), 1.0] for n in range(1, 21)])
    best, drawn = chosen(points, 8, 0.25, seed=1)
    assert best == [0, 1, 2, 3, 4, 5]  # 6 by rank, 2 drawn from the other 14
    assert len(drawn) == 2
    assert min(drawn) > 5
    assert chosen(points, 8, 0.25, seed=1) == (best, drawn)
    assert len({tuple(chosen(points, 8, 0.25, seed=n)[1]) for n in range(20)}) > 10


def test_the_dominated_are_drawn_at_most() -> None:
    points = np.array([[float(n), 1.0] for n in range(1, 21)])
    best, drawn = chosen(points, 8, 0.25, seed=1, dominated=[0, 1, 2, *range(6, 20)])
    assert best == [3, 4, 5]  # nobody else may be simulated for its rank
    assert len(drawn) == 2
    assert set(drawn) <= {0, 1, 2, *range(6, 20)}
    assert chosen(points, 8, 0.0, seed=1, dominated=list(range(20))) == ([], [])


def test_exploring_draws_them_all() -> None:
    points = np.array([[float(n)] for n in range(100)])
    best, drawn = chosen(points, 8, 0.0, seed=0, explore=True)
    assert not best
    assert max(drawn) > 30


def test_few_candidates_are_all_taken() -> None:
    assert chosen(np.ones((3, 2)), 8, 0.5, seed=0) == ([0, 1, 2], [])


@pytest.mark.parametrize(
    ("budgets", "tokens", "rules"),
    [
        ((), None, []),
        ((), 4_000_000, ["token-limit"]),
        ((("traffic_bytes", 1e6),), None, ["budget"]),
        ((("traffic_bytes", 3e6),), 6_000_000, []),
    ],
)
def test_confident_verdicts(budgets: tuple[tuple[str, float], ...], tokens: int | None, rules: list[str]) -> None:
    assert [v.rule for v in confident_verdicts(ESTIMATE, budgets, tokens)] == rules
