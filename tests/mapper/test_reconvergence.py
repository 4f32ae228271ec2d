"""Mappings whose streams would wait for more than a FIFO holds are refused; those that pass do not deadlock."""

from __future__ import annotations

import bisect

import numpy as np
import pytest

from hwsim import simulate
from mapper.legality import violations
from mapper.lowering import lower_region
from mapper.machine import load_machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.reconvergence import held_back, meetings
from mapper.schedule import Region, schedule
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.storage import Layout, Storage, store_tensor
from mapper.synthetic import uniform
from mapper.tensor import SparseTensor
from mapper.workload import Workload

RDA = load_machine("rda")
CSF = ("compressed", "compressed")
DIAGONAL = np.diag(np.arange(1.0, 41.0))


def status(workload: Workload, mapping: Mapping, fifo_depth: int) -> tuple[bool, str]:
    """Whether a rule forbids the first region, and how its simulation ends."""
    region = schedule(workload.program, mapping).regions[0]
    met = meetings(workload.program, region.statements)
    return any(held_back(workload, met, mapping.loops, fifo_depth)), end(workload, mapping, region, fifo_depth)


def end(workload: Workload, mapping: Mapping, region: Region, fifo_depth: int) -> str:
    """How the simulation of a region ends."""
    machine = RDA.with_fields(fifo_depth=fifo_depth)

    def stored(name: str, layout: Layout) -> Storage:
        return store_tensor(workload.tensor(name), layout, machine)

    return simulate(lower_region(workload, mapping, machine, region, stored)).status


def least_depths(workload: Workload, mapping: Mapping) -> tuple[int, int]:
    """The least depths of FIFOs that rules allow, and behind which all regions run."""
    regions, depths = schedule(workload.program, mapping).regions, range(4, 400)

    def allowed(depth: int) -> bool:
        return not violations(workload, mapping, RDA.with_fields(fifo_depth=depth))

    def runs(depth: int) -> bool:
        return all(end(workload, mapping, region, depth) == "done" for region in regions)

    return next(filter(allowed, depths)), depths[bisect.bisect_left(depths, True, key=runs)]


def all_fused(text: str, entries: np.ndarray, rows: str, *tiles: tuple[str, int]) -> tuple[Workload, Mapping]:
    """A program of S, everything fused; ``rows``: the kind of the first level of S."""
    workload = Workload(parse_program(text), {"S": SparseTensor.from_dense(entries)})
    loops = tuple(Loops(s.indices, tiles if s.indices else ()) for s in workload.program.statements)
    formats = (("S", (rows, *CSF)[: entries.ndim]), ("Z", CSF[: entries.ndim]))
    return workload, Mapping((False,) * len(workload.program.edges), loops, formats)


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


@pytest.mark.parametrize(
    ("text", "entries", "tiles", "needed"),
    [
        ("Z(l) = softmax(l, S(l))", np.ones(40), (), 40 + 1),
        ("Z(l) = softmax(l, S(l))", np.ones(60), (("l", 2),), 60 + 30),
        ("Z(l) = layernorm(l, S(l))", np.ones(62), (("l", 16),), 62 + 4),
        ("Z(i,j) = softmax(j, S(i,j))", np.ones((3, 40)), (), 40 + 1),
        ("Z(i,j) = softmax(i, j, S(i,j))", DIAGONAL, (), 40 + 40),
        ("Z(i,j) = softmax(i, j, relu(S(i,j)))", DIAGONAL, (), 40 + 40 + 1),  # twice: its end waits as well
    ],
)
def test_stops_wait_with_the_entries_of_a_group(
    text: str, entries: np.ndarray, tiles: tuple[tuple[str, int], ...], needed: int
) -> None:
    assert least_depths(*all_fused(text, entries, "compressed", *tiles)) == (needed, needed)


@pytest.mark.parametrize(("rows", "needed"), [("compressed", 11 + 11), ("dense", 90 + 11)])
def test_fibers_without_entries_have_stops(rows: str, needed: int) -> None:
    """Eleven of 90 rows have an entry; a dense level has all 90."""
    entries = np.where((np.arange(90)[:, None] % 8 == 3) & (np.arange(20) == 5), 2.0, 0.0)
    assert least_depths(*all_fused("Z(i,j) = softmax(i, j, S(i,j))", entries, rows)) == (needed, needed)


@pytest.mark.parametrize("text", ["Z(i,j) = softmax(j, relu(S(i,j)))", "Z(i,j) = layernorm(j, relu(S(i,j)))"])
@pytest.mark.parametrize(("rows", "needed"), [("compressed", 8 + 1), ("dense", 50 + 8 + 1)])
def test_a_reduction_tells_of_empty_rows_with_the_next_row(text: str, rows: str, needed: int) -> None:
    entries = np.where(np.isin(np.arange(70)[:, None], [9, 60, 61]), np.arange(1.0, 9.0), 0.0)
    assert least_depths(*all_fused(text, entries, rows)) == (needed, needed)


@pytest.mark.parametrize(
    "text",
    [
        "Z(i,j) = softmax(j, S(i,j))",
        "Z(i,j) = softmax(j, i, relu(S(i,j)))",
        "Z(i,j) = layernorm(j, S(i,j))",
        "T(i,j) = A(i,j) * S(i,j)\nM = max(i, j, T(i,j))\nZ(i,j) = T(i,j) .- M",
        "Z(i,j) = softmax(i, j, Q(i,k) * K(j,k) * pattern(S(i,j)))",
    ],
)
def test_what_rules_allow_runs(text: str) -> None:
    rng, program = np.random.default_rng(len(text)), parse_program(text)
    extents = {"S": (8, 6), "A": (8, 6), "Q": (8, 3), "K": (6, 3)}
    for case in range(6):
        tensors = {n: uniform(extents[n], float(rng.choice([0.2, 0.5, 1.0])), case) for n in program.inputs}
        workload, tiles = Workload(program, tensors), ((0,), (0, 2, 3), (2, 3))[case % 3]
        indices = {i for statement in program.statements for i in statement.indices}
        limits = SpaceLimits(tiles=dict.fromkeys(indices, tiles), fuse_others=True, max_lanes=1, rewrites=())
        space = MappingSpace(workload, RDA.with_fields(fifo_depth=400), limits)
        for _ in range(4):
            allowed, runs = least_depths(workload, space.sample(rng))
            assert runs <= allowed


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
