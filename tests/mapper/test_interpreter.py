"""The oracle against dense numpy, scipy and counts by hand: values, stored entries, effectual multiplies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

from mapper import synthetic
from mapper.datasets import find_data, load_tensor
from mapper.errors import InputError
from mapper.interpreter import effectual_multiplies, evaluate
from mapper.notation import parse_einsum, parse_program
from mapper.program import FUNCTIONS, ZERO_PRESERVING
from mapper.tensor import SparseTensor, Values

LETTERS = "ijklm"


def random_tensor(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> SparseTensor:
    """Entries -2 ... 2, stored zeros among them."""
    stored = rng.random(shape) < density
    if not shape:
        return SparseTensor.from_dense(rng.integers(-2, 3))
    return SparseTensor.from_coo(shape, np.argwhere(stored).T, rng.integers(-2, 3, size=int(stored.sum())))


def pattern(tensor: SparseTensor) -> Values:
    """1.0 at every stored entry."""
    return SparseTensor(tensor.shape, tensor.coords, np.ones(tensor.nnz)).to_dense()


@st.composite
def einsums(draw: st.DrawFn) -> tuple[str, dict[str, SparseTensor]]:
    """An einsum of one to three operands and random tensors for it, empty ones and extents 0 and 1 among them."""
    operands = draw(st.lists(st.lists(st.sampled_from(LETTERS), unique=True, max_size=3), min_size=1, max_size=3))
    used = sorted({letter for operand in operands for letter in operand})
    target = draw(st.lists(st.sampled_from(used), unique=True, max_size=4)) if used else []
    extents = {letter: draw(st.integers(0, 4)) for letter in used}
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    density = draw(st.sampled_from([0.0, 0.3, 0.7, 1.0]))
    text = ",".join(map("".join, operands)) + "->" + "".join(target)
    tensors = {
        f"A{n}": random_tensor(rng, tuple(extents[letter] for letter in operand), density)
        for n, operand in enumerate(operands)
    }
    return text, tensors


@settings(max_examples=300, deadline=None)
@given(einsums())
def test_contractions_equal_dense_einsum(case: tuple[str, dict[str, SparseTensor]]) -> None:
    text, tensors = case
    program = parse_einsum(text, list(tensors))
    result = evaluate(program, tensors)["Z"]
    assert np.array_equal(result.to_dense(), np.einsum(text, *(t.to_dense() for t in tensors.values())))
    if result.shape:  # cancelled sums and products with stored zeros are stored too
        reached = np.einsum(text, *map(pattern, tensors.values()))
        assert np.array_equal(pattern(result), (reached > 0).astype(float))
    non_zero = [(t.to_dense() != 0).astype(int) for t in tensors.values()]
    tuples = np.einsum(text.partition("->")[0] + "->", *non_zero)
    assert effectual_multiplies(program.statements[0], tensors) == tuples * (len(tensors) - 1)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_additions_equal_broadcast_numpy(data: st.DataObject) -> None:
    target = data.draw(st.permutations("ijk"))
    terms = data.draw(st.lists(st.lists(st.sampled_from("ijk"), unique=True), min_size=1, max_size=3))
    terms.append(data.draw(st.permutations("ijk")))
    signs = [data.draw(st.sampled_from([1, -1])) for _ in terms]
    extents = {letter: data.draw(st.integers(0, 3)) for letter in "ijk"}
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    text = f"Z({','.join(target)}) ="
    tensors, dense, stored = {}, 0.0, 0.0
    for n, (sign, term) in enumerate(zip(signs, terms, strict=True)):
        text += f" {'+' if sign > 0 else '-'} A{n}({','.join(term)})"
        tensors[f"A{n}"] = tensor = random_tensor(rng, tuple(extents[i] for i in term), 0.5)
        missing = [np.ones(extents[i]) for i in target if i not in term]
        spell = ",".join(["".join(term), *(i for i in target if i not in term)]) + "->" + "".join(target)
        dense = dense + sign * np.einsum(spell, tensor.to_dense(), *missing)
        stored = stored + np.einsum(spell, pattern(tensor), *missing)
    result = evaluate(parse_program(text.replace("= +", "=")), tensors)["Z"]
    assert np.array_equal(result.to_dense(), dense)
    assert np.array_equal(pattern(result), (np.asarray(stored) > 0).astype(float))
    assert result.notes == ()


DENSE_MAPS: dict[str, Callable[[Any], Any]] = {
    "relu": lambda x: np.where(x > 0, x, 0.0),
    "tanh": np.tanh,
    "abs": np.abs,
    "neg": lambda x: -x,
    "sqrt": np.sqrt,
    "square": lambda x: x * x,
    "gelu": lambda x: x * scipy.special.ndtr(x),
    "exp": np.exp,
    "log": np.log,
    "rsqrt": lambda x: x**-0.5,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}


@pytest.mark.parametrize("function", sorted(DENSE_MAPS))
@pytest.mark.parametrize("shape", [(3, 4), (0, 2), (1, 1)])
def test_maps(function: str, shape: tuple[int, int]) -> None:
    tensor = random_tensor(np.random.default_rng(1), shape, 0.5)
    tensor = SparseTensor(shape, tensor.coords, np.abs(tensor.values) if function == "sqrt" else tensor.values)
    if function in ("log", "rsqrt"):  # no zeros among the operands of functions that have a pole there
        tensor = SparseTensor.from_dense(np.abs(tensor.to_dense()) + 0.5)
    result = evaluate(parse_program(f"Z(j,i) = {function}(A(i,j))"), {"A": tensor})["Z"]
    assert np.allclose(result.to_dense(), DENSE_MAPS[function](tensor.to_dense().T), rtol=1e-14, atol=0)
    everywhere = function not in ZERO_PRESERVING
    assert np.array_equal(pattern(result), np.ones(shape[::-1]) if everywhere else pattern(tensor).T)


def test_every_function_is_tested() -> None:
    assert FUNCTIONS - {"scale", "shift", "stored_exp", "sparse_relu"} == set(DENSE_MAPS)


def test_maps_that_look_at_what_is_stored() -> None:
    stored = SparseTensor.from_coo((4,), np.array([[0, 1, 3]]), np.array([-1.0, 0.0, 2.0]))
    program = parse_program(
        "E(i) = stored_exp(a(i))\nR(i) = sparse_relu(a(i))\nP(i) = pattern(a(i))\nS(i) = a(i) + 1.5"
    )
    result = evaluate(program, {"a": stored})
    assert result["E"].coords.tolist() == [[0, 1, 3]] and np.allclose(result["E"].values, np.exp(stored.values))
    assert (result["R"].coords.tolist(), result["R"].values.tolist()) == ([[3]], [2.0])
    assert result["P"].to_dense().tolist() == [1.0, 1.0, 0.0, 1.0]
    assert result["S"].to_dense().tolist() == [0.5, 1.5, 1.5, 3.5]


def test_softmax_ranges_over_stored_entries() -> None:
    rng = np.random.default_rng(4)
    score, stored = rng.normal(size=(5, 6)), rng.random((5, 6)) < 0.5
    stored[2] = False
    mask = SparseTensor.from_coo(stored.shape, np.argwhere(stored).T, np.full(int(stored.sum()), 3.0))
    program = parse_program("P(i,j) = softmax(j, S(i,j) * pattern(M(i,j)))")
    result = evaluate(program, {"S": SparseTensor.from_dense(score), "M": mask})["P"]
    weight = np.where(stored, np.exp(score), 0.0)
    assert np.allclose(result.to_dense(), weight / np.maximum(weight.sum(1, keepdims=True), 1e-300))
    assert np.array_equal(pattern(result), stored)


def test_layernorm_is_that_of_the_definition() -> None:
    x = np.random.default_rng(5).normal(size=(3, 7))
    result = evaluate(parse_program("Y(i,j) = layernorm(j, X(i,j))"), {"X": SparseTensor.from_dense(x)})["Y"]
    assert np.allclose(result.to_dense(), (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5))


def test_maximum_of_negative_entries() -> None:
    rows = SparseTensor.from_coo((3, 2), np.array([[0, 0, 2], [0, 1, 1]]), np.array([-3.0, -1.0, -7.0]))
    result = evaluate(parse_program("M(i) = max(j, A(i,j))"), {"A": rows})["M"]
    assert (result.coords.tolist(), result.values.tolist()) == ([[0, 2]], [-1.0, -7.0])


def test_pairs_meet_where_both_are_stored() -> None:
    rng = np.random.default_rng(6)
    a, b = random_tensor(rng, (4, 5), 0.6), random_tensor(rng, (4, 3), 0.6)
    divisor = SparseTensor(b.shape, b.coords, np.abs(b.values) + 1.0)
    program = parse_program("Q(i,j,k) = A(i,j) / B(i,k)\nD(i,j,k) = A(i,j) .- B(i,k)\nS(j,k) = A(i,j) .+ B(i,k)")
    result = evaluate(program, {"A": a, "B": divisor})
    both = pattern(a)[:, :, None] * pattern(divisor)[:, None, :]
    x, y = a.to_dense()[:, :, None], divisor.to_dense()[:, None, :]
    assert np.allclose(result["Q"].to_dense(), both * x / np.where(y == 0, 1, y))
    assert np.allclose(result["D"].to_dense(), both * (x - y))
    assert np.allclose(result["S"].to_dense(), (both * (x + y)).sum(0))
    assert np.array_equal(pattern(result["Q"]), both)


def test_scale_and_scalars() -> None:
    program = parse_program("s = a(i) * b(i)\nt = exp(0.5 * s)\nZ(i) = t * a(i) - s")
    a, b = np.array([1.0, 0.0, 2.0]), np.array([3.0, 1.0, -1.0])
    result = evaluate(program, {"a": SparseTensor.from_dense(a), "b": SparseTensor.from_dense(b)})
    assert set(result) == set(program.producers)
    assert result["s"].values.tolist() == [1.0]
    assert np.allclose(result["Z"].to_dense(), np.exp(0.5) * a - 1.0)
    assert result["Z"].nnz == 3


def test_a_scalar_without_products_is_zero() -> None:
    empty = SparseTensor.from_dense(np.zeros(3))
    assert evaluate(parse_program("s = a(i) * b(i)"), {"a": empty, "b": empty})["s"].values.tolist() == [0.0]


DENSE_PROGRAMS: dict[str, Callable[..., Any]] = {
    "Z(i,m) = relu((A(i,j)*X(j,k))*W(k,m) + b(m))": lambda A, X, W, b: np.maximum(A @ X @ W + b, 0),
    "Z(i,m) = A(i,j)*X(j,k)*W(k,m)": lambda A, X, W, b: A @ X @ W,
    "z(i) = (A(i,j) + b(i)) * b(j)": lambda A, X, W, b: (A + b[:, None]) @ b,
    "z(i) = relu(A(i,j)) + b(i)": lambda A, X, W, b: np.maximum(A.sum(1), 0) + b,
    "z(i) = sum(j, relu(A(i,j))) - 0.5*b(i)": lambda A, X, W, b: np.maximum(A, 0).sum(1) - 0.5 * b,
    "z(i) = sum(j, A(i,j) + b(i))": lambda A, X, W, b: (A + b[:, None]).sum(1),
    "z(i) = A(i,j)*b(j) - X(i,j)": lambda A, X, W, b: A @ b - X.sum(1),
    "z = -(A(i,j) * X(j,i))": lambda A, X, W, b: np.asarray(-np.trace(A @ X)),
    "z(i) = sum(j, A(i,j)) * sum(j, X(i,j))": lambda A, X, W, b: A.sum(1) * X.sum(1),
    "z(j) = relu(A(i,j)) * b(i)": lambda A, X, W, b: np.maximum(A, 0).T @ b,
}


@pytest.mark.parametrize("text", DENSE_PROGRAMS)
def test_programs_mean_what_the_notation_says(text: str) -> None:
    rng = np.random.default_rng(7)
    tensors = {name: random_tensor(rng, (4, 4), 0.6) for name in "AXW"} | {"b": random_tensor(rng, (4,), 0.7)}
    program = parse_program(text)
    result = evaluate(program, tensors)[program.outputs[0]]
    expected = DENSE_PROGRAMS[text](*(tensors[name].to_dense() for name in "AXWb"))
    assert np.array_equal(result.to_dense(), expected)


@pytest.mark.parametrize("shape", [(30, 40, 20), (1, 50, 1), (50, 1, 50), (0, 5, 5), (5, 0, 5)])
def test_matrix_product_equals_scipy(shape: tuple[int, int, int]) -> None:
    a = synthetic.uniform(shape[:2], 0.2, 1)
    b = synthetic.uniform(shape[1:], 0.2, 2)
    result = evaluate(parse_einsum("ik,kj->ij", ["A", "B"]), {"A": a, "B": b})["Z"]
    expected = scipy.sparse.csr_array(a.to_dense()) @ scipy.sparse.csr_array(b.to_dense())
    assert np.array_equal(result.to_dense(), expected.toarray())


def test_cancellation_keeps_the_entry() -> None:
    tensors = {
        "A": SparseTensor.from_dense([[1.0, 1.0, 0.0], [0.0, 2.0, 0.0]]),
        "B": SparseTensor.from_dense([[1.0, 2.0], [-1.0, 0.0], [5.0, 5.0]]),
    }
    result = evaluate(parse_einsum("ik,kj->ij", ["A", "B"]), tensors)["Z"]
    assert result.coords.tolist() == [[0, 0, 1], [0, 1, 0]]
    assert result.values.tolist() == [0.0, 2.0, -2.0]


def test_non_finite_values_flow() -> None:
    tensors = {"A": SparseTensor.from_dense([[np.inf, np.nan], [1.0, 0.0]]), "b": SparseTensor.from_dense([1.0, 2.0])}
    result = evaluate(parse_program("z(i) = A(i,j) * b(j)\nr(i) = sqrt(-z(i))"), tensors)
    assert np.array_equal(result["z"].values, [np.nan, 1.0], equal_nan=True)
    assert np.isnan(result["r"].values).all()


def test_extents_whose_product_exceeds_64_bits() -> None:
    far = 5_000_000_000 - 1
    entries = {(0, far, far): 1.0, (far, 0, far): 2.0, (far, far, 0): 3.0, (1, far, far): 4.0}
    a = SparseTensor.from_coo((far + 1,) * 3, np.array(list(entries)).T, list(entries.values()))
    program = parse_program("Z(i,l) = A(i,j,k) * A(l,j,k)\nY(k,j) = A(i,j,k)\nX(i,j,k) = A(i,j,k) + A(i,j,k)")
    result = evaluate(program, {"A": a})
    pairs = [(p, q) for p in entries for q in entries if p[1:] == q[1:]]
    expected: dict[tuple[int, int], float] = {}
    for p, q in pairs:
        expected[p[0], q[0]] = expected.get((p[0], q[0]), 0.0) + entries[p] * entries[q]
    assert stored(result["Z"]) == expected
    assert stored(result["Y"]) == {(far, far): 5.0, (far, 0): 2.0, (0, far): 3.0}
    assert stored(result["X"]) == {at: 2 * value for at, value in entries.items()}


def stored(tensor: SparseTensor) -> dict[tuple[int, ...], float]:
    """Entries by coordinates."""
    return dict(zip(map(tuple, tensor.coords.T.tolist()), tensor.values.tolist(), strict=True))


def test_effectual_multiplies_of_other_statements() -> None:
    a = synthetic.dense((3, 3), 1)
    program = parse_program("T(i,j) = A(j,i)\nZ(i,j) = relu(A(i,j) + T(i,j))")
    known = {"A": a, **evaluate(program, {"A": a})}
    assert [effectual_multiplies(s, known) for s in program.statements] == [0, 0, 0]


def test_stored_zeros_are_not_effectual() -> None:
    a = SparseTensor.from_coo((2, 2), [[0, 0, 1], [0, 1, 1]], [1.0, 0.0, 1.0])
    b = SparseTensor.from_dense(np.ones((2, 3)))
    program = parse_einsum("ik,kj->ij", ["A", "B"])
    assert effectual_multiplies(program.statements[0], {"A": a, "B": b}) == 6
    chain = parse_einsum("ik,kj,jl->il", ["A", "B", "C"])
    c = SparseTensor.from_dense(np.ones((3, 2)))
    assert effectual_multiplies(chain.statements[0], {"A": a, "B": b, "C": c}) == 2 * (2 * 3 * 2)


def test_too_large_to_fill() -> None:
    row = np.arange(2**10)
    a = SparseTensor.from_coo((2**20, 2**20), [row, row], np.ones(row.size))
    for text in ("Z(i,j) = exp(A(i,j))", "Z(i,j,k) = A(i,j) + A(i,k)"):
        with pytest.raises(InputError, match=r"would store \d+ entries, at most 268435456"):
            evaluate(parse_program(text), {"A": a})


def test_bad_inputs() -> None:
    program = parse_program("Z(i,j) = A(i,k) * B(k,j)")
    a = synthetic.dense((2, 3), 1)
    with pytest.raises(InputError, match="tensor 'B' has no data"):
        evaluate(program, {"A": a})
    with pytest.raises(InputError, match="index 'k' has extent 3 by mode 1 of 'A', but mode 0 of 'B' has 2"):
        evaluate(program, {"A": a, "B": a})


def test_wiki_vote_squared(data_dir: Path) -> None:
    a = load_tensor(find_data("wiki-Vote", data_dir))
    program = parse_einsum("ik,kj->ij", ["A", "A"])
    assert evaluate(program, {"A": a})["Z"].nnz == 1_831_112
    assert effectual_multiplies(program.statements[0], {"A": a}) == 4_542_805
