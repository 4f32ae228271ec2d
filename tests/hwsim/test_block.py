"""block_alu: exact tiles, latency and interval from the unit's width."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from unit_harness import unit_graph

from hwsim import Profile, simulate
from mapper.errors import GraphError
from mapper.graph import Channel, Context, Graph

MATMUL: dict[str, Any] = {"op": "matmul", "rows": 2, "cols": 3, "inner": 2, "operations_per_cycle": 4}  # 12 products
RANDOM = np.random.default_rng(5)
LEFT, RIGHT = RANDOM.normal(size=(3, 2, 2)), RANDOM.normal(size=(2, 2, 3))


def block(a: str, b: str, params: dict[str, Any], arrays: dict[str, np.ndarray], **options: Any) -> Profile:
    graph = unit_graph("block_alu", [a, b], params=params, **options)
    data = {k: np.ascontiguousarray(v).reshape(-1) if k != "out" else v for k, v in arrays.items()}
    contexts = tuple(dataclasses.replace(c, arrays=data) if c.name == "unit" else c for c in graph.contexts)
    graph = dataclasses.replace(graph, contexts=contexts)
    profile = simulate(graph)
    assert simulate(graph, shuffle_seed=2) == profile
    return profile


def times(profile: Profile) -> list[tuple[Any, int]]:
    return [(token[-1], time) for token, time in profile.sinks["sink 0"]]


def test_matmul() -> None:
    # 12 products at 4 per cycle: a pair every 3 cycles. t=1: result 0, there at 1 + 1 + 2. t=4: result 1, at 7. t=7: D.
    out = np.full(2 * 6, np.nan)
    profile = block("0 2 D", "1 0 D", MATMUL, {"a": LEFT, "b": RIGHT, "out": out})
    assert times(profile) == [(0, 4), (1, 7), ("done", 8)]
    np.testing.assert_array_equal(out.reshape(2, 2, 3), np.einsum("nik,nkj->nij", LEFT[[0, 2]], RIGHT[[1, 0]]))
    unit = next(c for c in profile.contexts if c.name == "unit")
    assert (unit.busy, unit.starved, unit.firings) == (3 + 3 + 1, 1, 3)
    assert (profile.effectual_multiplies, profile.additions) == (24, 12)


def test_latency_and_width() -> None:
    # 12 products at once: a pair a cycle; 5 more cycles in the pipeline; Done, there at 4, cannot overtake.
    params = {**MATMUL, "operations_per_cycle": 12, "latency_cycles": 5}
    profile = block("0 2 D", "1 0 D", params, {"a": LEFT, "b": RIGHT, "out": np.zeros(12)})
    assert times(profile) == [(0, 7), (1, 8), ("done", 8)]
    # One slot: result 1 starts when it is free, 7 + 1.
    profile = block("0 2 D", "1 0 D", params, {"a": LEFT, "b": RIGHT, "out": np.zeros(12)}, depth=1)
    assert times(profile)[:2] == [(0, 7), (1, 14)]


@pytest.mark.parametrize(("op", "sign"), [("add", 1.0), ("sub", -1.0), ("mul", 0.0)])
def test_elementwise_with_missing_tiles(op: str, sign: float) -> None:
    a, b, out = RANDOM.normal(size=6), RANDOM.normal(size=6), np.empty(18)
    params = {"op": op, "rows": 2, "cols": 3, "operations_per_cycle": 6}
    profile = block("0 N S0 0 S0 D", "0 0 S0 N S0 D", params, {"a": a, "b": b, "out": out})
    assert times(profile) == [(0, 2), (1, 3), (0, 4), (2, 5), (0, 6), ("done", 7)]
    wanted = [a * b, 0 * b, a * 0] if op == "mul" else [a + sign * b, sign * b, a]
    np.testing.assert_array_equal(out, np.concatenate(wanted))
    assert profile.effectual_multiplies == (6 if op == "mul" else 0)
    assert profile.additions == (0 if op == "mul" else 18)


def test_units_chain_through_an_array() -> None:
    # (A0 B0) + (A1 B1): the array of the products is the operand of the sum.
    products = [np.zeros(6), np.zeros(6)]
    total = np.zeros(6)
    channels = tuple(Channel(f"c{k}", 2) for k in range(7))

    def source(name: str, tokens: tuple[Any, ...], out: int) -> Context:
        return Context(name, "source", (), (out,), {"tokens": tokens})

    def multiply(n: int) -> Context:
        arrays = {"a": LEFT.reshape(-1), "b": RIGHT.reshape(-1), "out": products[n]}
        return Context(f"product {n}", "block_alu", (2 * n, 2 * n + 1), (4 + n,), MATMUL, arrays)

    add = {"op": "add", "rows": 2, "cols": 3, "operations_per_cycle": 2}
    graph = Graph(
        (
            *(source(f"s{k}", (("val", k // 2), ("done",)), k) for k in range(4)),
            multiply(0),
            multiply(1),
            Context("sum", "block_alu", (4, 5), (6,), add, {"a": products[0], "b": products[1], "out": total}),
            Context("sink", "sink", (6,)),
        ),
        channels,
    )
    profile = simulate(graph)
    assert [time for _, time in profile.sinks["sink"]] == [4 + 1 + 2, 8]
    np.testing.assert_allclose(total.reshape(2, 3), LEFT[0] @ RIGHT[0] + LEFT[1] @ RIGHT[1], rtol=1e-15)


@pytest.mark.parametrize(
    ("a", "params", "out", "message"),
    [
        ("3 D", {}, np.zeros(6), "port a has tile 3, its array has 3 tiles"),
        ("-1 D", {}, np.zeros(6), "port a has tile -1"),
        ("S0 D", {}, np.zeros(6), "port a has Stop 0, port b has Val 0"),
        ("0 D", {}, np.zeros(5), "array 'out' has room for 0 tiles only"),
        ("0 D", {"rows": 0}, np.zeros(6), "must be at least 1"),
        ("0 D", {"op": "add"}, np.zeros(6), "'inner' is for op matmul only"),
        ("0 D", {"op": "dot"}, np.zeros(6), "unknown op 'dot'"),
        ("0 D", {}, np.zeros(6, dtype=np.int64), "'out' must be one-dimensional, C-contiguous, writable and float64"),
    ],
)
def test_errors(a: str, params: dict[str, Any], out: np.ndarray, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        block(a, "0 D", {**MATMUL, **params}, {"a": LEFT, "b": RIGHT, "out": out})


def test_out_must_be_writable() -> None:
    out = np.zeros(6)
    out.flags.writeable = False
    with pytest.raises(GraphError, match="writable"):
        block("0 D", "0 D", MATMUL, {"a": LEFT, "b": RIGHT, "out": out})


SUMS: dict[str, Any] = {"rows": 2, "cols": 3, "inner": 2, "operations_per_cycle": 4}


def unit_run(kind: str, inputs: list[str | None], outputs: int, params: dict[str, Any], out: np.ndarray) -> Profile:
    graph = unit_graph(kind, inputs, outputs, params=params)
    arrays = {"a": LEFT.reshape(-1), "b": RIGHT.reshape(-1), "out": out}
    contexts = tuple(dataclasses.replace(c, arrays=arrays) if c.name == "unit" else c for c in graph.contexts)
    graph = dataclasses.replace(graph, contexts=contexts)
    profile = simulate(graph)
    assert simulate(graph, shuffle_seed=2) == profile
    return profile


def test_mac_adds_the_products_of_a_fiber() -> None:
    # 12 products at 4 per cycle. t=1, 4: pairs; 7: the sum leaves with S0; 8: a pair; 11: its sum; 12: an empty fiber
    # and the end of the group; 13: D.
    out = np.full(2 * 6, np.nan)
    profile = unit_run("block_mac", ["0 2 S0 1 S0 S1 D", "1 0 S0 0 S0 S1 D", None], 1, SUMS, out)
    assert times(profile) == [(0, 8), (1, 12), ("empty", 13), (0, 13), ("done", 14)]
    sums = [LEFT[0] @ RIGHT[1] + LEFT[2] @ RIGHT[0], LEFT[1] @ RIGHT[0]]
    np.testing.assert_allclose(out.reshape(2, 2, 3), sums, rtol=1e-15)
    assert (profile.effectual_multiplies, profile.additions) == (36, 12 + 6 + 6)


def test_mac_tells_groups_from_fibers_and_reuses_a_ring() -> None:
    out = np.zeros(6)  # room for one: numbers start anew
    with pytest.raises(GraphError, match="array 'out' has room for 1 tiles only"):
        unit_run("block_mac", ["0 S0 1 S0 D", "0 S0 0 S0 D", None], 1, SUMS, out)
    run = unit_run("block_mac", ["0 S0 1 S1 S1 D", "0 S0 0 S1 S1 D", "4 5 S0 S0 D"], 1, SUMS | {"ring": 1}, out)
    assert [token for token, _ in run.sinks["sink 0"]] == [("val", 0), ("val", 0), ("stop", 0), ("stop", 0), ("done",)]
    np.testing.assert_allclose(out.reshape(2, 3), LEFT[1] @ RIGHT[0], rtol=1e-15)
    with pytest.raises(GraphError, match="port a has Stop 0, port b has Val 0"):
        unit_run("block_mac", ["S0 D", "0 S0 D", None], 1, SUMS, out)


@pytest.mark.parametrize("capacity", [0, 1])
def test_accumulate_keeps_a_tile_per_key(capacity: int) -> None:
    # Two iterations of the reduced loop, keys 4 7 and 4; products take 3 cycles each, every drained tile 2. With room
    # for one tile, key 7 and then key 4 again each write a run of one.
    params = {**SUMS, "depth": 2, "levels": (2,), "sizes": (9,), "drain_cycles_per_entry": 2,
              "capacity_entries": capacity, "entry_value_bytes": 24, "entry_metadata_bytes": 4,
              "tensor": 0}  # fmt: skip
    out = np.zeros(2 * 6)
    graph = unit_graph("block_accumulate", ["0 1 S0 D", "4 7 S0 4 S1 D", "0 2 S0 1 S1 D", "1 0 S0 0 S1 D"], 2,
                       params=params, tensors=("Z",))  # fmt: skip
    arrays = {"a": LEFT.reshape(-1), "b": RIGHT.reshape(-1), "out": out}
    graph = dataclasses.replace(
        graph, contexts=tuple(dataclasses.replace(c, arrays=arrays) if c.name == "unit" else c for c in graph.contexts)
    )
    profile = simulate(graph)
    assert [token for token, _ in profile.sinks["sink 0"]] == [("val", 4), ("val", 7), ("stop", 0), ("done",)]
    assert [token for token, _ in profile.sinks["sink 1"]] == [("val", 0), ("val", 1), ("stop", 0), ("done",)]
    np.testing.assert_allclose(
        out.reshape(2, 2, 3), [LEFT[0] @ RIGHT[1] + LEFT[1] @ RIGHT[0], LEFT[2] @ RIGHT[0]], rtol=1e-15
    )
    unit = next(c for c in profile.contexts if c.name == "unit")
    assert unit.busy == 3 * 3 + 2 + 2 * 2 + 1  # products, stops, drain, its end
    moved = {(row.direction, row.values_bytes, row.metadata_bytes) for row in profile.traffic}
    assert moved == ({("write", 48, 8), ("read", 48, 8)} if capacity else set())
