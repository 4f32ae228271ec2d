"""What goes wrong while a graph runs: the message names context, port, cycle and token."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from unit_harness import run_unit, unit_graph

from hwsim import simulate
from hwsim.python_context import DONE, Moves, Pop, Push
from mapper.errors import GraphError
from mapper.graph import Graph

STORE = {
    "tensor": 0, "tile_levels": 0, "kinds": ("compressed",), "dims": (4,), "tiles": (4,), "tile_level_of": (-1,),
    "value_bytes": 4, "coordinate_bytes": 4, "pointer_bytes": 4, "descriptor_bytes": 0,
}  # fmt: skip
ACCUMULATE = {"depth": 2, "levels": (2,), "sizes": (4,)}
INF = math.inf


def finite(kind: str, streams: list[Any], **options: Any) -> str:
    """The message of a checked run; the plain run must take the same data."""
    graph = unit_graph(kind, streams, **options)
    assert simulate(graph).status == "done"
    return message_of(graph)


def message_of(graph: Graph) -> str:
    messages = set()
    for seed in (None, 1, 2):
        with pytest.raises(GraphError) as caught:
            simulate(graph, check_finite=True, shuffle_seed=seed)
        messages.add(str(caught.value))
    (message,) = messages
    return message


@pytest.mark.parametrize(
    ("kind", "streams", "outputs", "params", "arrays", "message"),
    [
        ("store", ["1 9 S0 D", "1.5 2.5 S0 D"], 0, STORE, {},
         "'unit' (store) at cycle 2: port crd_1 has coordinate 9, its extent is 4."),
        ("accumulate", ["0 S0 D", "1 -2 S1 D", "1.5 2.5 S1 D"], 2, ACCUMULATE, {},
         "'unit' (accumulate) at cycle 2: port crd_1 has coordinate -2, its extent is 4."),
        ("locate", ["1 2 S0 D", "0 0 S0 D"], 1, {}, {"pos": [0, 2]},
         "'unit' (locate) at cycle 2: port crd has coordinate 2, fiber 0 of the level has extent 2."),
        ("scan", ["0 7 D"], 2, {}, {"pos": [0, 1]},
         "'unit' (scan) at cycle 3: port ref has reference 7, the level has 1 fibers."),
        ("array", ["0 3 D"], 1, {}, {"values": [1.0]},
         "'unit' (array) at cycle 2: port ref has reference 3, the array has 1 values."),
        ("tile_load", ["4 D"], 1, {"tensor": 0, "residency": "none"},
         {"value_bytes": [8], "metadata_bytes": [0], "address": [0]},
         "'unit' (tile_load) at cycle 1: port ref has tile 4, the tensor has 1 tiles."),
        ("alu", ["1.5 2.5 D", "1.5 S0 D"], 1, {"op": "mul"}, {},
         "'unit' (alu) at cycle 2: misaligned streams: port a has Val 2.5, port b has Stop 0."),
        ("intersect", ["3 S0 D", "3 S0 D", "0 S0 D", "S0 D"], 3, {}, {},
         "'unit' (intersect) at cycle 1: misaligned streams: side 1 has crd Val 3, ref Val 0; side 2 has crd Val 3, "
         "ref Stop 0."),
        ("prune", ["1 2 D", "0.25 S0 D"], 2, {"least": 0.0}, {},
         "'unit' (prune) at cycle 2: misaligned streams: port crd has Val 2, port val has Stop 0."),
        ("reduce", ["-1.5 S0 D", "S0 D"], 1, {"op": "max", "empty": "zero"}, {},
         "'unit' (reduce) at cycle 2: misaligned streams: port val has Stop 0, port outer has Stop 0."),
    ],
)  # fmt: skip
def test_streams_and_coordinates(
    kind: str, streams: list[str], outputs: int, params: Any, arrays: Any, message: str
) -> None:
    with pytest.raises(GraphError) as caught:
        run_unit(kind, streams, outputs, params=params, arrays=arrays, tensors=("A",))
    assert str(caught.value) == f"context {message}"


def test_not_finite_names_its_operands() -> None:
    message = finite("alu", ["1.0 3.0 D", "2.0 0.0 D"], params={"op": "div"})
    assert message == (
        "context 'unit' (alu) at cycle 2: output port val has Val inf, its last inputs being port a Val 3.0 and "
        "port b Val 0.0; values must be finite under check_finite: mend the data or leave the check out."
    )
    message = finite("alu", ["N 2.0 D", "0.0 N D"], params={"op": "div"})
    assert "at cycle 1: output port val has Val nan, its last inputs being port a Empty and port b Val 0.0;" in message


BIG = ("val", 1e308)


@pytest.mark.parametrize(
    ("kind", "streams", "options", "message"),
    [
        ("map", ["4.0 -4.0 D"], {"params": {"op": "sqrt"}}, r"at cycle 2: output port val has Val nan"),
        ("map", ["0.0 D"], {"params": {"op": "log"}}, r"has Val -inf, its last inputs being port val Val 0\.0"),
        ("array", ["1 0 D"], {"arrays": {"values": [math.nan, 1.0]}}, r"port val has Val nan, .* port ref Val 0;"),
        # The sum leaves at the Stop at cycle 3; the last value it took is named.
        ("reduce", [[BIG, BIG, ("stop", 0), ("done",)]], {"params": {"op": "sum", "empty": "zero"}},
         r"'unit' \(reduce\) at cycle 3: output port val has Val inf, its last inputs being port val Val 1e.308"),
        ("combine", [[BIG, ("done",)]] * 2, {}, r"port val_1 Val 1e.308 and port val_2 Val 1e.308"),
    ],
)  # fmt: skip
def test_not_finite_values(kind: str, streams: list[Any], options: Any, message: str) -> None:
    found = finite(kind, streams, **options)
    assert re.search(message, found), found


def test_a_source_and_a_python_context_are_checked() -> None:
    stream = [("val", 1.0), ("val", INF), ("done",)]
    assert "'source 0' (source) at cycle 1: output port out has Val inf; values" in finite(
        "map", [stream], params={"op": "neg"}
    )

    def inverse() -> Moves:
        while (token := (yield Pop(0, float))) != DONE:
            yield Push(0, ("val", math.inf if token[1] == 0.0 else 1.0 / token[1]))
        yield Push(0, DONE)

    # Nothing says what a Python context pushes, so its own output is not looked at; the unit after it is.
    graph = unit_graph("python", ["2.0 0.0 D"], params={"generator": inverse})
    assert simulate(graph, check_finite=True).status == "done"


def test_references_are_not_looked_at() -> None:
    # The bits of an infinity, as a reference: no value, so the check leaves it alone.
    bits = 0x7FF0000000000000
    for kind in ("fork", "number"):
        assert simulate(unit_graph(kind, [[("val", bits), ("done",)]]), check_finite=True).status == "done"


def test_finite_runs_are_the_same() -> None:
    graph = unit_graph("alu", ["1.0 3.0 S0 D", "2.0 4.0 S0 D"], params={"op": "div"}, floats=[0])
    assert simulate(graph, check_finite=True) == simulate(graph)
