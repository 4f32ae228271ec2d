"""Intervals hold the share of new rows that they promise, move with what is known, and are the same every time."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.intervals import FOREST_ROWS, Intervals


def drawn(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows whose residual depends on the first feature, and its spread on the second."""
    rows = rng.random((count, 4))
    estimated = np.exp(rng.normal(10, 2, count))
    noise = rng.normal(0, 0.02 + 0.4 * (rows[:, 1] > 0.5), count)
    return rows, estimated, estimated * np.exp(0.5 * (rows[:, 0] > 0.5) + noise)


@pytest.mark.parametrize("known", [20, FOREST_ROWS - 1, 80, 200])
def test_coverage(known: int) -> None:
    rng, inside, tested = np.random.default_rng(5), 0, 0
    for _ in range(12 if known < FOREST_ROWS else 5):
        intervals = Intervals(*drawn(rng, known))
        rows, estimated, measured = drawn(rng, 200)
        ends = intervals.around(rows, estimated, np.zeros(200))
        inside += int(((ends[:, 0] <= measured) & (measured <= ends[:, 1])).sum())
        tested += 200
    assert 0.85 <= inside / tested <= 0.95


def test_intervals_are_as_wide_as_rows_are_unknown() -> None:
    intervals = Intervals(*drawn(np.random.default_rng(1), 300))
    rows = np.array([[0.2, 0.2, 0.5, 0.5], [0.2, 0.8, 0.5, 0.5], [0.8, 0.2, 0.5, 0.5]])
    ends = intervals.around(rows, [100.0] * 3, [0.0] * 3)
    width = ends[:, 1] / ends[:, 0]
    assert width[1] > 1.5 * width[0]
    assert ends[2, 0] > ends[0, 1]  # the model is off by exp(0.5) there


def test_too_few_rows_say_nothing() -> None:
    """Beyond the outermost of 18 rows is a chance of 1 / 19, which is more than 5 %; of 20 rows it is 1 / 21."""
    few, enough = (Intervals(*drawn(np.random.default_rng(0), count)) for count in (18, 20))
    assert few.around([[0.0] * 4], [10.0], [3.0]).tolist() == [[3.0, float("inf")]]
    assert np.isfinite(enough.around([[0.0] * 4], [10.0], [3.0])).all()


def test_bounds_lift_the_ends() -> None:
    intervals = Intervals([[0.0]] * 30, [10.0] * 30, [10.0 + n / 10 for n in range(30)])
    (low, high), (lifted, top) = intervals.around([[0.0]] * 2, [10.0] * 2, [0.0, 11.5]).tolist()
    # 31 * 0.05 = 1.55: half way and a bit from the first to the second of 30 sorted rows, and as far from the end
    ends = [10.0 * (10.1 / 10.0) ** 0.55, 12.9 * (12.8 / 12.9) ** 0.55]
    assert [low, high] == pytest.approx(ends)
    assert [lifted, top] == pytest.approx([11.5, ends[1]])


def test_same_rows_same_intervals() -> None:
    rows, estimated, measured = drawn(np.random.default_rng(2), 60)
    both = [Intervals(rows, estimated, measured).around(rows, estimated, np.zeros(60)).tolist() for _ in range(2)]
    assert both[0] == both[1]
