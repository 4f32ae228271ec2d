"""Random graphs: the compiled simulator agrees with the plain one and the oracle on each. The whole set, and the
figures of its distribution, is ``benchmarks/random_graphs.py``."""

from __future__ import annotations

import dataclasses

import pytest
from golden_cycles import BOUNDED, FINAL_TIMES, LATENCIES, UNBOUNDED
from golden_graphs import golden_graph
from plain_simulator import BODIES, simulate_plainly
from random_graphs import CONTEXTS, DEPTHS, Outcome, differences, distribution, random_case, run_case

from hwsim import simulate

SEEDS = (*range(400), 906, 4579)  # the last two convert into a tensor that others use, with row buffers
STORAGES = ("dense", "compressed", "bitmask", "run_length", "n_of_m", "repeated")
WRITTEN_KINDS = ("dense", "compressed", "bitmask", "nonunique", "singleton", "2x2")


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return [run_case(random_case(seed)) for seed in SEEDS]


def test_simulators_agree(outcomes: list[Outcome]) -> None:
    assert {o.seed: o.faults for o in outcomes if o.faults} == {}


def test_distribution(outcomes: list[Outcome]) -> None:
    shares = distribution(outcomes)
    assert shares["share_with_reconvergent_fork"] >= 0.5
    assert 0.1 <= shares["share_deadlocking"] <= 0.3
    assert 0.35 <= shares["share_lowered"] <= 0.65
    assert 0.3 <= shares["share_with_dram"] <= 0.8
    assert shares["share_lowered_with_values_checked"] >= 0.25
    assert shares["share_with_spills"] > 0.01 and shares["share_with_tile_hits"] > 0.005
    assert {o.contexts for o in outcomes} <= set(CONTEXTS)
    assert max(o.contexts for o in outcomes) > 50
    assert set(shares["graphs_by_context_kind"]) == set(BODIES)
    wanted = {f"{storage} read" for storage in STORAGES} | {f"{kind} written" for kind in WRITTEN_KINDS}
    assert wanted <= set(shares["levels_by_format"])
    assert sum(level.endswith(" lane read") for level in shares["levels_by_format"]) >= 4
    assert min(shares["graphs_by_memory_field"].values()) >= 20 and len(shares["graphs_by_memory_field"]) == 10
    assert shares["share_with_row_misses"] > 0.1
    assert set(shares["channels_by_fifo_depth"]) == {str(depth) for depth in DEPTHS}
    assert len(shares["channels_by_latencies"]) == 9


def test_seeds_give_the_same_graphs() -> None:
    for seed in range(5):
        first, second = (simulate(random_case(seed).graph) for _ in range(2))
        assert first.to_json() == second.to_json()


def test_differences_are_seen() -> None:
    # One channel a cycle slower, seen by the plain simulator alone.
    seen = 0
    for seed in range(40):
        graph = random_case(seed).graph
        first, *others = graph.channels
        slower = dataclasses.replace(first, latency=first.latency + 1)
        plain = simulate_plainly(dataclasses.replace(graph, channels=(slower, *others)))
        seen += bool(differences(simulate(graph), plain))
    assert seen >= 35


@pytest.mark.parametrize(("name", "data", "cycles", "tokens"), [row for row in UNBOUNDED if row[3] < 8_000])
def test_plain_simulator_meets_golden_rows(name: str, data: str, cycles: int, tokens: int) -> None:
    plain = simulate_plainly(golden_graph(name, data)[0])
    assert (plain.status, plain.cycles, plain.tokens) == ("done", cycles, tokens)


@pytest.mark.parametrize(
    ("name", "data", "depth", "latency", "response", "cycles"),
    [(name, data, depth, 1, 1, cycles) for name, data, depth, cycles in BOUNDED if data == "s20x30x25"]
    + [row for row in LATENCIES if row[1] == "v100" or row[0] == "spmv"],
)
def test_plain_simulator_meets_golden_sweeps(
    name: str, data: str, depth: int, latency: int, response: int, cycles: int | None
) -> None:
    plain = simulate_plainly(golden_graph(name, data, depth, latency, response)[0])
    assert (plain.status, plain.cycles) == ("done", cycles) or (plain.status, cycles) == ("deadlock", None)


@pytest.mark.parametrize(("name", "data"), FINAL_TIMES)
def test_plain_simulator_meets_golden_clocks(name: str, data: str) -> None:
    graph, _ = golden_graph(name, data)
    clocks = {c.name: sum(spent) for c, spent in zip(graph.contexts, simulate_plainly(graph).units, strict=True)}
    expected = FINAL_TIMES[name, data]
    assert {context: clocks[context] for context in expected} == expected
