from __future__ import annotations

import numpy as np
from random_mappings import RDA, random_mapping, random_tensor, random_workload

from costmodel import Statistics, Verdict, capacity_verdicts, screen
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.storage import layout_of, store_tensor
from mapper.workload import Workload

KINDS = tuple((t, ("compressed", "compressed")) for t in "ABZ")


def workload() -> Workload:
    rng = np.random.default_rng(0)
    tensors = {"A": random_tensor(rng, (40, 30), 0.3), "B": random_tensor(rng, (30, 50), 0.1)}
    return Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), tensors)


def test_the_largest_tile_decides_to_the_byte() -> None:
    work = workload()
    mapping = Mapping((), (Loops(("i", "k", "j"), (("i", 16), ("k", 16))),), KINDS)
    access = work.program.statements[0].operands[0]
    layout = layout_of(access, mapping.loops[0], KINDS[0][1], "fp32")
    stored = store_tensor(work.tensors["A"], layout, RDA)
    largest = int((stored.tile_value_bytes + stored.tile_metadata_bytes).max()) - RDA.descriptor_bytes
    for room, verdicts in ((largest, 0), (largest - 1, 1)):
        machine = RDA.with_fields(buffer_bytes=room)
        found = [v for v in capacity_verdicts(work, mapping, machine, Statistics()) if v.where == "A in S0"]
        assert found == [Verdict("tile-over-capacity", str(largest), f"at most {room}", "bytes", "A in S0")] * verdicts


def test_overbooked_tiles_may_overflow_where_each_walk_goes_through_them_once() -> None:
    work, machine = workload(), RDA.with_fields(buffer_bytes=64)

    def over(order: tuple[str, ...], residency: str) -> set[str]:
        mapping = Mapping((), (Loops(order, (("i", 16), ("k", 16))),), KINDS, residency)
        return {v.where for v in capacity_verdicts(work, mapping, machine, Statistics())}

    for residency in ("none", "lru", "keep"):
        assert over(("i", "k", "j"), residency) == {"A in S0", "B in S0"}
    assert over(("i", "k", "j"), "overbooked") == set()
    assert over(("i", "j", "k"), "overbooked") == {"A in S0"}  # each row is walked once more for every j
    assert over(("k", "i", "j"), "overbooked") == {"B in S0"}


def test_unlimited_buffers_hold_everything() -> None:
    mapping = Mapping((), (Loops(("i", "k", "j")),), KINDS)
    assert capacity_verdicts(workload(), mapping, RDA.with_fields(buffer_bytes=None), Statistics()) == ()


def test_legality_comes_first() -> None:
    work = workload()
    broken = Mapping((), (Loops(("i", "k", "j"), (("i", 400),)),), KINDS)
    (verdict,) = screen(work, broken, RDA.with_fields(buffer_bytes=1), Statistics())
    assert (verdict.rule, verdict.measured, verdict.where) == ("tile-extent", "i: 400", "S0")
    legal = Mapping((), (Loops(("i", "k", "j"), (("i", 8),)),), KINDS)
    assert [v.rule for v in screen(work, legal, RDA.with_fields(buffer_bytes=1), Statistics())] == [
        "tile-over-capacity"
    ] * 2
    assert screen(work, legal, RDA, Statistics()) == ()


def test_streams_need_no_buffer() -> None:
    rng = np.random.default_rng(1)
    work = Workload(parse_program("Z(i,j) = relu(A(i,k) * B(k,j))"), dict(workload().tensors))
    loops = (Loops(("i", "k", "j")), Loops(("i", "j")))
    machine = RDA.with_fields(buffer_bytes=1)
    fused = capacity_verdicts(work, Mapping((False,), loops, KINDS), machine, Statistics())
    cut = capacity_verdicts(work, Mapping((True,), loops, (*KINDS, ("T1", KINDS[0][1]))), machine, Statistics())
    assert {v.where for v in cut} - {v.where for v in fused} == {"T1 in S1"}
    assert random_mapping(rng, random_workload(rng, "Z(j,i) = A(i,j)")) is not None
