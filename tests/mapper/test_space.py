"""The mapping space: counted exactly, sampled uniformly, legal by construction, empty only with a reason."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from mapper.canonical import plain
from mapper.default_mapping import default_mapping
from mapper.errors import EmptySpace, IllegalMapping, InputError
from mapper.formats import parse_format
from mapper.machine import load_machine
from mapper.mapping import Mapping
from mapper.notation import parse_program
from mapper.residency import RESIDENCIES
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.synthetic import generate
from mapper.tensor import SparseTensor
from mapper.workload import Workload

RDA = load_machine("rda")


def product(rows: int = 40, inner: int = 30, columns: int = 20) -> Workload:
    a = generate("uniform", shape=(rows, inner), density=0.1, seed=1)
    b = generate("uniform", shape=(inner, columns), density=0.1, seed=2)
    return Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), {"A": a, "B": b})


def chain() -> Workload:
    a, x = (generate("uniform", shape=(24, 24), density=0.2, seed=s) for s in (1, 2))
    w = generate("uniform", shape=(24, 4), density=1.0, seed=3)
    b = generate("uniform", shape=(4,), density=1.0, seed=4)
    return Workload(parse_program("Z(i,m) = relu((A(i,j) * X(j,k)) * W(k,m) + b(m))"), {"A": a, "X": x, "W": w, "b": b})


class Scripted:
    """Answers every knob from a table, else takes the first choice."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers, self.asked = answers, list[str]()

    def categorical(self, name: str, choices: Sequence[Any]) -> Any:
        self.asked.append(name)
        return self.answers.get(name, choices[0])

    def integer(self, name: str, low: int, high: int) -> int:
        self.asked.append(name)
        return int(self.answers.get(name, high))


def test_size_is_the_product_of_the_knobs() -> None:
    limits = SpaceLimits(
        max_lanes=2, tiles={"i": (8, 16), "j": (0,), "k": (4,)}, residency=("none",), partitions=("block", "cyclic")
    )
    # 6 orders x 2 orders of the tile loops x 2 tiles of i x (no lanes, 2 over i, j or k, dealt out in 2 ways)
    # x 2 formats for each of A, B, 3 for Z, which is denser
    loops, formats = 6 * 2 * 2 * (1 + 3 * 2), 2**2 * 3
    assert MappingSpace(product(), RDA, limits).size() < loops * formats  # parts of whole tiles are too much for FIFOs
    machine = RDA.with_fields(fifo_depth=None)
    assert MappingSpace(product(), machine, limits).size() == loops * formats
    every = dataclasses.replace(limits, residency=tuple(RESIDENCIES))
    assert MappingSpace(product(), machine, every).size() == 4 * loops * formats
    single = machine.with_fields(prefetch_tiles=1)  # keep needs two buffers
    assert MappingSpace(product(), single, every).size() == 3 * loops * formats
    no_memory = load_machine("comal")  # nothing is loaded, so nothing can stay
    assert MappingSpace(product(), no_memory, every).size() == loops * formats


