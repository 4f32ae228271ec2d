"""Results that are stored with more entries than the oracle's pattern has."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel import Statistics, estimate, predict_traffic
from costmodel.widened import drawn
from hwsim import Limits
from mapper.machine import load_machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.synthetic import uniform
from mapper.tensor import SparseTensor
from mapper.workload import Workload
from tuner.evaluate import evaluate

COMPRESSED, DENSE = ("compressed",) * 2, ("dense",) * 2


@pytest.mark.parametrize(("entries", "found"), [(2, 3), (7, 7), (99, 12)])
def test_zeros_are_added_where_they_can_lie(entries: int, found: int) -> None:
    known = SparseTensor.from_coo((5, 9), [[1, 1, 4], [0, 8, 3]], [1.0, 2.0, 3.0])
    within = np.array([0, 1, 4]), np.array([0, 3, 5, 8])
    made = drawn("T", Statistics().of(known), entries, within)
    tensor = made.make()
    assert tensor.nnz == found
    assert all(np.isin(crd, own).all() for crd, own in zip(tensor.coords, within, strict=True))
    keys = np.ravel_multi_index(tuple(tensor.coords), tensor.shape)
    assert (np.diff(keys) > 0).all()
    assert np.array_equal(tensor.to_dense(), known.to_dense())
    assert made.key != drawn("T", Statistics().of(known), entries, (within[0], within[1][:3])).key


def test_readers_find_the_entries_that_are_stored() -> None:
    """X is stored dense, all but one of its columns are zero: T has full rows, not one entry per row."""
    x = np.zeros((2, 60))
    x[:, 5] = 1
    tensors = {"A": uniform((120, 2), 0.5, 1), "X": SparseTensor.from_dense(x), "W": uniform((60, 8), 0.3, 2)}
    workload = Workload(parse_program("T(i,k) = A(i,j) * X(j,k)\nZ(i,m) = T(i,k) * W(k,m)"), tensors)
    loops = Loops(("i", "j", "k")), Loops(("i", "k", "m"), (("i", 4), ("k", 1)))
    formats = ("A", COMPRESSED), ("T", COMPRESSED), ("W", COMPRESSED), ("X", DENSE), ("Z", COMPRESSED)
    mapping, machine, statistics = Mapping((True,), loops, formats), load_machine("rda"), Statistics()
    simulated = evaluate(workload, mapping, machine, Limits())
    assert simulated.traffic_bytes and simulated.latency_cycles
    found = estimate(workload, mapping, machine, statistics=statistics)
    assert found.traffic_bytes == pytest.approx(simulated.traffic_bytes, rel=0.25)
    assert found.latency_cycles == pytest.approx(simulated.latency_cycles, rel=0.25)
    assert estimate(workload, mapping, machine, statistics=statistics) == found
    assert predict_traffic(workload, mapping, machine, statistics=statistics) == found.traffic


def test_a_region_is_estimated_anew_for_other_entries() -> None:
    """Two formats of X leave other entries to the reader of T, whose own choices are the same."""
    tensors = {"A": uniform((40, 20), 0.2, 1), "X": uniform((20, 40), 0.1, 2), "W": uniform((40, 8), 0.3, 3)}
    workload = Workload(parse_program("T(i,k) = A(i,j) * X(j,k)\nZ(i,m) = T(i,k) * W(k,m)"), tensors)
    loops, statistics, machine = (Loops(("i", "j", "k")), Loops(("i", "k", "m"))), Statistics(), load_machine("rda")
    for kinds in (DENSE, COMPRESSED):
        formats = ("A", COMPRESSED), ("T", COMPRESSED), ("W", COMPRESSED), ("X", kinds), ("Z", COMPRESSED)
        mapping = Mapping((True,), loops, formats)
        alone = estimate(workload, mapping, machine, statistics=Statistics())
        assert estimate(workload, mapping, machine, statistics=statistics) == alone
