"""Cycle counts equal Comal's on the golden graphs, whatever the FIFO depth and latency, and in any host order."""

from __future__ import annotations

import numpy as np
import pytest
from golden_cycles import BOUNDED, DEPTH_SWEEP, DEPTHS, FINAL_TIMES, LARGE, LARGE_DEPTH_8, LATENCIES, UNBOUNDED
from golden_graphs import golden_graph

from hwsim import Profile, simulate


def check(profile: Profile, cycles: int | None, values: np.ndarray) -> None:
    if cycles is None:
        assert profile.status == "deadlock" and profile.deadlock is not None
        return
    assert (profile.status, profile.cycles) == ("done", cycles)
    np.testing.assert_array_equal(profile.outputs["values"][1], values)


@pytest.mark.parametrize(("name", "data", "cycles", "tokens"), UNBOUNDED)
def test_unbounded(name: str, data: str, cycles: int, tokens: int) -> None:
    graph, values = golden_graph(name, data)
    profile = simulate(graph)
    check(profile, cycles, values())
    assert profile.tokens == tokens
    for context in profile.contexts:
        parts = context.busy + context.starved + context.blocked + context.memory + context.finished
        assert parts == cycles
        assert context.blocked == context.memory == 0


@pytest.mark.parametrize(("name", "data", "depth", "cycles"), BOUNDED)
def test_bounded(name: str, data: str, depth: int, cycles: int | None) -> None:
    graph, values = golden_graph(name, data, depth)
    profile = simulate(graph)
    check(profile, cycles, values())
    for context in profile.contexts:
        parts = context.busy + context.starved + context.blocked + context.memory + context.finished
        assert parts == profile.cycles


@pytest.mark.parametrize(("name", "data"), DEPTH_SWEEP)
def test_depth_sweep_and_host_order(name: str, data: str) -> None:
    for depth, cycles in zip(DEPTHS, DEPTH_SWEEP[name, data], strict=True):
        graph, values = golden_graph(name, data, depth)
        profile = simulate(graph)
        check(profile, cycles, values())
        for seed in range(3):
            shuffled = simulate(graph, shuffle_seed=seed)
            assert shuffled.to_json() == profile.to_json()


@pytest.mark.parametrize(("name", "data", "depth", "latency", "response", "cycles"), LATENCIES)
def test_latencies(name: str, data: str, depth: int, latency: int, response: int, cycles: int) -> None:
    graph, values = golden_graph(name, data, depth, latency, response)
    profile = simulate(graph)
    check(profile, cycles, values())
    assert simulate(graph, shuffle_seed=0).to_json() == profile.to_json()


@pytest.mark.parametrize(("name", "data"), FINAL_TIMES)
def test_final_time_of_every_context(name: str, data: str) -> None:
    profile = simulate(golden_graph(name, data)[0])
    clocks = {c.name: profile.cycles - c.finished for c in profile.contexts}
    expected = FINAL_TIMES[name, data]
    assert {context: clocks[context] for context in expected} == expected


@pytest.mark.parametrize(("name", "data", "cycles", "tokens"), LARGE)
def test_large(name: str, data: str, cycles: int, tokens: int) -> None:
    for depth in (None, 1024, 8):
        graph, _ = golden_graph(name, data, depth)
        profile = simulate(graph)
        expected = LARGE_DEPTH_8.get((name, data), cycles) if depth == 8 else cycles
        assert (profile.status, profile.tokens) == ("done", tokens)
        assert expected is None or profile.cycles == expected
