"""The smallest depth, on the golden graphs on which Comal hangs and on a fork whose depth is known by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from golden_cycles import DEPTH_SWEEP, DEPTHS
from golden_graphs import Wiring, golden_graph
from lowered_graphs import lowered_graphs
from unit_harness import tokens, unit_graph

from hwsim import Limits, simulate, smallest_depth, with_depth
from mapper.graph import Channel, Context, Dram, Graph

HANGS = sorted(case for case, cycles in DEPTH_SWEEP.items() if cycles[0] is None)


def centred(count: int, depth: int | None = None) -> Graph:
    """Each of ``count`` values minus their sum. The sum comes after the fork has passed all values and their Stop,
    which the channel to the alu must hold: depth ``count + 1``."""
    w = Wiring(depth)
    stream = [("val", float(n)) for n in range(count)] + tokens("S0 D")
    values, to_sum, over = w.fork("x", w.add("source", "x", params={"tokens": stream})[0], 3)
    (total,) = w.add("reduce", "sum", (to_sum,), params={"op": "sum", "empty": "zero"})
    (difference,) = w.add("alu", "sub", (values, w.repeat("sum", total, over)), params={"op": "sub"})
    w.add("sink", "sink", (difference,), 0, params={"dtype": "float"})
    return w.graph()


@pytest.mark.parametrize(("name", "data"), HANGS)
def test_where_comal_hangs(name: str, data: str) -> None:
    graph, values = golden_graph(name, data, 1)
    found = smallest_depth(graph)
    assert found.depth == 2
    assert (found.profile.status, found.profile.cycles) == ("done", DEPTH_SWEEP[name, data][DEPTHS.index(2)])
    np.testing.assert_array_equal(found.profile.outputs["values"][1], values())
    assert found.below is not None and found.below.deadlock is not None
    assert str(found).startswith(f"FIFO depth 2 suffices ({found.profile.cycles} cycles); at depth 1 the run ends with")
    assert str(found.below.deadlock) in str(found)


def test_cases_are_those_known() -> None:
    assert {("ijk", "s20x30x25"), ("ikj", "s20x30x25"), ("ikj", "s50")} <= set(HANGS)


@pytest.mark.parametrize(("name", "data"), sorted(set(DEPTH_SWEEP) - set(HANGS)))
def test_where_one_token_suffices(name: str, data: str) -> None:
    found = smallest_depth(golden_graph(name, data)[0])
    assert (found.depth, found.below, found.simulations) == (1, None, 2)
    assert found.profile.cycles == DEPTH_SWEEP[name, data][0]
    assert str(found) == f"FIFO depth 1 suffices ({found.profile.cycles} cycles)"


@pytest.mark.parametrize("count", [*range(1, 10), 100])
def test_depth_of_a_fork(count: int) -> None:
    found = smallest_depth(centred(count, depth=1))  # the depth that the graph has does not count
    assert found.depth == count + 1
    assert found.profile == simulate(centred(count, count + 1))
    assert found.below == simulate(centred(count, count))
    assert found.below.status == "deadlock"
    assert found.simulations <= 2 + 2 * (count + 1).bit_length()


def test_completion_is_monotone() -> None:
    for name, data in HANGS[:1]:
        done = [simulate(golden_graph(name, data, depth)[0]).status == "done" for depth in range(1, 9)]
        assert done == sorted(done)
    done = [simulate(centred(5, depth)).status == "done" for depth in range(1, 12)]
    assert done == [False] * 5 + [True] * 6


def test_bisection_finds_what_trying_every_depth_finds() -> None:
    for graph in lowered_graphs(40, seed=3):
        found = smallest_depth(graph)
        tried = next(d for d in itertools.count(1) if simulate(with_depth(graph, d)).status == "done")
        assert found.depth == tried
        prefetch = {n for c in graph.contexts if c.kind == "tile_load" for n in c.outputs}
        for n, (before, after) in enumerate(zip(graph.channels, with_depth(graph, tried).channels, strict=True)):
            assert after.capacity == (before.capacity if n in prefetch else tried)


def test_no_depth_suffices() -> None:
    loop = Graph((Context("a", "map", (0,), (0,), {"op": "neg"}),), (Channel("self", 4),))
    found = smallest_depth(loop)
    assert (found.depth, found.simulations) == (None, 1)
    assert found.profile.status == "deadlock"
    assert "no FIFO depth suffices" in str(found) and "a (cycle 0) waits for a token" in str(found)


def test_limits_count_as_not_finished() -> None:
    found = smallest_depth(centred(5), Limits(max_tokens=3))
    assert found.depth is None and found.profile.status.startswith("limit:")
    graph, _ = golden_graph("ikj", "s20x30x25")
    at = dict(zip(DEPTHS, DEPTH_SWEEP["ikj", "s20x30x25"], strict=True))
    limit = at[4]
    assert limit is not None
    found = smallest_depth(graph, Limits(max_cycles=limit))
    assert found.depth == 4 and found.below is not None and found.below.status.startswith("limit:")


def test_prefetch_depth_stays() -> None:
    graph = unit_graph(
        "tile_load", ["0 1 2 D"], depth=2, params={"tensor": 0, "residency": "none"}, tensors=("A",),
        arrays={"value_bytes": [64] * 3, "metadata_bytes": [0] * 3, "address": [0, 64, 128]}, dram=Dram(1, 8.0, 64, 9),
    )  # fmt: skip
    for depth in (1, 7, None):
        assert [c.capacity for c in with_depth(graph, depth).channels] == [depth, 2]
    assert [c.capacity for c in graph.channels] == [2, 2]
    assert smallest_depth(graph).depth == 1


def test_graph_without_channels() -> None:
    assert smallest_depth(Graph((), ())).depth == 1
