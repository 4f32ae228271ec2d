"""Spaces: exact counts, uniform draws, legal neighbours, conditions, contradictions named."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from mapper.errors import EmptySpace, InputError
from tuner import parameter_groups
from tuner.parameter_space import ParameterSpace
from tuner.parameters import Categorical, Integer, Ordinal, Permutation, Real


def powers(low: int, high: int) -> list[int]:
    return [2**n for n in range(low, high + 1)]


def small() -> ParameterSpace:
    """Two tied groups, a conditional parameter, a free one."""
    return ParameterSpace(
        [
            Integer("a", 1, 6),
            Integer("b", 1, 6),
            Categorical("mode", ["plain", "tiled"]),
            Ordinal("tile", powers(1, 3), log=True, when="mode == 'tiled'"),
            Permutation("order", 3),
        ],
        ["a % b == 0", lambda tile, order: tile < 8 or order[0] == 0],
    )


def brute() -> list[dict[str, Any]]:
    found = []
    for a, b, tile, order in itertools.product(
        range(1, 7), range(1, 7), (None, 2, 4, 8), itertools.permutations(range(3))
    ):
        if a % b == 0 and (tile is None or tile < 8 or order[0] == 0):
            on = {} if tile is None else {"tile": tile}
            found.append({"a": a, "b": b, "mode": "tiled" if on else "plain", **on, "order": order})
    return found


def key(point: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted(point.items()))


def test_every_legal_point_is_listed_once() -> None:
    space = small()
    # 14 divisor pairs; orders: 6 plain, 6 + 6 with tiles 2 and 4, 2 with tile 8.
    assert space.exact
    assert space.size == 14 * 20 == len(brute())
    assert {key(space.point(c)) for c in space.enumerate()} == {key(p) for p in brute()}


def test_draws_are_uniform() -> None:
    space = small()
    counts = Counter(space.sample(np.random.default_rng(0), 28_000))
    assert len(counts) == 280
    assert chisquare(list(counts.values())).pvalue > 0.01


def test_draws_are_uniform_where_the_table_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parameter_groups, "MOST_ROWS", 10)
    space = small()
    assert not space.exact
    assert space.size >= 280
    counts = Counter(space.sample(np.random.default_rng(1), 28_000))
    assert len(counts) == 280
    assert chisquare(list(counts.values())).pvalue > 0.01


def test_sizes_of_published_spaces() -> None:
    """SpMM and SDDMM of BaCO's tensor compiler: 46,656 and 77,760 of 1,049,760 points are legal."""
    knobs = [
        Ordinal("chunk", powers(1, 9), log=True), Ordinal("omp", powers(0, 8), log=True),
        Ordinal("threads", powers(0, 5), log=True), Categorical("sched", [0, 1]),
        Ordinal("unroll", powers(1, 9), log=True), Permutation("order", 5),
    ]  # fmt: skip
    assert ParameterSpace(knobs).size == 1_049_760
    first = [f"before(order, {a}, {b})" for a in (0, 1) for b in (2, 3)]
    spmm = ["unroll < chunk", " and ".join(first), "before(order, 3, 2) or before(order, 3, 4)"]
    assert ParameterSpace(knobs, spmm).size == 46_656


def test_neighbours_are_legal_differ_in_one_parameter_and_lead_everywhere() -> None:
    space = small()
    rng = np.random.default_rng(0)
    every = set(space.enumerate())
    reached, edge = {space.codes(brute()[0])}, [space.codes(brute()[0])]
    while edge:
        codes = edge.pop()
        for other in space.neighbours(codes, rng):
            assert other in every
            changed = {n for n, (x, y) in zip(space.names, zip(codes, other, strict=True), strict=True) if x != y}
            assert changed
            assert len(changed - {"tile"} if "mode" in changed else changed) == 1
            if other not in reached:
                reached.add(other)
                edge.append(other)
    assert len({c for c in every if c[0] == c[1] == 0}) == 20
    assert {c[2:] for c in reached} == {c[2:] for c in every}


def test_steps_of_numbers_pass_illegal_values() -> None:
    space = ParameterSpace([Integer("a", 0, 9), Integer("b", 0, 9)], ["(a - b) % 4 == 0"])
    found = {tuple(space.point(c).values()) for c in space.neighbours((4.0, 4.0), np.random.default_rng(0))}
    assert found == {(0, 4), (8, 4), (4, 0), (4, 8)}


