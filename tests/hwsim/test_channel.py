"""The time rules of a channel: availability, slots, latencies, fill."""

from __future__ import annotations

import random

import pytest
from unit_harness import run_unit, unit_graph

from hwsim import simulate
from hwsim.python_context import DONE, Advance, Moves, Pop, Push
from mapper.graph import Dram

FIVE = "1 2 3 4 5 D"


@pytest.mark.parametrize(
    ("depth", "latency", "response", "times"),
    [
        (None, 1, 1, [2, 3, 4, 5, 6, 7]),
        (2, 1, 1, [2, 3, 4, 5, 6, 7]),  # full rate needs latency + response slots
        (1, 1, 1, [2, 4, 6, 8, 10, 12]),
        (3, 2, 1, [4, 5, 6, 7, 8, 9]),
        (2, 2, 1, [4, 5, 7, 8, 10, 11]),  # 2 tokens per latency + response = 3 cycles
        (2, 1, 3, [2, 3, 6, 7, 10, 11]),
        (1, 3, 2, [6, 11, 16, 21, 26, 31]),
    ],
)
def test_rate(depth: int | None, latency: int, response: int, times: list[int]) -> None:
    # `number` costs a cycle per token, so the channels alone decide the rate.
    run = run_unit("number", [FIVE], depth=depth, latency=latency, response_latency=response)
    assert [time for _, time in run.profile.sinks["sink 0"]] == times


def test_back_pressure_is_the_producers_wait() -> None:
    # The sink takes nothing before 50, then all it has. Depth 3: 1 2 3 leave at 1, 2, 3; 4 is in the hand of the unit,
    # 5 and D wait in its input; they leave from 51 on.
    run = run_unit("number", [FIVE], depth=3, sink_times={0: [50]})
    assert [time for _, time in run.profile.sinks["sink 0"]] == [50, 50, 50, 52, 53, 54]
    assert run.unit.blocked == 51 - 4
    assert {c.name: c.max_fill for c in run.profile.channels} == {"in 0": 2, "out 0": 3}


@pytest.mark.parametrize(("depth", "fill"), [(8, 6), (6, 6), (4, 4), (1, 1)])
def test_fill_is_counted_in_simulated_time(depth: int, fill: int) -> None:
    # Six tokens at 1 .. 6, the sink takes all at 50.
    graph = unit_graph("number", [FIVE], depth=depth, sink_times={0: [50]})
    for seed in (None, 0, 1, 2):
        out = simulate(graph, shuffle_seed=seed).channels[1]
        assert (out.max_fill, out.tokens) == (fill, 6)


def test_fill_of_unbounded_channels_is_not_kept() -> None:
    assert [c.max_fill for c in run_unit("number", [FIVE]).profile.channels] == [None, None]


@pytest.mark.parametrize("depth", [1, 63, 64, 65, 1000, 10**7, None])
def test_rings_grow_without_changing_time(depth: int | None) -> None:
    # 5000 tokens; the sink waits until 3000, so that deep channels fill up and shallow ones block.
    count = 5000
    stream = [*(("val", k) for k in range(count)), ("done",)]
    graph = unit_graph("number", [stream], depth=depth, sink_times={0: [3000]})
    profile = simulate(graph)
    pops = [time for _, time in profile.sinks["sink 0"]]
    expected: list[int] = []
    pushes: list[int] = []
    # slot-exact model of the two channels, token by token
    free_in: list[int] = []
    clock_source = clock_unit = clock_sink = 0
    for n in range(count + 1):
        if depth is not None and n >= depth:
            clock_source = max(clock_source, free_in[n - depth])
        clock_unit = max(clock_unit, clock_source + 1)
        free_in.append(clock_unit + 1)
        if depth is not None and n >= depth:
            clock_unit = max(clock_unit, expected[n - depth] + 1)
        pushes.append(clock_unit)
        clock_sink = max(clock_sink, clock_unit + 1, 3000)
        expected.append(clock_sink)
        clock_source, clock_unit = clock_source + 1, clock_unit + 1
    assert pops == expected
    assert simulate(graph, shuffle_seed=3).to_json() == profile.to_json()
    if depth is not None:
        # Slots in use when a token is pushed: its own and those of earlier tokens that are released later.
        fill = max(1 + sum(expected[k] + 1 > at for k in range(max(0, n - depth), n)) for n, at in enumerate(pushes))
        assert profile.channels[1].max_fill == fill


def late_unit(lateness: list[int], pushes: list[int]) -> Moves:
    """Passes tokens on, the n-th ``lateness[n]`` cycles late; ``pushes`` gets the times."""
    while True:
        token = yield Pop(0)
        yield Push(0, token, lateness[len(pushes) % len(lateness)])
        pushes.append((yield Advance(0)))
        if token == DONE:
            return
        yield Advance(1)


@pytest.mark.parametrize("seed", range(30))
def test_fill_behind_units_that_push_late(seed: int) -> None:
    # Slots in use when a token is pushed, from the times of all pushes and pops: a token on its way has its slot.
    pick = random.Random(seed)
    count, depth, response = pick.choice([5, 300]), pick.choice([1, 2, 3, 8, 100, 1000]), pick.choice([1, 4])
    lateness = [pick.choice([0, 0, 3, 40]) for _ in range(pick.randrange(1, 5))]
    times = {0: [pick.randrange(200)] * pick.randrange(count)}
    for order in (None, 5):
        pushes: list[int] = []
        graph = unit_graph(
            "python", [[*(("val", k) for k in range(count)), DONE]], depth=depth, response_latency=response,
            params={"generator": lambda p=pushes: late_unit(lateness, p)}, sink_times=times,
        )  # fmt: skip
        profile = simulate(graph, shuffle_seed=order)
        pops = [time for _, time in profile.sinks["sink 0"]]
        fill = max(1 + sum(pops[k] + response > at for k in range(n)) for n, at in enumerate(pushes))
        assert profile.channels[1].max_fill == fill


def test_fill_behind_a_tile_load() -> None:
    # References at 1, 2, 3, 4 go out at once, but their tiles come from 116 on, 8 cycles apart; the sink takes them as
    # they come: all five slots (Done too) are in use from 5 on, although no tile is there.
    arrays = {"value_bytes": [64] * 4, "metadata_bytes": [0] * 4, "address": [0, 64, 128, 192]}
    run = run_unit("tile_load", ["0 1 2 3 D"], params={"tensor": 0, "residency": "none"}, arrays=arrays, depth=8,
                   tensors=("A",), dram=Dram(1, 8.0, 64, 107))  # fmt: skip
    assert run.timed == ("0@116 1@124 2@132 3@140 D@140",)
    assert run.profile.channels[1].max_fill == 5
