"""Random programs on small random tensors, lowered by random legal mappings: graphs with an oracle for their values."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from hwsim import Profile
from mapper.errors import EmptySpace
from mapper.formats import Format, parse_format, writable
from mapper.graph import Graph
from mapper.lowering import collect_output, lower_conversion, lower_region
from mapper.machine import Machine, load_machine
from mapper.mapping import Mapping
from mapper.notation import CALLABLE, parse_program
from mapper.residency import RESIDENCIES
from mapper.schedule import Conversion, Region, schedule
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.storage import Layout, Storage, store_tensor
from mapper.synthetic import uniform
from mapper.workload import Workload

RDA = load_machine("rda")

FORMATS = {
    0: ["dense"],
    1: ["bitmap", "rle", "2:4", "3:4"],
    2: ["bitmap", "bitmask,bitmask", "coo", "rle", "3:4", "dense,2x2", "compressed,2:4"],
    3: ["bitmap", "coo", "dense,nonunique,singleton", "rle", "3:4,bitmask,compressed", "compressed,dense,2x2"],
}

TILES: tuple[tuple[int, ...], ...] = ((0,), (0, 2, 3), (2, 3))
"""Choices of tile extents of an index; 0: not tiled."""


@dataclass(frozen=True)
class LoweredStep:
    """One step of a schedule: its operands are the oracle's, and so is what it must store."""

    graph: Graph
    workload: Workload
    mapping: Mapping
    step: Region | Conversion

    def wrong_values(self, profile: Profile) -> str:
        """What the stored tensors differ in from the oracle's; empty if in nothing."""
        if isinstance(self.step, Conversion):
            return ""
        for name, _ in self.step.stored:
            parts = [out for unit, out in sorted(profile.outputs.items()) if unit.split("@")[0] == f"store {name}"]
            output = collect_output(self.workload, self.mapping, self.workload.program.producers[name], parts)
            got, want = output.to_dense(), self.workload.tensor(name).to_dense()
            if not self._all_finite():  # times a zero that a format stores, N:M say, this is NaN where nothing is
                want = np.where(np.isnan(got) & (want == 0), np.nan, want)
            if not np.allclose(got, want, rtol=1e-9, atol=1e-12, equal_nan=True):
                return f"{name} is\n{got}\nmust be\n{want}"
        return ""

    def _all_finite(self) -> bool:
        return all(np.isfinite(self.workload.tensor(name).values).all() for name in self.workload.program.producers)


def random_step(rng: np.random.Generator) -> LoweredStep:
    """A random step of a random program."""
    workload, mapping, machine = random_case(rng)
    workload = workload.variant(mapping.variant)
    steps = schedule(workload.program, mapping).steps
    step = steps[int(rng.integers(len(steps)))]

    def storage_of(tensor: str, layout: Layout) -> Storage:
        return store_tensor(workload.tensor(tensor), layout, machine)

    if isinstance(step, Conversion):
        graph = lower_conversion(step, machine, storage_of)
    else:
        graph = lower_region(workload, mapping, machine, step, storage_of)
    return LoweredStep(graph, workload, mapping, step)


def random_case(rng: np.random.Generator) -> tuple[Workload, Mapping, Machine]:
    """A random program on random data, a mapping and a machine for it. Draws again where no mapping is found."""
    while True:
        try:
            workload = _workload(rng)
            machine = random_machine(rng)
            indices = (i for s in workload.program.statements for i in s.indices)
            tiles: dict[str, tuple[int, ...]] = {i: TILES[rng.integers(len(TILES))] for i in indices}
            lanes = int(rng.choice([1, 1, 2, 4]))
            limits = SpaceLimits(
                max_lanes=lanes, tiles=tiles, residency=tuple(RESIDENCIES), formats=_formats(rng, workload)
            )
            return workload, MappingSpace(workload, machine, limits).sample(rng, tries=50), machine
        except EmptySpace:
            continue


def _formats(rng: np.random.Generator, workload: Workload) -> dict[str, tuple[Format, ...]]:
    """Half the tensors in a format of any kind, results in one that can be written."""
    chosen = {}
    for name, ndim in {
        a.tensor: len(a.indices) for s in workload.program.statements for a in (s.target, *s.operands)
    }.items():
        if rng.random() < 0.5:
            forms = (parse_format(str(rng.choice(FORMATS[ndim])), ndim),)
            if writable(forms[0].kinds) or name not in workload.program.producers:
                chosen[name] = forms
    return chosen


