from __future__ import annotations

import itertools

import numpy as np
from random_mappings import RDA, random_mapping, random_tensor, random_workload

from costmodel import Statistics, Verdict, capacity_verdicts, screen
from mapper.formats import parse_format
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
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


def test_verdicts_that_mappings_share_are_those_of_each() -> None:
    """Formats with zeros among them: what an earlier region stores of these counts in the regions after it."""
    program = parse_program("T(i,j) = A(i,k) * B(k,j)\nU(i,j) = relu(T(i,j))\nZ(i,j) = U(i,k) * C(k,j)")
    rng = np.random.default_rng(1)
    work = Workload(program, {name: random_tensor(rng, (24, 24), 0.1) for name in "ABC"})
    machine, shared = RDA.with_fields(buffer_bytes=600), Statistics()
    formats = {"A": (parse_format("dense", 2), parse_format("csr", 2))}
    space, found = MappingSpace(work, machine, SpaceLimits(formats=formats)), list[tuple[Verdict, ...]]()
    for first in [space.sample(rng) for _ in range(20)]:
        for mapping in [first, *itertools.islice(space.neighbours(first), 0, None, 4)]:
            found.append(capacity_verdicts(work, mapping, machine, Statistics()))
            assert capacity_verdicts(work, mapping, machine, shared) == found[-1]
    assert 0.1 < np.mean(list(map(bool, found))) < 0.9
    assert {v.where for own in found for v in own} >= {"A in S0", "U in S2"}


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
