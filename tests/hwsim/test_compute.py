"""array, alu, map, reduce."""

from __future__ import annotations

import math

import numpy as np
import pytest
from golden_graphs import Wiring
from scipy.special import erf
from unit_harness import run_unit

from hwsim import simulate
from mapper.errors import GraphError


def test_array() -> None:
    run = run_unit("array", ["1 N S0 D"], arrays={"values": [1.5, 2.5]}, floats=[0])
    assert run.timed == ("2.5@2 0.0@3 S0@4 D@5",)
    with pytest.raises(GraphError, match="reference 2, the array has 2 values"):
        run_unit("array", ["2 D"], arrays={"values": [1.5, 2.5]})


def test_alu_takes_a_cycle_for_done() -> None:
    # Pushes at 1, 2, 3, 4; Done itself costs its cycle: final clock 5.
    run = run_unit("alu", ["2.0 N S0 D", "3.0 4.0 S0 D"], params={"op": "mul"}, floats=[0])
    assert run.timed == ("6.0@2 0.0@3 S0@4 D@5",)
    assert (run.cycles, run.unit.busy, run.profile.effectual_multiplies) == (5, 4, 1)


@pytest.mark.parametrize(
    ("op", "expected"),
    [("add", "5.0 3.0"), ("sub", "-1.0 -3.0"), ("mul", "6.0 0.0"), ("div", "0.6666666666666666 0.0"),
     ("max", "3.0 3.0"), ("min", "2.0 0.0")],
)  # fmt: skip
def test_alu_operations(op: str, expected: str) -> None:
    run = run_unit("alu", ["2.0 N S0 D", "3.0 3.0 S0 D"], params={"op": op}, floats=[0])
    assert run.streams == (f"{expected} S0 D",)
    assert run.profile.additions == (2 if op in ("add", "sub") else 0)


def test_alu_misaligned() -> None:
    with pytest.raises(GraphError, match=r"port a has Val .*, port b has Stop 0"):
        run_unit("alu", ["2.0 D", "S0 D"], params={"op": "mul"})


@pytest.mark.parametrize(
    ("op", "function"),
    [
        ("relu", lambda v: np.maximum(v, 0)), ("exp", np.exp), ("tanh", np.tanh),
        ("sigmoid", lambda v: 1 / (1 + np.exp(-v))), ("gelu", lambda v: 0.5 * v * (1 + erf(v / math.sqrt(2)))),
        ("abs", np.abs), ("neg", np.negative), ("sqrt", np.sqrt), ("rsqrt", lambda v: 1 / np.sqrt(v)),
        ("square", np.square), ("log", np.log), ("scale", lambda v: 0.25 * v),
    ],
)  # fmt: skip
def test_map(op: str, function: object) -> None:
    values = [("val", v) for v in (0.5, 2.0, -3.0)]
    params = {"op": op} | ({"factor": 0.25} if op == "scale" else {})
    run = run_unit("map", [[*values, ("empty",), ("stop", 0), ("done",)]], params=params, floats=[0])
    got = [token[1] for token, _ in run.profile.sinks["sink 0"][:4]]
    with np.errstate(all="ignore"):
        expected = function(np.array([0.5, 2.0, -3.0, 0.0]))  # type: ignore[operator]
    np.testing.assert_allclose(got, expected, rtol=1e-15, atol=0)  # equal_nan
    assert [time for _, time in run.profile.sinks["sink 0"]] == [2, 3, 4, 5, 6, 7]
    assert run.cycles == 7  # Done costs its cycle


def test_reduce_without_outer_takes_every_stop_for_a_fiber() -> None:
    # 1 + 2 at t=1, 2; S0 at 3 pushes 3.0; the empty fiber's S0 at 4 pushes 0; 3 at 5; S1 at 6 pushes 3.0 and S0
    # with the same stamp.
    run = run_unit("reduce", ["1.0 2.0 S0 S0 3.0 S1 D"], params={"op": "sum", "empty": "zero"}, floats=[0])
    assert run.timed == ("3.0@4 0.0@5 3.0@7 S0@7 D@8",)
    assert (run.unit.busy, run.unit.firings, run.profile.additions) == (6, 6, 1)


