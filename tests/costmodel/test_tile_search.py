"""The shape search against the exhaustive list, and what it refuses."""

from __future__ import annotations

import itertools

import pytest

from costmodel import Statistics, predict_traffic
from costmodel.tile_search import Frame, best_tiling, largest_square, search_shape
from mapper.errors import EmptySpace, InputError
from mapper.legality import violations
from mapper.machine import load_machine
from mapper.notation import parse_program
from mapper.synthetic import generate
from mapper.workload import Workload

MACHINE = load_machine("rda").with_fields(buffer_bytes=512, accumulator_bytes=512)


def frame(seed: int, tiles: tuple[str, ...] = ("i", "j", "k")) -> Frame:
    a = generate("power_law", shape=(64, 64), nnz=500, seed=seed)
    b = generate("uniform", shape=(64, 64), density=0.08, seed=seed)
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), {"A": a, "B": b})
    return Frame(workload, MACHINE, ("i", "k", "j"), tiles, statistics=Statistics())


@pytest.mark.parametrize("seed", range(3))
def test_close_to_the_best_of_all(seed: int) -> None:
    own = frame(seed)
    sides = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
    listed = [shape for shape in itertools.product(sides, repeat=3) if own.fits(shape)]
    best = min(map(own.traffic, listed))
    chosen = search_shape(own)
    assert own.fits(chosen)
    assert own.traffic(chosen) <= 1.03 * best


def test_looks_at_a_small_part(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, plain = set(), Frame.traffic

    def counted(self: Frame, shape: tuple[int, ...]) -> float:
        asked.add(shape)
        return plain(self, shape)

    monkeypatch.setattr(Frame, "traffic", counted)
    search_shape(frame(0))
    assert len(asked) < 12**3 / 5


def test_largest_square_by_trying() -> None:
    own = frame(1)
    side = largest_square(own)
    assert own.fits(own.square(side))
    assert not own.fits(own.square(side + 1))


def test_mapping_is_legal_and_no_worse_than_any_order() -> None:
    own = frame(2)
    found = best_tiling(own.workload, MACHINE, order=("i", "k", "j"), statistics=own.statistics)
    assert not violations(own.workload, found, MACHINE)
    moved = sum(t.bytes for t in predict_traffic(own.workload, found, MACHINE, statistics=own.statistics))
    squares = [Frame(own.workload, MACHINE, ("i", "k", "j"), order, statistics=own.statistics)
               for order in itertools.permutations("ikj")]  # fmt: skip
    assert moved <= min(f.traffic(f.square(largest_square(f))) for f in squares)


def test_order_for_a_tensor_whose_fibers_are_short() -> None:
    """A row of B or C per entry costs most, which the largest square (k outermost, 2.2 times as much) does not show."""
    x = generate("uniform", shape=(600, 4, 600), density=0.001, seed=3)
    b, c = (generate("dense", shape=(x.shape[m], 8), seed=m) for m in (1, 2))
    workload = Workload(parse_program("Z(i,r) = X(i,j,k) * B(j,r) * C(k,r)"), {"X": x, "B": b, "C": c})
    machine = load_machine("rda").with_fields(buffer_bytes=600, accumulator_bytes=4096)
    order, statistics = ("i", "j", "k", "r"), Statistics()
    own = Frame(workload, machine, order, order, statistics=statistics)
    found = best_tiling(workload, machine, order=order, statistics=statistics)
    moved = sum(t.bytes for t in predict_traffic(workload, found, machine, statistics=statistics))
    assert moved <= own.traffic(search_shape(own))


@pytest.mark.parametrize("text", ["Z(i) = a(i) * b(i)", "s = a(i) * b(i)"])
def test_a_single_loop_has_no_other_order(text: str) -> None:
    tensors = {name: generate("uniform", shape=(400,), density=0.3, seed=seed) for seed, name in enumerate("ab")}
    workload, machine = Workload(parse_program(text), tensors), load_machine("rda").with_fields(buffer_bytes=200)
    found = best_tiling(workload, machine, statistics=Statistics())
    assert not violations(workload, found, machine)
    assert [index for index, _ in found.loops[0].tiles] == ["i"]


def test_whole_tensors_need_no_tiles() -> None:
    a = generate("uniform", shape=(6, 6), density=0.5, seed=0)
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), {"A": a, "B": a})
    assert best_tiling(workload, load_machine("rda")).loops[0].tiles == ()


def test_refusals() -> None:
    own = frame(0)
    with pytest.raises(EmptySpace, match="no tile fits"):
        search_shape(Frame(own.workload, MACHINE.with_fields(buffer_bytes=8), own.order, own.tiles))
    with pytest.raises(InputError, match="each once"):
        Frame(own.workload, MACHINE, ("i", "j"), own.tiles)
    x = generate("dense", shape=(3, 3), seed=0)
    two = Workload(parse_program("T(i,j) = A(i,k) * B(k,j)\nZ(i) = T(i,j)"), {"A": x, "B": x})
    with pytest.raises(InputError, match="one statement"):
        best_tiling(two, MACHINE)
