"""What is measured: senseless objectives, budgets and references are refused, signs are changed in one place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from mapper.errors import InputError
from tuner.quantities import Quantities


def test_only_what_is_maximised_changes_its_sign() -> None:
    both = Quantities({"speed": "maximize", "area": "minimize"}, {"bytes": 9, "area": np.int64(4)}, [1, np.float32(8)])
    assert both.names == ("speed", "area", "bytes")
    assert both.goal.limits == ((2, 9.0), (1, 4.0))
    assert both.goal.reference == (-1.0, 8.0)
    rows = both.outcomes([{"speed": 2.0, "area": 3.0, "bytes": 4.0}, None])
    assert rows[0].tolist() == [-2.0, 3.0, 4.0]
    assert np.isnan(rows[1]).all()
    assert both.minimised(np.ones((1, 3))).tolist() == [[-1.0, 1.0, 1.0]]


@pytest.mark.parametrize(
    ("objectives", "budgets", "reference", "message"),
    [
        ("time", None, None, "objectives must be a list of names, or name -> minimize or maximize, got 'time'"),
        (5, None, None, "objectives must be a list of names, .* got 5"),
        ([1], None, None, "names of objectives must be texts, got 1"),
        ([], None, None, "one or more objectives"),
        (["a", "a"], None, None, "different names"),
        ({"a": "minimise"}, None, None, "Did you mean 'minimize'"),
        ({"a": 1}, None, None, "unknown direction 1"),
        (["a"], ["b"], None, r"budgets must be name -> upper limit, got \['b'\]"),
        (["a"], {"b": "4k"}, None, "a number, got 'b': '4k'"),
        (["a"], {"b": math.nan}, None, "a number, got 'b': nan"),
        ({"a": "maximize"}, {"a": -5}, None, "'a' is maximised and cannot have a budget.* with a budget of 5"),
        (["a"], None, [1, 2], "one per objective, got"),
        (["a"], None, [math.nan], "finite numbers"),
        (["a"], None, "b", "finite numbers"),
    ],
)
def test_senseless_quantities(objectives: Any, budgets: Any, reference: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Quantities(objectives, budgets, reference)
