"""Bound, next bound and chain of small graphs worked by hand, and of golden ones."""

from __future__ import annotations

import dataclasses

import pytest
from golden_graphs import golden_graph
from lowered_graphs import SQUARE, lowered_graphs
from unit_harness import unit_graph

from hwsim import CriticalChain, Limits, Link, Resource, critical_chain, simulate, with_depth
from hwsim.critical import dram_busy_cycles
from mapper.errors import InputError
from mapper.graph import Channel, Context, Dram, Graph

LOAD = {"value_bytes": [64] * 3, "metadata_bytes": [0] * 3, "address": [0, 64, 128]}


def chain_of(graph: Graph) -> CriticalChain:
    return critical_chain(graph, simulate(graph))


def test_a_pipeline() -> None:
    # The map gets its 5 tokens at 1 to 5 and works without a pause; Done is no work for the source.
    found = chain_of(unit_graph("map", ["1.0 2.0 3.0 S0 D"], params={"op": "neg"}))
    assert (found.cycles, found.bound, found.next_bound) == (6, Resource("unit", 5), Resource("source 0", 4))
    assert found.links == (Link("unit", "busy", 5, None),)  # ends with the sink, and comes first
    assert (found.waiting_cycles, found.headroom_cycles, found.loop) == (1, 1, False)
    assert str(found) == ("6 cycles; bound: unit, busy 5 (83%)\nnext bound: source 0, busy 4\n  unit: busy 5")


def test_a_late_source() -> None:
    # Tokens at 10, 20, 30: the map is starved until 11, then from 12 to 21 and from 22 to 31.
    found = chain_of(unit_graph("map", ["1.0 S0 D"], params={"op": "neg"}, times={0: [10, 20, 30]}))
    assert found.cycles == 32
    assert found.links == (
        Link("unit", "starved", 29, "in 0"), Link("source 0", "starved", 28, None),
    )  # fmt: skip
    assert found.bound == Resource("unit", 3) and not found.loop


def test_memory_is_a_resource() -> None:
    # Three bursts of 8 cycles, asked for at 1, 2, 3; the last one is there at 1 + 24 + 100.
    graph = unit_graph(
        "tile_load", ["0 1 2 D"], depth=4, params={"tensor": 0, "residency": "none"}, arrays=LOAD, tensors=("A",),
        dram=Dram(1, 8.0, 64, 100),
    )  # fmt: skip
    found = chain_of(graph)
    assert (found.cycles, found.bound, found.next_bound) == (125, Resource("dram", 24), Resource("source 0", 3))
    assert found.links == (Link("sink 0", "memory", 125, None), Link("dram", "busy", 24, None))


def test_memory_wait_behind_a_starved_load() -> None:
    graph = unit_graph(
        "tile_load", ["0 1 2 D"], depth=4, params={"tensor": 0, "residency": "none"}, arrays=LOAD, tensors=("A",),
        dram=Dram(1, 8.0, 64, 5), times={0: [500, 1000, 1500, 1600]},
    )  # fmt: skip
    found = chain_of(graph)
    assert [(link.resource, link.state) for link in found.links] == [
        ("sink 0", "memory"), ("unit", "starved"), ("source 0", "starved"),
    ]  # fmt: skip


def test_channels_share_the_bursts() -> None:
    graph = unit_graph(
        "tile_load", ["0 1 2 D"], params={"tensor": 0, "residency": "none"}, arrays=LOAD, tensors=("A",),
        dram=Dram(2, 7.0, 64, 5),
    )  # fmt: skip
    assert dram_busy_cycles(graph, simulate(graph)) == 15  # 3 bursts of 10 cycles on 2 channels
    plain = dataclasses.replace(graph, dram=None)
    assert dram_busy_cycles(plain, simulate(plain)) == 0


def test_opening_rows_is_work_of_the_memory() -> None:
    # Bursts 0 to 2 in rows of two: miss, hit, miss, each behind the other: 3 * 8 + 2 * 20 + 1.
    graph = unit_graph(
        "tile_load", ["0 1 2 D"], params={"tensor": 0, "residency": "none"}, arrays=LOAD, tensors=("A",),
        dram=Dram(1, 8.0, 64, 100, row_bytes=128, row_hit_cycles=1, row_miss_cycles=20),
    )  # fmt: skip
    profile = simulate(graph)
    assert (profile.row_misses, dram_busy_cycles(graph, profile), profile.cycles) == (2, 65, 1 + 65 + 100)


def test_an_array_off_chip_is_a_load() -> None:
    # The array waits for a late reference, the map behind it for the array: the chain goes through both.
    params = {"tensor": 0, "address": 0, "value_bits": 32}
    graph = unit_graph(
        "array", ["0 D"], params=params, arrays={"values": [1.0]}, tensors=("A",), dram=Dram(1, 8.0, 64, 10),
        times={0: [500]},
    )  # fmt: skip
    found = chain_of(graph)
    assert [(link.resource, link.state) for link in found.links] == [
        ("sink 0", "memory"), ("unit", "starved"), ("source 0", "starved"),
    ]  # fmt: skip


