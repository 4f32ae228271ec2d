from __future__ import annotations

import json

import numpy as np
import pytest
from random_mappings import PROGRAMS, RDA, random_mapping, random_workload

from costmodel import MODEL_VERSION, Statistics, estimate, predict_traffic, shared_statistics
from mapper.canonical import canonical_json, plain
from mapper.errors import InputError
from mapper.machine import load_machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.space import MappingSpace
from mapper.synthetic import generate
from mapper.tensor import SparseTensor
from mapper.workload import Workload

PRODUCT = "Z(i,j) = A(i,k) * B(k,j)"


def product(order: str = "i,k,j", **tiles: int) -> tuple[Workload, Mapping]:
    tensors = {n: generate("power_law", shape=(80, 80), nnz=600, seed=s) for n, s in (("A", 1), ("B", 2))}
    kinds = tuple((t, ("compressed", "compressed")) for t in "ABZ")
    return Workload(parse_program(PRODUCT), tensors), Mapping(
        (), (Loops(tuple(order.split(",")), tuple(tiles.items())),), kinds
    )


@pytest.mark.parametrize("level", ["L0", "L1", "L2"])
@pytest.mark.parametrize("text", PROGRAMS)
def test_every_level_estimates_every_program(text: str, level: str) -> None:
    rng = np.random.default_rng(2)
    for _ in range(6):
        workload = random_workload(rng, text)
        mapping = random_mapping(rng, workload, "lru")
        found = estimate(workload, mapping, RDA, level=level, statistics=Statistics())
        assert found.latency_cycles > 0 and found.energy_pj > 0 and found.tokens > 0 and found.bottleneck
        assert found.traffic_bytes == pytest.approx(sum(t.bytes for t in found.traffic))
        assert found.latency_cycles == pytest.approx(sum(s.latency_cycles for s in found.steps))
        assert (found.level, found.model_version) == (level, MODEL_VERSION)
        assert json.loads(canonical_json(found)) == plain(found)


def test_traffic_of_an_estimate_is_the_predicted_traffic() -> None:
    workload, mapping = product(i=16, k=16, j=16)
    found = estimate(workload, mapping, RDA, statistics=Statistics())
    assert found.traffic == predict_traffic(workload, mapping, RDA, statistics=Statistics())


def test_multiplies_are_exact_and_do_not_depend_on_the_mapping() -> None:
    for order in ("i,j,k", "i,k,j", "k,i,j"):
        workload, mapping = product(order, i=10, j=30)
        assert estimate(workload, mapping, RDA, statistics=Statistics()).multiplies == workload.effectual_multiplies


def test_equal_calls_give_equal_estimates_whatever_was_counted_before() -> None:
    rng = np.random.default_rng(3)
    workload, _ = product()
    mappings = [MappingSpace(workload, RDA).sample(rng) for _ in range(12)]
    warm = Statistics()
    first = [estimate(workload, m, RDA, statistics=warm) for m in mappings]
    assert [estimate(workload, m, RDA, statistics=warm) for m in reversed(mappings)] == first[::-1]
    assert [estimate(workload, m, RDA, statistics=Statistics()) for m in mappings] == first


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ({"dram_startup_cycles": 5000}, (4500, 5500)),  # once, for the one region
        # About 680 bursts of B's tiles, each a round trip of 8 + 100 cycles for itself.
        ({"dram_outstanding": 1}, (45_000, 65_000)),
        ({"dram_row_bytes": 64, "dram_row_miss_cycles": 400}, (8_000, 60_000)),
        ({"buffer_bytes_per_cycle": 0.25}, (120_000, 160_000)),
    ],
)
def test_fields_of_memory_and_buffers_count(changes: dict[str, int | float], more: tuple[int, int]) -> None:
    workload, mapping = product(i=16, k=16, j=16)
    at_ease, held_up = (
        estimate(workload, mapping, machine, statistics=Statistics()).latency_cycles
        for machine in (RDA, RDA.with_fields(**changes))
    )
    assert more[0] <= held_up - at_ease <= more[1]


def test_energy_is_actions_times_the_table() -> None:
    workload, mapping = product(i=16, k=16, j=16)
    free = dict.fromkeys(plain(RDA.energy), 0.0)

    def priced(**prices: float) -> float:
        machine = RDA.__class__(
            **{**{f: getattr(RDA, f) for f in RDA.__slots__}, "energy": RDA.energy.__class__(**{**free, **prices})}
        )
        return estimate(workload, mapping, machine, statistics=Statistics()).energy_pj

    found = estimate(workload, mapping, RDA, statistics=Statistics())
    assert priced(multiply_pj=1.0) == found.multiplies
    assert priced(add_pj=1.0) == workload.effectual_multiplies - workload.computed["Z"].nnz
    assert priced(token_pj=1.0) == pytest.approx(found.tokens)
    assert priced(buffer_pj_per_byte=1.0) == pytest.approx(found.traffic_bytes)
    assert priced(dram_pj_per_byte=1.0) >= found.traffic_bytes  # whole bursts
    assert priced(compare_pj=1.0) > 0


