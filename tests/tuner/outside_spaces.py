"""Spaces and measurements of outside evaluators for the tests of ask and tell."""

from __future__ import annotations

import math
from typing import Any

from tuner.parameter_space import ParameterSpace
from tuner.parameters import Categorical, Ordinal, Permutation, Real
from tuner.surrogate import Ingredients

QUICK = Ingredients(candidates=200)


def compiler() -> ParameterSpace:
    """46,656 points, the SpMM space of BaCO."""
    return ParameterSpace(
        [
            Ordinal("chunk", [2**n for n in range(1, 10)], log=True),
            Ordinal("omp", [2**n for n in range(9)], log=True),
            Ordinal("threads", [2**n for n in range(6)], log=True),
            Categorical("sched", [0, 1]),
            Ordinal("unroll", [2**n for n in range(1, 10)], log=True),
            Permutation("order", 5, before=[(0, 2), (1, 2), (0, 3), (1, 3)]),
        ],
        ["unroll < chunk", "before(order, 3, 2) or before(order, 3, 4)"],
    )


def seconds(point: dict[str, Any]) -> float:
    """At least 1, at chunk 64, omp 32, threads 16, unroll 8, item 0 first and 2 last."""
    off = [math.log2(point[n]) - at for n, at in (("chunk", 6), ("omp", 5), ("threads", 4), ("unroll", 3))]
    return 1 + sum(map(abs, off)) + point["sched"] + point["order"].index(0) + (4 - point["order"].index(2))


def mixed() -> ParameterSpace:
    """Reals on either scale, tied by a constraint, beside what text formats turn into lists."""
    return ParameterSpace(
        [
            Real("s", 0.01, 1.0, log=True),
            Real("t", -3, 5),
            Permutation("order", ["i", "j", "k"]),
            Categorical("tile", [(1, 2), (2, 1)]),
        ],
        ["s < 0.9", "t + s < 5"],
    )


def bowl(point: dict[str, Any]) -> float:
    """At least 1, at s 0.1, t 1.3, i first."""
    return 1 + math.log10(10 * point["s"]) ** 2 + (point["t"] - 1.3) ** 2 + list(point["order"]).index("i")
