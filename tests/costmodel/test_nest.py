from __future__ import annotations

import numpy as np
import pytest
from loop_walk import walk_lanes
from random_mappings import PROGRAMS, random_mapping, random_tensor, random_workload

from costmodel.nest import Model, Nest
from costmodel.statistics import Statistics
from mapper.errors import InputError
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.schedule import schedule
from mapper.tensor import SparseTensor
from mapper.workload import Workload


def only_nest(workload: Workload, mapping: Mapping, level: str = "L2") -> Nest:
    (region,) = schedule(workload.program, mapping).regions
    (nest,) = Model(workload, mapping, level, Statistics()).nests(region)
    return nest


@pytest.mark.parametrize("text", PROGRAMS)
def test_prefixes_and_scans_equal_a_walk_of_the_loops(text: str) -> None:
    rng = np.random.default_rng(7)
    for _ in range(25):
        workload = random_workload(rng, text)
        mapping = random_mapping(rng, workload, padded=True)
        nest, lanes = only_nest(workload, mapping), walk_lanes(workload, mapping, 0)
        assert nest.lanes == len(lanes)
        for depth in range(1, len(nest.loops) + 1):
            assert nest.joined(depth).tolist() == [w.prefixes[depth] for w in lanes], (mapping, depth)
            for n, operand in enumerate(nest.operands):
                if nest.loops[depth - 1] in operand.loops:
                    scanned = [w.scanned[n, depth] for w in lanes]
                    assert nest.scanned(n, depth).tolist() == scanned, (mapping, depth, n)


def test_a_broadcast_under_a_shared_outer_loop() -> None:
    """Order j, i of A(i,j) + b(j): every i of each j that b has, of others what A has."""
    rng = np.random.default_rng(0)
    tensors = {"A": random_tensor(rng, (6, 8), 0.1), "b": random_tensor(rng, (8,), 0.3)}
    workload = Workload(parse_program("Z(i,j) = A(i,j) + b(j)"), tensors)
    kinds = (("A", ("compressed", "compressed")), ("Z", ("dense", "compressed")), ("b", ("compressed",)))
    nest = only_nest(workload, Mapping((), (Loops(("j", "i")),), kinds))
    columns = {*workload.tensors["A"].coords[1].tolist(), *workload.tensors["b"].coords[0].tolist()}
    assert nest.joined(1).tolist() == [len(columns)]
    assert nest.joined(2).tolist() == [workload.computed["Z"].nnz]


@pytest.mark.parametrize("level", ["L0", "L1"])
def test_lower_levels_are_exact_for_full_tensors(level: str) -> None:
    rng = np.random.default_rng(1)
    full = {"A": SparseTensor.from_dense(np.ones((12, 8))), "B": SparseTensor.from_dense(np.ones((8, 6)))}
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), full)
    for _ in range(10):
        mapping = random_mapping(rng, workload)
        nest, exact = only_nest(workload, mapping, level), only_nest(workload, mapping)
        for depth in range(1, len(nest.loops) + 1):
            assert nest.joined(depth).sum() == pytest.approx(exact.joined(depth).sum())


def test_unknown_level_lists_the_valid_ones() -> None:
    workload = random_workload(np.random.default_rng(0), "y(i) = A(i,j) * x(j)")
    mapping = random_mapping(np.random.default_rng(0), workload)
    with pytest.raises(InputError, match=r"unknown model level 'L3'.*L0, L1, L2"):
        Model(workload, mapping, "L3", Statistics())
