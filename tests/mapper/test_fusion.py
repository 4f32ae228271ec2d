"""Fusion: which cuts are possible, which orders serve a region, what may be tiled or parallel."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mapper.errors import IllegalMapping
from mapper.fused_region import FusedRegion, draw
from mapper.fusion import Partition, fuse
from mapper.mapping import Loops
from mapper.notation import parse_program
from mapper.program import Program
from mapper.regions import cut_violations, edge_violations
from mapper.rewrites import rewriting
from mapper.violation import Violation

PROGRAMS = [
    "T(i,k) = A(i,j) * X(j,k)\nZ(i,m) = T(i,k) * W(k,m)",
    "T(i,k) = A(i,j) * X(j,k)\nU(i,k) = relu(T(i,k))\nZ(i,k) = T(i,k) + U(i,k)",
    "P(i,j) = softmax(j, S(i,j))\nZ(i,d) = P(i,j) * V(j,d)",
    "T(k,j) = B(k,l) * C(l,j)\nZ(i,j) = A(i,k) * T(k,j)\ny(k) = T(k,j) * v(j)",
    "T(i,j) = A(i,k) * B(k,j)\nZ(i,j) = T(i,k) * T(k,j)",
    "T(i,k) = relu(X(i,k))\nH(i,j) = T(i,k) * V(k,j)\nY(i,k) = H(i,j) * W(j,k)\nZ(i,k) = T(i,k) + Y(i,k)",
    "H(i,j) = X(i,k) * V(k,j)\nY(i,k) = H(i,j) * W(j,k)\nR(i,j) = Y(i,k) * U(k,j)\nZ(i,j) = H(i,j) + R(i,j)",
    "T(i,k) = relu(X(i,k))\nH(i,j) = T(i,k) * V(k,j)\nZ(i,k) = T(i,k) + H(i,k)",
    "T(i,k,l) = relu(X(i,k,l))\nH(i,j) = T(i,k,l) * v(j)\nY(i,k,l) = H(i,j) * W(j,k,l)\nZ(i,k,l) = T(i,k,l) + Y(i,k,l)",
]


def every_cut(program: Program) -> set[tuple[bool, ...]]:
    """Cuts that no rule forbids and for which some orders of all statements exist: the slow way."""
    legal = set()
    for cuts in itertools.product((True, False), repeat=len(program.edges)):
        if not cut_violations(program, cuts) and orders_by_hand(program, cuts):
            legal.add(cuts)
    return legal


def orders_by_hand(program: Program, cuts: tuple[bool, ...]) -> set[tuple[tuple[str, ...], ...]]:
    """Every choice of one order per statement that no fused edge forbids."""
    partial: list[tuple[tuple[str, ...], ...]] = [()]
    for number, statement in enumerate(program.statements):
        partial = [
            (*done, order)
            for done in partial
            for order in itertools.permutations(statement.indices)
            if not any(
                edge_violations(program, e, Loops(done[e.producer]), Loops(order))
                for e, cut in zip(program.edges, cuts, strict=True)
                if e.consumer == number and not cut
            )
        ]
    return set(partial)


def decided(program: Program) -> set[tuple[bool, ...]]:
    """Cuts that a walk over the edges reaches."""
    found, todo = set(), [Partition.of(program, {})]
    while todo:
        partition = todo.pop()
        if partition.edge is None:
            found.add(partition.decided)
            continue
        both = (partition.decide(cut) for cut in (True, False))
        todo += [p for p in both if not isinstance(p, Violation)]
    return found


@pytest.mark.parametrize("text", PROGRAMS)
def test_deciding_edge_by_edge_reaches_every_legal_cut(text: str) -> None:
    program = parse_program(text)
    assert decided(program) == every_cut(program)


@pytest.mark.parametrize("text", PROGRAMS)
def test_orders_of_a_region_are_those_that_serve_its_streams(text: str) -> None:
    program = parse_program(text)
    for cuts in every_cut(program):
        found = set()
        fusion = fuse(program, cuts, {})
        choices = [[region.order(n) for n in range(region.order_count)] for region in fusion.regions]
        assert choices == [list(region.every_order()) for region in fusion.regions]
        for chosen in itertools.product(*choices):
            orders = {}
            for region, own in zip(fusion.regions, chosen, strict=True):
                orders |= dict(zip(region.statements, own, strict=True))
            found.add(tuple(orders[n] for n in sorted(orders)))
        assert found == orders_by_hand(program, cuts)
        assert len(found) == fusion.order_count  # none twice


def region_of(text: str, cuts: tuple[bool, ...] | None = None) -> FusedRegion:
    program = parse_program(text)
    return fuse(program, cuts or (False,) * len(program.edges), {}).regions[0]


def test_ranks_invert_orders() -> None:
    region = region_of(PROGRAMS[2])
    for rank in range(region.order_count):
        assert region.rank(region.order(rank)) == rank
    wrong = tuple(tuple(reversed(order)) for order in region.order(0))
    with pytest.raises(IllegalMapping, match="orders that serve the region"):
        region.rank(wrong)


def test_pinned_orders_hold_for_tile_loops_too() -> None:
    program = parse_program("Z(i,j) = A(i,k) * B(k,j)")
    (region,) = fuse(program, (), {"Z": (("k", "i", "j"), ("i", "k", "j"))}).regions
    assert {region.order(n) for n in range(region.order_count)} == {(("k", "i", "j"),), (("i", "k", "j"),)}
    tiled = frozenset({(0, "i"), (0, "k")})
    assert {region.tile_order(tiled, n) for n in range(region.tile_order_count(tiled))} == {
        ((0, "k"), (0, "i")), ((0, "i"), (0, "k")),
    }  # fmt: skip
    assert region.tile_order_count(frozenset({(0, "i"), (0, "j")})) == 1  # both pinned orders have i before j


def test_pinned_orders_hold_of_the_indices_that_a_rewriting_has() -> None:
    program = rewriting(parse_program("T(i,j) = A(i,k) * B(k,j)\nZ(i,j) = T(i,l) * C(l,j)"), "A*(B*C)")
    assert program.statements[1].indices == ("i", "j", "k")  # l is summed over before
    pinned = {"Z": (("i", "l", "j"), ("l", "i", "j"), ("l", "j", "i"))}  # the first two say the same of i and j
    region = fuse(program, (True,), pinned).regions[1]
    found = [order for n in range(region.order_count) for order in region.order(n)]
    assert sorted(found) == sorted(itertools.permutations("ijk"))
    (first,) = fuse(program, (True,), {"Z": pinned["Z"][:2]}).regions[1:]
    assert sorted(first.order(n)[0] for n in range(first.order_count)) == [
        o for o in sorted(found) if o.index("i") < o.index("j")
    ]
    assert first.tile_order_count(frozenset({(1, "i"), (1, "j")})) == 1


def test_a_reader_of_streams_tiles_what_its_streams_hold() -> None:
    region = region_of(PROGRAMS[0])
    assert set(region.tileable) == {(0, "i"), (0, "k"), (0, "j")}


def test_parallel_indices() -> None:
    region = region_of(PROGRAMS[0])
    # j is reduced by the first statement: lanes add their parts. k is read and reduced by the second, whose stream has
    # it. m is no index of the stream, so its producer would be needed in every lane.
    assert dict(region.parallel_indices) == {(0, "i"): None, (0, "k"): 8, (0, "j"): 8}
    assert (0, "j") not in dict(region_of(PROGRAMS[2]).parallel_indices)  # no lanes share a maximum


def test_streams_read_twice_under_different_loops_have_no_order() -> None:
    with pytest.raises(IllegalMapping, match="no-common-order"):
        fuse(parse_program(PROGRAMS[4]), (False, False), {})


def test_draws_of_huge_numbers_are_uniform() -> None:
    rng = np.random.default_rng(0)
    count = 3 * 2**70
    thirds = [3 * draw(rng, count) // count for _ in range(3000)]
    assert all(900 < thirds.count(n) < 1100 for n in range(3))
