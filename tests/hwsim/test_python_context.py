"""Contexts written in Python: the same cycles as native ones, errors with their place, host kernels and replay."""

from __future__ import annotations

import functools
import threading
from typing import Any

import pytest
from unit_harness import run_unit, unit_graph

from hwsim import simulate
from hwsim.python_context import DONE, Advance, HostKernel, Moves, Peek, Pop, Push
from mapper.errors import GraphError
from mapper.graph import Channel, Context, Dram, Graph


def scale(factor: float) -> Moves:
    """The native map with op scale."""
    while True:
        token = yield Pop(0, float)
        yield Push(0, ("val", factor * token[1]) if token[0] == "val" else token)
        yield Advance(1)
        if token == DONE:
            return


def drop_empty() -> Moves:
    """The native drop_empty."""
    while True:
        crd, val = (yield Peek(0)), (yield Peek(1, float))
        yield Pop(0)
        yield Pop(1, float)
        if val != ("empty",):
            yield Push(0, crd)
            yield Push(1, val)
        if crd == DONE:
            return
        yield Advance(1)


@pytest.mark.parametrize("depth", [None, 1, 2])
def test_same_cycles_as_a_native_map(depth: int | None) -> None:
    stream = "1.5 2.0 S0 -3.0 S1 D"
    times: dict[str, Any] = {"times": {0: [0, 5, 6, 7, 20]}, "sink_times": {0: [0, 9, 9, 30]}}
    native = run_unit("map", [stream], params={"op": "scale", "factor": 2.0}, floats=[0], depth=depth, **times)
    python = run_unit(
        "python", [stream], params={"generator": functools.partial(scale, 2.0)}, floats=[0], depth=depth, **times
    )
    assert python.timed == native.timed
    for field in ("busy", "starved", "blocked", "finished", "firings"):
        assert getattr(python.unit, field) == getattr(native.unit, field), field


@pytest.mark.parametrize("depth", [None, 1])
def test_same_cycles_as_a_native_drop_empty(depth: int | None) -> None:
    streams = ["1 2 3 S0 4 S1 D", "1.0 N 2.0 S0 N S1 D"]
    native = run_unit("drop_empty", streams, 2, floats=[1], depth=depth)
    python = run_unit("python", streams, 2, params={"generator": drop_empty}, floats=[1], depth=depth)
    assert python.timed == native.timed


def test_latency_advance_and_clock() -> None:
    clocks = []

    def unit() -> Moves:
        clocks.append((yield Advance(3)))
        yield Push(0, ("val", 7), latency_cycles=4)  # at 3, there at 3 + 1 + 4
        clocks.append((yield Advance(0)))
        yield Push(0, ("stop", 0))  # at 3, but behind
        yield Push(0, ("empty",))
        yield Advance(10)
        yield Push(0, DONE)

    run = run_unit("python", [], params={"generator": unit})
    assert run.timed == ("7@8 S0@8 N@8 D@14",)
    assert clocks == [3, 3] * 2  # run_unit simulates twice
    assert (run.unit.busy, run.unit.firings) == (13, 3)


def test_unconnected_output() -> None:
    def unit() -> Moves:
        yield Push(0, ("val", 1))
        yield Push(1, DONE)

    assert run_unit("python", [], 2, params={"generator": unit}, unconnected=[0]).streams == ("", "D")


def test_a_deadlock_names_its_ports() -> None:
    graph = Graph(
        (Context("loop", "python", (0,), (0,), {"generator": functools.partial(scale, 1.0)}),), (Channel("c", 1),)
    )
    profile = simulate(graph)
    assert profile.status == "deadlock" and profile.deadlock is not None
    assert profile.deadlock.cycle[0].port == "in_1"


def yields(*moves: object) -> Any:
    """A generator function that asks for ``moves``, whatever comes back."""
    return lambda: (move for move in moves)