def test_without_memory_model_the_wait_ends_at_the_loader() -> None:
    graph = unit_graph(
        "tile_load",
        ["0 D"],
        params={"tensor": 0, "residency": "none"},
        arrays=LOAD,
        tensors=("A",),
        times={0: [50, 60]},
    )
    assert [link.resource for link in chain_of(graph).links] == ["sink 0", "unit", "source 0"]


def test_the_join_bounds_ijk() -> None:
    graph, _ = golden_graph("ijk", "s20x30x25")
    found = chain_of(graph)
    assert found.bound.name == "join k" and not found.loop
    assert [link.resource for link in found.links] == ["values", "reduce", "mul", "array B", "join k"]
    assert found.links[-1].cycles == found.bound.busy_cycles


def test_shallow_channels_hold_each_other_up() -> None:
    # At depth 8 the accumulator cannot drain a row at once: it waits for its writer, which waits for it.
    graph, _ = golden_graph("ikj", "s20x30x25", 8)
    found = chain_of(graph)
    assert found.loop and "which waits for one of those above" in str(found)
    assert [(link.resource, link.state) for link in found.links] == [("crd j", "starved"), ("accumulate", "blocked")]


@pytest.mark.parametrize("depth", [None, 2, 3, 8])
@pytest.mark.parametrize("name", ["matadd", "spmv", "ijk", "ikj"])
def test_bounds_hold_on_golden_graphs(name: str, depth: int | None) -> None:
    graph, _ = golden_graph(name, "s10", depth)
    profile = simulate(graph)
    if profile.status != "done":
        pytest.skip(f"{name} deadlocks at depth {depth}")
    found = critical_chain(graph, profile)
    assert found.next_bound is not None
    busiest, second = sorted((c.busy for c in profile.contexts), reverse=True)[:2]
    assert (found.bound.busy_cycles, found.next_bound.busy_cycles) == (busiest, second)
    assert found.waiting_cycles >= 0 and found.headroom_cycles >= 0
    units, ends = {c.name: c for c in profile.contexts}, {c.name: (c.inputs, c.outputs) for c in graph.contexts}
    assert units[found.links[0].resource].finished == 0
    for link, following in zip(found.links, found.links[1:], strict=False):
        assert getattr(units[link.resource], link.state) == link.cycles
        channel = [c.name for c in graph.channels].index(str(link.channel))
        here, there = (0, 1) if link.state == "starved" else (1, 0)
        assert channel in ends[link.resource][here] and channel in ends[following.resource][there]


def test_no_run_is_shorter_than_its_bound() -> None:
    kinds, converts = set(), 0
    for graph in lowered_graphs(60, seed=8) + lowered_graphs(60, seed=8, program=SQUARE):
        shallow = with_depth(graph, 4)  # enough for loops, and for a deadlock where sums of lanes wait for each other
        profile = simulate(shallow)
        if profile.status == "deadlock":
            assert profile.deadlock is not None
            continue
        found = critical_chain(shallow, profile)
        assert 0 < found.bound.busy_cycles <= found.cycles and found.waiting_cycles >= 0
        names = [link.resource for link in found.links]
        assert len(names) <= len(graph.contexts) + 1
        converts += graph.contexts[0].kind == "convert"
        kinds.add("dram" if names[-1] == "dram" else "loop" if found.loop else "context")
    assert kinds == {"dram", "loop", "context"} and converts > 0


def test_a_lone_context() -> None:
    graph = Graph((Context("r", "root", (), (-1,)),), ())
    found = chain_of(graph)
    assert found.next_bound is None and found.headroom_cycles == found.bound.busy_cycles == found.cycles == 2
    assert found.links == (Link("r", "busy", 2, None),)


def test_refuses_what_has_no_chain() -> None:
    graph, _ = golden_graph("ikj", "s20x30x25", 1)
    with pytest.raises(InputError, match="without deadlock, got 20 contexts and status 'deadlock'"):
        chain_of(graph)
    with pytest.raises(InputError, match="got 0 contexts"):
        chain_of(Graph((), ()))
    other, _ = golden_graph("spmv", "s10")
    with pytest.raises(InputError, match="must be a run of this graph, but they differ in their contexts"):
        critical_chain(other, simulate(graph))
    renamed = dataclasses.replace(other, channels=(Channel("x", None), *other.channels[1:]))
    with pytest.raises(InputError, match="differ in their channels"):
        critical_chain(other, simulate(renamed))


def test_a_stopped_run_has_a_chain() -> None:
    graph, _ = golden_graph("ijk", "s20x30x25")
    profile = simulate(graph, Limits(max_cycles=1000))
    assert profile.status != "done"
    assert critical_chain(graph, profile).links
