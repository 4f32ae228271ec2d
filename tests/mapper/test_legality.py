"""Every rule of legality, one mapping that breaks it each."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest

from mapper.legality import violations
from mapper.lowering import lower_region
from mapper.machine import load_machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.residency import RESIDENCIES
from mapper.schedule import schedule
from mapper.space import MappingSpace
from mapper.storage import Layout, Storage, store_tensor
from mapper.synthetic import generate
from mapper.tensor import SparseTensor
from mapper.units import PORTED, units_used
from mapper.workload import Workload

RDA = load_machine("rda")
CSR = ("dense", "compressed")
A = generate("uniform", shape=(12, 10), density=0.3, seed=1)
B = generate("uniform", shape=(10, 8), density=0.3, seed=2)
PRODUCT = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), {"A": A, "B": B})
GOOD = Mapping(
    (), (Loops(("i", "k", "j"), (("i", 4),), (("i", 2, "balanced"),)),), (("A", CSR), ("B", CSR), ("Z", CSR))
)


def test_a_good_mapping_breaks_nothing() -> None:
    assert violations(PRODUCT, GOOD, RDA) == ()


def test_memory_that_does_not_hold_whole_bursts() -> None:
    assert violations(PRODUCT, GOOD, RDA.with_fields(dram_interleave_bytes=256, dram_row_bytes=1024)) == ()
    for field in ("dram_interleave_bytes", "dram_row_bytes"):
        (found,) = violations(PRODUCT, GOOD, RDA.with_fields(**{field: 96}))
        assert str(found) == f"memory at rda: {field} 96 (must be a multiple of dram_burst_bytes, 64)"
        assert violations(PRODUCT, GOOD, RDA.with_fields(**{field: 96, "dram_burst_bytes": 32})) == ()


def test_residencies_are_known() -> None:
    for name in RESIDENCIES:
        assert violations(PRODUCT, dataclasses.replace(GOOD, residency=name), RDA) == ()
    (broken,) = violations(PRODUCT, dataclasses.replace(GOOD, residency="fifo"), RDA)
    assert str(broken) == "residency at mapping: fifo (must be one of none, lru, keep, overbooked)"


def test_keep_needs_a_second_buffer() -> None:
    single = RDA.with_fields(prefetch_tiles=1)
    assert violations(PRODUCT, GOOD, single) == ()
    (broken,) = violations(PRODUCT, dataclasses.replace(GOOD, residency="keep"), single)
    assert (broken.rule, broken.measured) == ("keep-buffers", "prefetch_tiles 1")
    assert violations(PRODUCT, dataclasses.replace(GOOD, residency="keep"), load_machine("comal")) == ()


@pytest.mark.parametrize(
    ("loops", "rule"),
    [
        (Loops(("i", "k")), "order"),
        (Loops(("i", "k", "j"), (("i", 12),)), "tile-extent"),
        (Loops(("i", "k", "j"), (("i", 0),)), "tile-extent"),
        (Loops(("i", "k", "j"), (), (("l", 2, "block"),)), "parallel-index"),
        (Loops(("i", "k", "j"), (), (("i", 2, "block"), ("i", 2, "block"))), "parallel-index"),
        (Loops(("i", "k", "j"), (("i", 8),), (("i", 4, "block"),)), "lanes"),  # two tiles cannot feed four lanes
        (Loops(("i", "k", "j"), (), (("i", 1, "block"),)), "lanes"),
        (Loops(("i", "k", "j"), (), (("i", 2, "random"),)), "lanes"),
    ],
)
def test_loops(loops: Loops, rule: str) -> None:
    assert [v.rule for v in violations(PRODUCT, dataclasses.replace(GOOD, loops=(loops,)), RDA)] == [rule]


def test_formats_need_one_kind_per_mode() -> None:
    broken = dataclasses.replace(GOOD, formats=(("A", CSR), ("B", ("dense",)), ("Z", CSR)))
    assert [(v.rule, v.where) for v in violations(PRODUCT, broken, RDA)] == [("format", "B")]


PAIRS = SparseTensor.from_dense(np.indices((12, 10)).sum(axis=0) % 2)  # every other position: 2 of any 4


@pytest.mark.parametrize(
    ("tensor", "kinds", "rule"),
    [
        ("A", ("dense", "cached"), "format"),
        ("A", ("dense", "singleton"), "format"),
        ("Z", ("dense", "rle"), "format-of-result"),
        ("Z", ("dense", "2:4"), "format-of-result"),
        ("A", ("dense", "1:4"), "n-of-m"),
        ("A", ("dense", "4x3"), "block-tile"),  # 3 does not divide the tile of k
        ("Z", ("dense", "3x2"), "block-tile"),  # 3 does not divide the tile of i
    ],
)
def test_formats_that_break_a_rule(tensor: str, kinds: tuple[str, ...], rule: str) -> None:
    workload = Workload(PRODUCT.program, {"A": PAIRS, "B": B})
    loops = (Loops(("i", "k", "j"), (("i", 4), ("k", 8))),)
    formats = tuple((t, kinds if t == tensor else CSR) for t in "ABZ")
    broken = dataclasses.replace(GOOD, loops=loops, formats=formats)
    assert [(v.rule, v.where) for v in violations(workload, broken, RDA)] == [(rule, tensor)]


def test_a_pattern_counts_in_the_order_and_tiles_that_are_walked() -> None:
    # Entries at 0, 1, 4, 5 of each row: 2 of every 4, and in tiles of 6 too; tiles of 5 make 0-3, 4, 5-8, 9.
    rows = np.zeros((12, 10))
    rows[:, [0, 1, 4, 5]] = 1
    workload = Workload(PRODUCT.program, {"A": SparseTensor.from_dense(rows), "B": B})
    formats = (("A", ("dense", "2:4")), ("B", CSR), ("Z", CSR))
    for order, tiles, legal in (
        (("i", "k", "j"), (), True), (("i", "k", "j"), (("k", 6),), True), (("k", "i", "j"), (), False),
    ):  # fmt: skip
        found = violations(workload, dataclasses.replace(GOOD, loops=(Loops(order, tiles),), formats=formats), RDA)
        assert [v.rule for v in found] == ([] if legal else ["n-of-m"])
    assert found[0].measured == "4 entries at positions 0 to 3 of mode 0, coordinate 0 of mode 1"


def test_dense_levels_that_no_host_holds() -> None:
    """A row per coordinate of 2^40: pointers in CSR, none in DCSR; tiles keep what is dense small."""
    rows = np.array([[0, 2**39, 2**40 - 1], [1, 2, 3]])
    tall = SparseTensor.from_coo((2**40, 10), rows, np.ones(3))
    workload = Workload(PRODUCT.program, {"A": tall, "B": B})
    for kinds, tiles, rules in (
        (CSR, (), ["format-positions"]), (("compressed", "bitmask"), (), []), (CSR, (("i", 1024),), []),
    ):  # fmt: skip
        formats = (("A", kinds), ("B", CSR), ("Z", ("compressed", "compressed")))
        mapping = Mapping((), (Loops(("i", "k", "j"), tiles),), formats)
        assert [v.rule for v in violations(workload, mapping, RDA)] == rules


def test_value_types() -> None:
    unknown = dataclasses.replace(GOOD, dtypes=(("A", "fp8"),))
    assert [(v.rule, v.where) for v in violations(PRODUCT, unknown, RDA)] == [("dtype", "A")]
    large = Workload(PRODUCT.program, {"A": dataclasses.replace(A, values=A.values * 1e6), "B": B})
    for dtype, rules in (("fp16", ["dtype-range"]), ("bf16", []), ("int8", [])):
        narrow = dataclasses.replace(GOOD, dtypes=(("A", dtype),))
        assert [v.rule for v in violations(large, narrow, RDA)] == rules


def test_a_mapping_of_another_program() -> None:
    assert [v.rule for v in violations(PRODUCT, dataclasses.replace(GOOD, cuts=(True,)), RDA)] == ["wrong-program"]


def test_units_are_counted_per_region() -> None:
    (region,) = schedule(PRODUCT.program, GOOD).regions
    used = units_used(PRODUCT, GOOD, RDA, region.statements)
    # Per lane: scans i.tile, i, k of A and k, j of B; A is repeated over j, B over i.tile and i; one join at k.
    assert (used["scan"], used["repeat"], used["intersect"], used["accumulate"]) == (10, 6, 2, 2)
    poor = dataclasses.replace(RDA, units={**(RDA.units or {}), "accumulate": 1})
    (violation,) = violations(PRODUCT, GOOD, poor)
    assert (violation.rule, violation.measured) == ("units", "2 accumulate")


def test_units_are_those_of_the_graph() -> None:
    """Statement by statement, one lane times lanes, against the lowered graph of whole regions."""
    program = parse_program("T(i,k) = A(i,j) * X(j,k)\nH(i,k) = relu(T(i,k))\nZ(i,m) = H(i,k) * W(k,m)")
    tensors = {n: generate("uniform", shape=s, density=0.4, seed=1) for n, s in (("A", (9, 8)), ("X", (8, 7)))}
    workload = Workload(program, {**tensors, "W": generate("uniform", shape=(7, 6), density=1.0, seed=2)})
    space = MappingSpace(workload, RDA)
    rng = np.random.default_rng(5)
    for _ in range(60):
        mapping = space.sample(rng)
        own = workload.variant(mapping.variant)

        def stored(name: str, layout: Layout, of: Workload = own) -> Storage:
            return store_tensor(of.tensor(name), layout, RDA)

        for region in schedule(own.program, mapping).regions:
            graph = lower_region(workload, mapping, RDA, region, stored)
            kinds = Counter(c.kind for c in graph.contexts)
            counted = {kind: kinds[kind] for kind in PORTED}
            assert units_used(workload, mapping, RDA, region.statements) == counted, mapping