def test_reduce_takes_no_cycle_for_empty() -> None:
    # N is there at 2 and takes no cycle; S0 at 3.
    run = run_unit("reduce", ["N N S0 1.0 N S0 D"], params={"op": "sum", "empty": "empty"}, floats=[0])
    assert run.timed == ("N@4 1.0@7 D@8",)
    assert run.unit.busy == 3


@pytest.mark.parametrize(
    ("val", "outer", "result"),
    [
        ("1.0 2.0 S0 S0 3.0 S1 D", "0 1 2 S0 D", "3.0 N 3.0 S0 D"),
        ("S1 D", "S0 D", "S0 D"),  # a group without fibers
        ("S1 D", "4 S0 D", "N S0 D"),  # a group with one empty fiber: the same val stream
        ("S1 S1 1.0 S2 D", "S0 5 S0 6 S1 D", "S0 N S0 1.0 S1 D"),
        ("1.0 S0 S1 S1 S2 D", "1 2 S0 S0 S1 D", "1.0 N S0 S0 S1 D"),
        ("1.0 S0 D", "7 D", "1.0 D"),  # outer of depth 0
        ("S2 D", "S1 D", "S1 D"),
    ],
)
def test_reduce_with_outer_knows_its_fibers(val: str, outer: str, result: str) -> None:
    run = run_unit("reduce", [val, outer], params={"op": "sum", "empty": "empty"}, floats=[0])
    assert run.streams == (result,)


def test_reduce_cycles_with_outer() -> None:
    # As without outer, but the Stop at t=3 waits for the outer value that comes at 11 (pushed at 10).
    run = run_unit("reduce", ["1.0 2.0 S1 D", "0 S0 D"], params={"op": "sum", "empty": "zero"}, floats=[0],
                   times={1: [10]})  # fmt: skip
    assert run.timed == ("3.0@13 S0@13 D@14",)  # the outer Stop comes at 12


def test_reduce_max_of_negative_values_and_nan() -> None:
    run = run_unit("reduce", ["-3.0 -2.0 S0 -5.0 S0 S0 D"], params={"op": "max", "empty": "zero"}, floats=[0])
    assert run.streams == ("-2.0 -5.0 0.0 D",)
    nan = run_unit("reduce", [[("val", 1.0), ("val", math.nan), ("val", 2.0), ("stop", 0), ("done",)]],
                   params={"op": "max", "empty": "zero"}, floats=[0])  # fmt: skip
    assert nan.streams == ("nan D",)


@pytest.mark.parametrize("empty", ["zero", "empty"])
def test_max_of_rows_is_over_stored_entries(empty: str) -> None:
    # Rows: all negative; none stored; stored zero above negatives; one entry. What is not stored does not count as 0.
    rows = [[-3.0, -1.5, -2.0], [], [-4.0, 0.0], [-7.0]]
    w = Wiring()
    crd, ref = w.scan("i", w.root("S"), {"pos": np.array([0, 4])})
    level = {"pos": np.array([0, 3, 3, 5, 6]), "crd": np.array([0, 2, 3, 1, 2, 0])}
    _, places = w.add("scan", "scan j", (ref,), 2, unused=(0,), arrays=level)
    values = w.array("S", places, np.array([x for row in rows for x in row]))
    (out,) = w.add("reduce", "max", (values, crd), params={"op": "max", "empty": empty})
    w.add("sink", "sink", (out,), 0, params={"dtype": "float"})
    profile = simulate(w.graph(), check_finite=True)
    wanted = [max(row) if row else 0.0 if empty == "zero" else None for row in rows]
    assert [token[-1] if token[0] == "val" else None for token, _ in profile.sinks["sink"][:-2]] == wanted


@pytest.mark.parametrize(
    ("val", "outer"), [("1.0 S0 D", "D"), ("1.0 S1 D", "S0 D"), ("1.0 S1 D", "0 S1 D"), ("1.0 S0 D", "0 0 D")]
)
def test_reduce_misaligned(val: str, outer: str) -> None:
    with pytest.raises(GraphError, match=r"context 'unit' \(reduce\) at cycle"):
        run_unit("reduce", [val, outer], params={"op": "sum", "empty": "zero"})
