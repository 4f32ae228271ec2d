"""Deadlocks, limits, the order of memory requests, independence of the host's order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from golden_graphs import Wiring, golden_graph, golden_matrix, levels
from unit_harness import tokens

from hwsim import Limits, simulate
from mapper.errors import GraphError
from mapper.graph import Channel, Context, Dram, Graph


def test_deadlock_reports_the_cycle_of_waits() -> None:
    # Values 1 2 3 go to a counter and, kept back in a channel of depth 1, to a repeat that follows its own stream.
    profile = simulate(golden_graph("ikj", "s20x30x25", 1)[0])
    deadlock = profile.deadlock
    assert profile.status == "deadlock" and deadlock is not None
    names = [wait.context for wait in deadlock.cycle]
    assert len(names) >= 2 and len(set(names)) == len(names)
    assert [wait.waits_for for wait in deadlock.cycle] == names[1:] + names[:1]
    channels = {c.name: c for c in profile.channels}
    for wait in deadlock.cycle:
        assert wait.capacity == 1 and wait.fill == (0 if wait.for_token else 1)
        assert wait.channel in channels and wait.time_cycles <= profile.cycles
    assert any(not wait.for_token for wait in deadlock.cycle)
    text = str(deadlock)
    assert all(name in text for name in names) and "deeper channels may resolve it" in text
    for seed in range(5):
        assert simulate(golden_graph("ikj", "s20x30x25", 1)[0], shuffle_seed=seed).deadlock == deadlock


def test_deadlock_by_hand() -> None:
    # The fork gives to `left` and `right`; the reduce takes a whole fiber from `left` before `alu` can take anything
    # from `right`, whose depth of 2 is less than the fiber: fork waits for alu, alu for reduce, reduce for fork.
    channels = tuple(Channel(name, 2) for name in ("in", "left", "right", "sum", "out"))
    source = Context("source", "source", (), (0,), {"tokens": tokens("1.0 2.0 3.0 4.0 S0 D")})
    graph = Graph(
        (source, Context("fork", "fork", (0,), (1, 2)),
         Context("reduce", "reduce", (1,), (3,), {"op": "sum", "empty": "zero"}),
         Context("alu", "alu", (3, 2), (4,), {"op": "mul"}), Context("sink", "sink", (4,))),
        channels,
    )  # fmt: skip
    profile = simulate(graph)
    assert profile.deadlock is not None
    waits = {w.context: (w.waits_for, w.port, w.for_token, w.channel, w.fill) for w in profile.deadlock.cycle}
    assert waits == {
        "fork": ("alu", "out_2", False, "right", 2),
        "alu": ("reduce", "a", True, "sum", 0),
        "reduce": ("fork", "val", True, "left", 0),
    }
    start = ["fork", "alu", "reduce"].index(profile.deadlock.cycle[0].context)
    names = ("fork > alu > reduce > " * 2).split(" > ")[start : start + 4]
    assert profile.deadlock.brief == f"{' > '.join(names)}; right holds 2 of 2"
    times = {w.context: w.time_cycles for w in profile.deadlock.cycle}
    assert times == {"fork": 3, "alu": 0, "reduce": 4}  # the third token is in the fork's hand; two were summed at 2, 3


def test_stream_without_end_is_an_error() -> None:
    channels = (Channel("in", None), Channel("out", None))
    source = Context("source", "source", (), (0,), {"tokens": tokens("1 2")})
    graph = Graph((source, Context("unit", "number", (0,), (1,)), Context("sink", "sink", (1,))), channels)
    with pytest.raises(GraphError, match=r"unit \(cycle 3\) waits for a token at port crd from source.*has finished"):
        simulate(graph)


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        (Limits(max_cycles=1000), "limit:cycles"),
        (Limits(max_tokens=1000), "limit:tokens"),
        (Limits(max_host_bytes=1000), "limit:host_bytes"),
        (Limits(wall_seconds=0.0), "limit:wall_seconds"),
    ],
)
def test_limits_give_the_partial_profile(limits: Limits, status: str) -> None:
    profile = simulate(golden_graph("ijk", "s100", 8)[0], limits)
    assert profile.status == status
    assert 0 < profile.tokens < 419162 and 0 < profile.cycles < 126169
    for context in profile.contexts:
        parts = context.busy + context.starved + context.blocked + context.memory + context.finished
        assert parts == profile.cycles


def test_limits_are_exact_at_the_border() -> None:
    graph, _ = golden_graph("ikj", "s10", 8)
    whole = simulate(graph)
    assert simulate(graph, Limits(max_cycles=whole.cycles, max_tokens=whole.tokens)).status == "done"
    assert simulate(graph, Limits(max_cycles=whole.cycles - 1)).status == "limit:cycles"
    assert simulate(graph, Limits(max_tokens=whole.tokens - 1)).status == "limit:tokens"


def test_unbounded_channels_stay_short_on_the_host() -> None:
    # 2.5 million tokens in unbounded channels: well under 8 MiB of rings and results, run as they are consumed.
    graph, _ = golden_graph("ijk", "s200")
    assert simulate(graph, Limits(max_host_bytes=8 << 20)).status == "done"


def two_loads(dram: Dram | None, first: str, second: str) -> Any:
    """Two tile loads on one memory channel, their references delayed by `number` contexts or not."""
    w = Wiring()
    tiles = {key: np.array(value, dtype=np.int64) for key, value in
             {"value_bytes": [64] * 4, "metadata_bytes": [0] * 4, "address": [0, 64, 128, 192]}.items()}  # fmt: skip
    for n, stream in enumerate((first, second)):
        (ref,) = w.add("source", f"source {n}", params={"tokens": tokens(stream), "times": [5 * n] * 9})
        params = {"tensor": n, "residency": "none"}
        (out,) = w.add("tile_load", f"load {n}", (ref,), params=params, arrays=tiles)
        w.add("sink", f"sink {n}", (out,), 0)
    graph = Graph(tuple(w.contexts), tuple(w.channels), ("A", "B"), dram)
    results = [simulate(graph, shuffle_seed=seed) for seed in (None, *range(8))]
    assert all(r.to_json() == results[0].to_json() and r.sinks == results[0].sinks for r in results)
    return [[time for _, time in results[0].sinks[f"sink {n}"]] for n in (0, 1)]


def test_memory_requests_are_served_by_time_then_place() -> None:
    # Load 0 asks at 1, 2; load 1 at 6, 7 (a burst takes 8 cycles, latency 3): served 1..9, 9..17, 17..25, 25..33.
    assert two_loads(Dram(1, 8, 64, 3), "0 1 D", "2 3 D") == [[12, 20, 20], [28, 36, 36]]
    # Load 0 asks at 1, ..., 8; at 6 and at 7 both ask, and the one that stands first in the graph is served first.
    times = two_loads(Dram(1, 8, 64, 3), "0 1 2 3 0 1 2 3 D", "2 3 D")
    assert times == [[12, 20, 28, 36, 44, 52, 68, 84, 84], [60, 76, 76]]


def test_memory_channels_work_in_parallel() -> None:
    # Bursts 0 and 1 lie on different channels: both done 8 cycles after their request.
    assert two_loads(Dram(2, 8, 64, 3), "0 D", "1 D") == [[12, 12], [17, 17]]
    assert two_loads(None, "0 D", "1 D") == [[2, 3], [7, 8]]


def test_small_graphs_are_quick() -> None:
    import time

    graph, _ = golden_graph("ikj", "s20x30x25", 64)
    simulate(graph)
    best = min(_seconds(lambda: simulate(graph), time.perf_counter) for _ in range(10))
    assert best < 0.01  # 7944 tokens take about 0.3 ms; the wide margin is for busy machines


def _seconds(run: Any, clock: Any) -> float:
    start = clock()
    run()
    return float(clock() - start)


def test_arrays_are_used_in_place() -> None:
    # A level of a million empty fibers would take visibly long to copy or to convert to Python objects.
    outer, inner, _ = levels(golden_matrix(1, 50, 50, 0.1))
    assert inner["pos"].dtype == np.int64
    w = Wiring()
    crd, ref = w.scan("i", w.root("A"), outer)
    w.add("crd_write", "i", (crd,), 0)
    crd_j, _ = w.add("scan", "j", (ref,), 2, unused=(1,), arrays=inner)
    w.add("crd_write", "j", (crd_j,), 0)
    profile = simulate(w.graph())
    np.testing.assert_array_equal(profile.outputs["j"][0][0], inner["crd"])
