"""Predicted traffic, tokens and cycles against simulated ones, on random mappings of whole programs."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from random_mappings import RDA

from costmodel import Statistics, estimate, screen
from hwsim import Profile, simulate
from mapper.lowering import lower_conversion, lower_region
from mapper.machine import Machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.residency import RESIDENCIES
from mapper.schedule import Conversion, schedule
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.storage import Layout, Storage, store_tensor
from mapper.synthetic import generate
from mapper.tensor import SparseTensor
from mapper.windows import in_place
from mapper.workload import Workload

LAYER = {
    "A": ("power_law", {"shape": (60, 60), "nnz": 300}),
    "X": ("uniform", {"shape": (60, 40), "density": 0.1}),
    "W": ("dense", {"shape": (40, 8)}),
    "b": ("dense", {"shape": (8,)}),
}
CASES = {
    "Z(i,j) = A(i,k) * B(k,j)": {
        "A": ("power_law", {"shape": (120, 120), "nnz": 1200}),
        "B": ("power_law", {"shape": (120, 120), "nnz": 1200}),
    },
    "Z(i,m) = relu((A(i,j)*X(j,k))*W(k,m) + b(m))": LAYER,
    "Z(i,r) = X(i,j,k) * B(j,r) * C(k,r)": {
        "X": ("uniform", {"shape": (40, 30, 20), "density": 0.03}),
        "B": ("dense", {"shape": (30, 6)}),
        "C": ("dense", {"shape": (20, 6)}),
    },
    "Z(o,p,q) = X(c,2*p+r-1,q+s) * W(o,c,r,s)": {
        "X": ("uniform", {"shape": (8, 16, 16), "density": 0.2}),
        "W": ("uniform", {"shape": (6, 8, 3, 3), "density": 0.3}),
    },
}

WITHIN = {"none": 1 + 1e-6, "lru": 1.1, "keep": 1.1, "overbooked": 1.1}
"""Predicted over counted loads of a tensor, at most; long walks are replayed in part."""


def simulated(workload: Workload, mapping: Mapping, machine: Machine) -> list[Profile]:
    workload = workload.variant(mapping.variant)
    steps = schedule(workload.program, mapping).steps
    views = {step.made: step for step in steps if isinstance(step, Conversion) and step.in_place}

    def store(tensor: SparseTensor, layout: Layout) -> Storage:
        return store_tensor(tensor, layout, machine)

    def stored(name: str, layout: Layout) -> Storage:
        tensor = workload.tensor(name)
        found = store(tensor, layout)
        return in_place(workload, views[name], tensor, found, store) if name in views else found

    return [
        simulate(
            lower_conversion(step, machine, stored)
            if isinstance(step, Conversion)
            else lower_region(workload, mapping, machine, step, stored)
        )
        for step in steps
    ]


@pytest.mark.parametrize("text", CASES)
def test_random_mappings(text: str) -> None:
    rng = np.random.default_rng(21)
    machine = RDA.with_fields(buffer_bytes=1024, accumulator_bytes=2048)
    tensors = {n: generate(kind, seed=s, **p) for s, (n, (kind, p)) in enumerate(CASES[text].items())}
    workload = Workload(parse_program(text), tensors)
    space = MappingSpace(workload, machine, SpaceLimits(residency=tuple(RESIDENCIES)))
    statistics, errors, overflowing = Statistics(), list[Any](), 0
    while len(errors) < 40:
        mapping = space.sample(rng)
        if screen(workload, mapping, machine, statistics):
            continue
        profiles = simulated(workload, mapping, machine)
        if any(p.status != "done" for p in profiles):
            continue
        found = estimate(workload, mapping, machine, statistics=statistics)
        overflowing += any(size > machine.buffer_bytes for _, size in found.largest_tiles)
        moved: Counter[str] = Counter()
        for row in (r for p in profiles for r in p.traffic if r.direction == "read" and r.tensor in workload.tensors):
            moved[row.tensor] += row.values_bytes + row.metadata_bytes
        for tensor, count in moved.items():
            reads = sum(t.bytes for t in found.traffic if (t.tensor, t.direction) == (tensor, "read"))
            assert abs(math.log(reads / count)) < math.log(WITHIN[mapping.residency]), mapping
        cycles, tokens = sum(p.cycles for p in profiles), sum(p.tokens for p in profiles)
        assert found.multiplies == sum(p.effectual_multiplies for p in profiles)
        errors.append(np.abs(np.log([found.latency_cycles / cycles, found.tokens / tokens])))
    latency, tokens = np.exp(np.mean(errors, axis=0))
    assert latency < 1.15
    assert tokens < 1.05
    assert overflowing


@pytest.mark.parametrize("text", ["Z(i,j) = A(i,j) + b(i)", "Z(i,j) = b(i) - c(j) + A(i,j)"])
def test_a_sum_with_broadcasts_is_written_as_large_as_predicted(text: str) -> None:
    rng, program = np.random.default_rng(3), parse_program(text)
    shapes, every = {"A": (40, 30), "b": (40,), "c": (30,)}, ("uniform", {"density": 0.1})
    tensors = {n: generate(every[0], seed=5, shape=shapes[n], **every[1]) for n in program.inputs}
    workload, statistics = Workload(program, tensors), Statistics()
    space = MappingSpace(workload, RDA, SpaceLimits(residency=("none",)))
    for _ in range(40):
        mapping = space.sample(rng)
        (profile,) = simulated(workload, mapping, RDA)
        written = sum(r.values_bytes + r.metadata_bytes for r in profile.traffic if r.direction == "write")
        found = estimate(workload, mapping, RDA, statistics=statistics)
        assert sum(t.bytes for t in found.traffic if t.direction == "write") == pytest.approx(written), mapping
        read = sum(r.values_bytes + r.metadata_bytes for r in profile.traffic if r.direction == "read")
        assert sum(t.bytes for t in found.traffic if t.direction == "read") == pytest.approx(read), mapping


def test_nothing_starts_before_whole_operands_are_loaded() -> None:
    """Two full matrices that are not tiled take about as long to load as their products, which wait for them."""
    full = {"A": ("dense", {"shape": (24, 900)}), "B": ("dense", {"shape": (900, 1)})}
    tensors = {name: generate(kind, seed=1, **fields) for name, (kind, fields) in full.items()}
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), tensors)
    dense = (("A", ("dense", "dense")), ("B", ("dense", "dense")), ("Z", ("dense", "dense")))
    machine = RDA.with_fields(dram_channels=1, dram_bytes_per_cycle=4)
    mapping = Mapping((), (Loops(("i", "j", "k")),), dense)
    (profile,) = simulated(workload, mapping, machine)
    products, loading = 24 * 900, 25 * 900 * 4 / 4
    assert profile.cycles > products + loading
    assert estimate(workload, mapping, machine).latency_cycles == pytest.approx(profile.cycles, rel=0.02)
