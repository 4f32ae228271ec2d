"""root, source, sink, fork, number and the golden writers."""

from __future__ import annotations

import numpy as np
from unit_harness import run_unit


def test_root() -> None:
    run = run_unit("root", [])
    assert run.timed == ("0@1 D@2",)
    assert run.cycles == 2


def test_source_and_sink_keep_times() -> None:
    # Pushed at 0, 5, 6; the sink does not look before 9.
    run = run_unit("number", ["7 8 D"], times={0: [0, 5]}, sink_times={0: [9]})
    assert run.timed == ("0@9 1@9 D@9",)
    assert run.profile.cycles == 9


def test_fork_takes_no_cycle_and_waits_for_all_outputs() -> None:
    run = run_unit("fork", ["7 8 D"], 2)
    assert run.timed == ("7@2 8@3 D@4", "7@2 8@3 D@4")
    assert (run.unit.busy, run.unit.firings) == (0, 3)
    # Depth 1; the second output pops its first token at 10 only, so 8 leaves for both at 11.
    run = run_unit("fork", ["7 8 D"], 2, depth=1, sink_times={1: [10]})
    assert run.timed == ("7@2 8@12 D@14", "7@10 8@12 D@14")


def test_fork_passes_equal_stamps_together() -> None:
    # Both tokens reach the fork with one stamp (a reduce pushes value and stop together) and leave with one.
    run = run_unit("reduce", ["1.0 S1 D"], params={"op": "sum", "empty": "zero"}, floats=[0])
    assert run.timed == ("1.0@3 S0@3 D@4",)


def test_number() -> None:
    assert run_unit("number", ["5 6 S0 7 N S1 D"]).timed == ("0@2 1@3 S0@4 2@5 N@6 S1@7 D@8",)


def test_coordinate_writer() -> None:
    # Values at 1, 2; S0 at 3 (first after a value), S1 at 4 free, 3 at 5, N at 6 free, S0 at 7; ends at D, there at 8.
    run = run_unit("crd_write", ["1 2 S0 S1 3 N S0 D"], 0)
    assert (run.cycles, run.unit.busy) == (8, 5)
    coords, values = run.profile.outputs["unit"]
    np.testing.assert_array_equal(coords, [[1, 2, 3]])
    assert len(values) == 0


def test_value_writer() -> None:
    # Values cost a cycle, Done one more: 1@1, 2@2, stops free, D@4 -> 5.
    run = run_unit("value_write", ["1.5 2.5 S0 D"], 0)
    assert (run.cycles, run.unit.busy) == (5, 3)
    np.testing.assert_array_equal(run.profile.outputs["unit"][1], [1.5, 2.5])
