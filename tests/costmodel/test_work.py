"""Tokens and turns against counts that a walk of the loops gives."""

from __future__ import annotations

import numpy as np
import pytest
from loop_walk import walk_lanes
from random_mappings import RDA, random_mapping, random_workload

from costmodel.accumulators import reduction_of
from costmodel.nest import Model
from costmodel.statistics import Statistics
from costmodel.work import ROUND_TRIP_HOPS, Work, work_of
from mapper.machine import Machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.schedule import schedule
from mapper.tensor import SparseTensor
from mapper.workload import Workload


def work(workload: Workload, mapping: Mapping, machine: Machine = RDA) -> Work:
    (region,) = schedule(workload.program, mapping).regions
    (nest,) = Model(workload, mapping, "L2", Statistics()).nests(region)
    return work_of(nest, region, reduction_of(nest, machine), machine)


def cycles(found: Work, kind: str) -> list[float]:
    return [float(u.cycles.sum()) for u in found.units if u.kind == kind]


def test_two_finger_intersections_count_both_sides_less_matches() -> None:
    rng = np.random.default_rng(4)
    for _ in range(30):
        workload = random_workload(rng, "y(i) = A(i,j) * x(j)")
        mapping = random_mapping(rng, workload, padded=True)
        found, lanes = work(workload, mapping), walk_lanes(workload, mapping, 0)
        nest = mapping.loops[0].nest
        for depth, loop in enumerate(nest, 1):
            if loop[0] == "j":
                turns = next(float(u.cycles.sum()) for u in found.units if u.name == f"intersect S0.{name(loop)}")
                elements = sum(w.scanned[n, depth] for w in lanes for n in (0, 1))
                matches = sum(w.prefixes[depth] for w in lanes)
                fibers = turns - (elements - matches)
                assert fibers >= sum(w.prefixes[depth - 1] if depth > 1 else 1 for w in lanes)


def name(loop: tuple[str, str]) -> str:
    return loop[0] if loop[1] == "inner" else f"{loop[0]}.tile"


def test_dense_gustavson_by_hand() -> None:
    """A 3x4, B 4x5, all dense, order i, k, j: 60 products, 15 entries drained row by row."""
    tensors = {"A": SparseTensor.from_dense(np.ones((3, 4))), "B": SparseTensor.from_dense(np.ones((4, 5)))}
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), tensors)
    mapping = Mapping((), (Loops(("i", "k", "j")),), tuple((t, ("dense", "dense")) for t in "ABZ"))
    found = work(workload, mapping)
    assert (found.multiplies, found.additions, found.made.tolist()) == (60, 45, [15])
    values = 60 + 12 + 1  # products, a stop per fiber, the end
    assert cycles(found, "array") == [values, values]
    assert cycles(found, "intersect") == [12 + 3 + 1]  # equal fibers: matches, a stop per row, the end
    assert cycles(found, "accumulate") == [values + 15 + 3]  # a cycle per entry and per drain
    assert cycles(found, "store") == [15]
    assert found.slowest == (values + 18, "accumulate S0")
    assert found.pieces == 3


@pytest.mark.parametrize(("depth", "factor"), [(1, 7.0), (2, 3.5), (7, 1.0), (64, 1.0), (None, 1.0)])
def test_short_fifos_slow_repeats_down(depth: int | None, factor: float) -> None:
    tensors = {"A": SparseTensor.from_dense(np.ones((3, 4))), "B": SparseTensor.from_dense(np.ones((4, 5)))}
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), tensors)
    mapping = Mapping((), (Loops(("i", "k", "j")),), tuple((t, ("dense", "dense")) for t in "ABZ"))
    found = work(workload, mapping, RDA.with_fields(fifo_depth=depth))
    assert ROUND_TRIP_HOPS + RDA.response_latency_cycles == 7
    assert cycles(found, "repeat") == [(3 + 1 + 1) * factor, (60 + 12 + 1) * factor]
