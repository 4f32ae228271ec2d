"""Simulated values equal numpy's and scipy's for whole mappings: tiles, cuts, lanes, formats and orders mixed."""

from __future__ import annotations

import itertools
import string

import numpy as np
import pytest
import scipy.sparse as sp

from hwsim import Limits
from mapper.formats import pads
from mapper.machine import load_machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_einsum, parse_program
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.synthetic import uniform
from mapper.tensor import SparseTensor
from mapper.workload import Workload
from tuner.evaluate import StorageCache, evaluate

MAPPINGS = 10
RDA = load_machine("rda")


def random_matrix(rng: np.random.Generator, rows: int, columns: int) -> SparseTensor:
    """Density from 0 to 20 %, a third of the rows emptied; values are eighths, so that sums are exact."""
    kept = rng.random((rows, columns)) < rng.choice([0.0, 0.02, 0.08, 0.2])
    kept &= rng.random((rows, 1)) > 1 / 3
    return SparseTensor.from_dense(np.where(kept, rng.integers(1, 32, (rows, columns)) / 8, 0.0))


def full(rng: np.random.Generator, *shape: int) -> SparseTensor:
    return SparseTensor.from_dense(rng.integers(-16, 17, shape) / 8, keep_zeros=True)


def extent(rng: np.random.Generator, case: int, position: int) -> int:
    """Extents up to 200; the first cases pin 1 x N, N x 1 and 1 x 1."""
    if case < 3 and position in ((0,), (1,), (0, 1))[case]:
        return 1
    return int(np.exp(rng.uniform(0, np.log(200)))) if case < 17 else int(rng.integers(1, 201))


def to_scipy(tensor: SparseTensor) -> sp.csr_array:
    return sp.csr_array((tensor.values, tuple(tensor.coords)), shape=tensor.shape)


def check(workload: Workload, expected: np.ndarray, rng: np.random.Generator, mappings: int = MAPPINGS) -> None:
    """Mappings sampled uniformly from the space, half of them among those with something fused where that exists."""
    space, cache = MappingSpace(workload, RDA), StorageCache()
    fused = [f for f in space.fusions if not all(f.cuts)]
    for n in range(mappings):
        mapping = space.sample(rng, fused if n % 2 and fused else None)
        result = evaluate(workload, mapping, RDA, Limits(max_tokens=50_000_000), cache)
        assert result.failure is None, (result.failure, mapping)
        if not any(pads(kinds) for _, kinds in mapping.formats):
            assert result.summary["effectual_multiplies"] == workload.variant(mapping.variant).effectual_multiplies
        (output,) = workload.program.outputs
        np.testing.assert_array_equal(result.outputs[output].to_dense(), expected)


@pytest.mark.parametrize("case", range(20))
def test_spmv(case: int) -> None:
    rng = np.random.default_rng([1, case])
    rows, columns = (extent(rng, case, n) for n in range(2))
    a = random_matrix(rng, rows, columns)
    x = full(rng, columns) if case % 2 else SparseTensor.from_dense(random_matrix(rng, 1, columns).to_dense()[0])
    workload = Workload(parse_program("y(i) = A(i,j) * x(j)"), {"A": a, "x": x})
    check(workload, to_scipy(a) @ x.to_dense(), rng)


@pytest.mark.parametrize("case", range(20))
def test_spmm(case: int) -> None:
    rng = np.random.default_rng([2, case])
    rows, inner, columns = (extent(rng, case, n) for n in range(3))
    a, b = random_matrix(rng, rows, inner), full(rng, inner, min(columns, 32))
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), {"A": a, "B": b})
    check(workload, to_scipy(a) @ b.to_dense(), rng)


@pytest.mark.parametrize("case", range(20))
def test_spmspm(case: int) -> None:
    rng = np.random.default_rng([3, case])
    rows, inner, columns = (extent(rng, case, n) for n in range(3))
    a, b = random_matrix(rng, rows, inner), random_matrix(rng, inner, columns)
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), {"A": a, "B": b})
    check(workload, (to_scipy(a) @ to_scipy(b)).toarray(), rng)


