"""Axes: cuts reach everything that one index walks."""

from __future__ import annotations

import math
import random

import pytest

from mapper.axis_split import Axis, align, leaves, regroup, unite
from mapper.errors import InputError


def extents(*axes: Axis) -> list[int]:
    return [leaf.extent for leaf in leaves(axes)]


def test_a_cut_reaches_every_alike_axis_and_later_parts() -> None:
    one, two, three = Axis(24), Axis(24), Axis(4)
    unite([one, two])
    one.cut(4)
    assert extents(two) == [6, 4]
    unite([leaves([one])[1], three])
    three.cut(2)
    assert extents(one) == extents(two) == [6, 2, 2]
    two.cut(12)
    assert extents(one) == [2, 3, 2, 2]


def test_regroup_splits_and_merges() -> None:
    one, two = Axis(6), Axis(4)
    groups = regroup([one, two], (2, 1, 3, 2, 2))
    assert [[a.extent for a in g] for g in groups] == [[2], [], [3], [2], [2]]
    assert [[a.extent for a in g] for g in regroup([one, two], (24,))] == [[2, 3, 2, 2]]


@pytest.mark.parametrize(("source", "shape"), [((4, 6), (6, 4)), ((5,), (2, 3)), ((6, 4), (8, 3))])
def test_impossible_regroupings(source: tuple[int, ...], shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="cannot be"):
        regroup([Axis(n) for n in source], shape)


def test_fixed_axes_say_why() -> None:
    one, two = Axis(6), Axis(6)
    unite([one, two])
    two.fixed = "a window walks it"
    with pytest.raises(InputError, match="runs of 2: a window walks it"):
        one.cut(2)


def test_align_finds_the_coarsest_common_cut() -> None:
    """Against the definition: boundaries of the result are the union of the boundaries of all lists."""
    chooser = random.Random(3)
    for _ in range(200):
        factors = [chooser.choice((2, 3, 5)) for _ in range(5)]
        parts = []
        for _ in range(chooser.randint(1, 3)):
            cuts = sorted(chooser.sample(range(1, 5), chooser.randint(0, 3)))
            parts.append([Axis(math.prod(factors[a:b])) for a, b in zip([0, *cuts], [*cuts, 5], strict=True)])
        wanted = {math.prod(a.extent for a in part[n:]) for part in parts for n in range(len(part))}
        found = [same[0].extent for same in align(parts)]
        assert {math.prod(found[n:]) for n in range(len(found))} == wanted