def test_conditions_chain() -> None:
    space = ParameterSpace(
        [Categorical("c", [0, 1], when="b == 1"), Integer("a", 0, 1), Integer("b", 0, 1, when="a == 1"),
         Real("x", 0, 1, when=lambda c: c == 1)]
    )  # fmt: skip
    shapes = {tuple(sorted(space.point(c))) for c in space.sample(np.random.default_rng(0), 400)}
    assert shapes == {("a",), ("a", "b"), ("a", "b", "c"), ("a", "b", "c", "x")}
    assert space.size == math.inf
    switched = [space.point(c) for c in space.neighbours(space.codes({"a": 0}), np.random.default_rng(0))]
    assert all(p["a"] == 1 and "b" in p for p in switched)
    assert switched


def test_an_inactive_number_is_as_far_from_all_values_as_the_extremes() -> None:
    space = ParameterSpace([Categorical("m", [0, 1]), Integer("n", 0, 8, when="m == 1")])
    points = space.features([(0.0, -1.0), (1.0, 0.0), (1.0, 4.0), (1.0, 8.0)])[:, 2:]
    distance = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))
    assert distance[0, 1:] == pytest.approx(1.0)
    assert distance[1, 3] == pytest.approx(1.0)
    assert distance[1, 2] < 0.6


def test_groups_name_the_parameter_of_each_feature() -> None:
    assert small().groups.tolist() == [0, 1, 2, 2, 3, 3, 4, 4, 4]


def test_rejection_with_reals() -> None:
    space = ParameterSpace([Real("x", 0, 1), Real("y", 0, 1)], ["x + y < 0.5"])
    drawn = np.array([list(space.point(c).values()) for c in space.sample(np.random.default_rng(0), 2000)])
    assert (drawn.sum(axis=1) < 0.5).all()
    # Uniform in a triangle: x + y = s has density 8 s, mean 1/3.
    assert drawn.sum(axis=1).mean() == pytest.approx(1 / 3, abs=0.01)


def test_contradictions_are_named_and_nothing_else_is() -> None:
    with pytest.raises(EmptySpace) as caught:
        ParameterSpace(
            [Integer("a", 0, 9), Integer("b", 0, 9), Integer("c", 0, 9)], ["a < b", "c > 2", "a + c < 30", "b < a"]
        )
    assert str(caught.value) == "no point satisfies 'a < b' and 'b < a' together"


def test_contradictions_between_reals_name_the_rules_that_forbade(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parameter_groups, "MOST_DRAWS", 2000)
    space = ParameterSpace([Real("x", 0, 1), Real("y", 0, 1)], ["x + y > 3"])
    with pytest.raises(EmptySpace, match=r"forbidden by 'x \+ y > 3'"):
        space.sample(np.random.default_rng(0), 1)


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ({"a": 4, "b": 3, "mode": "plain", "order": (0, 1, 2)}, "breaks 'a % b == 0'"),
        ({"a": 4, "b": 2, "mode": "plain", "order": (0, 1, 2), "tile": 2}, "'tile' is inactive and must be absent"),
        ({"a": 4, "b": 2, "mode": "tiled", "order": (0, 1, 2)}, "'tile' is missing"),
        ({"a": 4, "b": 2, "mode": "plain"}, "'order' is missing"),
        ({"a": 4, "b": 2, "mood": "plain"}, "Did you mean 'mode'"),
    ],
)
def test_illegal_points(point: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        small().codes(point)


def test_senseless_spaces() -> None:
    with pytest.raises(InputError, match="different names"):
        ParameterSpace([Integer("a", 0, 1), Integer("a", 0, 1)])
    with pytest.raises(InputError, match="names are texts, got Integer"):
        ParameterSpace([Integer(5, 0, 1)])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="names are texts, got 'a'"):
        ParameterSpace("a")  # type: ignore[arg-type]
    for alone in ("a < 1", lambda a: a < 1):
        with pytest.raises(InputError, match="constraints must be a list"):
            ParameterSpace([Integer("a", 0, 1)], alone)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="reads itself"):
        ParameterSpace([Integer("a", 0, 1, when="a == 1")])
    with pytest.raises(InputError, match="in a circle: a, b"):
        ParameterSpace([Integer("a", 0, 1, when="b == 1"), Integer("b", 0, 1, when="a == 1")])
    with pytest.raises(InputError, match="which is no parameter"):
        ParameterSpace([Integer("a", 0, 1)], [lambda z: z > 1])
