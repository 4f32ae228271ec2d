"""Entries of results."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel import Statistics, estimate
from hwsim import Limits
from mapper.machine import load_machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.synthetic import uniform
from mapper.tensor import SparseTensor
from mapper.workload import Workload
from tuner.evaluate import evaluate


def test_a_sparse_relu_leaves_the_known_entries_only() -> None:
    rng = np.random.default_rng(1)
    tensors = {"A": SparseTensor.from_dense(rng.normal(size=(30, 30))), "W": uniform((30, 8), 0.3, 2)}
    workload = Workload(parse_program("T(i,k) = sparse_relu(A(i,k))\nZ(i,m) = T(i,k) * W(k,m)"), tensors)
    loops = Loops(("i", "k")), Loops(("i", "k", "m"))
    mapping = Mapping((True,), loops, tuple((n, ("compressed",) * 2) for n in "ATWZ"))
    simulated = evaluate(workload, mapping, load_machine("rda"), Limits())
    assert estimate(workload, mapping, load_machine("rda"), statistics=Statistics()).traffic_bytes == pytest.approx(
        simulated.traffic_bytes
    )