@pytest.mark.parametrize("case", range(20))
def test_gcn_layer(case: int) -> None:
    rng = np.random.default_rng([4, case])
    nodes, features = extent(rng, case, 0), extent(rng, case, 1)
    width = int(rng.integers(1, 9))
    a, x = random_matrix(rng, nodes, nodes), random_matrix(rng, nodes, features)
    w, b = full(rng, features, width), full(rng, width)
    program = parse_program("Z(i,m) = relu((A(i,j) * X(j,k)) * W(k,m) + b(m))")
    expected = np.maximum((to_scipy(a) @ to_scipy(x)) @ w.to_dense() + b.to_dense(), 0.0)
    check(Workload(program, {"A": a, "X": x, "W": w, "b": b}), expected, rng)


@pytest.mark.parametrize("case", range(50))
def test_random_einsum(case: int) -> None:
    rng = np.random.default_rng([5, case])
    letters = string.ascii_lowercase[: int(rng.integers(1, 5))]
    extents = {i: int(rng.integers(1, 13)) for i in letters}
    inputs = [
        "".join(rng.permutation(list(letters))[: int(rng.integers(1, min(3, len(letters)) + 1))])
        for _ in range(int(rng.integers(1, 4)))
    ]
    used = sorted(set("".join(inputs)))
    output = "".join(rng.permutation(used)[: int(rng.integers(0, min(3, len(used)) + 1))])
    arrays = [
        np.where(rng.random([extents[i] for i in t]) < 0.4, rng.integers(1, 9, [extents[i] for i in t]) / 8, 0)
        for t in inputs
    ]
    spec = ",".join(inputs) + "->" + output
    names = tuple("ABC"[: len(inputs)])
    tensors = {n: SparseTensor.from_dense(a) for n, a in zip(names, arrays, strict=True)}
    workload = Workload(parse_einsum(spec, names=names, target="Z"), tensors)
    check(workload, np.einsum(spec, *arrays), rng)


@pytest.mark.parametrize("products", [1, 2])
def test_a_residual_around_products_in_one_region(products: int) -> None:
    rng = np.random.default_rng(products)
    x, v, w = random_matrix(rng, 24, 10), full(rng, 10, 10), full(rng, 10, 10)
    chain = ["T(i,k) = relu(X(i,k))", "H(i,j) = T(i,k) * V(k,j)", "Y(i,k) = H(i,j) * W(j,k)"]
    lines = [*chain[: 1 + products], f"Z(i,k) = T(i,k) + {'HY'[products - 1]}(i,k)"]
    tensors = {"X": x, "V": v, "W": w} if products == 2 else {"X": x, "V": v}
    workload = Workload(parse_program("\n".join(lines)), tensors)
    t = np.maximum(x.to_dense(), 0.0)
    expected = t + t @ v.to_dense() @ (w.to_dense() if products == 2 else np.eye(10))
    space = MappingSpace(workload, RDA)
    whole = [f for f in space.fusions if not any(f.cuts)]
    for _ in range(MAPPINGS):
        mapping = space.sample(rng, whole)
        near = itertools.islice(space.neighbours(mapping), 20)
        assert not any(map(space.violations, (mapping, *near)))
        result = evaluate(workload, mapping, RDA, Limits())
        assert result.failure is None, (result.failure, mapping)
        np.testing.assert_array_equal(result.outputs["Z"].to_dense(), expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("T(k) = 2 * B(k)\nZ(k) = pattern(T(k)) + D(k)", [1.0, 3.0, 1.0, 4.0]),
        ("T(k) = B(k) * C\nZ(k) = C - pattern(T(k))", [-0.5, 0.5, -0.5, 0.5]),
        ("T = B(k) * D(k)\nZ(k) = pattern(T) + D(k)", [1.0, 4.0, 1.0, 5.0]),  # a scalar is stored, if empty as 0
    ],
)
def test_a_fused_pattern_in_a_sum_counts_where_something_is_stored(text: str, expected: list[float]) -> None:
    tensors = {"B": np.array([1.0, 0, 2, 0]), "C": np.array(0.5), "D": np.array([0.0, 3, 0, 4])}
    program = parse_program(text)
    workload = Workload(program, {n: SparseTensor.from_dense(tensors[n]) for n in program.inputs})
    space, rng = MappingSpace(workload, RDA, SpaceLimits(fuse_others=True)), np.random.default_rng(0)
    for _ in range(MAPPINGS):
        result = evaluate(workload, space.sample(rng), RDA, Limits())
        assert result.failure is None, result.failure
        assert result.outputs["Z"].to_dense().tolist() == expected


