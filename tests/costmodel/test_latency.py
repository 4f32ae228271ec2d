"""Lanes that share a memory: worked by hand, and against the simulator."""

from __future__ import annotations

import numpy as np
import pytest
from random_mappings import RDA

from costmodel import Statistics, estimate
from costmodel.factors import Floats
from costmodel.latency import served
from costmodel.traffic import TensorTraffic, Transfer
from hwsim import Limits
from mapper.machine import load_machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.synthetic import generate
from mapper.tensor import SparseTensor
from mapper.workload import Workload
from tuner.evaluate import evaluate


def load(per_lane: Floats) -> Transfer:
    total = float(per_lane.sum())
    return Transfer(TensorTraffic("A", "load", "read", total, 0.0), per_lane.size, total, per_lane, "load A")


@pytest.mark.parametrize(
    ("alone", "loaded", "cycles"),
    [
        # 30 bytes per cycle, 10 for each: after 30 cycles the first two have theirs, the last has 100 to go, at 20
        ([10, 10, 20], [300, 300, 400], 35),
        # the last asks for 10 only, so that the others get 10 as well and end at 30
        ([10, 10, 40], [300, 300, 400], 40),
        # nobody is held up: 6 + 20 bytes per cycle
        ([50, 20], [300, 400], 50),
        # alike: the memory is all that counts, in the other terms
        ([10, 10], [600, 600], 0),
    ],
)
def test_a_memory_serves_all_lanes_alike(alone: list[float], loaded: list[float], cycles: float) -> None:
    assert served(np.array(alone, float), [load(np.array(loaded, float))], 30.0) == pytest.approx(cycles)


@pytest.mark.parametrize("channels", [1, 2])
def test_the_lane_that_loads_most_ends_by_itself(channels: int) -> None:
    """Of 32 lanes over rows the last has ten times as many entries as any other, and its tiles never come back."""
    rng = np.random.default_rng(3)
    a = rng.random((256, 256)) < np.where(np.arange(256) < 248, 0.06, 0.6)[:, None]
    b = rng.random((256, 64)) < 0.2
    tensors = {"A": SparseTensor.from_dense(a * 1.0), "B": SparseTensor.from_dense(b * 1.0)}
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), tensors)
    loops = Loops(("i", "k", "j"), (("i", 1), ("k", 2), ("j", 8)), (("i", 32, "blocks"),))
    mapping = Mapping((), (loops,), tuple((t, ("compressed", "compressed")) for t in "ABZ"))
    machine = RDA.with_fields(buffer_bytes=512, dram_channels=channels, dram_bytes_per_cycle=4.0)
    found = estimate(workload, mapping, machine, statistics=Statistics())
    ran = evaluate(workload, mapping, machine, Limits(max_tokens=10**7))
    assert ran.failure is None
    assert ran.latency_cycles > 1.15 * ran.traffic_bytes / machine.bytes_per_cycle
    assert found.latency_cycles == pytest.approx(ran.latency_cycles, rel=0.05)


@pytest.mark.parametrize("room", [2, 5, 10, 16])
def test_small_accumulators_read_back_once_per_drain(room: int) -> None:
    """Runs of so many entries, written one behind the other wherever bursts begin, and read at once in the end."""
    a, b = (generate("uniform", seed=n, shape=(100, 100), density=0.04) for n in (1, 2))
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), {"A": a, "B": b})
    mapping = Mapping((), (Loops(("k", "i", "j")),), tuple((t, ("compressed",) * 2) for t in "ABZ"))
    machine = RDA.with_fields(accumulator_bytes=12 * room)
    ran = evaluate(workload, mapping, machine, Limits())
    found = estimate(workload, mapping, machine, statistics=Statistics())
    assert found.latency_cycles == pytest.approx(ran.latency_cycles, rel=0.25)
    assert found.energy_pj == pytest.approx(ran.energy_pj, rel=0.01)


def test_small_tiles_are_stored_one_behind_the_other() -> None:
    """Tiles of some 50 bytes touch two bursts of 64 more often than one; conversions move whole bursts."""
    tensors = {
        name: generate("uniform", seed=n, shape=shape, density=density)
        for n, (name, shape, density) in enumerate(
            [("A", (128, 128), 0.03), ("X", (128, 128), 0.03), ("W", (128, 8), 0.3)]
        )
    }
    workload = Workload(parse_program("T(i,k) = A(i,j) * X(j,k)\nZ(i,m) = T(i,k) * W(k,m)"), tensors)
    loops = (Loops(("i", "j", "k"), (("i", 4), ("k", 4))), Loops(("i", "k", "m")))
    mapping = Mapping((True,), loops, tuple((t, ("compressed",) * 2) for t in "ATWXZ"))
    ran, found = evaluate(workload, mapping, RDA, Limits()), estimate(workload, mapping, RDA, statistics=Statistics())
    assert found.energy_pj == pytest.approx(ran.energy_pj, rel=0.001)


def test_sums_that_are_made_side_by_side_take_the_time_of_one() -> None:
    """Neither product reads the other: 600 columns are scanned at once for both, and then the sum, of few entries. As a
    chain of three the second would wait for all of the first, which drains at its end."""
    a, b = (generate("uniform", seed=seed, shape=(12, 600), density=0.5) for seed in (1, 2))
    workload = Workload(parse_program("Z(i) = sum(j, A(i,j)) + sum(j, B(i,j))"), {"A": a, "B": b})
    sums = Loops(("j", "i"))
    formats = tuple((name, ("compressed",) * (1 + (name != "Z"))) for name in "ABZ")
    mapping = Mapping((False, False), (sums, sums, Loops(("i",))), formats)
    machine = RDA.with_fields(buffer_bytes=1 << 20)
    simulated = evaluate(workload, mapping, machine, Limits()).latency_cycles
    predicted = estimate(workload, mapping, machine, statistics=Statistics()).latency_cycles
    assert simulated == pytest.approx(predicted, rel=0.15)
    alone = Workload(parse_program("Z(i) = sum(j, A(i,j))"), {"A": a})
    single = Mapping((), (sums,), tuple(f for f in formats if f[0] != "B"))
    assert simulated < 1.5 * evaluate(alone, single, machine, Limits()).latency_cycles


@pytest.mark.parametrize("outstanding", [None, 4])
@pytest.mark.parametrize("machine", ["rda", "extensor", "comal-hbm"])
@pytest.mark.parametrize("entries", [0, 3, 9000])
def test_conversions(entries: int, machine: str, outstanding: int | None) -> None:
    """Of few entries the latency of the first read is all that counts, of many it is hidden unless few bursts may be in
    flight; of none there is none."""
    a = generate("uniform", seed=1, shape=(300, 200), density=entries / 60_000)
    workload = Workload(parse_program("Z(i) = sum(j, A(i,j))\nY(j) = sum(i, A(i,j))"), {"A": a})
    loops = (Loops(("i", "j"), (("i", 64),)), Loops(("j", "i"), (("j", 64),)))
    mapping = Mapping((), loops, (("A", ("compressed",) * 2), ("Y", ("compressed",)), ("Z", ("compressed",))))
    own = load_machine(machine).with_fields(dram_outstanding=outstanding)
    (predicted,) = (s for s in estimate(workload, mapping, own).steps if s.name == "convert A")
    (simulated,) = (s for s in evaluate(workload, mapping, own, Limits()).summary["steps"] if s["name"] == "convert A")
    assert predicted.latency_cycles == pytest.approx(simulated["cycles"], rel=0.03)
    assert bool(simulated["cycles"]) == (entries > 0)
