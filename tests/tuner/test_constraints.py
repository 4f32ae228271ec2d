"""Constraints from text and functions; the text is data, nothing in it is run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mapper.errors import InputError, NotationError
from tuner.constraints import read_constraint

NAMES = ("a", "b", "order", "kind")


@given(st.integers(1, 50), st.integers(1, 50))
def test_expressions_mean_what_python_means(a: int, b: int) -> None:
    for text in (
        "a < b", "a % b == 0 or b % a == 0", "1 < a <= b < 40", "2 * a - b // 3 >= -(b ** 2)", "a / b in (1, 2)",
        "min(a, b) + max(a, 7) != abs(a - b)", "not a == b and a not in [1, 2]", "(a if b > 9 else b) < 20",
    ):  # fmt: skip
        assert read_constraint(text, NAMES).holds({"a": a, "b": b}) == eval(text), text


def test_permutations_and_words() -> None:
    point = {"order": (2, 0, 1), "kind": "sync"}
    assert read_constraint("before(order, 0, 1) and position(order, 2) == 0", NAMES).holds(point)
    assert read_constraint("order[0] == 2 and kind == 'sync'", NAMES).holds(point)
    assert not read_constraint("kind in ('async', 'none')", NAMES).holds(point)


def test_functions_are_called_by_the_names_of_their_arguments() -> None:
    found = read_constraint(lambda b, a: a > b, NAMES)
    assert found.names == ("b", "a")
    assert found.holds({"a": 2, "b": 1, "kind": "x"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a < c", "unknown parameter 'c'"),
        ("a <", "must be one expression"),
        ("__import__('os').system('true')", "not part of the constraint language"),
        ("open('x')", "unknown function 'open'"),
        ("a.real > 1", "Attribute is not part"),
        ("[x for x in (a,)]", "ListComp is not part"),
        ("(lambda: a)() > 1", "not part of the constraint language"),
        ("a is b", "not part of the constraint language"),
        ("1 < 2", "names no parameter"),
    ],
)
def test_what_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_constraint(text, NAMES)


def test_errors_point_into_the_text() -> None:
    with pytest.raises(NotationError) as caught:
        read_constraint("a < 3 and z > 1", NAMES)
    assert caught.value.column == 11


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a % b == 0", "ZeroDivisionError"),
        ("9 ** (a * 100) > 1", "an exponent may be at most 64"),
        ("kind * 1000000 == 'x'", "arithmetic needs numbers"),
    ],
)
def test_a_test_that_fails_names_the_values(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_constraint(text, NAMES).holds({"a": 3, "b": 0, "kind": "sync"})


def test_functions_that_read_no_parameter() -> None:
    with pytest.raises(InputError, match="no parameter"):
        read_constraint(lambda c: True, NAMES)
    with pytest.raises(InputError, match="must be an expression, a function or a Constraint, got True"):
        read_constraint(True, ["a"])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no arguments"):
        read_constraint(lambda: True, NAMES)
