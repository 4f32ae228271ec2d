"""Types of streams: which graphs are refused when they are built, and what is said."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from golden_graphs import Wiring, golden_graph
from lowered_graphs import lowered_graphs
from unit_harness import run_unit, tokens

from hwsim import simulate
from hwsim.parameters import KINDS
from hwsim.ports import expand, value_channels
from mapper.errors import GraphError
from mapper.graph import STREAM_TYPES, UNCONNECTED, Channel, Context, Graph

LEVEL: dict[str, Any] = {"pos": np.array([0, 2]), "crd": np.array([0, 3])}
FLOATS, INTS = "1.5 2.5 S0 D", "1 2 S0 D"


def refused(graph: Graph) -> str:
    with pytest.raises(GraphError) as caught:
        simulate(graph)
    return str(caught.value)


def with_sinks(w: Wiring) -> Graph:
    """The graph, with a sink at every channel that nobody reads."""
    read = {channel for context in w.contexts for channel in context.inputs}
    for channel in range(len(w.channels)):
        if channel not in read:
            w.add("sink", f"sink {channel}", (channel,), 0)
    return w.graph()


def test_every_type_is_known() -> None:
    for kind, sides in KINDS.items():
        inputs, outputs = (expand(side, len(side) + sum("*" in port for port in side)) for side in sides)
        assert inputs is not None and outputs is not None
        for port in (*inputs, *outputs):  # what is no type is a variable, and a variable binds two ports
            if port.type not in STREAM_TYPES:
                assert re.fullmatch(r"t\d*", port.type), (kind, port)
                assert sum(p.type == port.type for p in (*inputs, *outputs)) > 1, (kind, port)


def test_values_are_no_references() -> None:
    w = Wiring()
    values = w.array("A", w.root("A"), np.ones(2))
    w.scan("B", values, LEVEL)
    assert refused(with_sinks(w)) == (
        "context 'scan B' (scan): input port ref takes ref, but channel 'array A.0' carries val from output port val "
        "of context 'array A' (array); wire a stream of ref there."
    )


def test_references_are_no_values() -> None:
    w = Wiring()
    crd, ref = w.scan("A", w.root("A"), LEVEL)
    w.add("alu", "mul", (ref, crd), params={"op": "mul"})
    message = refused(with_sinks(w))
    assert "'mul' (alu): input port a takes val, but channel 'scan A.1' carries ref from output port ref" in message
    assert "put an 'array' between them" in message


def test_coordinates_are_no_references() -> None:
    w = Wiring()
    crd, _ = w.scan("A", w.root("A"), LEVEL)
    w.scan("B", crd, LEVEL)
    message = refused(with_sinks(w))
    assert "input port ref takes ref, but channel 'scan A.0' carries crd" in message
    assert "put a 'number' or a 'locate' between them" in message


def test_units_that_pass_on_are_seen_through() -> None:
    w = Wiring()
    values = w.array("A", w.root("A"), np.ones(2))
    left, right = w.fork("v", values)
    (signal,) = w.add("repeat_signal", "signal", (left,))
    (repeated,) = w.add("repeat", "repeat", (right, signal))
    first, *_ = w.add("scatter", "deal", (repeated,), 2, params={"by": "element"})
    w.scan("B", first, LEVEL)
    message = refused(with_sinks(w))
    assert "channel 'deal.0' carries val from output port val of context 'array A' (array)" in message


def test_every_side_of_a_join_has_its_own_type() -> None:
    def joined(swap: bool) -> Graph:
        w = Wiring()
        _, ref = w.scan("A", w.root("A"), LEVEL)
        streams = [w.add("source", f"crd {k}", params={"tokens": tokens("0 3 S0 D")})[0] for k in "ab"]
        (values,) = w.add("source", "values", params={"tokens": tokens("1.5 2.5 S0 D")})
        _, left, right = w.add("intersect", "join", (*streams, ref, values), 3)
        if swap:
            left, right = right, left
        w.add("alu", "mul", (w.array("A", left, np.ones(2)), right), params={"op": "mul"})
        return with_sinks(w)

    assert simulate(joined(False)).status == "done"
    assert "'array A' (array): input port ref takes ref, but channel 'join.2' carries val" in refused(joined(True))


def test_all_lanes_carry_the_same() -> None:
    with pytest.raises(
        GraphError, match=r"input port in_2 takes val, but channel 'in 1' carries int from .*'source 1'"
    ):
        run_unit("gather", ["1.5 D", "1 D"], params={"by": "element"})


def test_a_payload_is_its_own_type_and_a_missing_one_a_reference() -> None:
    for payload, carried in ((None, "ref"), (FLOATS, "val")):
        w = Wiring()
        ref, crd, parent = (
            w.add("source", name, params={"tokens": tokens(text)})[0]
            for name, text in (("ref", "0 D"), ("crd", "4 5 S0 D"), ("parent", "7 D"))
        )
        more = UNCONNECTED if payload is None else w.add("source", "p", params={"tokens": tokens(payload)})[0]
        w.add("stream_scan", "select", (ref, crd, more, parent), 2)
        w.add("map", "neg", (w.contexts[-1].outputs[1],), params={"op": "neg"})
        graph = with_sinks(w)
        if carried == "val":
            assert simulate(graph).status == "done"
        else:
            assert "carries ref from output port ref of context 'select'" in refused(graph)


@pytest.mark.parametrize(
    ("kind", "streams", "outputs", "params", "message"),
    [
        ("number", [FLOATS], 1, {}, r"takes crd, but .* carries val from .*'source 0'.*token 0 \('val', 1\.5\)"),
        ("tile_load", ["S0 2.5 D"], 1, {"tensor": 0, "residency": "none"}, r"takes ref.*token 1 \('val', 2\.5\)"),
        ("map", [INTS], 1, {"op": "neg"}, "takes val, but .* carries int .*; write values as floats, such as 3.0"),
        ("drop_empty", [FLOATS, FLOATS], 2, {}, "takes crd, .*; write coordinates as ints"),
        ("number", ["1 2.5 D"], 1, {}, r"'source 0' \(source\): port out .* got token 0 \('val', 1\) and token 1"),
    ],
)
def test_tokens_of_a_source(kind: str, streams: list[str], outputs: int, params: dict[str, Any], message: str) -> None:
    arrays = {"value_bytes": [8], "metadata_bytes": [0], "address": [0]} if kind == "tile_load" else {}
    with pytest.raises(GraphError, match=message):
        run_unit(kind, streams, outputs, params=params, arrays=arrays, tensors=("A",))


def test_a_loop_without_a_type() -> None:
    contexts = (Context("loop", "fork", (0,), (0, 1)), Context("sink", "sink", (1,), ()))
    graph = Graph(contexts, (Channel("round", 1), Channel("out", 1)))
    assert value_channels(graph) == []
    assert simulate(graph).status == "deadlock"


def test_real_graphs_have_types() -> None:
    for name in ("vecmul", "ijk", "ikj", "spmv", "matadd"):
        graph, _ = golden_graph(name, "v10" if name == "vecmul" else "s10")
        assert value_channels(graph)
    for graph in lowered_graphs(20, seed=1):
        ends = {c for context in graph.contexts if context.kind == "array" for c in context.outputs}
        assert ends <= set(value_channels(graph))
