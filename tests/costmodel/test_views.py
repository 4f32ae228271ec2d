from __future__ import annotations

import numpy as np
import pytest

from costmodel.views import View, distinct_points, grouped

SHAPE = (37, 20, 11)
FINE: View = ((0, 2), (1, 1), (2, 1))
COARSE: list[View] = [((0, 2), (1, 1)), ((0, 12), (2, 5)), ((0, 40),), ((0, 4), (1, 3), (2, 2)), ((1, 4), (2, 1)), FINE]


@pytest.mark.parametrize("piece", [1, 3, 100, 10**6])
@pytest.mark.parametrize("keep", COARSE)
@pytest.mark.parametrize("count", [0, 1, 700])
def test_pieces_have_the_groups_of_the_whole(
    monkeypatch: pytest.MonkeyPatch, piece: int, keep: View, count: int
) -> None:
    monkeypatch.setattr("costmodel.views.PIECE", piece)
    rng = np.random.default_rng(count)
    at = np.unique(np.stack([rng.integers(0, -(-SHAPE[m] // g), count) for m, g in FINE]), axis=1)
    points, weights = tuple(at), rng.integers(1, 9, at.shape[1]) * 1.0
    own = dict(FINE)
    expected = dict[tuple[int, ...], list[float]]()
    for point, weight in zip(at.T.tolist(), weights.tolist(), strict=True):
        place = tuple(point[m] * own[m] // g for m, g in keep)
        expected.setdefault(place, []).append(weight)
    for own_weights, total in ((weights, sum), (None, len)):
        found, sums = grouped(FINE, points, keep, SHAPE, own_weights)
        assert list(zip(*(c.tolist() for c in found), strict=True)) == sorted(expected)
        assert sums.tolist() == [total(expected[p]) for p in sorted(expected)]  # type: ignore[operator]
    found = distinct_points(FINE, points, keep, SHAPE)
    assert list(zip(*(c.tolist() for c in found), strict=True)) == sorted(expected)
