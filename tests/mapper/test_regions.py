"""Cuts, regions, fused edges and the schedule they make."""

from __future__ import annotations

import pytest

from mapper.formats import parse_format
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.regions import cut_violations, edge_violations, regions_of, stream_nest
from mapper.schedule import Conversion, Region, schedule

CHAIN = parse_program("T(i,k) = A(i,j) * X(j,k)\nZ(i,m) = T(i,k) * W(k,m)")
DIAMOND = parse_program("T(i,j) = A(i,j) * B(i,j)\nU(i,j) = relu(T(i,j))\nZ(i,j) = T(i,j) * U(i,j)")
CSR = ("dense", "compressed")


def test_regions_are_connected_and_in_execution_order() -> None:
    assert regions_of(CHAIN, (True,)) == ((0,), (1,))
    assert regions_of(CHAIN, (False,)) == ((0, 1),)


def test_a_cut_inside_a_region_is_refused() -> None:
    # T>S1 and U>S2 fused join all three statements; T>S2 cannot be cut then.
    names = [e.name for e in DIAMOND.edges]
    cuts = tuple(name == "T>S2.0" for name in names)
    (violation,) = cut_violations(DIAMOND, cuts)
    assert (violation.rule, violation.where) == ("cut-inside-region", "T>S2.0")


def test_regions_that_wait_for_each_other_are_refused() -> None:
    # S0 and S2 fused by T; S1 apart reads T from S0 and gives U to S2: the two regions need each other.
    names = [e.name for e in DIAMOND.edges]
    cuts = tuple(name != "T>S2.0" for name in names)
    (violation,) = cut_violations(DIAMOND, cuts)
    assert violation.rule == "region-cycle"


@pytest.mark.parametrize(
    ("producer", "consumer", "rule"),
    [
        (Loops(("i", "j", "k")), Loops(("i", "k", "m")), None),
        (Loops(("k", "j", "i")), Loops(("k", "i", "m")), None),
        (Loops(("i", "j", "k")), Loops(("i", "m", "k")), "stream-not-outermost"),
        (Loops(("i", "j", "k")), Loops(("k", "i", "m")), "stream-not-outermost"),
        (Loops(("i", "j", "k"), (("k", 8),)), Loops(("i", "k", "m")), "fused-tiles-differ"),
        (Loops(("i", "j", "k"), (("i", 4), ("j", 4))), Loops(("i", "k", "m"), (("i", 4),)), None),
        # A tile loop over m would replay the stream's inner loops.
        (Loops(("i", "j", "k"), (("i", 4),)), Loops(("i", "k", "m"), (("i", 4), ("m", 2))), "stream-not-outermost"),
        (Loops(("i", "j", "k"), (), (("i", 2, "block"),)), Loops(("i", "k", "m")), "fused-lanes-differ"),
    ],
)
def test_fused_edges(producer: Loops, consumer: Loops, rule: str | None) -> None:
    (edge,) = CHAIN.edges
    found = [v.rule for v in edge_violations(CHAIN, edge, producer, consumer)]
    assert found == ([rule] if rule else [])


def test_stream_order_is_the_loop_order_of_the_result() -> None:
    loops = Loops(("j", "k", "i"), (("i", 4),))
    assert stream_nest(CHAIN, 0, loops) == (("i", "tile"), ("k", "inner"), ("i", "inner"))


def test_the_first_layout_of_an_input_is_free_and_the_second_is_converted() -> None:
    program = parse_program("Z(i,j) = A(i,k) * A(k,j)")
    formats = (("A", CSR), ("Z", CSR))
    same = Mapping((), (Loops(("i", "k", "j")),), formats)
    assert [type(s) for s in schedule(program, same).steps] == [Region]
    columns_first = Mapping((), (Loops(("i", "j", "k")),), formats)  # the second A is walked by columns
    steps = schedule(program, columns_first).steps
    assert [type(s) for s in steps] == [Conversion, Region]
    conversion = steps[0]
    assert isinstance(conversion, Conversion)
    assert (conversion.source.modes, conversion.result.modes) == ((0, 1), (1, 0))


def test_a_cut_tensor_is_converted_only_if_its_reader_wants_another_layout() -> None:
    formats = tuple((t, CSR) for t in "ATWXZ")
    agree = Mapping((True,), (Loops(("i", "j", "k")), Loops(("i", "k", "m"))), formats)
    assert [type(s) for s in schedule(CHAIN, agree).steps] == [Region, Region]
    differ = Mapping((True,), (Loops(("i", "j", "k"), (("i", 4),)), Loops(("i", "k", "m"))), formats)
    assert [type(s) for s in schedule(CHAIN, differ).steps] == [Region, Conversion, Region]
    fused = Mapping((False,), agree.loops, formats)
    (region,) = schedule(CHAIN, fused).regions
    assert [t for t, _ in region.stored] == ["Z"]  # T is never stored


def test_format_names_print_back() -> None:
    for name in ("csr", "csc", "dcsr", "dcsc", "dense", "csf"):
        assert str(parse_format(name, 2)) == name
