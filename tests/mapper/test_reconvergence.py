"""Mappings whose streams would wait for more than a FIFO holds are refused; those that pass do not deadlock."""

from __future__ import annotations

import numpy as np
import pytest

from hwsim import simulate
from mapper.legality import violations
from mapper.lowering import lower_region
from mapper.machine import load_machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.reconvergence import held_back, meetings
from mapper.schedule import schedule
from mapper.storage import Layout, Storage, store_tensor
from mapper.synthetic import uniform
from mapper.tensor import SparseTensor
from mapper.workload import Workload

RDA = load_machine("rda")
CSF = ("compressed", "compressed")


def status(workload: Workload, mapping: Mapping, fifo_depth: int) -> tuple[bool, str]:
    """Whether a rule forbids the first region, and how its simulation ends."""
    machine = RDA.with_fields(fifo_depth=fifo_depth)
    region = schedule(workload.program, mapping).regions[0]

    def stored(name: str, layout: Layout) -> Storage:
        return store_tensor(workload.tensor(name), layout, machine)

    graph = lower_region(workload, mapping, machine, region, stored)
    met = meetings(workload.program, region.statements)
    return any(held_back(workload, met, mapping.loops, fifo_depth)), simulate(graph).status


@pytest.mark.parametrize("entries", [6, 40, 100])
def test_a_softmax_needs_room_for_a_row(entries: int) -> None:
    row = SparseTensor.from_dense(np.ones((3, entries)))
    workload = Workload(parse_program("P(i,j) = softmax(j, S(i,j) * pattern(M(i,j)))"), {"S": row, "M": row})
    loops = tuple(Loops(s.indices) for s in workload.program.statements)
    fused = Mapping((False,) * len(workload.program.edges), loops, (("M", CSF), ("P", CSF), ("S", CSF)))
    for depth in (8, 64, 256):
        forbidden, end = status(workload, fused, depth)
        assert forbidden == (entries > depth)
        if not forbidden:
            assert end == "done"
    assert status(workload, fused, 8)[1] == ("done" if entries == 6 else "deadlock")
    (rule,) = {v.rule for v in violations(workload, fused, RDA.with_fields(fifo_depth=2))}
    assert rule == "reconvergent-fifo"


def test_an_accumulator_s_outer_coordinates_wait_for_its_inner_ones() -> None:
    """Lanes over k, the outermost loop: parts of whole matrices are added row by row. One lane has the even rows, the
    other the odd ones; before a row of one is known to be missing in the other, that one must offer its next row."""
    i, k = np.indices((12, 12))
    workload = Workload(
        parse_program("Z(i,j) = A(i,k) * B(k,j)"),
        {"A": SparseTensor.from_dense(((i % 2 == 0) == (k < 6)) * 1.0), "B": uniform((12, 60), 1.0, 2)},
    )
    loops = Loops(("k", "i", "j"), (), (("k", 2, "block"),))
    mapping = Mapping((), (loops,), (("A", CSF), ("B", CSF), ("Z", CSF)))
    assert status(workload, mapping, 16) == (True, "deadlock")
    assert status(workload, mapping, 128) == (False, "done")
    assert [v.rule for v in violations(workload, mapping, RDA.with_fields(fifo_depth=16))] == ["drained-fifo"]


def test_zeros_of_a_padded_format_wait_like_entries() -> None:
    """As above with few entries in B, most rows of the result empty: stored dense, B gives every row all 60 columns."""
    i, k = np.indices((12, 12))
    workload = Workload(
        parse_program("Z(i,j) = A(i,k) * B(k,j)"),
        {"A": SparseTensor.from_dense(((i % 2 == 0) == (k < 6)) * 1.0), "B": uniform((12, 60), 0.01, 2)},
    )
    loops = Loops(("k", "i", "j"), (), (("k", 2, "block"),))
    for kinds, rules, end in ((CSF, [], "done"), (("dense", "dense"), ["drained-fifo"], "deadlock")):
        mapping = Mapping((), (loops,), (("A", CSF), ("B", kinds), ("Z", CSF)))
        assert [v.rule for v in violations(workload, mapping, RDA.with_fields(fifo_depth=16))] == rules
        assert status(workload, mapping, 16)[1] == end


def test_streams_without_a_common_origin_wait_for_nothing() -> None:
    program = parse_program("T(i,j) = A(i,j) + B(i,j)\nm(i) = max(j, C(i,j))\nZ(i,j) = T(i,j) .- m(i)")
    data = {name: uniform((4, 100), 0.9, seed) for seed, name in enumerate("ABC")}
    loops = (Loops(("i", "j")), Loops(("i", "j")), Loops(("i", "j")))
    mapping = Mapping((False, False), loops, tuple((t, CSF) for t in "ABCZ"))
    assert status(Workload(program, data), mapping, 8) == (False, "done")
