from __future__ import annotations

import numpy as np
import pytest

from costmodel.statistics import Statistics, TensorStatistics
from mapper.tensor import SparseTensor


def tensor(seed: int = 0, shape: tuple[int, ...] = (23, 17, 9), density: float = 0.05) -> SparseTensor:
    rng = np.random.default_rng(seed)
    return SparseTensor.from_dense(rng.integers(1, 9, shape) * (rng.random(shape) < density))


VIEWS = [(), ((0, 1),), ((0, 4), (2, 1)), ((0, 1), (1, 3), (2, 9)), ((0, 1), (1, 1), (2, 1)), ((1, 100),)]


@pytest.mark.parametrize("view", VIEWS)
def test_nodes_are_the_distinct_points(view: tuple[tuple[int, int], ...]) -> None:
    x = tensor()
    stats = Statistics().of(x)
    points = sorted({tuple(int(x.coords[m, e]) // g for m, g in view) for e in range(x.nnz)})
    if view:
        assert list(zip(*(c.tolist() for c in stats.nodes(view)), strict=True)) == points
    assert stats.count(view) == len(points)
    assert stats.density(view) == len(points) / stats.cells(view)


@pytest.mark.parametrize(
    ("view", "keep"),
    [
        (((0, 1), (1, 3), (2, 9)), ((1, 3),)),
        (((0, 1), (1, 3), (2, 9)), ((0, 5), (1, 6))),
        (((0, 1), (1, 1), (2, 1)), ()),
        (((0, 4), (2, 1)), ((0, 4), (2, 1))),
    ],
)
def test_marginal_counts_nodes(view: tuple[tuple[int, int], ...], keep: tuple[tuple[int, int], ...]) -> None:
    x = tensor(1)
    coords, weights = Statistics().of(x).marginal(view, keep)
    granule = dict(view)
    expected: dict[tuple[int, ...], int] = {}
    for point in {tuple(int(x.coords[m, e]) // g for m, g in view) for e in range(x.nnz)}:
        at = {m: c * granule[m] for (m, _), c in zip(view, point, strict=True)}
        key = tuple(at[m] // g for m, g in keep)
        expected[key] = expected.get(key, 0) + 1
    points = zip(*(c.tolist() for c in coords), strict=True) if keep else [()]
    assert dict(zip(points, weights.tolist(), strict=True)) == expected


def test_coarsening_a_known_view_gives_the_same_nodes() -> None:
    fresh, warm = Statistics().of(tensor(2)), Statistics().of(tensor(2))
    for granule in (2, 4, 8):
        assert warm.count(((0, granule), (1, 2 * granule))) == fresh.count(((0, granule), (1, 2 * granule)))
    other = Statistics().of(tensor(2))
    assert other.count(((0, 8), (1, 16))) == fresh.count(((0, 8), (1, 16)))


def test_one_object_per_content_and_each_view_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Statistics()
    assert store.of(tensor(3)) is store.of(tensor(3))
    assert store.of(tensor(3)) is not store.of(tensor(4))
    calls = []
    monkeypatch.setattr(TensorStatistics, "_nodes", lambda self, view: calls.append(view) or (np.zeros(1, np.int64),))
    for _ in range(3):
        store.of(tensor(3)).nodes(((0, 2),))
    assert calls == [((0, 2),)]


def test_memory_stays_within_its_limit_and_answers_stay_right() -> None:
    store, x = Statistics(limit_bytes=40_000), tensor(5)
    for _ in range(2):
        for granule in range(2, 20):
            stats = store.of(x)
            assert len(set((x.coords[0] // granule).tolist())) == stats.nodes(((0, granule),))[0].size
            assert 0 < store.held_bytes <= 40_000


def test_large_values_do_not_push_out_small_ones() -> None:
    """What is remembered of a region must outlast the node lists that made it."""
    store, made = Statistics(limit_bytes=4_000_000), []
    for n in range(100):
        store.remember(("small", n), lambda n=n: made.append(n) or np.zeros(10))  # type: ignore[misc]
        store.remember(("large", n), lambda: np.zeros(30_000))
    for n in range(100):
        store.remember(("small", n), lambda: made.append(-1))
    assert made == list(range(100))
    assert store.held_bytes <= 4_000_000


def test_stepping_stones_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Views of a large tensor by way of views between, against those of a small one, straight from its entries."""
    x = SparseTensor.from_dense(np.random.default_rng(8).random((90, 70)) < 0.1)
    views = [((0, g), (1, h)) for g in (1, 4, 6, 8, 32) for h in (1, 3, 16, 48)] + [((0, 12),), ((1, 32),)]
    full = ((0, 1), (1, 1))
    plain = Statistics().of(x)
    monkeypatch.setattr("costmodel.statistics.KEPT_ENTRIES", 1)
    stepped = Statistics().of(x)
    for view in views:
        assert [c.tolist() for c in stepped.nodes(view)] == [c.tolist() for c in plain.nodes(view)]
        (points, count), (expected, number) = stepped.marginal(full, view), plain.marginal(full, view)
        assert [c.tolist() for c in points] == [c.tolist() for c in expected] and (count == number).all()


@pytest.mark.parametrize("shape", [(0, 5), (4, 0), (6, 6)])
def test_empty_tensors(shape: tuple[int, int]) -> None:
    stats = Statistics().of(SparseTensor.from_dense(np.zeros(shape)))
    assert stats.count(((0, 2), (1, 1))) == 0
    assert stats.marginal(((0, 1), (1, 1)), ((0, 2),))[1].size == 0
    assert stats.density(((0, 2),)) == 0


def test_what_was_counted_outlasts_tensors_that_are_too_large_to_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    store, x, calls = Statistics(limit_bytes=40_000), tensor(6), []
    assert store.of(x) is not store.of(x)
    own = TensorStatistics._nodes
    monkeypatch.setattr(TensorStatistics, "_nodes", lambda self, view: calls.append(view) or own(self, view))
    assert store.of(x).count(((0, 2),)) == store.of(x).count(((0, 2),)) == len(set((x.coords[0] // 2).tolist()))
    assert calls == [((0, 2),)]
