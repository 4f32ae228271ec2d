"""repeat_signal and repeat, with empty fibers everywhere."""

from __future__ import annotations

import pytest
from unit_harness import run_unit

from mapper.errors import GraphError


def test_signal() -> None:
    run = run_unit("repeat_signal", ["1 2 S0 N S1 D"])
    assert run.timed == ("0@2 0@3 S0@4 0@5 S1@6 D@7",)
    assert (run.unit.busy, run.unit.starved) == (5, 1)


def test_repeats_and_folds_the_stop() -> None:
    # Signals from cycle 1 on, one per turn; at S0 (t=3) the next head 8 is there (at 2); at S1 (t=5) Stop 0 is folded.
    run = run_unit("repeat", ["7 8 S0 D", "0 0 S0 0 S1 D"])
    assert run.timed == ("7@2 7@3 S0@4 8@5 S1@6 D@7",)


def test_stop_waits_for_the_next_head() -> None:
    # 8 is pushed at 20, there at 21: only then is it known that the first Stop is S0.
    run = run_unit("repeat", ["7 8 S0 D", "0 S0 0 S1 D"], times={0: [0, 20]})
    assert run.timed == ("7@2 S0@22 8@23 S1@24 D@25",)
    assert run.unit.starved == 1 + 19


@pytest.mark.parametrize(
    ("ref", "signal", "out"),
    [
        ("S0 D", "S1 D", "S1 D"),  # empty root fiber
        ("S0 7 S1 D", "S1 0 S2 D", "S1 7 S2 D"),  # empty outer fiber first
        ("7 S0 S1 D", "0 S1 S2 D", "7 S1 S2 D"),  # and last
        ("7 8 S0 D", "S0 0 S1 D", "S0 8 S1 D"),  # empty inner fiber: popped without being repeated
        ("7 8 S0 D", "0 S0 S1 D", "7 S0 S1 D"),
        ("N 8 S0 D", "0 S0 S1 D", "N S0 S1 D"),  # Empty is repeated like a value
        ("7 D", "0 0 S0 D", "7 7 S0 D"),  # under a root
        ("7 D", "S0 D", "S0 D"),
    ],
)
def test_empty_fibers(ref: str, signal: str, out: str) -> None:
    assert run_unit("repeat", [ref, signal]).streams == (out,)


def test_values_are_repeated_as_they_are() -> None:
    assert run_unit("repeat", ["1.5 S0 D", "0 0 S1 D"], floats=[0]).streams == ("1.5 1.5 S1 D",)


@pytest.mark.parametrize(
    ("ref", "signal"), [("7 D", "0 S1 D"), ("7 S0 D", "0 S0 D"), ("S0 D", "0 S1 D"), ("D", "0 S0 D"), ("7 D", "D")]
)
def test_misaligned(ref: str, signal: str) -> None:
    with pytest.raises(GraphError, match=r"context 'unit' \(repeat\) at cycle .*misaligned streams: port ref has"):
        run_unit("repeat", [ref, signal])
