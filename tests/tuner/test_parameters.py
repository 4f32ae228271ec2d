"""Values, codes, features and steps of every kind of parameter."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from mapper.errors import InputError
from tuner.parameter import Parameter
from tuner.parameters import Categorical, Integer, Ordinal, Permutation, Real

EVERY: list[Parameter] = [
    Categorical("kind", ["x", "y", None]),
    Ordinal("chunk", [1, 2, 4, 64], log=True),
    Integer("count", -2, 5),
    Integer("big", 1, 10**9, log=True),
    Real("rate", 1e-3, 10.0, log=True),
    Real("share", -1.0, 1.0),
    Permutation("order", ["i", "j", "k"]),
    Permutation("long", 9, metric="kendall"),
    Permutation("partial", 4, before=[(0, 1), (0, 2)]),
]


@pytest.mark.parametrize("parameter", EVERY, ids=lambda p: p.name)
def test_codes_and_values_are_inverse(parameter: Parameter) -> None:
    for code in parameter.draw(np.random.default_rng(0), 50).tolist():
        value = parameter.value(code)
        assert parameter.code(value) == pytest.approx(code)
        assert parameter.value(parameter.code(value)) == (pytest.approx(value) if parameter.count is None else value)


@pytest.mark.parametrize(
    "real", [Real("r", 0.1, 0.7), Real("r", -1, 1), Real("r", 1e-3, 10, log=True), Real("r", 0.1, 0.3, log=True)]
)
def test_values_of_codes_are_coded_without_loss(real: Real) -> None:
    for code in [0.0, 1.0, *np.random.default_rng(0).random(500).tolist()]:
        value = real.value(code)
        settled = real.code(value)
        assert settled == pytest.approx(code, abs=1e-12)
        assert real.value(settled) == value
    assert (real.code(real.low), real.code(real.high), real.code(real.value(1.0))) == (0.0, 1.0, 1.0)


@pytest.mark.parametrize(
    "real", [Real("r", -1e308, 1e308), Real("r", 1e-200, 1e200, log=True), Real("r", 5e-324, 1e308, log=True)]
)
def test_ranges_wider_than_the_largest_float(real: Real) -> None:
    codes = [0.0, 0.25, 0.5, 0.75, 1.0]
    values = [real.value(c) for c in codes]
    assert (values[0], values[-1]) == (real.low, real.high)
    steps = np.diff(np.log(values) if real.log else np.array(values) / 4)
    assert steps == pytest.approx(steps[0], rel=1e-9)
    assert [real.code(v) for v in values] == pytest.approx(codes)


def test_numpy_numbers_are_numbers() -> None:
    few = Integer("few", np.int64(2), np.int64(5))  # type: ignore[arg-type]
    assert [type(few.value(c)) for c in (0.0, 3.0)] == [int, int]
    assert Integer("many", 1, 1e6).count == 10**6  # type: ignore[arg-type]
    assert Permutation("order", np.int64(3)).value(0.0) == (0, 1, 2)  # type: ignore[arg-type]
    assert type(Real("rate", np.float32(0), np.float32(1)).value(1.0)) is float  # type: ignore[arg-type]


def test_lists_are_taken_for_tuples() -> None:
    nested = Categorical("tile", [(1, (2, 3)), [4], 5])
    assert [nested.code(v) for v in ([1, [2, 3]], [4], 5)] == [0.0, 1.0, 2.0]
    assert Permutation("order", [("i", 0), ("j", 1)]).code([["j", 1], ["i", 0]]) == 1.0


@pytest.mark.parametrize("parameter", EVERY, ids=lambda p: p.name)
def test_features_span_one(parameter: Parameter) -> None:
    codes = np.arange(parameter.count) if parameter.listed else parameter.draw(np.random.default_rng(0), 300)
    found = parameter.embed(codes.astype(float))
    distance = np.sqrt(((found[:, None] - found[None]) ** 2).sum(axis=2))
    assert distance.max() <= 1 + 1e-9
    assert distance.max() > 0.75


@pytest.mark.parametrize("parameter", EVERY, ids=lambda p: p.name)
def test_steps_lead_to_other_values(parameter: Parameter) -> None:
    rng = np.random.default_rng(0)
    for code in parameter.draw(rng, 20).tolist():
        for walk in parameter.walks(code, rng):
            for other in itertools.islice(walk, 3):
                assert other != code
                parameter.code(parameter.value(other))


def test_logarithmic_ordinals_go_by_value() -> None:
    # log2 of 1, 2, 4, 64 is 0, 1, 2, 6.
    found = Ordinal("chunk", [1, 2, 4, 64], log=True).embed(np.arange(4.0))[:, 0]
    assert found == pytest.approx([0, 1 / 6, 2 / 6, 1])


def test_categories_are_equally_far() -> None:
    found = Categorical("kind", ["x", "y", "z"]).embed(np.arange(3.0))
    distance = np.sqrt(((found[:, None] - found[None]) ** 2).sum(axis=2))
    assert distance == pytest.approx(1 - np.eye(3))


def test_ranks_of_permutations_are_lexicographic() -> None:
    long = Permutation("order", 4)
    assert [long.value(float(n)) for n in range(24)] == list(itertools.permutations(range(4)))


def test_orders_that_keep_pairs_are_all_listed_once() -> None:
    some = Permutation("order", 5, before=[(0, 2), (1, 2), (0, 3), (1, 3)])
    found = {some.value(float(n)) for n in range(some.count)}
    expected = {
        p for p in itertools.permutations(range(5)) if max(p.index(0), p.index(1)) < min(p.index(2), p.index(3))
    }
    assert found == expected


def test_long_permutations_step_by_exchanges() -> None:
    long = Permutation("order", 6)
    steps = [next(iter(walk)) for walk in long.walks(0.0, np.random.default_rng(0))]
    assert len(steps) == 15
    assert all(sum(x != y for x, y in zip(long.value(s), range(6), strict=True)) == 2 for s in steps)


def test_draws_of_a_huge_logarithmic_integer_are_uniform_in_the_logarithm() -> None:
    big = Integer("big", 1, 10**9, log=True)
    logs = np.log10(big.draw(np.random.default_rng(0), 4000) + 1)
    # Rounding moves draws between the first two decades' edges only.
    assert np.histogram(logs, bins=9, range=(0, 9))[0][1:] == pytest.approx(437, rel=0.15)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Categorical("a", []), "one or more and differ"),
        (lambda: Ordinal("a", [1, 3, 2]), "must ascend"),
        (lambda: Ordinal("a", [0, 1], log=True), "must be positive"),
        (lambda: Integer("a", 3, 2), "the first no more"),
        (lambda: Real("a", 0, math.inf), "must be finite"),
        (lambda: Real("a", "0", 1), "must be finite numbers, .* got '0' and 1"),  # type: ignore[arg-type]
        (lambda: Real("a", 0, 10**400), "must be finite numbers"),
        (lambda: Integer("a", 0.5, 8), "must be whole numbers, got 0.5 and 8"),  # type: ignore[arg-type]
        (lambda: Integer("a", "1", 8), "must be finite numbers"),  # type: ignore[arg-type]
        (lambda: Ordinal("a", ["x", "y"]), "must be finite numbers, got 'x'"),  # type: ignore[list-item]
        (lambda: Ordinal("a", [1, math.nan, 2]), "must be finite numbers, got nan"),
        (lambda: Categorical("a", {"x"}), "must be a list or a tuple, got {'x'}"),  # type: ignore[arg-type]
        (lambda: Permutation("a", 3, before=(0, 1)), "must be pairs of items, got 0"),  # type: ignore[arg-type]
        (lambda: Permutation("a", 3, metric="euclid"), "unknown permutation metric"),
        (lambda: Permutation("a", 3, before=[(0, 7)]), "no item 7"),
        (lambda: Permutation("a", 2, before=[(0, 1), (1, 0)]), "form a cycle"),
        (lambda: Permutation("a", 20), "2\\^53"),
        (lambda: Categorical("a", ["x"]).code("y"), "must be one of 'x', got 'y'"),
        (lambda: Ordinal("a", [1, 2]).code(3), "must be one of 1, 2"),
        (lambda: Integer("a", 0, 2).code(1.5), "an integer from 0 to 2"),
        (lambda: Integer("a", 0, 2).code(math.nan), "an integer from 0 to 2"),
        (lambda: Integer("a", 0, 2).code("1"), "an integer from 0 to 2"),
        (lambda: Real("a", 0, 2).code(3.0), "a number from 0 to 2"),
        (lambda: Permutation("a", 3).code((0, 1, 1)), "an order of 0, 1, 2"),
        (lambda: Permutation("a", 3, before=[(0, 1)]).code((1, 0, 2)), "come in that order"),
    ],
)
def test_bad_parameters_and_values(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()  # type: ignore[operator]
