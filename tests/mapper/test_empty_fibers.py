"""Which statements may make fibers that hold no entry."""

from __future__ import annotations

import numpy as np
import pytest

from mapper.empty_fibers import hollow_statements
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.tensor import SparseTensor
from mapper.workload import Workload

SPARSE, FULL = np.eye(4), np.ones((4, 4))
CSF, CSR = ("compressed", "compressed"), ("dense", "compressed")


@pytest.mark.parametrize(
    ("text", "a", "kinds", "hollow"),
    [
        ("Z(i,j) = relu(A(i,j))", SPARSE, CSF, {}),
        ("Z(i,j) = relu(A(i,j))", SPARSE, CSR, {0: ({"i"}, False)}),
        ("Z(i) = A(i,j) * A(i,j)", SPARSE, CSR, {0: (set(), True)}),
        ("Z(i,j) = A(i,j) * B(i,j)", SPARSE, CSF, {0: (set(), True)}),
        ("Z(i,j) = A(i,j) * B(i,j)", FULL, CSF, {}),
        ("Z(i,j) = A(i,j) + B(i,j)", SPARSE, CSF, {}),
        ("Z(i,j) = A(i,j) + B(i,j)", SPARSE, CSR, {0: ({"i"}, False)}),
        ("T(i,j) = relu(A(i,j))\nM(i) = max(j, T(i,j))\nZ(i,j) = T(i,j) .- M(i)", SPARSE, CSF, {}),
        ("T(i,j) = relu(A(i,j))\nM(i) = max(j, T(i,j))\nZ(i,j) = T(i,j) .- M(i)", SPARSE, CSR, {0: ({"i"}, False)}),
    ],
)
def test_hollow_statements(
    text: str, a: np.ndarray, kinds: tuple[str, ...], hollow: dict[int, tuple[set[str], bool]]
) -> None:
    program = parse_program(text)
    tensors = {n: SparseTensor.from_dense(a if n == "A" else SPARSE) for n in program.inputs}
    formats = tuple((n, kinds if n == "A" else CSF) for n in (*program.inputs, "Z"))
    loops = tuple(Loops(s.indices) for s in program.statements)
    mapping = Mapping((False,) * len(program.edges), loops, formats)
    assert hollow_statements(Workload(program, tensors), mapping, tuple(range(len(program.statements)))) == hollow