@pytest.mark.parametrize("case", range(40))
def test_sums_store_what_some_operand_stores(case: int) -> None:
    """Operands that lack indices, stored or streams, under any loops: no explicit zeros where none of them is."""
    rng = np.random.default_rng([6, case])
    letters = "ijk"[: int(rng.integers(2, 4))]
    extents = {i: int(rng.integers(1, 8)) for i in letters}
    indices = ["".join(rng.permutation(list(letters))[: int(rng.integers(1, 4))]) for _ in range(rng.integers(2, 6))]
    accesses = [f"{name}({','.join(own)})" for name, own in zip("ABCDE", indices, strict=False)]
    fused = rng.random(len(indices)) < 0.3
    lines = [f"T{a} = 2 * {a}" for a, made in zip(accesses, fused, strict=True) if made]
    target = ",".join(rng.permutation(sorted(set("".join(indices)))))
    lines += [f"S({target}) = " + " + ".join(f"T{a}" if made else a for a, made in zip(accesses, fused, strict=True))]
    lines += [f"Z({target}) = softmax({target[0]}, S({target}))"] * int(rng.integers(2))
    shapes = {name: tuple(extents[i] for i in own) for name, own in zip("ABCDE", indices, strict=False)}
    tensors = {name: uniform(shape, float(rng.choice([0.05, 0.2, 0.5])), case) for name, shape in shapes.items()}
    workload = Workload(parse_program("\n".join(lines)), tensors)
    space = MappingSpace(workload, RDA, SpaceLimits(tiles={i: (0, 2, 3) for i in target if i in letters}))
    for _ in range(MAPPINGS):
        mapping = space.sample(rng)
        result = evaluate(workload, mapping, RDA, Limits())
        assert result.failure is None, (result.failure, mapping)
        if not any(pads(kinds) for _, kinds in mapping.formats):
            (output,) = workload.program.outputs
            np.testing.assert_array_equal(result.outputs[output].coords, workload.computed[output].coords)


@pytest.mark.parametrize("operator", ["+", "*"])
def test_more_operands_than_a_join_takes(operator: str) -> None:
    rng, names = np.random.default_rng(8), [f"A{n}" for n in range(11)]
    tensors = {name: full(rng, 5, 6) for name in names} | {"A3": random_matrix(rng, 5, 6)}
    workload = Workload(parse_program("Z(i,j) = " + f" {operator} ".join(f"{n}(i,j)" for n in names)), tensors)
    expected = (np.add if operator == "+" else np.multiply).reduce([tensors[n].to_dense() for n in names])
    check(workload, expected, rng, 6)


def test_lanes_over_three_indices() -> None:
    rng = np.random.default_rng(4)
    a, b = random_matrix(rng, 40, 36), random_matrix(rng, 36, 30)
    workload = Workload(parse_program("T(i,j) = A(i,k) * B(k,j)\nZ(i,j) = relu(T(i,j))"), {"A": a, "B": b})
    space, expected = (
        MappingSpace(workload, RDA, SpaceLimits(max_lanes=8)),
        np.maximum((to_scipy(a) @ to_scipy(b)).todense(), 0),
    )
    drawn = (space.sample(rng) for _ in itertools.count())
    for mapping in itertools.islice((m for m in drawn if len(m.loops[0].parallel) == 3), 12):
        result = evaluate(workload, mapping, RDA, Limits())
        assert result.failure is None, (result.failure, mapping)
        np.testing.assert_array_equal(result.outputs["Z"].to_dense(), expected)


