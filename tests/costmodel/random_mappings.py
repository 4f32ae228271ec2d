"""Random workloads and mappings for the tests of the cost model."""

from __future__ import annotations

import numpy as np

from mapper.machine import Machine, load_machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.tensor import SparseTensor
from mapper.workload import Workload

RDA = load_machine("rda")

PROGRAMS = {
    "Z(i,j) = A(i,k) * B(k,j)": {"A": (17, 23), "B": (23, 14)},
    "y(i) = A(i,j) * x(j)": {"A": (21, 18), "x": (18,)},
    "Z(i,j) = S(i,j) * A(i,k) * B(k,j)": {"S": (12, 13), "A": (12, 9), "B": (9, 13)},
    "Z(i,r) = X(i,j,k) * B(j,r) * C(k,r)": {"X": (9, 8, 7), "B": (8, 5), "C": (7, 5)},
    "Z(i,j) = A(i,j) + B(i,j) - C(j,i)": {"A": (12, 17), "B": (12, 17), "C": (17, 12)},
    "Z(i,j) = A(i,j) + b(j)": {"A": (12, 17), "b": (17,)},
    "Z(i,j) = A(i,j) + b(i) - c(j)": {"A": (12, 17), "b": (12,), "c": (17,)},
    "Z(i,j) = sigmoid(A(i,j))": {"A": (12, 17)},
    "Z(j,i) = A(i,j)": {"A": (12, 17)},
}


def random_tensor(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> SparseTensor:
    """Entries drawn with skewed chances, so that rows differ."""
    skew = rng.random(shape) * (1 + np.arange(shape[0]).reshape(-1, *[1] * (len(shape) - 1)) % 3)
    return SparseTensor.from_dense((skew < 2 * density) * rng.integers(1, 9, shape) / 8.0)


def random_workload(rng: np.random.Generator, text: str) -> Workload:
    """The program on random tensors of mixed densities."""
    shapes = PROGRAMS[text]
    return Workload(
        parse_program(text), {n: random_tensor(rng, s, rng.choice([0.03, 0.15, 0.4])) for n, s in shapes.items()}
    )


def random_mapping(
    rng: np.random.Generator, workload: Workload, residency: str = "none", padded: bool = False
) -> Mapping:
    """A legal-looking mapping with random orders, tiles, formats and lanes, not bound by unit budgets. ``padded``
    allows dense innermost levels of sparse operands, which store zeros."""
    space = MappingSpace(workload, RDA.with_fields(fifo_depth=64), SpaceLimits(variants=("",)))
    base = space.sample(rng)
    loops = []
    for number, plan in enumerate(base.loops):
        extents = workload.extents[number]
        tiles = tuple(
            (i, int(rng.integers(1, extents[i]))) for i in sorted(extents) if extents[i] > 1 and rng.random() < 0.6
        )
        tiles = tuple(tiles[n] for n in rng.permutation(len(tiles)))
        steps = {i: -(-extents[i] // dict(tiles).get(i, 1)) for i in extents}
        parallel = tuple((i, min(lanes, steps[i]), dealt) for i, lanes, dealt in plan.parallel if steps[i] > 1)
        loops.append(Loops(plan.order, tiles, parallel))
    formats = []
    for tensor, kinds in base.formats:
        chosen = rng.choice(["dense", "compressed"], size=len(kinds)).tolist()
        if kinds and not padded and tensor in workload.tensors and workload.tensors[tensor].density < 1:
            chosen[-1] = "compressed"
        formats.append((tensor, tuple(chosen)))
    return Mapping(base.cuts, tuple(loops), tuple(formats), residency)


def small_buffers(machine: Machine = RDA, buffer_bytes: int = 400, accumulator_bytes: int = 240) -> Machine:
    """A machine whose buffers overflow on small tensors."""
    return machine.with_fields(buffer_bytes=buffer_bytes, accumulator_bytes=accumulator_bytes)
