"""Lower bounds never exceed what is simulated, and meet it where everything is certain."""

from __future__ import annotations

import numpy as np
import pytest
from random_programs import random_case

import costmodel.products
from costmodel import Statistics, estimate
from costmodel.bounds import bounds
from hwsim import Limits
from mapper.machine import Machine, load_machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.residency import RESIDENCIES
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.synthetic import generate
from mapper.tensor import SparseTensor
from mapper.workload import Workload
from tuner.evaluate import evaluate

RDA = load_machine("rda")
MEASURES = ("latency_cycles", "traffic_bytes", "energy_pj")

KERNELS = {
    "Z(i,j) = A(i,k) * B(k,j)": {"A": ("power_law", (60, 60), 0.06), "B": ("uniform", (60, 50), 0.08)},
    "Z(i,r) = X(i,j,k) * B(j,r) * C(k,r)": {
        "X": ("uniform", (20, 15, 10), 0.04),
        "B": ("uniform", (15, 4), 0.7),
        "C": ("uniform", (10, 4), 1.0),
    },
    "Z(i,j) = S(i,j) * A(i,k) * B(k,j)": {
        "S": ("uniform", (30, 30), 0.1),
        "A": ("uniform", (30, 6), 0.5),
        "B": ("uniform", (6, 30), 0.5),
    },
    "Z(i,j) = A(i,j) - b(i) + c(j)": {
        "A": ("uniform", (40, 30), 0.1),
        "b": ("uniform", (40,), 0.2),
        "c": ("uniform", (30,), 0.1),
    },
    "Z(i,j,k) = X(i,j,k) + b(i) + D(j,k)": {
        "X": ("uniform", (12, 10, 9), 0.05),
        "b": ("uniform", (12,), 0.2),
        "D": ("uniform", (10, 9), 0.1),
    },
}


def check(workload: Workload, mapping: Mapping, machine: Machine) -> list[float] | None:
    """bound / simulated of every measure; None for a case that deadlocks."""
    result = evaluate(workload, mapping, machine, Limits(max_cycles=2_000_000))
    if result.failure is not None:
        return None
    least = bounds(workload, mapping, machine)
    ratios = []
    for measure in MEASURES:
        bound, value = getattr(least, measure), getattr(result, measure)
        assert 0 <= bound <= value * (1 + 1e-9), (measure, bound, value, workload.program, mapping, machine)
        ratios.append(bound / value if value else 1.0)
    return ratios


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # programs of any functions of any values
@pytest.mark.parametrize("seed", range(3))
def test_random_programs(seed: int) -> None:
    rng, ran = np.random.default_rng([17, seed]), 0
    while ran < 40:
        workload, mapping, machine = random_case(rng)
        computed = workload.variant(mapping.variant).computed.values()
        if all(np.isfinite(t.values).all() for t in computed):
            ran += check(workload, mapping, machine) is not None


