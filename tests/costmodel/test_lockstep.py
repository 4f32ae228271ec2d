"""Lanes that share a reduction, in step."""

from __future__ import annotations

import numpy as np
import pytest
from random_mappings import RDA
from test_against_simulator import simulated

from costmodel import Statistics, estimate, predict_traffic
from costmodel.exact import count_traffic
from costmodel.lockstep import lockstep
from costmodel.nest import Model
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.schedule import schedule
from mapper.tensor import SparseTensor
from mapper.workload import Workload

KINDS = tuple((t, ("compressed", "compressed")) for t in "ABZ")


def banded(
    parallel: tuple[tuple[str, int, str], ...], tiles: int = 8, columns: tuple[tuple[str, int], ...] = ()
) -> tuple[Workload, Mapping]:
    """Blocks of 8 x 8 along the diagonal times a dense matrix: at every row all products lie in one range of k."""
    a = SparseTensor.from_dense(np.kron(np.eye(32), np.ones((8, 8))))
    b = SparseTensor.from_dense(np.ones((256, 32)))
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), {"A": a, "B": b})
    loops = Loops(("i", "k", "j"), (*columns, ("i", tiles), ("k", tiles)), parallel)
    return workload, Mapping((), (loops,), KINDS)


def factor(workload: Workload, mapping: Mapping) -> float:
    model = Model(workload, mapping, "L2", Statistics())
    return lockstep(model.nests(schedule(workload.program, mapping).regions[0])[0], RDA)


def test_contiguous_lanes_over_a_band_take_turns() -> None:
    """Each of 32 tiles of rows, of 256 entries (as many as four FIFOs), has its products in one of four lanes."""
    assert factor(*banded((("k", 4, "block"),))) == pytest.approx(4.0)
    assert factor(*banded((("i", 4, "block"),))) == 1.0
    assert factor(*banded(())) == 1.0


def test_columns_outside_pass_over_the_same_rows() -> None:
    """Four passes of 8 columns: a tile of rows has 64 entries in each, so that FIFOs hold four. Tiles 8, 16, 24, the
    last of their lane, are held with the first three of the next, beside which they cost nothing: (32 - 3) / 8."""
    assert factor(*banded((("k", 4, "block"),), columns=(("j", 8),))) == pytest.approx(3.625)


def test_a_single_piece_is_shared_at_will() -> None:
    assert factor(*banded((("k", 4, "block"),), tiles=255)) < 1.3


@pytest.mark.parametrize("columns", [(), (("j", 8),)])
@pytest.mark.parametrize("parallel", [(("k", 4, "block"),), (("i", 2, "block"), ("k", 2, "block")), ()])
def test_latency_follows(parallel: tuple[tuple[str, int, str], ...], columns: tuple[tuple[str, int], ...]) -> None:
    workload, mapping = banded(parallel, columns=columns)
    cycles = sum(p.cycles for p in simulated(workload, mapping, RDA))
    assert estimate(workload, mapping, RDA, statistics=Statistics()).latency_cycles == pytest.approx(cycles, rel=0.3)


@pytest.mark.parametrize("order", [("i", "k", "j"), ("k", "i", "j")])
def test_spills_of_partial_results(order: tuple[str, ...]) -> None:
    rng = np.random.default_rng(4)
    tensors = {n: SparseTensor.from_dense(rng.random((60, 60)) < 0.15) for n in "AB"}
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), tensors)
    machine = RDA.with_fields(accumulator_bytes=1200)
    for lanes in (2, 4):
        loops = Loops(order, (("k", 7), ("i", 20)), (("k", lanes, "balanced"),))
        mapping = Mapping((), (loops,), KINDS)
        counted = {(t.tensor, t.purpose, t.direction): t.bytes for t in count_traffic(workload, mapping, machine)}
        found = {
            (t.tensor, t.purpose, t.direction): t.bytes
            for t in predict_traffic(workload, mapping, machine, statistics=Statistics())
        }
        assert counted["Z", "spill", "write"] > 0
        assert found == pytest.approx(counted)


def test_products_of_nothing() -> None:
    a, b = SparseTensor.from_dense(np.zeros((0, 4))), SparseTensor.from_dense(np.ones((4, 3)))
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), {"A": a, "B": b})
    mapping = Mapping((), (Loops(("i", "j", "k"), (), (("k", 4, "balanced"),)),), KINDS)
    assert factor(workload, mapping) == 1.0