def random_machine(rng: np.random.Generator) -> Machine:
    """A machine of random memory, buffers and drain; units without end."""
    dram, burst = bool(rng.random() < 0.6), int(rng.choice([8, 32, 64]))

    def sometimes(values: list[Any], neutral: Any = None) -> Any:
        return values[rng.integers(len(values))] if rng.random() < 0.5 else neutral

    return dataclasses.replace(
        RDA,
        units=None,
        prefetch_tiles=int(rng.integers(1, 4)),
        buffer_bytes=[None, 64, 512][rng.integers(3)],
        accumulator_bytes=[None, 16, 48][rng.integers(3)],
        drain_cycles_per_entry=int(rng.integers(0, 3)),
        descriptor_bytes=int(rng.choice([0, 8])),
        dram_channels=int(rng.integers(1, 5)) if dram else None,
        dram_bytes_per_cycle=float(rng.choice([1.0, 3.0, 8.0, 64.0])),
        dram_burst_bytes=burst,
        dram_latency_cycles=int(rng.choice([0, 5, 40])),
        dram_interleave_bytes=sometimes([2 * burst, 5 * burst]),
        dram_startup_cycles=sometimes([3, 60], 0),
        dram_row_bytes=sometimes([burst, 3 * burst, 8 * burst]),
        dram_row_hit_cycles=sometimes([1, 2], 0),
        dram_row_miss_cycles=sometimes([4, 15], 0),
        dram_outstanding=sometimes([1, 2, 5]),
        buffer_banks=int(rng.integers(1, 4)),
        buffer_bytes_per_cycle=sometimes([0.6, 1.0, 2.0, 16.0]),
    )


def _workload(rng: np.random.Generator) -> Workload:
    text, inputs = _program(rng)
    extents = {i: int(rng.integers(1, 9)) for i in "ijkl"}
    program = parse_program(text)
    densities = rng.choice([0.0, 0.2, 0.4, 0.7, 1.0], p=[0.04, 0.3, 0.36, 0.2, 0.1], size=len(inputs))
    return Workload(
        program,
        {
            name: uniform([extents[i] for i in indices], float(d), int(rng.integers(2**31)))
            for (name, indices), d in zip(inputs.items(), densities, strict=True)
        },
    )


def _program(rng: np.random.Generator) -> tuple[str, dict[str, str]]:
    """One or two statements as text, and the indices of every input tensor."""
    inputs: dict[str, str] = {}

    def access(indices: str) -> str:
        name = "ABCDEFG"[len(inputs)]
        inputs[name] = indices
        return f"{name}({','.join(indices)})"

    def some(pool: str, low: int, high: int) -> str:
        return "".join(map(str, rng.permutation(list(pool))[: int(rng.integers(low, high + 1))]))

    def statement(target: str, first: str, indices: str) -> tuple[str, str]:
        """Text of a statement that reads ``first``, which has ``indices``, and the indices of its target."""
        kind = rng.choice(["contract", "add", "map"], p=[0.6, 0.25, 0.15])
        if kind == "map":
            right = f"{rng.choice(sorted(CALLABLE))}({first})"
        elif kind == "add":
            signs = rng.choice(["+", "-"], int(rng.integers(1, 3)))
            right = " ".join([first, *(f"{sign} {access(some(indices, len(indices), 9))}" for sign in signs)])
        else:
            others = [some("ijkl", 1, 3) for _ in range(int(rng.integers(0, 3)))]
            right = " * ".join([first, *map(access, others)])
            indices = some("".join(dict.fromkeys("".join([indices, *others]))), 0, 3)
        return f"{target}({','.join(indices)}) = {right}" if indices else f"{target} = {right}", indices

    operand = some("ijk", 1, 3)
    made, indices = statement("T", access(operand), operand)
    if rng.random() < 0.6 or not indices:
        return made, inputs
    read = f"T({','.join(indices)})"
    return f"{made}\n{statement('Z', read, indices)[0]}", inputs
