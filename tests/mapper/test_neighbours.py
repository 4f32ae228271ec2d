"""Neighbours of a mapping: legal, in the space, one knob away, and neighbours of each other."""

from __future__ import annotations

import dataclasses
from itertools import islice

import numpy as np
import pytest
from small_spaces import PROGRAMS, RDA, space, workload

from mapper.default_mapping import default_mapping
from mapper.formats import parse_format
from mapper.mapping import Loops, Mapping
from mapper.mapping_text import mapping_changes
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits

IJK = ("i", "j", "k")


def small(**limits: object) -> MappingSpace:
    formats = {t: (parse_format("csf", 2),) for t in "ABZ"}
    base = SpaceLimits(tiles=dict.fromkeys(IJK, (0,)), max_lanes=1, residency=("lru",), formats=formats)
    return MappingSpace(workload("product"), RDA, dataclasses.replace(base, **limits))  # type: ignore[arg-type]


def mapping(loops: Loops, **fields: object) -> Mapping:
    csf = ("compressed", "compressed")
    made = Mapping((), (loops,), (("A", csf), ("B", csf), ("Z", csf)), "lru", joins="locate")
    return dataclasses.replace(made, **fields)  # type: ignore[arg-type]


def changes(found: MappingSpace, of: Mapping) -> list[str]:
    return ["; ".join(mapping_changes(found.workload.program, of, other)) for other in found.neighbours(of)]


def test_orders() -> None:
    start = "loops Z: i > k > j -> "
    assert changes(small(), mapping(Loops(("i", "k", "j")))) == [start + "i > j > k", start + "k > i > j"]


def test_tiles() -> None:
    found = small(tiles={"i": (4, 8, 16, 0), "j": (0,), "k": (4, 8)}, orders={"Z": (("i", "k", "j"),)})
    tiled = mapping(Loops(("i", "k", "j"), (("i", 8), ("k", 8))))
    start = "loops Z: i.tile(8) > k.tile(8) > i > k > j -> "
    assert changes(found, tiled) == [
        start + "i.tile(4) > k.tile(8) > i > k > j",
        start + "i.tile(16) > k.tile(8) > i > k > j",
        start + "k.tile(8) > i > k > j",
        start + "i.tile(8) > k.tile(4) > i > k > j",
    ]
    bare = mapping(Loops(("i", "k", "j"), (("k", 4),)))
    start = "loops Z: k.tile(4) > i > k > j -> "
    assert changes(found, bare) == [
        *(start + f"i.tile({extent}) > k.tile(4) > i > k > j" for extent in (4, 8, 16)),
        start + "k.tile(8) > i > k > j",
    ]


def test_tile_orders() -> None:
    found = small(tiles=dict.fromkeys(IJK, (4,)), parallel_indices=())
    tiled = mapping(Loops(("i", "k", "j"), (("i", 4), ("k", 4), ("j", 4))))
    changed = [m.loops[0] for m in found.neighbours(tiled) if m.loops[0].order == ("i", "k", "j")]
    assert [[i for i, _ in loops.tiles] for loops in changed] == [["i", "j", "k"], ["k", "i", "j"]]


def test_lanes() -> None:
    found = small(max_lanes=4, orders={"Z": (("i", "k", "j"),)}, partitions=("block", "cyclic"))
    none = [m.loops[0].parallel for m in found.neighbours(mapping(Loops(("i", "k", "j"))))]
    assert none == [((i, 2, share),) for i in IJK for share in ("block", "cyclic")]
    two = [m.loops[0].parallel for m in found.neighbours(mapping(Loops(("i", "k", "j"), (), (("i", 2, "block"),))))]
    assert two == [
        (),
        (("i", 4, "block"),),
        (("j", 2, "block"),),
        (("k", 2, "block"),),
        (("i", 2, "block"), ("j", 2, "block")),
        (("i", 2, "block"), ("k", 2, "block")),
        (("i", 2, "cyclic"),),
    ]


def test_formats_residency_machine() -> None:
    found = small(
        orders={"Z": (("i", "k", "j"),)}, residency=("none", "lru", "keep"),
        formats={t: tuple(parse_format(n, 2) for n in ("csf", "csf:fp16", "csr", "csc")) for t in "A"}
        | {t: (parse_format("csf", 2),) for t in "BZ"},
        machine={"fifo_depth": (16, None, 64)},
    )  # fmt: skip
    start = mapping(Loops(("i", "k", "j")), machine=(("fifo_depth", 64),))
    assert changes(found, start) == [
        "formats A: csf -> csf:fp16",
        "formats A: csf -> dense,compressed",  # csc is not walked in this order
        "residency: lru -> none",
        "residency: lru -> keep",
        "machine fifo_depth: 64 -> 16",
        "machine fifo_depth: 64 -> null",
    ]


def test_cuts_keep_what_they_can() -> None:
    found = MappingSpace(workload("shared"), RDA, SpaceLimits(rewrites=(), max_lanes=2))
    apart = default_mapping(found)
    joined = [m for m in found.neighbours(apart) if m.cuts != apart.cuts]
    # T feeds both others; T(i,j) comes in rows, so all three keep their orders i,k,j and i,j
    assert [m.cuts for m in joined] == [(False, True), (True, False)]
    for other in joined:
        assert [loops.order for loops in other.loops] == [loops.order for loops in apart.loops]
        again = [m for m in found.neighbours(other) if m.cuts == apart.cuts]
        assert again == [apart]


def test_a_rewriting_starts_from_its_default() -> None:
    found = MappingSpace(workload("layer"), RDA)
    start = default_mapping(found)
    others = {m.variant: m for m in found.neighbours(start) if m.variant}
    assert set(others) == set(found.programs) - {""}
    for label, other in others.items():
        assert other == default_mapping(found, label)


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_are_legal_in_the_space_and_know_each_other(name: str) -> None:
    found = space(name)
    rng = np.random.default_rng(11)
    program = found.workload.program
    back = asked = 0
    for _ in range(4):
        start = found.sample(rng)
        neighbours = list(found.neighbours(start))
        assert neighbours == list(found.neighbours(start))
        assert len(set(neighbours)) == len(neighbours) > 3
        for other in neighbours:
            assert other != start
            assert found.violations(other) == ()
            found.params(other)
        for n in rng.permutation(len(neighbours))[:12]:
            other = neighbours[int(n)]
            lossy = other.variant != start.variant or other.cuts != start.cuts
            untiled = any(
                {i for i, _ in a.tiles} > {i for i, _ in b.tiles}
                for a, b in zip(start.loops, other.loops, strict=False)
            )
            if not lossy and not untiled:
                asked += 1
                back += start in set(found.neighbours(other))
            if not lossy:
                assert len(mapping_changes(program, start, other)) <= 2 * len(start.loops)
    assert back == asked > 0


def test_a_walk_of_neighbours_reaches_everything() -> None:
    found = small(
        tiles={"i": (8, 0), "j": (0,), "k": (0,)}, max_lanes=2, partitions=("block",), residency=("lru", "none")
    )
    start = found.sample(np.random.default_rng(0))
    seen, todo = {start}, [start]
    while todo:
        new = [m for m in islice(found.neighbours(todo.pop()), 1000) if m not in seen]
        seen |= set(new)
        todo += new
    rng = np.random.default_rng(1)
    assert seen == {found.sample(rng) for _ in range(1500)}
    assert len(seen) == found.size() == 94  # 96 products of knobs, of which FIFOs refuse two