@pytest.mark.parametrize(
    ("generator", "message"),
    [
        (yields(Advance(4), Pop(1)), r"context 'unit' \(python\) at cycle 4: a port must be a number below 1, got 1"),
        (yields(Push(-1, DONE)), "a port must be a number below 1, got -1"),
        (yields(Push(0, ("vale", 1))), r"a token is \('val', x\).*got \('vale', 1\)"),
        (yields(Push(0, ("val", 2**63))), "a token is"),
        (yields(Push(0, ("stop", -1))), "a token is"),
        (yields(Push(0, DONE, -1)), "cycles not negative"),
        (yields(Advance(-1)), "cycles not negative"),
        (yields("pop"), "a move is Pop, Peek, Push or Advance.*got 'pop'"),
        (lambda: 3, "'generator' must be a generator function without arguments"),
        (scale, "'generator' must be a generator function without arguments"),
    ],
)
def test_bad_moves(generator: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        run_unit("python", ["1 D"], params={"generator": generator})


def test_an_exception_in_the_generator() -> None:
    def unit() -> Moves:
        yield Advance(6)
        raise ValueError("no such row")

    with pytest.raises(
        GraphError, match=r"'unit' \(python\) at cycle 6: its generator raised ValueError: no such row"
    ) as e:
        run_unit("python", ["1 D"], params={"generator": unit})
    assert isinstance(e.value.__cause__, ValueError)


def test_beside_memory_and_in_threads() -> None:
    tiles = {"value_bytes": [64, 64], "metadata_bytes": [0, 0], "address": [0, 64]}
    options: dict[str, Any] = {
        "arrays": tiles, "params": {"tensor": 0, "residency": "none"}, "tensors": ("A",), "dram": Dram(1, 8.0, 64, 20),
    }  # fmt: skip
    graph = unit_graph("tile_load", ["0 1 0 D"], **options)

    def through() -> Moves:
        while (token := (yield Pop(0))) != DONE:
            yield Push(0, token)
        yield Push(0, DONE)

    contexts = tuple(
        Context(c.name, c.kind, (len(graph.channels),), (), c.params) if c.kind == "sink" else c for c in graph.contexts
    )
    longer = Graph(
        (*contexts, Context("py", "python", graph.contexts[-1].inputs, (len(graph.channels),), {"generator": through})),
        (*graph.channels, Channel("more", None)), graph.tensors, graph.dram,
    )  # fmt: skip
    alone, with_python = simulate(graph), simulate(longer)
    for (token, time), (passed, later) in zip(alone.sinks["sink 0"], with_python.sinks["sink 0"], strict=True):
        assert (passed, later) == (token, time + 1)
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(simulate(longer))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [with_python] * 3


def kernel_graph(kernel: HostKernel) -> Graph:
    """Two copies of one kernel, a lane each."""
    copies = (kernel.context("left", (1,), 3), kernel.context("right", (2,), 4))
    return Graph(
        (
            Context("source", "source", (), (0,), {"tokens": [("val", x) for x in (1.0, 2.0, 3.0)] + [("done",)]}),
            Context("scatter", "scatter", (0,), (1, 2), {"by": "element"}),
            *copies,
            Context("gather", "gather", (3, 4), (5,), {"by": "element"}),
            Context("sink", "sink", (5,), (), {"dtype": "float"}),
        ),
        tuple(Channel(f"c{k}", 8) for k in range(6)),
    )


def test_host_kernel_replays() -> None:
    # Scatter: 1 at t=1, 2 at t=2, 3 at t=3. Left: 1 at t=2, 10 cycles, there at 12; 3 at t=12, 4 cycles, there at 16.
    # Right: 2 at t=3, 6 cycles, there at 9. Gather: 1 at 12, 2 at 13, 3 at 16, each a cycle later at the sink.
    calls: list[float] = []

    def square(x: float) -> float:
        calls.append(x)
        return x * x

    kernel = HostKernel(square, 1e9, replay_cycles={"left": [10, 4], "right": [6]})
    profile = simulate(kernel_graph(kernel))
    assert [(t[-1], time) for t, time in profile.sinks["sink"]] == [(1.0, 13), (4.0, 14), (9.0, 17), ("done", 18)]
    assert sorted(calls) == [1.0, 2.0, 3.0]
    assert kernel.measured_cycles == {"left": [10, 4], "right": [6]}
    assert next(c.busy for c in profile.contexts if c.name == "left") == 14


def test_host_kernel_measures() -> None:
    kernel = HostKernel(lambda x: x + 1.0, 1e9)
    first = simulate(kernel_graph(kernel))
    assert {name: len(calls) for name, calls in kernel.measured_cycles.items()} == {"left": 2, "right": 1}
    assert all(cycles >= 1 for calls in kernel.measured_cycles.values() for cycles in calls)
    again = HostKernel(lambda x: x + 1.0, 1e9, replay_cycles=kernel.measured_cycles)
    assert simulate(kernel_graph(again)) == first
    short = HostKernel(lambda x: x, 1e9, replay_cycles={"left": [3], "right": [3]})
    with pytest.raises(GraphError, match="no recorded cycles for call 1 of 'left'"):
        simulate(kernel_graph(short))
