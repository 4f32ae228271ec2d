"""Extents of windows: what a convolution makes of them, through chains, and what does not fit."""

from __future__ import annotations

import itertools

import pytest

from mapper.errors import InputError
from mapper.extents import bind_extents
from mapper.notation import parse_program


def bound(text: str, **shapes: tuple[int, ...]) -> dict[str, int]:
    """Extents of the last statement."""
    return bind_extents(parse_program(text), shapes)[-1]


def test_positions_are_those_of_a_convolution() -> None:
    """Position p is there where all its taps lie inside the tensor and its padding on both sides, counted here."""
    for size, taps, stride, spread, padding in itertools.product(range(4, 9), (1, 2, 3), (1, 2, 3), (1, 2), (0, 1, 2)):
        inside = [
            p for p in range(30) if stride * p + spread * (taps - 1) - padding <= size - 1 + padding
        ]  # fmt: skip
        text = f"Z(p) = X({stride}*p+{spread}*r-{padding}) * W(r)".replace("-0", "")
        if inside:
            assert bound(text, X=(size,), W=(taps,))["p"] == len(inside), text


def test_a_positive_offset_skips_at_the_start_alone() -> None:
    assert bound("Z(p) = X(p+2)", X=(10,))["p"] == 8
    assert bound("Z(p) = X(2*p+1)", X=(7,))["p"] == 3  # 1, 3, 5


def test_any_index_follows_from_the_others() -> None:
    assert bound("Z(i,a) = X(i,64*a+b) * B(b)", X=(3, 768), B=(64,)) == {"i": 3, "a": 12, "b": 64}
    assert bound("Z(b) = X(64*a+b) * A(a)", X=(768,), A=(12,))["b"] == 64
    assert bound("Z(p,r) = Y(p) * X(p+r)", X=(10,), Y=(8,)) == {"p": 8, "r": 3}


def test_extents_come_through_other_statements() -> None:
    """The taps of a computed filter, and a second layer over the positions of the first."""
    text = """
    V(r) = W(r,k) * U(k)
    Y(p) = X(2*p+r-1) * V(r)
    Z(q) = Y(q+s) * V2(s)
    """
    extents = bind_extents(parse_program(text), {"X": (9,), "W": (3, 4), "U": (4,), "V2": (2,)})
    assert extents[-1] == {"q": 4, "s": 2}
    view = "T(p,r) = X(2*p+r-1)"  # the same, as statements of their own
    assert bound(view + "\nY(p) = T(p,r) * V(r)", X=(9,), V=(3,)) == {"p": 5, "r": 3}


def test_a_view_knows_the_modes_that_it_reads() -> None:
    assert bound("Z(c,p) = X(c,2*p,3)", X=(2, 5, 4)) == {"c": 2, "2*p": 5, "3": 4, "p": 3}


@pytest.mark.parametrize(
    ("text", "shapes", "message"),
    [
        ("Z(p) = X(p+r)", {"X": (5,)}, "the extent of index 'p' of p\\+r is not known"),
        ("Z(p) = X(p+r) * W(r)", {"X": (5,), "W": (6,)}, "0 positions of index 'p' do not fit p\\+r in"),
        ("Z(p) = X(p+1) * Y(p)", {"X": (5,), "Y": (5,)}, "5 positions of index 'p' do not fit p\\+1"),
        ("Z(i) = X(i,7)", {"X": (5, 7)}, "coordinate 7 lies outside of a mode of extent 7"),
        ("Z(p) = X(p,q+r) * W(r)", {"X": (5,), "W": (2,)}, "needs a tensor of 2 modes"),
        ("Z(c,p) = X(c,p+r) * W(r,c)", {"X": (5, 6), "W": (2, 4)}, "index 'c' has extent 5 by"),
    ],
)  # fmt: skip
def test_what_does_not_fit(text: str, shapes: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        bound(text, **shapes)
