"""What simulate refuses, and what it says."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from golden_graphs import golden_graph
from unit_harness import run_unit, unit_graph

from hwsim import Limits, Profile, simulate
from hwsim.parameters import ARRAYS, CHOICES, KINDS, PARAMETERS
from hwsim.ports import expand
from mapper.errors import GraphError
from mapper.graph import CONTEXT_KINDS, Channel, Context, Dram, Graph

SCAN = {"pos": [0, 1], "crd": [3]}


def small(**changes: Any) -> Graph:
    """source -> scan -> two sinks, with some fields of the scan changed."""
    graph = unit_graph("scan", ["0 D"], 2, arrays=SCAN)
    contexts = tuple(dataclasses.replace(c, **changes) if c.name == "unit" else c for c in graph.contexts)
    return dataclasses.replace(graph, contexts=contexts)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "scann"}, r"context 'unit' \(scann\): unknown kind 'scann'\. Did you mean 'scan'\?"),
        ({"params": {"low": 1}}, r"'unit' \(scan\): unknown parameter 'low'\. Did you mean 'lo'\? Valid: .*hi, lo"),
        ({"params": {"lo": "a"}}, "parameter 'lo' is missing or of the wrong type"),
        ({"arrays": {"crd": np.zeros(1, dtype=np.int64)}}, "array 'pos' is missing; it needs pos"),
        ({"arrays": {"pos": np.array([0, 1]), "values": np.zeros(1)}}, "unknown array 'values'"),
        ({"arrays": {"pos": np.array([0.0, 1.0])}}, "array 'pos' must be one-dimensional, C-contiguous and int64"),
        ({"arrays": {"pos": np.array([0, 1], dtype=np.int32)}}, "must be one-dimensional, C-contiguous and int64"),
        ({"arrays": {"pos": np.array([0, 9, 1, 9])[::2]}}, "must be one-dimensional, C-contiguous and int64"),
        ({"arrays": {"pos": np.zeros(0, dtype=np.int64)}}, "'pos' must hold one more entry than there are fibers"),
        ({"arrays": {"pos": np.array([2, 1])}}, "'pos' must not decrease"),
        ({"arrays": {"pos": np.array([0, 2]), "crd": np.array([3])}}, r"'pos' must point into 'crd' \(1 coordinates\)"),
        ({"inputs": ()}, r"context 'unit' \(scan\) must have input ports ref, got 0 channels"),
        ({"outputs": (1,)}, r"must have output ports crd, ref, got 1 channels"),
        ({"inputs": (7,)}, r"input port ref must be a channel number below 3, got 7"),
        ({"inputs": (-1,)}, r"input port ref must be a channel number below 3, got -1"),
        (
            {"outputs": (1, 1)},
            r"channel 'out 0' must have one writer, got port crd of 'unit' and port ref of 'unit'; fork",
        ),
        (
            {"outputs": (1, -1)},
            r"channel 'out 1' from nowhere to port in of 'sink 1' must have one writer, got none; connect",
        ),
    ],
)
def test_malformed_contexts(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        simulate(small(**changes))


def test_malformed_memory() -> None:
    good = Dram(2, 8.0, 64, 10, 128, 0, 256, 0, 0, 1)
    simulate(dataclasses.replace(small(), dram=good))
    for field, least in (
        ("channels", 1), ("burst_bytes", 1), ("interleave_bytes", 1), ("row_bytes", 1), ("outstanding", 1),
        ("latency_cycles", 0), ("startup_cycles", 0), ("row_hit_cycles", 0), ("row_miss_cycles", 0),
    ):  # fmt: skip
        wrong: dict[str, Any] = {field: least - 1}
        with pytest.raises(GraphError, match=f"memory: {field} must be at least {least}"):
            simulate(dataclasses.replace(small(), dram=dataclasses.replace(good, **wrong)))
    for field in ("interleave_bytes", "row_bytes"):
        wrong = {field: 96}
        with pytest.raises(GraphError, match=f"memory: {field} must be a multiple of burst_bytes"):
            simulate(dataclasses.replace(small(), dram=dataclasses.replace(good, **wrong)))


def test_malformed_channels() -> None:
    graph = small()
    ends = "channel 'in 0' from port out of 'source 0' to port ref of 'unit'"
    for field in ("capacity", "latency", "response_latency"):
        for value in (0, -3):
            nothing: dict[str, Any] = {field: value}
            bad = dataclasses.replace(graph.channels[0], **nothing)
            with pytest.raises(
                GraphError, match=rf"{ends}: capacity and latencies must be at least 1.*{field}={value}"
            ):
                simulate(dataclasses.replace(graph, channels=(bad, *graph.channels[1:])))
    with pytest.raises(GraphError, match="channel 'more' from nowhere to nowhere must have one writer, got none"):
        simulate(dataclasses.replace(graph, channels=(*graph.channels, Channel("more", 1))))


@pytest.mark.parametrize(
    ("kind", "params", "message"),
    [
        ("map", {"op": "rely"}, r"unknown op 'rely'\. Did you mean 'relu'\?"),
        ("map", {}, "parameter 'op' is missing"),
        ("reduce", {"op": "sum", "empty": "nothing"}, "unknown empty 'nothing'. Valid: empty, zero"),
    ],
)
def test_choices(kind: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        run_unit(kind, ["1.0 D"], params=params)


def test_tensor_must_be_an_account() -> None:
    for tensor, accounts in ((1, ("A",)), (-1, ("A",)), ("A", ("A",)), (0, ())):
        with pytest.raises(GraphError, match=f"'tensor' must be the number of a traffic account below {len(accounts)}"):
            run_unit("convert", [], 0, tensors=accounts, params={
                "tensor": tensor, "read_value_bytes": 1, "read_metadata_bytes": 0, "write_value_bytes": 1,
                "write_metadata_bytes": 0})  # fmt: skip


def test_dram_must_make_sense() -> None:
    bad: list[tuple[str, Any]] = [("channels", 0), ("bytes_per_cycle", 0.0), ("burst_bytes", 0), ("latency_cycles", -1)]
    for field, value in bad:
        dram = dataclasses.replace(Dram(1, 8.0, 64, 10), **{field: value})
        with pytest.raises(GraphError, match=f"memory: {field} must be"):
            simulate(dataclasses.replace(small(), dram=dram))


def test_empty_graph() -> None:
    profile = simulate(Graph((), ()))
    assert (profile.status, profile.cycles, profile.tokens) == ("done", 0, 0)


def names(ports: tuple[str, ...], count: int) -> tuple[str, ...] | None:
    full = expand(ports, count)
    return full and tuple(port.name for port in full)


def test_port_names() -> None:
    assert names(("crd*", "ref*"), 4) == ("crd_1", "crd_2", "ref_1", "ref_2")
    assert names(("crd", "ref*:t*"), 3) == ("crd", "ref_1", "ref_2")
    assert names(("crd*", "ref*"), 3) is None
    assert names(("crd*", "val"), 1) == ("val",)
    assert names(("val", "outer?:crd"), 1) == ("val",)
    assert names(("val", "outer?"), 2) == ("val", "outer")
    assert names(("val", "outer?"), 0) is None
    assert names(("ref", "crd", "payload?:t", "parent"), 4) == ("ref", "crd", "payload", "parent")
    assert names(("ref", "crd", "payload?", "parent"), 3) is None
    assert names((), 0) == () and names((), 1) is None


def test_tables_name_known_kinds() -> None:
    assert set(PARAMETERS) | set(ARRAYS) <= set(KINDS) and set(CONTEXT_KINDS) <= set(KINDS)
    for kind, name in CHOICES:
        assert name in PARAMETERS[kind][0] + PARAMETERS[kind][1]


def test_profile_is_json() -> None:
    graph, _ = golden_graph("spmv", "s10", 4)
    profile = simulate(graph)
    data = json.loads(json.dumps(profile.to_json()))
    assert data["status"] == "done" and data["cycles"] == profile.cycles
    assert data["contexts"][0]["name"] == graph.contexts[0].name
    assert "outputs" not in data and data["deadlock"] is None
    dead = simulate(golden_graph("ikj", "s20x30x25", 1)[0]).to_json()
    assert dead["deadlock"]["cycle"][0].keys() >= {"context", "waits_for", "port", "fill", "capacity", "time_cycles"}


def test_profiles_are_values() -> None:
    graph, _ = golden_graph("spmv", "s10", 4)
    assert simulate(graph) == simulate(graph)
    with pytest.raises(dataclasses.FrozenInstanceError):
        simulate(graph).cycles = 0  # type: ignore[misc]
    assert isinstance(simulate(graph, Limits()), Profile)


def test_counts_of_a_golden_graph() -> None:
    # s4: 15 scalar products (notes 3.1); values are 1 to 8, so all are effectual.
    profile = simulate(golden_graph("ikj", "s4")[0])
    assert profile.effectual_multiplies == 15
    entries = len(profile.outputs["values"][1])
    assert profile.additions == 15 - entries
    assert profile.comparisons == next(c.firings for c in profile.contexts if c.kind == "intersect")


def test_context_is_rejected_before_anything_runs() -> None:
    loop = Graph((Context("a", "map", (0,), (0,), {"op": "neg"}),), (Channel("self", 4),))
    profile = simulate(loop)  # a loop without a token in it waits for itself
    assert profile.deadlock is not None and [w.context for w in profile.deadlock.cycle] == ["a"]
    assert "no channel depth can resolve it" in str(profile.deadlock)