def test_lanes_leave_out_what_has_too_few_steps() -> None:
    limits = SpaceLimits(
        max_lanes=4, tiles={"i": (8, 16), "j": (0,), "k": (0,)}, residency=("none",), partitions=("block",),
        parallel_indices=("i",), formats={t: (parse_format("csf", 2),) for t in "ABZ"},
    )  # fmt: skip
    extent = product().extents[0]["i"]
    fitting = sum(-(-extent // tile) >= lanes for tile in (8, 16) for lanes in (1, 2, 4))
    assert MappingSpace(product(), RDA, limits).size() == 6 * fitting


def test_samples_are_legal_and_uniform() -> None:
    limits = SpaceLimits(
        max_lanes=1, tiles={"i": (8,), "j": (0,), "k": (0,)}, residency=("keep", "overbooked"),
        formats={t: (parse_format("csf", 2),) for t in "ABZ"},
    )  # fmt: skip
    space = MappingSpace(product(), RDA, limits)
    rng = np.random.default_rng(0)
    drawn = Counter(space.sample(rng).key for _ in range(1200))
    assert len(drawn) == space.size() == 12
    assert chisquare(list(drawn.values())).pvalue > 1e-3


def test_fused_samples_are_legal() -> None:
    space = MappingSpace(chain(), RDA)
    rng = np.random.default_rng(1)
    fused = [f for f in space.fusions if not any(f.cuts)]
    assert {len(f.cuts) for f in fused} == {2, 3}  # A * X * W at once is one statement less
    for _ in range(50):
        mapping = space.sample(rng, fused)
        assert space.violations(mapping) == ()
        assert not any(mapping.cuts)
        assert Mapping.from_json(plain(mapping)) == mapping


def test_choosing_asks_only_open_knobs() -> None:
    space = MappingSpace(chain(), RDA)
    chooser = Scripted({"cut.T1>S1.0": "fused", "order.S0+S1": "i,j,k | i,k,m"})
    mapping = space.choose(chooser)
    assert mapping.cuts == (False, True, True)
    assert "format.T1" not in chooser.asked  # a stream has no stored format
    assert "tile.S1.m" not in chooser.asked  # a reader of streams tiles only what its streams hold
    assert "tile.S0.j" in chooser.asked


def test_cuts_without_a_common_order_are_refused_with_the_rule() -> None:
    a, b, c = (generate("uniform", shape=(8, 8), density=0.5, seed=s) for s in range(3))
    program = parse_program("T(k,j) = B(k,l) * C(l,j)\nZ(i,j) = A(i,k) * T(k,j)\ny(k) = T(k,j)")
    space = MappingSpace(Workload(program, {"A": a, "B": b, "C": c}), RDA)
    names = [f"cut.{e.name}" for e in program.edges]
    # T read by two fused statements: both regions join, and a cut between them is then impossible.
    chooser = Scripted({names[0]: "fused", names[1]: "cut"})
    assert space.choose(chooser).cuts == (False, True)
    pinned = SpaceLimits(orders={"Z": (("i", "k", "j"),)}, fuse={"T": True})
    with pytest.raises(EmptySpace, match=r"no-common-order.*limits say that it is fused"):
        MappingSpace(space.workload, RDA, pinned).size()
    with pytest.raises(IllegalMapping, match="limits say that it is fused"):
        MappingSpace(space.workload, RDA, pinned).choose(Scripted({}))


def test_formats_with_a_mode_order_restrict_the_loop_orders() -> None:
    limits = SpaceLimits(formats={"A": (parse_format("csr", 2),), "B": (parse_format("csr", 2),)})
    space = MappingSpace(product(), RDA, limits)
    rng = np.random.default_rng(0)
    assert {space.sample(rng).loops[0].order for _ in range(20)} == {("i", "k", "j")}
    with pytest.raises(IllegalMapping, match="format-order at A"):
        space.choose(Scripted({"order.S0": "k,i,j"}))
    both = SpaceLimits(
        formats={"A": (parse_format("csr", 2),), "B": (parse_format("csr", 2),)}, orders={"Z": (("j", "k", "i"),)}
    )
    with pytest.raises(EmptySpace, match="format-order at A"):
        MappingSpace(product(), RDA, both).size()


def test_units_bound_the_lanes() -> None:
    poor = load_machine("rda")
    few = type(poor)(
        **{f: getattr(poor, f) for f in poor.__slots__ if f != "units"}, units={**(poor.units or {}), "accumulate": 1}
    )
    limits = SpaceLimits(orders={"Z": (("i", "k", "j"),)})
    space = MappingSpace(product(), few, limits)
    mappings = [space.sample(np.random.default_rng(n)) for n in range(20)]
    assert {m.loops[0].lanes for m in mappings} == {1}
    none = type(poor)(**{f: getattr(poor, f) for f in poor.__slots__ if f != "units"}, units={})
    with pytest.raises(EmptySpace, match="units"):
        MappingSpace(product(), none, limits).sample(np.random.default_rng(0), tries=20)


@pytest.mark.parametrize("cut", [True, False])
def test_dead_ends_of_limits_are_drawn_anew_where_cuts_are_not_listed(cut: bool) -> None:
    # T0 fused with both of its readers makes one region of all three: U is then fused, whatever limits say
    lines = ["T0(i,j) = relu(A(i,j))", "U(i,j) = relu(T0(i,j))", "T1(i,j) = T0(i,j) * U(i,j)"]
    lines += [f"T{n + 1}(i,j) = relu(T{n}(i,j))" for n in range(1, 12)]
    workload = Workload(parse_program("\n".join(lines)), {"A": SparseTensor.from_dense(np.eye(4))})
    space = MappingSpace(workload, load_machine("comal"), SpaceLimits(fuse={"U": not cut}))
    assert not space.programs[""].listed
    rng, place = np.random.default_rng(0), [edge.tensor for edge in workload.program.edges].index("U")
    drawn = [space.sample(rng) for _ in range(50)]
    assert {mapping.cuts[place] for mapping in drawn} == {cut}
    assert not any(space.violations(mapping) for mapping in drawn)


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="Did you mean 'k'"):
        MappingSpace(product(), RDA, SpaceLimits(tiles={"kk": (8,)}))
    with pytest.raises(InputError, match="permutation of i, j, k"):
        MappingSpace(product(), RDA, SpaceLimits(orders={"Z": (("i", "k"),)}))


def test_the_default_is_gustavson_on_the_largest_square_tile() -> None:
    default = default_mapping(MappingSpace(product(300, 300, 300), RDA))
    # 128 x 128 values of 4 bytes fill the 64 KiB buffer exactly.
    assert default.loops[0].order == ("i", "k", "j")
    assert default.loops[0].tiles == (("i", 128), ("k", 128), ("j", 128))
    assert dict(default.formats)["A"] == ("dense", "compressed")


def test_sparse_activations_are_not_offered_where_what_they_leave_out_counts() -> None:
    """R .- C is taken where both are stored: without R's zeros it would lose the entries with C < 0."""
    c = SparseTensor.from_dense(np.array([[-0.5, 0.25], [0.5, -1.0]]))
    workload = Workload(parse_program("R(i,j) = relu(C(i,j)); T(i,j) = R(i,j) .- C(i,j)"), {"C": c})
    assert set(MappingSpace(workload, RDA, SpaceLimits(rewrites=("activations",))).programs) == {""}
    asked = SpaceLimits(variants=("sparse R",))
    with pytest.raises(EmptySpace, match="change the results"):
        MappingSpace(workload, RDA, asked).size()


@pytest.mark.parametrize(("v", "offered"), [([0.0, 3.0, 0.0], False), ([0.0, 3.0, 1.0], True)])
def test_products_are_not_offered_that_store_a_number_of_nothing(v: list[float], offered: bool) -> None:
    """A number is always stored, and so would be its products, which a softmax tells from nothing."""
    tensors = {"U": np.array([1.0, 0.0, 2.0]), "V": np.array(v), "B": np.arange(1.0, 7.0).reshape(2, 3)}
    program = parse_program("R(i,l) = softmax(l, U(j) * V(j) * B(i,l))")
    workload = Workload(program, {n: SparseTensor.from_dense(t) for n, t in tensors.items()})
    assert ("(U*V)*B" in MappingSpace(workload, RDA).programs) == offered


def test_sparse_activations_are_offered_where_a_sum_restores_every_entry() -> None:
    """The maximum is over a sum with a full vector: what the relu leaves out is stored again."""
    shapes = {"C": (4, 3), "W": (3, 2), "b": (2,)}
    tensors = {name: generate("dense", shape=shape, seed=1) for name, shape in shapes.items()}
    text = "R(i,j) = relu(C(i,j)); T(i,c) = softmax(c, R(i,j) * W(j,c) + b(c))"
    space = MappingSpace(Workload(parse_program(text), tensors), RDA, SpaceLimits(rewrites=("activations",)))
    assert set(space.programs) == {"", "sparse R"}
