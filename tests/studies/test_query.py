"""Conditions in the user's words: the same rows as pandas finds, and nothing but conditions."""

from __future__ import annotations

import pandas as pd
import pytest
from sample_study import VERSIONS, contents

from mapper.errors import InputError, NotationError
from studies.frames import trials_frame
from studies.query import pick_columns, select_rows, sort_rows


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return trials_frame(contents(), VERSIONS)


@pytest.mark.parametrize(
    ("condition", "reference"),
    [
        ("latency_cycles < 3e5", "latency_cycles < 3e5"),
        ("latency_cycles < 1e6 and state == 'simulated'", "latency_cycles < 1e6 and state == 'simulated'"),
        ("not front and latency_cycles > 0", "not front and latency_cycles > 0"),
        ("front or number in [1, 2, 3]", "front or number in [1, 2, 3]"),
        ("order_S0 in ('i,k,j', 'k,i,j')", "order_S0 in ('i,k,j', 'k,i,j')"),
        ("state not in {'simulated'}", "state not in ['simulated']"),
        ("1e5 < latency_cycles <= 5e5", "1e5 < latency_cycles <= 5e5"),
        ("model_latency_cycles / latency_cycles > 1.1", "model_latency_cycles / latency_cycles > 1.1"),
        ("latency_cycles + 2 * traffic_bytes < -(-3e6)", "latency_cycles + 2 * traffic_bytes < 3e6"),
        ("tile_S0_i == 0", "tile_S0_i == 0"),
        ("rule == 'units'", "rule == 'units'"),
        ("(front)", "front"),
        ("cut_T_S1 != 'cut'", "cut_T_S1 != 'cut'"),
    ],
)
def test_the_same_rows_as_pandas(frame: pd.DataFrame, condition: str, reference: str) -> None:
    expected = frame.query(reference, engine="python")["number"].tolist()
    found = select_rows(frame, condition)["number"].tolist()
    assert found == expected
    assert 0 < len(found) < len(frame)


@pytest.mark.parametrize(
    ("condition", "column", "message"),
    [
        ("latency_cycle < 3", 1, "unknown column 'latency_cycle'. Did you mean 'latency_cycles'?"),
        ("number < 3 and stat == 'x'", 16, "unknown column 'stat'. Did you mean 'state'?"),
        ("__import__('os').system('true')", 1, "only columns, constants"),
        ("number.__class__ == 1", 1, "only columns, constants"),
        ("(lambda: 1)() == 1", 1, "only columns, constants"),
        ("[n for n in number] == 1", 1, "only columns, constants"),
        ("number ** 9 < 3", 1, "only columns, constants"),
        ("number < ", 10, "not a condition"),
        ("number = 3", 8, "not a condition"),
        ("", 1, "not a condition"),
        ("number", 1, "a condition must compare columns with values"),
        ("3 < 4", 1, "a condition must compare columns with values"),
        ("number and front", 1, "true or false is needed here"),
        ("not number", 5, "true or false is needed here"),
        ("state < 3", 1, "these cannot be compared or combined"),
        ("number is 3", 1, "this comparison is not allowed"),
        ("number in 3", 1, "in needs a column on its left"),
        ("1/0 < number", 1, "these cannot be compared or combined: division by zero"),
        ("number == (1, 2)", 1, "a list of values may only stand to the right of in"),
        ("(1, 2) != number", 1, "a list of values may only stand to the right of in"),
        ("front and number + 99999999999999999999999999 > 1", 11, "these cannot be compared or combined"),
        ("3 in number", 1, "in needs a column on its left"),
    ],
)
def test_anything_else_is_refused(frame: pd.DataFrame, condition: str, column: int, message: str) -> None:
    with pytest.raises(NotationError) as caught:
        select_rows(frame, condition)
    assert message in caught.value.reason
    assert (caught.value.line, caught.value.column) == (1, column)


def test_sorting_keeps_missing_values_last(frame: pd.DataFrame) -> None:
    rising = sort_rows(frame, "latency_cycles")["latency_cycles"]
    falling = sort_rows(frame, "latency_cycles", descending=True)["latency_cycles"]
    assert rising.dropna().is_monotonic_increasing
    assert falling.dropna().is_monotonic_decreasing
    assert rising.isna().tolist() == sorted(rising.isna())
    assert falling.isna().tolist() == sorted(falling.isna())


def test_unknown_columns_are_hinted(frame: pd.DataFrame) -> None:
    assert list(pick_columns(frame, ["state", "number", "state"]).columns) == ["state", "number"]
    with pytest.raises(InputError, match=r"unknown column 'numbr'\. Did you mean 'number'"):
        pick_columns(frame, ["numbr"])
    with pytest.raises(InputError, match="unknown column 'x'"):
        sort_rows(frame, "x")