@pytest.mark.parametrize("text", KERNELS)
def test_kernels_with_small_buffers(text: str) -> None:
    rng, found = np.random.default_rng(3), list[list[float]]()
    tensors = {}
    for seed, (name, (kind, shape, density)) in enumerate(KERNELS[text].items()):
        size = {"nnz": int(density * shape[0] * shape[1])} if kind == "power_law" else {"density": density}
        tensors[name] = generate(kind, shape=shape, seed=seed, **size)
    workload = Workload(parse_program(text), tensors)
    while len(found) < 30:
        rooms = {"buffer_bytes": int(rng.choice([256, 1024])), "accumulator_bytes": int(rng.choice([96, 2048]))}
        machine = RDA.with_fields(**rooms)
        space = MappingSpace(workload, machine, SpaceLimits(residency=tuple(RESIDENCIES), max_lanes=4))
        found += [r for _ in range(10) if (r := check(workload, space.sample(rng), machine))]
    assert (np.median(found, axis=0) > [0.4, 0.6, 0.6]).all()  # a bound of nothing would pass the rest


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("Z(o,p) = X(c,p+r) * W(o,c,r)", {"X": (3, 10), "W": (4, 3, 3)}),
        ("Z(o,p,q) = X(c,p+r,q+s) * W(o,c,r,s)", {"X": (2, 7, 6), "W": (3, 2, 2, 2)}),
        ("Z(p) = X(4*p) * W(p)", {"X": (400,), "W": (100,)}),
        ("Z(i,j) = pattern(A(i,k)) * B(k,j)", {"A": (30, 30), "B": (30, 30)}),
    ],
)
def test_windows_and_patterns(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    """What a view reads is not what it makes, in place nothing moves, and a pattern's values are not read."""
    rng = np.random.default_rng(4)
    tensors = {n: generate("uniform", seed=k, shape=s, density=0.4) for k, (n, s) in enumerate(shapes.items())}
    workload = Workload(parse_program(text), tensors)
    space = MappingSpace(workload, RDA, SpaceLimits(max_lanes=2))
    ran = [check(workload, space.sample(rng), RDA) for _ in range(12)]
    assert sum(ratios is not None for ratios in ran) > 6


def test_traffic_without_reuse_or_spills_is_exact() -> None:
    """Two tiles of A, (0,0) and (1,1), each meet two tiles of B; every visit of B loads anew."""
    eye = SparseTensor.from_dense(np.eye(4))
    full = SparseTensor.from_dense(np.ones((4, 4)))
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), {"A": eye, "B": full})
    compressed = ("compressed", "compressed")
    loops = Loops(("i", "k", "j"), (("i", 2), ("k", 2), ("j", 2)))
    mapping = Mapping((), (loops,), (("A", compressed), ("B", compressed), ("Z", compressed)))
    machine = RDA.with_fields(value_bytes=4, coordinate_bytes=4, pointer_bytes=4, descriptor_bytes=0)
    # A tile: 2 rows of 1: 2 values, 2 + 2 coordinates, 2 + 3 pointers, 44 bytes, once each. B and Z tiles: 2 rows of 2:
    # 4 values, 2 + 4 coordinates, 2 + 3 pointers, 60 bytes, B's four once, Z's four once.
    assert bounds(workload, mapping, machine).traffic_bytes == 2 * 44 + 4 * 60 + 4 * 60
    assert evaluate(workload, mapping, machine, Limits()).traffic_bytes == 568
    assert estimate(workload, mapping, machine).traffic_bytes == 568


def test_reuse_leaves_first_visits() -> None:
    """With one row of tiles of B revisited for each of 5 rows of A, only the first visits are certain to load."""
    a, b = SparseTensor.from_dense(np.ones((5, 1))), SparseTensor.from_dense(np.ones((1, 6)))
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), {"A": a, "B": b})
    dense = ("dense", "dense")

    def least(residency: str) -> float:
        loops = Loops(("i", "k", "j"), (("i", 1), ("j", 2)))
        mapping = Mapping((), (loops,), (("A", dense), ("B", dense), ("Z", dense)), residency)
        return bounds(workload, mapping, RDA).traffic_bytes

    # 15 visits of 3 tiles of two values each; k is not tiled, so A's tiles are visited once each
    assert least("none") - least("lru") == (15 - 3) * (2 * RDA.value_bytes + RDA.descriptor_bytes)


def test_sampled_counts_bound_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A triangle count joins pairs; where too many are sampled, only what needs no pairs is left."""
    rng = np.random.default_rng(0)
    tensors = {n: SparseTensor.from_dense((rng.random((30, 30)) < 0.3) * 1.0) for n in "SAB"}
    workload = Workload(parse_program("Z(i,j) = S(i,j) * A(i,k) * B(k,j)"), tensors)
    compressed = ("compressed", "compressed")
    mapping = Mapping((), (Loops(("i", "j", "k")),), tuple((n, compressed) for n in "ABSZ"))
    exact = bounds(workload, mapping, RDA, statistics=Statistics())
    monkeypatch.setattr(costmodel.products, "MOST_PAIRS", 777)
    assert bounds(workload, mapping, RDA, statistics=Statistics()).latency_cycles < exact.latency_cycles
