"""Small workloads whose spaces hold every kind of knob, for tests of what works on whole mappings."""

from __future__ import annotations

from mapper.formats import parse_format
from mapper.machine import load_machine
from mapper.notation import parse_program
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.synthetic import generate
from mapper.workload import Workload

RDA = load_machine("rda")

PROGRAMS = {
    "product": ("Z(i,j) = A(i,k) * B(k,j)", {"A": (40, 30), "B": (30, 20)}),
    "layer": (
        "Z(i,m) = relu((A(i,j) * X(j,k)) * W(k,m) + b(m))",
        {"A": (24, 24), "X": (24, 24), "W": (24, 8), "b": (8,)},
    ),
    "masked": ("Z(i,j) = M(i,j) * (Q(i,k) * K(j,k))", {"M": (20, 20), "Q": (20, 12), "K": (20, 12)}),
    "tensor": ("Z(i,r) = X(i,j,k) * B(j,r) * C(k,r)", {"X": (12, 10, 9), "B": (10, 8), "C": (9, 8)}),
    "shared": (
        "T(i,j) = A(i,k) * B(k,j)\nY(i,j) = relu(T(i,j))\nz(i) = T(i,j) * v(j)",
        {"A": (20, 16), "B": (16, 18), "v": (18,)},
    ),
    "total": ("s = x(i) * y(i)", {"x": (30,), "y": (30,)}),
}


def workload(name: str) -> Workload:
    """The program of that name on seeded tensors."""
    text, shapes = PROGRAMS[name]
    tensors = {
        tensor: generate("uniform", shape=shape, density=0.9 if len(shape) == 1 else 0.2, seed=seed)
        for seed, (tensor, shape) in enumerate(shapes.items())
    }
    return Workload(parse_program(text), tensors)


def space(name: str) -> MappingSpace:
    """All rewritings, value types of one input, machine fields, lanes over several indices."""
    found = workload(name)
    first = found.program.inputs[0]
    modes = len(PROGRAMS[name][1][first])
    names = ["dense", "csf", "csf:fp16", "dense:int8"] + ["csr", "coo"] * (modes == 2)
    limits = SpaceLimits(
        formats={first: tuple(parse_format(n, modes) for n in names)},
        rewrites=("products", "recompute", "activations"),
        machine={"fifo_depth": (16, 64, None), "dram_bytes_per_cycle": (4.0, 8.5)},
    )
    return MappingSpace(found, RDA, limits)