def test_lanes_divide_time_and_repeat_shared_tiles() -> None:
    dense = {n: SparseTensor.from_dense(np.ones((64, 64))) for n in "AB"}
    workload = Workload(parse_program(PRODUCT), dense)
    kinds = tuple((t, ("dense", "dense")) for t in "ABZ")
    machine = RDA.with_fields(dram_channels=None)
    one, four = (
        estimate(workload, Mapping((), (Loops(("i", "k", "j"), (), lanes),), kinds), machine, statistics=Statistics())
        for lanes in ((), (("i", 4, "block"),))
    )
    assert one.latency_cycles / four.latency_cycles == pytest.approx(4, rel=0.1)
    loads = [
        sum(
            t.bytes
            for t in estimate(workload, Mapping((), (Loops(("i", "k", "j"), (), lanes),), kinds), RDA).traffic
            if t.tensor == "B"
        )
        for lanes in ((), (("i", 4, "block"),))
    ]
    assert loads[1] == 4 * loads[0]


def test_small_fifos_and_slow_memory_cost_time() -> None:
    workload, mapping = product(i=8, k=8, j=8)
    base = estimate(workload, mapping, RDA, statistics=Statistics()).latency_cycles
    for fields in ({"dram_channels": 1}, {"dram_latency_cycles": 1000}, {"fifo_depth": 2}):
        assert estimate(workload, mapping, RDA.with_fields(**fields), statistics=Statistics()).latency_cycles > base


def test_a_machine_without_memory_has_no_traffic() -> None:
    workload, mapping = product(i=16)
    found = estimate(workload, mapping, load_machine("comal"), statistics=Statistics())
    assert found.traffic == () and found.traffic_bytes == 0
    assert "scan" in found.bottleneck or "accumulate" in found.bottleneck or "intersect" in found.bottleneck


def test_empty_tensors_have_estimates() -> None:
    empty = {n: SparseTensor.from_dense(np.zeros((9, 9))) for n in "AB"}
    workload = Workload(parse_program(PRODUCT), empty)
    rng = np.random.default_rng(0)
    for level in ("L0", "L1", "L2"):
        for _ in range(5):
            mapping = random_mapping(rng, workload, "lru")
            found = estimate(workload, mapping, RDA, level=level, statistics=Statistics())
            assert np.isfinite(found.latency_cycles) and found.multiplies == 0


@pytest.mark.parametrize("residency", ["none", "lru", "keep", "overbooked"])
def test_an_operand_without_partners_has_an_estimate(residency: str) -> None:
    """B is empty, so that no prefix is reached, though tiles of X may be loaded before that shows."""
    rng = np.random.default_rng(1)
    tensors = {"X": rng.random((5, 6, 4)) < 0.4, "B": np.zeros((6, 3)), "C": rng.random((4, 3)) < 0.8}
    workload = Workload(
        parse_program("Z(i,r) = X(i,j,k) * B(j,r) * C(k,r)"),
        {n: SparseTensor.from_dense(a.astype(np.float64)) for n, a in tensors.items()},
    )
    for _ in range(20):
        mapping = random_mapping(rng, workload, residency)
        found = estimate(workload, mapping, RDA.with_fields(buffer_bytes=60), statistics=Statistics())
        assert np.isfinite(found.latency_cycles) and found.multiplies == 0


def test_unknown_level() -> None:
    workload, mapping = product()
    with pytest.raises(InputError, match=r"unknown model level 'l2'. Did you mean 'L2'"):
        estimate(workload, mapping, RDA, level="l2")


def test_shared_statistics_use_the_cache_folder(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    shared_statistics.cache_clear()
    monkeypatch.setenv("SPARSELOOM_CACHE", str(tmp_path))
    monkeypatch.setattr("costmodel.statistics.KEPT_ENTRIES", 1)
    workload, mapping = product(i=16, k=16)
    found = estimate(workload, mapping, RDA)
    assert list(tmp_path.rglob("*.npy"))
    shared_statistics.cache_clear()
    assert estimate(workload, mapping, RDA) == found
    shared_statistics.cache_clear()
