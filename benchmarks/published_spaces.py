"""Spaces of BaCO's sparse tensor compiler experiments (Hellsten et al., ASPLOS 2024), over a response stated in full.

Parameters, constraints and sizes are those of the published scenario files; the response is synthetic. With c, u, o, t
the logarithms (base 2) of chunk, unroll, omp_chunk and threads, s = sched and n = 0, 1, 2 the instance,

    time = 100 * parallel * inner * order                                                                milliseconds
    parallel = (1 + wait) / 2^t + 0.004 * 2^t,   wait = 2^(o + t - 6 - n) if s = 0 else 0.1 + 0.5 / 2^o
    inner = 1 + 0.15 (c - 4 - n)^2 + 0.08 (u - 2 - n / 2)^2 + 0.05 (c - 4 - n) (u - 2 - n / 2)
    order = 1 + sum over pairs i < j of items, as ranked in IDEAL[kernel][n], in the wrong order, of
            0.1 * (1 + (i j + n) mod 4)

and what no tool is told: a point fails if c + u + t > 17 - n (out of memory), or if item 4 comes first and u > 4.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tuner.parameter_space import ParameterSpace
from tuner.parameters import Categorical, Ordinal, Permutation

IDEAL = {
    "SpMM": ((0, 1, 3, 2, 4), (1, 0, 3, 4, 2), (1, 0, 4, 3, 2)),
    "SDDMM": ((0, 1, 2, 3, 4), (1, 0, 4, 3, 2), (3, 1, 0, 2, 4)),
    "MTTKRP": ((2, 0, 4, 1, 3), (0, 1, 2, 3, 4), (3, 2, 1, 0, 4)),
}
SIZES = {"SpMM": 46_656, "SDDMM": 77_760, "MTTKRP": 680_400}

Point = dict[str, Any]


@dataclass(frozen=True)
class Instance:
    """One kernel on instance ``number`` (0, 1, 2)."""

    kernel: str
    number: int

    @property
    def name(self) -> str:
        return f"{self.kernel}-{self.number}"

    def space(self, metric: str = "spearman") -> ParameterSpace:
        """The legal points."""
        most = 10 if self.kernel == "MTTKRP" else 9
        parameters = [
            Ordinal("chunk", _powers(1, most), log=True),
            Ordinal("omp_chunk", _powers(0, 8), log=True),
            Ordinal("threads", _powers(0, 6 if self.kernel == "MTTKRP" else 5), log=True),
            Categorical("sched", (0, 1)),
            Ordinal("unroll", _powers(1, most), log=True),
            Permutation("order", 5, metric=metric),
        ]
        both = "before(order, 0, {0}) and before(order, 1, {0})"
        rules = {
            "SpMM": [both.format(2), both.format(3), "before(order, 3, 2) or before(order, 3, 4)"],
            "SDDMM": [f"({both.format(2)}) if before(order, 2, 4) else ({both.format(4)})"],
            "MTTKRP": [],
        }[self.kernel]
        return ParameterSpace(parameters, ["unroll < chunk", *rules])

    def time(self, point: Point) -> float | None:
        """Milliseconds; None where the point fails."""
        c, u, o, t = (round(math.log2(point[n])) for n in ("chunk", "unroll", "omp_chunk", "threads"))
        n, order = self.number, point["order"]
        if c + u + t > 17 - n or (order[0] == 4 and u > 4):
            return None
        wait = 2.0 ** (o + t - 6 - n) if point["sched"] == 0 else 0.1 + 0.5 / 2**o
        parallel = (1 + wait) / 2**t + 0.004 * 2**t
        dc, du = c - 4 - n, u - 2 - n / 2
        inner = 1 + 0.15 * dc**2 + 0.08 * du**2 + 0.05 * dc * du
        return 100 * parallel * inner * self._order_factor(order)

    def _order_factor(self, order: Sequence[int]) -> float:
        ideal = IDEAL[self.kernel][self.number]
        wrong = (
            (i, j) for i, j in itertools.combinations(range(5), 2) if order.index(ideal[i]) > order.index(ideal[j])
        )
        return 1 + sum(0.1 * (1 + (i * j + self.number) % 4) for i, j in wrong)

    @cached_property
    def known(self) -> tuple[float, float, float]:
        """(least time, time of the first point that succeeds, share of points that fail), over all legal points."""
        space = self.space()
        times = [self.time(space.point(codes)) for codes in space.enumerate()]
        good = [t for t in times if t is not None]
        return min(good), good[0], 1 - len(good) / len(times)


def instances(kernels: Sequence[str] = tuple(SIZES)) -> list[Instance]:
    """All of these kernels."""
    return [Instance(kernel, n) for kernel in kernels for n in range(3)]


def starting_points(space: ParameterSpace, seed: int, count: int) -> list[Point]:
    """The same for every tool: uniform legal points, each once."""
    drawn = dict.fromkeys(space.sample(np.random.default_rng([seed, 20]), 4 * count))
    return [space.point(codes) for codes in list(drawn)[:count]]


def _powers(low: int, high: int) -> list[int]:
    return [2**n for n in range(low, high + 1)]
