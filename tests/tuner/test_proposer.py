"""Searches where estimates forbid much: they end soon, and what is forbidden teaches nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from tuner.parameter_groups import Codes
from tuner.parameter_space import ParameterSpace
from tuner.parameters import Integer
from tuner.proposer import REDRAWS, History, propose
from tuner.surrogate import Goal, Ingredients

QUICK = Ingredients(candidates=20, startup=2)


class Counted(ParameterSpace):
    """Numbers below a million, of which an estimate allows those from ``least``; counts rounds of draws."""

    def __init__(self, least: int) -> None:
        super().__init__(
            [Integer("x", 0, 10**6 - 1)], estimate=lambda p: [math.nan if p["x"] < least else 1.0 + p["x"]]
        )
        self.rounds = 0

    def sample(self, rng: np.random.Generator, count: int) -> list[Codes]:
        self.rounds += 1
        return super().sample(rng, count)


def proposed(space: ParameterSpace, points: Sequence[int], pending: Sequence[int] = (), barren: int = 0) -> list[int]:
    outcomes = np.arange(1.0, len(points) + 1.0)[:, None]
    known = [[(float(p),) for p in some] for some in (points, pending)]
    history = History(known[0], outcomes, known[1], barren=barren)
    found = propose(space, history, Goal(1), QUICK, 3, np.random.default_rng(0))
    assert all(s.gain is None or math.isfinite(s.gain) for s in found)
    return [int(s.point[0]) for s in found]


def test_a_search_in_vain_is_not_repeated() -> None:
    rounds = []
    for barren in range(5):
        space = Counted(10**6)
        assert proposed(space, [], barren=barren) == []
        rounds.append(space.rounds)
    assert rounds == [REDRAWS, 12, 3, 1, 1]
    space = Counted(999_997)  # the neighbours of what is known are all that is found
    assert set(proposed(space, [999_998])) <= {999_997, 999_999}
    assert space.rounds <= REDRAWS


@pytest.mark.parametrize("pending", [[], [3, 4]])
def test_what_is_forbidden_teaches_nothing(pending: list[int]) -> None:
    space = Counted(1000)
    assert min(proposed(space, range(8), pending)) >= 1000
    assert min(proposed(space, [*range(8), 2000, 3000], pending)) >= 1000
