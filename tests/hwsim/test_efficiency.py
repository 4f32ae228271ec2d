"""The sparse efficiency gap of a golden graph, worked by hand."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from golden_graphs import CASES, golden_graph, golden_matrix

from hwsim import Efficiency, dense_multiplies, peak_multiplies_per_cycle, simulate, sparse_efficiency
from mapper.errors import InputError
from mapper.machine import load_machine
from mapper.notation import parse_program
from mapper.tensor import SparseTensor
from mapper.workload import Workload


def workload(text: str, **shapes: tuple[int, ...]) -> Workload:
    tensors = {name: SparseTensor.from_dense(np.ones(shape)) for name, shape in shapes.items()}
    return Workload(parse_program(text), tensors)


def test_gap_of_a_golden_graph() -> None:
    # s4: 64 multiplies if dense, 15 useful ones, 45 cycles; at 4 per cycle the dense product takes 16 cycles.
    found = sparse_efficiency(simulate(golden_graph("ikj", "s4")[0]), 64, 4)
    assert found == Efficiency(64, 15, 4, 45)
    assert found.dense_cycles == 16
    assert found.work_saved == pytest.approx(64 / 15)
    assert found.speedup == pytest.approx(16 / 45)
    assert found.gap == pytest.approx(12.0)


def test_gap_of_a_machine_at_peak_is_one() -> None:
    assert Efficiency(1000, 50, 5, 10).gap == pytest.approx(1.0)
    assert Efficiency(1000, 1000, 5, 200).gap == pytest.approx(1.0)
    assert Efficiency(1000, 50, 5, 100).gap == pytest.approx(10.0)
    assert Efficiency(1000, 0, 5, 10).gap == math.inf


def test_dense_multiplies() -> None:
    assert dense_multiplies(workload("Z(i,j) = A(i,k) * B(k,j)", A=(2, 3), B=(3, 5))) == 30
    assert dense_multiplies(workload("Z(i,j) = A(i,k) + B(i,k)".replace("k", "j"), A=(2, 3), B=(2, 3))) == 0
    assert dense_multiplies(workload("Z(i,j) = A(i,j) * B(i,k) * C(k,j)", A=(2, 5), B=(2, 3), C=(3, 5))) == 2 * 30
    chain = workload("H(i,k) = A(i,j) * X(j,k)\nZ(i,m) = relu(H(i,k) * W(k,m))", A=(2, 3), X=(3, 5), W=(5, 7))
    assert dense_multiplies(chain) == 30 + 70


def test_useful_never_exceed_dense() -> None:
    rows, inner, columns, density = CASES["s10"]
    b, c = golden_matrix(1, rows, inner, density), golden_matrix(2, inner, columns, density)
    tensors = {n: SparseTensor.from_dense(m.toarray()) for n, m in (("B", b), ("C", c))}
    work = Workload(parse_program("Z(i,j) = B(i,k) * C(k,j)"), tensors)
    found = sparse_efficiency(simulate(golden_graph("ikj", "s10")[0]), dense_multiplies(work), 1)
    assert found.dense_multiplies == 1000
    assert found.useful_multiplies == work.effectual_multiplies


def test_peak_of_machines() -> None:
    rda = load_machine("rda")
    assert rda.units is not None and peak_multiplies_per_cycle(rda) == rda.units["alu"]
    for units in (None, {}, {"alu": 0}):
        with pytest.raises(InputError, match="must say how many alu units it has"):
            peak_multiplies_per_cycle(dataclasses.replace(rda, units=units))


def test_refuses_what_has_no_gap() -> None:
    dead = simulate(golden_graph("ikj", "s20x30x25", 1)[0])
    with pytest.raises(InputError, match="needs a finished run, got status 'deadlock'"):
        sparse_efficiency(dead, 64, 4)
    fine = simulate(golden_graph("ikj", "s4")[0])
    for dense, peak in ((0, 4), (64, 0)):
        with pytest.raises(InputError, match=f"must be at least 1, got {dense} and {peak}"):
            sparse_efficiency(fine, dense, peak)
