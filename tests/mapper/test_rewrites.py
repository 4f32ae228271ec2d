"""Rewritten programs compute the same results; labels say what they do."""

from __future__ import annotations

import numpy as np
import pytest

from mapper.errors import InputError
from mapper.interpreter import evaluate
from mapper.notation import parse_program
from mapper.rewrites import KINDS, MOST_VARIANTS, rewriting, variants
from mapper.synthetic import uniform

CHAIN = "Z(i,m) = (A(i,j) * X(j,k)) * W(k,m)"
LAYERS = """O1(i,m) = relu((A(i,j) * X(j,k)) * W1(k,m) + b1(m))
O2(i,n) = (A(i,j) * O1(j,k)) * W2(k,n)"""
ATTENTION = "P(i,j) = M(i,j) * (Q(i,k) * K(j,k))\nO(i,d) = softmax(j, P(i,j)) * V(j,d)"
HEADS = """G(j,k) = X(j,f) * W(f,k)
H(b,j,k) = G(j,k) * S(b,k)
Z(b,i,k) = B(b,i,j) * H(b,j,k)"""
HEADS_OF_SUM = """G(j,k) = X(j,k) + c(k)
H(b,j,k) = G(j,k) * C(b,k)
Z(b,i,k) = B(b,i,j) * H(b,j,k)"""
SHAPES = {
    "A": (9, 9), "X": (9, 7), "W": (7, 5), "W1": (7, 4), "b1": (4,), "W2": (4, 3),
    "M": (8, 8), "Q": (8, 5), "K": (8, 5), "V": (8, 6),
    "B": (2, 8, 9), "S": (2, 5), "C": (2, 7), "c": (7,),
}  # fmt: skip


@pytest.mark.parametrize(("factors", "recomputed"), [("abcdefg", True), ("abcdefgh", False)])
def test_no_rewriting_joins_more_than_eight(factors: str, recomputed: bool) -> None:
    """T made anew for every entry of A has one operand more: which entry."""
    text = f"T(j,k) = {' * '.join(f'{name}(j,k)' for name in factors)}\nZ(i,k) = A(i,j) * T(j,k)"
    assert any("recompute" in label for label in variants(parse_program(text), ("recompute",))) is recomputed


@pytest.mark.parametrize("text", [CHAIN, LAYERS, ATTENTION, HEADS, HEADS_OF_SUM])
def test_every_rewriting_has_the_same_results(text: str) -> None:
    program = parse_program(text)
    dense = {"X", "W1", "b1", "W2", "W", "Q", "K", "V", "S", "C", "c"}
    tensors = {n: uniform(SHAPES[n], 1.0 if n in dense else 0.3, seed) for seed, n in enumerate(program.inputs)}
    expected = evaluate(program, tensors)
    found = variants(program, KINDS)
    assert 1 < len(found) <= MOST_VARIANTS
    for label, rewritten in found.items():
        made = evaluate(rewritten, tensors)
        assert rewritten.outputs == program.outputs
        for name in program.outputs:
            np.testing.assert_allclose(made[name].to_dense(), expected[name].to_dense(), err_msg=label, atol=1e-12)
        assert parse_program(str(rewritten)) == rewritten


def test_products_in_every_order() -> None:
    found = variants(parse_program(CHAIN), ("products",))
    assert list(found) == ["", "A*X*W", "A*(X*W)"]
    assert str(found["A*X*W"]) == "Z(i,m) = A(i,j) * X(j,k) * W(k,m)"
    assert str(found["A*(X*W)"]) == "Z_1(j,m) = X(j,k) * W(k,m)\nZ(i,m) = A(i,j) * Z_1(j,m)"


def test_masks_may_come_first() -> None:
    program = parse_program("P(i,j) = M(i,j) * (Q(i,k) * K(j,k))")
    assert str(variants(program, ("products",))["M*Q*K"]) == "P(i,j) = M(i,j) * Q(i,k) * K(j,k)"


def test_inner_products_sum_over_something() -> None:
    """A times W alone would be an outer product, larger than what it saves."""
    assert not any("(A*W)" in label for label in variants(parse_program(CHAIN)))


def test_recomputing_gives_the_tensor_the_reader_s_index() -> None:
    program = parse_program("H(i,k) = relu(A(i,j) * X(j,k))\nZ(i,k) = B(i,j) * H(j,k)")
    lines = str(variants(program, ("recompute",))["recompute H"]).splitlines()
    assert lines[-1] == "Z(i,k) = B(i,j) * H_1(i,j,k)"
    assert "pattern(B(i,j))" in lines[0]


def test_what_a_sum_broadcasts_is_masked_when_recomputed() -> None:
    found = str(variants(parse_program(LAYERS), ("recompute",))["recompute O1"])
    assert "b1_1(i,j,k) = pattern(A(i,j)) * b1(k)" in found


def test_activations() -> None:
    program = parse_program("H(i) = relu(a(i))\nZ(i) = relu(b(i) * H(i))")
    found = variants(program, ("activations",))
    assert list(found) == ["", "sparse H and Z", "sparse H", "sparse Z"]
    assert [s.function for s in found["sparse H"].statements] == ["sparse_relu", "", "relu"]


def test_tensors_read_twice_stay() -> None:
    program = parse_program("T(i,k) = A(i,j) * X(j,k)\nZ(i,m) = T(i,k) * W(k,m)\ny(i) = T(i,k) * v(k)")
    assert list(variants(program, ("products",))) == [""]


def test_unknown_labels_list_the_known() -> None:
    with pytest.raises(InputError, match=r"no rewriting 'A\*\(X\*V\)'. Did you mean 'A\*\(X\*W\)'"):
        rewriting(parse_program(CHAIN), "A*(X*V)")