@pytest.mark.parametrize("text", ["Z(i,j) = A(i,k) * B(k,j)", "Z(i,j,r) = X(i,j,k) * B(k,r)"])
def test_lanes_that_share_a_sum_do_not_hold_each_other_up(text: str) -> None:
    """Most tiles of a lane are empty, many more in a row than a FIFO holds."""
    rng, machine = np.random.default_rng(3), RDA.with_fields(fifo_depth=4)
    tensors = {"A": rng.random((24, 20)) < 0.08, "X": rng.random((12, 10, 9)) < 0.05, "B": rng.random((20, 9)) < 0.3}
    tensors["B"] = tensors["B"][: 9 if "X" in text else 20]
    inputs = {n: SparseTensor.from_dense(t * 1.0) for n, t in tensors.items() if f"{n}(" in text}
    workload = Workload(parse_program(text), inputs)
    space = MappingSpace(workload, machine, SpaceLimits(max_lanes=4, rewrites=()))
    found = 0
    while found < 12:
        mapping = space.sample(rng)
        (loops,) = mapping.loops
        if any(index == "k" for index, _, _ in loops.parallel) and len(loops.tiles) > 1:
            result = evaluate(workload, mapping, machine, Limits())
            assert result.failure is None, (result.failure, mapping)
            found += 1


def test_a_deadlock_says_who_waits_and_what_would_do() -> None:
    """Rows of T that D lacks wait in the FIFO of the level below, as its reader hears of none of them."""
    rows = np.arange(200)
    a = SparseTensor.from_dense(np.ones((200, 3)))
    d = SparseTensor.from_dense(np.isin(rows, [3, 190]) * 1.0)
    workload = Workload(parse_program("T(i,j) = relu(A(i,j))\nZ(i,j) = T(i,j) * D(i)"), {"A": a, "D": d})
    loops = (Loops(("i", "j")),) * 2
    kinds = (("A", ("compressed",) * 2), ("D", ("compressed",)), ("Z", ("compressed",) * 2))
    mapping = Mapping((False,), loops, kinds)
    result = evaluate(workload, mapping, RDA, Limits())
    assert result.failure is not None and result.failure.startswith("S0+S1: deadlock: ")
    chain = result.failure.split(": ")[2].split("; ")[0].split(" > ")
    assert chain[0] == chain[-1] and "select T in S1.j" in chain and "holds 64 of 64" in result.failure
    depth = int(result.failure.rpartition("a FIFO depth of ")[2].split()[0])
    for enough in (depth - 1, depth):
        run = evaluate(workload, mapping, RDA.with_fields(fifo_depth=enough), Limits())
        assert (run.failure is None) == (enough == depth)


@pytest.mark.parametrize(
    "text", ["Z(i,j) = log(A(i,j))", "D(i) = A(i,j)\nZ(i) = rsqrt(D(i))", "Z(i,j) = A(i,j) / A(i,j)"]
)
def test_results_that_are_not_finite_are_results(text: str) -> None:
    a = SparseTensor.from_dense(np.diag([2.0, 0.0, -4.0]), keep_zeros=True)
    workload = Workload(parse_program(text), {"A": a})
    result = evaluate(workload, MappingSpace(workload, RDA).sample(np.random.default_rng(0)), RDA, Limits())
    assert result.failure is None and not np.isfinite(workload.computed["Z"].values).all()


def test_a_rewriting_must_give_what_the_program_as_written_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    a = SparseTensor.from_dense(np.diag([2.0, 3.0]))
    workload, other = (Workload(parse_program(f"Z(i,j) = {n} * A(i,j)"), {"A": a}) for n in (2, 3))
    mapping = MappingSpace(workload, RDA).sample(np.random.default_rng(0))
    assert evaluate(workload, mapping, RDA, Limits()).failure is None
    monkeypatch.setattr(Workload, "variant", lambda self, label: other)
    assert "differs from the oracle by 3" in (evaluate(workload, mapping, RDA, Limits()).failure or "")
