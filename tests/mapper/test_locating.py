"""Dense levels are located where another operand gives the coordinates."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from hwsim import Limits
from mapper.locating import located
from mapper.machine import load_machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.synthetic import uniform
from mapper.workload import Workload
from tuner.evaluate import evaluate

PRODUCT = parse_program("Z(i,j) = A(i,k) * B(k,j)")
LOOPS = Loops(("i", "k", "j"), (("k", 4),))
CSR, CSF, DENSE = ("dense", "compressed"), ("compressed", "compressed"), ("dense", "dense")


@pytest.mark.parametrize(
    ("kinds", "loop", "expected"),
    [
        ([CSF, CSR], ("k", "inner"), (1,)),
        ([CSF, CSR], ("k", "tile"), ()),  # tile levels are compressed
        ([CSF, CSF], ("k", "inner"), ()),
        ([DENSE, CSR], ("k", "inner"), (1,)),  # both are dense there: the first is scanned
        ([CSF, CSR], ("i", "inner"), ()),  # nobody else has i
        ([None, CSR], ("k", "inner"), (1,)),  # a stream gives the coordinates
        ([CSF, ("dense", "2x2")], ("k", "inner"), ()),  # rows of blocks are no rows
    ],
)
def test_which_operands_are_located(kinds: list, loop: tuple[str, str], expected: tuple[int, ...]) -> None:
    assert located(PRODUCT.statements[0], LOOPS, kinds, loop) == expected


def test_sums_scan_everything() -> None:
    added = parse_program("Z(i) = a(i) + b(i)").statements[0]
    assert located(added, Loops(("i",)), [("dense",), ("dense",)], ("i", "inner")) == ()


def test_locating_costs_the_entries_of_the_other_operand() -> None:
    """Gustavson over rows of B stored densely: an intersection walks all 400 rows of B for every row of A, of which
    A wants 4. Located, a row of A costs its entries."""
    a, b = uniform((50, 400), 0.01, 1), uniform((400, 30), 0.02, 2)
    workload = Workload(PRODUCT, {"A": a, "B": b})
    scanned = Mapping((), (Loops(("i", "k", "j")),), (("A", CSR), ("B", CSR), ("Z", CSR)))
    machine = load_machine("rda").with_fields(dram_channels=None, buffer_bytes=None)
    slow, fast = (
        evaluate(workload, dataclasses.replace(scanned, joins=joins), machine, Limits())
        for joins in ("intersect", "locate")
    )
    assert slow.failure is None and fast.failure is None
    assert slow.latency_cycles > 50 * 400
    assert fast.latency_cycles < slow.latency_cycles / 10
    np.testing.assert_array_equal(fast.outputs["Z"].to_dense(), (a.to_dense() @ b.to_dense()))
