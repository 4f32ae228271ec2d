"""The timeline adds up to the profile, the trace follows the Trace Event Format, and its size is bounded."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden_graphs import golden_graph
from lowered_graphs import lowered_graphs
from unit_harness import unit_graph

from hwsim import Limits, Profile, chrome_trace, simulate, write_trace
from hwsim.trace import STATES
from mapper.errors import GraphError, InputError
from mapper.graph import Dram, Graph


def traced(graph: Graph, most: int = 10**6) -> Profile:
    profile = simulate(graph, max_slices=most)
    assert profile == simulate(graph)  # watching changes nothing
    return profile


def slices_of(profile: Profile) -> list[list[tuple[int, list[int]]]]:
    """(begin, cycles by state) of every context."""
    assert profile.timeline is not None
    line = profile.timeline
    found: list[list[tuple[int, list[int]]]] = [[] for _ in profile.contexts]
    for context, begin, cycles in zip(line.context.tolist(), line.begin.tolist(), line.cycles.tolist(), strict=True):
        found[context].append((begin, cycles))
    return found


def check_sums(profile: Profile) -> None:
    """Without gap or overlap, and by state what the profile says."""
    for context, slices in zip(profile.contexts, slices_of(profile), strict=True):
        ends = [0, *(begin + sum(cycles) for begin, cycles in slices)]
        assert [begin for begin, _ in slices] == ends[:-1], context.name
        assert ends[-1] == profile.cycles - context.finished
        sums = [sum(column) for column in zip(*(cycles for _, cycles in slices), strict=True)] or [0] * 4
        assert sums == [getattr(context, state) for state in STATES], context.name


def test_slices_by_hand() -> None:
    # Tokens at 10, 20, 30: the map waits from 0 to 11, works at 11, waits to 21, works, waits to 31, works.
    profile = traced(unit_graph("map", ["1.0 S0 D"], params={"op": "neg"}, times={0: [10, 20, 30]}))
    assert slices_of(profile)[1] == [
        (0, [0, 11, 0, 0]), (11, [1, 0, 0, 0]), (12, [0, 9, 0, 0]), (21, [1, 0, 0, 0]), (22, [0, 9, 0, 0]),
        (31, [1, 0, 0, 0]),
    ]  # fmt: skip
    # The sink takes at 50: with one slot, the map is blocked from 3 (its second token) to 51.
    profile = traced(unit_graph("map", ["1.0 2.0 D"], params={"op": "neg"}, depth=1, sink_times={0: [50]}))
    assert slices_of(profile)[1][:4] == [
        (0, [0, 1, 0, 0]), (1, [1, 0, 0, 0]), (2, [0, 1, 0, 0]), (3, [0, 0, 48, 0]),
    ]  # fmt: skip


@pytest.mark.parametrize("depth", [None, 2, 8])
@pytest.mark.parametrize("name", ["ijk", "ikj", "matadd", "spmv"])
def test_sums_on_golden_graphs(name: str, depth: int | None) -> None:
    profile = traced(golden_graph(name, "s10", depth)[0])
    check_sums(profile)
    assert profile.timeline is not None and profile.timeline.grain_cycles == 1
    assert ((profile.timeline.cycles > 0).sum(axis=1) == 1).all()  # one state each


def test_sums_with_memory() -> None:
    waited = 0
    for graph in lowered_graphs(20, seed=5):
        profile = traced(graph)
        check_sums(profile)
        assert profile.timeline is not None and graph.dram is not None
        assert profile.timeline.dram_bytes.sum() == profile.burst_bytes
        waited += sum(c.memory for c in profile.contexts)
    assert waited > 0


@pytest.mark.parametrize("most", [1, 20, 100, 1000])
def test_merged_slices_still_add_up(most: int) -> None:
    graph, _ = golden_graph("ijk", "s20x30x25", 8)
    profile = traced(graph, most)
    check_sums(profile)
    assert profile.timeline is not None and profile.timeline.grain_cycles > 1
    assert len(profile.timeline.begin) <= max(most, len(graph.contexts))
    if most == 1000:  # no more than a doubling is given away
        assert len(profile.timeline.begin) > most / 4
    shuffled = simulate(graph, max_slices=10**6, shuffle_seed=3).timeline
    whole = simulate(graph, max_slices=10**6).timeline
    assert shuffled is not None and whole is not None
    np.testing.assert_array_equal(shuffled.cycles, whole.cycles)


def test_samples_are_bounded() -> None:
    tiles: dict[str, Any] = {"value_bytes": [64] * 50, "metadata_bytes": [0] * 50, "address": list(range(0, 3200, 64))}
    graph = unit_graph(
        "tile_load", [[*(("val", k) for k in range(50)), ("done",)]], params={"tensor": 0, "residency": "none"},
        arrays=tiles, tensors=("A",), dram=Dram(1, 8.0, 64, 100),
    )  # fmt: skip
    for most in (4, 7, 10**4):
        line = traced(graph, most).timeline
        assert line is not None and line.dram_bytes.sum() == 3200 and len(line.dram_bytes) <= most


def test_stopped_runs() -> None:
    check_sums(traced(golden_graph("ikj", "s20x30x25", 1)[0]))  # a deadlock
    check_sums(simulate(golden_graph("ijk", "s20x30x25")[0], Limits(max_cycles=1000), max_slices=10**5))
    assert simulate(Graph((), ()), max_slices=5).timeline is not None
    assert simulate(golden_graph("spmv", "s10")[0]).timeline is None


def test_trace_event_format(tmp_path: Path) -> None:
    graphs = lowered_graphs(2, seed=5)
    runs = [(f"run {n}", simulate(graph, max_slices=100)) for n, graph in enumerate(graphs)]
    write_trace(tmp_path / "trace.json", runs)
    trace = json.loads((tmp_path / "trace.json").read_text())
    events = trace["traceEvents"]
    assert trace == chrome_trace(runs) and {e["ph"] for e in events} == {"M", "X", "C"}
    for event in events:
        assert isinstance(event["name"], str) and event["tid"] in range(len(graphs[event["pid"]].contexts))
        if event["ph"] == "M":
            key = {"process_name": "name", "thread_name": "name", "thread_sort_index": "sort_index"}[event["name"]]
            assert list(event["args"]) == [key]
        else:
            assert isinstance(event["ts"], int) and event["ts"] >= 0
        if event["ph"] == "C":
            assert list(event["args"]) == ["bytes"] and event["args"]["bytes"] >= 0
        if event["ph"] == "X":
            assert event["name"] in STATES and event["dur"] > 0
            assert sum(event.get("args", {event["name"]: event["dur"]}).values()) == event["dur"]
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    slices = [e for e in events if e["ph"] == "X"]
    assert {(e["pid"], e["tid"]) for e in slices} <= named and len(named) == sum(len(g.contexts) for g in graphs)
    for _, group in itertools.groupby(slices, key=lambda e: (e["pid"], e["tid"])):
        ends = 0
        for event in group:
            assert event["ts"] >= ends  # no overlap
            ends = event["ts"] + event["dur"]
    second = trace["otherData"]["runs"][1]
    assert second["name"] == "run 1"
    assert second["begins_at_cycle"] == runs[0][1].cycles == min(e["ts"] for e in slices if e["pid"] == 1)
    assert second["slices_merged_within_cycles"] > 1
    assert len(events) <= 2 * 2 * 101 + 2 * len(named) + 2


def test_errors_of_a_watched_run() -> None:
    with pytest.raises(GraphError, match=r"port a has Val 1\.5, port b has Stop 0"):
        simulate(unit_graph("alu", ["1.5 D", "S0 D"], params={"op": "mul"}), max_slices=5)
    with pytest.raises(InputError, match=r"max_slices must be 0 \(no timeline\) or more, got -1"):
        simulate(Graph((), ()), max_slices=-1)


def test_needs_a_timeline() -> None:
    with pytest.raises(InputError, match="run 'r' has no timeline to trace; simulate it with max_slices above 0"):
        chrome_trace([("r", simulate(golden_graph("spmv", "s10")[0]))])
