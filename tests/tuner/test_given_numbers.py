"""What counts as a number, and as several."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tuner.given_numbers import number, numbers_of


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3.0),
        (Fraction(1, 4), 0.25),
        (np.float32(0.5), 0.5),
        (np.array(3), 3.0),
        (10**5000, math.inf),
        (-(10**5000), -math.inf),
        (True, None),
        (np.array([3]), None),
        (np.array("3"), None),
        ("3", None),
        (None, None),
    ],
    ids=range(11),
)
def test_numbers(value: Any, expected: float | None) -> None:
    assert number(value) == expected


def test_several_numbers() -> None:
    assert numbers_of(2) == numbers_of(np.array(2)) == numbers_of([2]) == numbers_of(n for n in (2,)) == [2]
    assert numbers_of({"a": 2}.values()) == [2]
    for value in (None, "2", {"a": 2}, {2}, np.array("2")):
        assert numbers_of(value) is None
