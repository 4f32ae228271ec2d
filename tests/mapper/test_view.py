"""Views: windows read from the text, evaluated, scheduled as steps of their own, counted both ways."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.signal

from mapper.canonical import plain
from mapper.default_mapping import default_mapping
from mapper.describe import describe_mapping
from mapper.errors import EmptySpace, IllegalMapping
from mapper.formats import parse_format
from mapper.fusion import fuse
from mapper.interpreter import evaluate
from mapper.legality import violations
from mapper.machine import load_machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.program import Access, Affine, Statement
from mapper.rewrites import MOST_VARIANTS, rewriting, variants
from mapper.schedule import Conversion, Region, schedule
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.tensor import SparseTensor
from mapper.windows import boxes
from mapper.workload import Workload

RDA = load_machine("rda")
CONV = "Z(o,p,q) = X(c,2*p+r-1,q+s) * W(o,c,r,s)"
LAYER = f"X(c,h,w) = relu(I(c,h,w))\n{CONV}\nV(o) = Z(o,p,q) * U(p,q)"


def sparse(rng: np.random.Generator, *shape: int, density: float = 0.4) -> SparseTensor:
    return SparseTensor.from_dense(np.where(rng.random(shape) < density, rng.integers(1, 9, shape), 0.0))


def layer(seed: int = 0) -> Workload:
    rng = np.random.default_rng(seed)
    tensors = {"I": sparse(rng, 3, 9, 8), "W": sparse(rng, 4, 3, 3, 2), "U": sparse(rng, 5, 7, density=1.0)}
    return Workload(parse_program(LAYER), tensors)


def _entries(tensor: SparseTensor) -> dict[tuple[int, ...], float]:
    return dict(zip(map(tuple, tensor.coords.T.tolist()), tensor.values.tolist(), strict=True))


class TestText:
    def test_windows_become_a_tensor_of_their_own(self) -> None:
        windows = (Affine((("c", 1),)), Affine((("p", 2), ("r", 1)), -1), Affine((("q", 1), ("s", 1))))
        view, product = parse_program(CONV).statements
        read = Access("X", ("c", "2*p+r-1", "q+s"))
        assert view == Statement(Access("T1", ("c", "p", "r", "q", "s")), "view", (read,), windows=windows)
        assert str(product) == "Z(o,p,q) = T1(c,p,r,q,s) * W(o,c,r,s)"

    @pytest.mark.parametrize(
        "text",
        [
            CONV, LAYER, "Z(b,a) = X(64*a+b)", "Z(i) = X(i,0)", "Z(i) = pattern(X(i+r-2)) * W(r)",
            "Z(p) = max(r, X(1+2*p+3+r))", "Z(i,j) = X(i+k) / Y(j+k) + B(i)", "S() = X(3)",
        ],
    )  # fmt: skip
    def test_the_normal_form_parses_to_itself(self, text: str) -> None:
        program = parse_program(text)
        assert parse_program(str(program)) == program
        assert any(s.kind == "view" for s in program.statements)

    def test_a_view_can_be_the_statement_itself(self) -> None:
        (view,) = parse_program("Y(b,h,a) = X(h,64*a+b)").statements
        assert (view.kind, view.indices, view.reduced) == ("view", ("b", "h", "a"), ())
        assert [s.kind for s in parse_program("Y(b,a) = pattern(X(64*a+b))").statements] == ["view", "contract"]
        assert [s.kind for s in parse_program("Y(j,i) = X(i,j)").statements] == ["contract"]  # windows of one position


class TestValues:
    @pytest.mark.parametrize("case", range(30))
    def test_against_dense_loops(self, case: int) -> None:
        """One to three modes of random strides, dilations and paddings, stored zeros among the entries."""
        rng = np.random.default_rng(case)
        modes = int(rng.integers(1, 4))
        windows = [(int(rng.integers(1, 4)), int(rng.integers(1, 3)), int(rng.integers(-2, 3))) for _ in range(modes)]
        shape, taps = tuple(rng.integers(6, 9, modes)), tuple(rng.integers(1, 3, modes))
        stored = rng.random(shape) < (0.0 if case == 29 else 0.5)
        x = SparseTensor.from_coo(shape, np.argwhere(stored).T, rng.integers(-2, 3, int(stored.sum())))
        w = SparseTensor.from_dense(np.ones(taps), keep_zeros=True)
        at = [f"{s}*p{n}+{d}*r{n}{o:+d}" for n, (s, d, o) in enumerate(windows)]
        taps_text = ",".join(f"r{n}" for n in range(modes))
        program = parse_program(f"Z({taps_text}) = X({','.join(at)}) * W({taps_text})")
        made = evaluate(program, {"X": x, "W": w})["T1"]
        entries, found = _entries(x), _entries(made)
        for point in itertools.product(*map(range, made.shape)):
            at_point = zip(windows, point[::2], point[1::2], strict=True)
            place = tuple(s * p + d * r + o for (s, d, o), p, r in at_point)
            assert found.get(point) == entries.get(place)

    @pytest.mark.parametrize(("stride", "padding"), [(1, 0), (2, 1), (3, 2)])
    def test_convolution_is_that_of_scipy(self, stride: int, padding: int) -> None:
        rng = np.random.default_rng(5)
        x, w = sparse(rng, 3, 12, 11), sparse(rng, 4, 3, 3, 2)
        text = f"Z(o,p,q) = X(c,{stride}*p+r-{padding},q+s) * W(o,c,r,s)".replace("-0", "")
        found = evaluate(parse_program(text), {"X": x, "W": w})["Z"].to_dense()
        image, filters = np.pad(x.to_dense(), ((0, 0), (padding, padding), (0, 0))), w.to_dense()
        want = [sum(scipy.signal.correlate(image[c], f[c], "valid") for c in range(3))[::stride] for f in filters]
        np.testing.assert_array_equal(found, np.stack(want))

    def test_huge_modes_cost_nothing_where_nothing_is_stored(self) -> None:
        x = SparseTensor.from_coo((2**40,), [[5, 2**39]], [1.0, 2.0])
        made = evaluate(parse_program("Z(p) = X(p+r-1) * W(r)"), {"X": x, "W": SparseTensor.from_dense(np.ones(3))})
        assert made["T1"].nnz == 6
        assert made["Z"].coords[0].tolist() == [4, 5, 6, 2**39 - 1, 2**39, 2**39 + 1]


class TestMapping:
    def test_steps(self) -> None:
        """The windows are written as their reader walks them, and read as the map left its result."""
        workload = layer()
        space = MappingSpace(workload, RDA)
        plan = schedule(workload.program, default_mapping(space)).steps
        assert [type(s) for s in plan[:3]] == [Region, Conversion, Region]
        view = plan[1]
        assert isinstance(view, Conversion) and isinstance(plan[0], Region)
        assert (view.tensor, view.made, view.statement) == ("X", "T1", 1)
        assert (("X", view.source),) == plan[0].stored
        assert view.name in describe_mapping(workload.program, default_mapping(space))

    def test_an_input_is_stored_as_its_own_reader_wants_it(self) -> None:
        """The view comes first and the product walks X by columns: still no conversion."""
        program = parse_program("T(h,p,r) = X(h,p+r)\nZ(h) = T(h,p,r) * W(r) * X(h,p)")
        formats = tuple((t, ("dense",) * n) for t, n in (("T", 3), ("W", 1), ("X", 2), ("Z", 1)))
        mapping = Mapping((True,), (Loops(("h", "p", "r")), Loops(("p", "h", "r"))), formats)
        view, region = schedule(program, mapping).steps
        assert isinstance(view, Conversion) and isinstance(region, Region)
        assert (view.source.modes, view.result.modes) == ((1, 0), (1, 0, 2))

    def test_views_are_never_fused_and_have_no_loops_to_choose(self) -> None:
        workload = layer()
        program = workload.program
        assert program.viewed == (True, True, False)
        with pytest.raises(IllegalMapping, match="view-stored"):
            fuse(program, (False, True, True), {})
        space = MappingSpace(workload, RDA)
        assert all(f.cuts[:2] == (True, True) for f in space.fusions)
        mapping = default_mapping(space)
        fused = Mapping((False, True, True), mapping.loops, mapping.formats)
        assert {v.rule for v in violations(workload, fused, RDA)} == {"view-stored"}
        loops = (mapping.loops[0], Loops(("p", "c", "r", "q", "s")), *mapping.loops[2:])
        assert [v.rule for v in violations(workload, Mapping(mapping.cuts, loops, mapping.formats), RDA)] == [
            "view-loops"
        ]  # fmt: skip
        with pytest.raises(EmptySpace, match="view-stored"):
            MappingSpace(workload, RDA, SpaceLimits(fuse={"T1": True})).size()

    def test_size_counts_no_loops_of_a_view(self) -> None:
        """Untiled, one lane, one residency: the six orders of the product times the formats of four tensors."""
        rng = np.random.default_rng(1)
        tensors = {"X": sparse(rng, 9, density=0.3), "W": sparse(rng, 2, 3, density=1.0)}
        workload = Workload(parse_program("Z(o,p) = X(p+r) * W(o,r)"), tensors)
        limits = SpaceLimits(max_lanes=1, tiles=dict.fromkeys("opr", (0,)), residency=("none",), rewrites=())
        space = MappingSpace(workload, RDA, limits)
        program = space.programs[""]
        formats = math.prod(len(program.formats.of(tensor)) for tensor in ("X", "W", "T1", "Z"))
        assert space.size() == 6 * formats
        drawn = {space.sample(rng).key for _ in range(400)}
        assert 0.9 * space.size() < len(drawn) <= space.size()

    def test_a_fixed_mode_order_is_that_of_the_reader_or_by_rows(self) -> None:
        rng = np.random.default_rng(1)
        workload = Workload(parse_program("Z(p,r) = X(p+r) * W(r)\nV(a,b) = Y(2*a,b+1)"), {
            "X": sparse(rng, 9), "W": sparse(rng, 3, density=1.0), "Y": sparse(rng, 6, 7)})  # fmt: skip

        def space(tensor: str, name: str) -> MappingSpace:
            return MappingSpace(workload, RDA, SpaceLimits(formats={tensor: (parse_format(name, 2),)}))

        assert all(space("T1", "csc").sample(rng).loops[1].order == ("r", "p") for _ in range(5))
        assert space("Y", "csr").sample(rng) and space("V", "csr").sample(rng)
        with pytest.raises(EmptySpace, match="format-order"):
            space("Y", "csc").sample(rng)

    def test_mappings_read_back(self) -> None:
        space = MappingSpace(layer(), RDA)
        mapping = space.sample(np.random.default_rng(0))
        assert Mapping.from_json(plain(mapping)) == mapping


def test_rewrites_leave_views_alone() -> None:
    workload = layer()
    found = variants(workload.program)
    assert {"T1*W*U", "sparse X"} <= set(found)
    want = workload.computed["V"].to_dense()
    for label, program in found.items():
        assert [str(s) for s in program.statements if s.kind == "view"] == ["T1(c,p,r,q,s) = X(c,2*p+r-1,q+s)"], label
        np.testing.assert_allclose(workload.variant(label).computed["V"].to_dense(), want)


def test_nothing_is_recomputed_through_a_view() -> None:
    text = "Y(k,d) = X(k,d+1)\nZ(i,d) = A(i,k) * Y(k,d)"
    assert not any("recompute" in label for label in variants(parse_program(text)))


class TestInPlace:
    def test_every_view_may_be_but_those_of_views_and_results(self) -> None:
        text = """
        U(a,b) = X(4*a+b)
        V(a,p,r) = U(a,p+r)
        Y(a,p) = V(a,p,r) * W(r)
        Q(i) = X(i+2)
        S() = U(a,b) * B(b,a)
        """
        found = variants(parse_program(text), ("windows",))
        assert list(found) == ["", "V in place"]
        program = found["V in place"]
        assert [program.stored_as(t) for t in ("U", "V", "Y", "X")] == ["U", "U", "Y", "X"]

    def test_nothing_is_moved_for_it_not_even_for_a_second_reader(self) -> None:
        text = "T(p,r) = X(p+r)\nY(p) = T(p,r) * W(r)\nV(r) = T(p,r) * U(p)"
        rng = np.random.default_rng(0)
        workload = Workload(parse_program(text), {"X": sparse(rng, 9), "W": sparse(rng, 3, density=1.0),
                                                  "U": sparse(rng, 7, density=1.0)})  # fmt: skip
        formats = tuple((t, ("dense",) * (1 + (t == "T"))) for t in "TUVWXY")
        loops = (Loops(("p", "r")), Loops(("p", "r")), Loops(("r", "p")))
        for label, names in (("", ["windows T of X", "convert T"]), ("T in place", ["windows T of X"])):
            mapping = Mapping((True, True), loops, formats, variant=label)
            program = workload.variant(label).program
            steps = [s for s in schedule(program, mapping).steps if isinstance(s, Conversion)]
            assert [s.name for s in steps] == names
            assert steps[0].in_place == bool(label)
            assert ("read in place" in describe_mapping(workload.program, mapping)) == bool(label)
        blocks = Mapping(
            (True, True), loops, tuple((t, ("2:4",) if t == "X" else k) for t, k in formats), variant=label
        )
        assert "windows-in-place" in {v.rule for v in violations(workload, blocks, RDA)}

    @pytest.mark.parametrize("case", range(10))
    def test_boxes_hold_what_the_windows_of_a_tile_meet(self, case: int) -> None:
        """Stride, dilation, padding and tiles at random; per tile the distinct entries met, within the box."""
        rng = np.random.default_rng(case)
        stride, spread, padding = int(rng.integers(1, 4)), int(rng.integers(1, 3)), int(rng.integers(0, 3))
        text = f"Z(c,p) = X(c,{stride}*p+{spread}*r-{padding}) * W(r)".replace("-0", "")
        x = sparse(rng, 4, 20)
        workload = Workload(parse_program(text), {"X": x, "W": SparseTensor.from_dense(np.ones(3))})
        tiles = {"c": int(rng.choice([0, 2])), "p": int(rng.choice([0, 2, 3])), "r": int(rng.choice([0, 2]))}
        own = tuple((i, t) for i, t in tiles.items() if t)
        formats = tuple((t, ("compressed",) * n) for t, n in (("T1", 3), ("W", 1), ("X", 2), ("Z", 2)))
        mapping = Mapping(
            (True,), (Loops(("c", "p", "r")), Loops(("c", "p", "r"), own)), formats, variant="T1 in place"
        )
        view = schedule(workload.variant("T1 in place").program, mapping).steps[0]
        assert isinstance(view, Conversion)
        windows = workload.tensor("T1")
        found, layout = boxes(workload, view, windows, view.result)
        want: dict[tuple[int, ...], set[tuple[int, int]]] = {}
        for c, p, r in windows.coords.T.tolist():
            tile = tuple(at // tiles[i] for i, at in zip("cpr", (c, p, r), strict=True) if tiles[i])
            want.setdefault(tile, set()).add((c, stride * p + spread * r - padding))
        count = len(own)
        got: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        for entry in found.coords.T.tolist():
            got.setdefault(tuple(entry[:count]), []).append((entry[count], entry[count + 1]))
        assert {tile: len(at) for tile, at in got.items()} == {tile: len(at) for tile, at in want.items()}
        for tile, at in got.items():  # the same shape of points, moved to the corner of the box
            moved = {(c - a, x - b) for (c, x), (a, b) in zip(sorted(want[tile]), sorted(at), strict=True)}
            assert len(moved) == 1
        assert all(at.min() >= 0 and at.max() < n for at, n in zip(found.coords, found.shape, strict=True))
        assert layout.tiles == (1,) * count + (0, 0)

    def test_many_views_are_offered_all_at_once_first(self) -> None:
        text = "\n".join(f"Y{n + 1}(p) = Y{n}(p+r) * W{n}(r)" for n in range(30))
        found = variants(parse_program(text), ("products", "windows"))
        assert len(found) == MOST_VARIANTS
        every = list(found)[1]
        assert every.count("and") == 29
        assert rewriting(parse_program(text), every) == found[every]
