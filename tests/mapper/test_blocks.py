"""When a product is made by blocks, and the grid of blocks of a stored tensor."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from mapper.area import area_parts_mm2
from mapper.blocks import BlockPlan, block_plan, grid_storage, in_elements, offered_blocks
from mapper.formats import parse_format
from mapper.legality import violations
from mapper.machine import Machine, load_machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.space import MappingSpace
from mapper.storage import Layout, store_tensor
from mapper.synthetic import generate
from mapper.tensor import SparseTensor
from mapper.workload import Workload

MACHINE = load_machine("rda-blocks")


def workload(text: str = "Z(i,j) = A(i,k) * B(k,j)", **shapes: tuple[int, ...]) -> Workload:
    program = parse_program(text)
    sizes = {"A": (16, 24), "B": (24, 12), **shapes}
    return Workload(program, {n: generate("uniform", shape=sizes[n], density=0.5, seed=1) for n in program.inputs})


def mapping(loops: Loops | None = None, **formats: str) -> Mapping:
    names = {"A": "dense,4x2", "B": "dense", "Z": "dense", **formats}
    kinds = tuple((t, parse_format(name, 2).kinds) for t, name in sorted(names.items()))
    return Mapping((), (loops or Loops(("i", "k", "j")),), kinds)


def plan(loops: Loops | None = None, work: Workload | None = None, **formats: str) -> BlockPlan | None:
    return block_plan(work or workload(), mapping(loops, **formats), MACHINE, 0)


def test_sides_come_from_the_formats_and_fit_the_rest() -> None:
    found = plan()
    assert found is not None and (found.rows, found.inner, found.cols, found.left) == ("i", "k", "j", 0)
    assert dict(found.sides) == {"i": 4, "k": 2, "j": 4}  # j as the largest side
    assert plan(work=workload(B=(24, 10))) is not None
    assert dict(plan(work=workload(B=(24, 10))).sides)["j"] == 2  # type: ignore[union-attr]
    assert dict(plan(Loops(("i", "k", "j"), (("j", 6),))).sides)["j"] == 2  # type: ignore[union-attr]
    assert dict(plan(Z="dense,4x6").sides)["j"] == 6  # type: ignore[union-attr]
    turned = plan(Loops(("j", "k", "i")))  # A is walked by k, then i; the result by j, then i
    assert turned is not None and (turned.rows, turned.cols, turned.left) == ("j", "i", 1)
    assert (turned.side("k"), turned.side("i")) == (4, 2)
    assert (found.cycles(MACHINE), found.adding_cycles(MACHINE)) == (1, 1)
    assert found.cycles(MACHINE.with_fields(block_operations_per_cycle=10)) == 4  # 32 products


@pytest.mark.parametrize(
    "case",
    [
        {"A": "csr"},  # no operand in blocks
        {"B": "csr"},  # the other one neither dense nor in blocks
        {"B": "dense,4x4"},  # k by 2 and by 4
        {"Z": "csr"},
        {"Z": "dense,2x4"},
        {"loops": Loops(("i", "k", "j"), (("i", 6),))},  # tiles cut blocks
        {"loops": Loops(("i", "k", "j"), (), (("i", 2, "block"),))},  # lanes cut blocks
        {"loops": Loops(("i", "k", "j"), (("k", 4),), (("k", 2, "block"),))},  # partial sums
        {"work": workload("Z(i,j) = A(i,k) .+ B(k,j)")},
    ],
)
def test_other_products_go_element_by_element(case: dict[str, object]) -> None:
    assert plan(**case) is None  # type: ignore[arg-type]


def test_machines_without_block_units_only_store_blocks() -> None:
    assert block_plan(workload(), mapping(), load_machine("rda"), 0) is None
    assert block_plan(workload(), mapping(), MACHINE.with_fields(fifo_depth=None), 0) is None


def test_lanes_take_block_units() -> None:
    loops = Loops(("i", "k", "j"), (("i", 4),), (("i", 4, "block"),))
    assert violations(workload(), mapping(loops), MACHINE) == ()
    few = dataclasses.replace(MACHINE, units={**(MACHINE.units or {}), "block_accumulate": 3})
    (found,) = violations(workload(), mapping(loops), few)
    assert (found.rule, found.measured, found.limit) == ("units", "4 block_accumulate", "at most 3")
    parts, plain = area_parts_mm2(MACHINE), area_parts_mm2(load_machine("rda"))
    assert parts is not None and plain is not None
    assert parts["logic"] - plain["logic"] == pytest.approx(8 * 256 * 11_900e-6)
    assert parts["accumulators"] == pytest.approx(plain["accumulators"] * 20 / 16)


@pytest.mark.parametrize("kinds", [("dense", "2x3"), ("dense", "dense")])
@pytest.mark.parametrize("tiles", [(), (4, 0), (4, 6)])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", [(8, 12), (7, 10)])
def test_grid_of_a_stored_tensor(
    kinds: tuple[str, ...], tiles: tuple[int, ...], transposed: bool, shape: tuple[int, int]
) -> None:
    rng = np.random.default_rng(2)
    values = np.zeros((8, 12))
    values[: shape[0], : shape[1]] = np.where(rng.random(shape) < 0.15, rng.integers(1, 9, shape), 0)
    layout = Layout((0, 1), kinds, tuple(m for m, t in enumerate(tiles) if t), tiles)
    storage = store_tensor(SparseTensor.from_dense(values[: shape[0], : shape[1]]), layout, MACHINE)
    grid = grid_storage(storage, (2, 3), transposed)
    assert (
        grid.tile_value_bytes is storage.tile_value_bytes
        and grid.tile_address.tolist() == storage.tile_address.tolist()
    )
    blocks, found = grid.values.reshape(-1, 6), np.zeros((8, 12))
    at = [np.zeros(1, np.int64)]  # coordinates of the nodes of the levels so far, tile coordinates first
    for level in grid.levels:
        count = np.diff(level.pos)
        crd = level.crd if level.crd is not None else np.arange(level.pos[-1]) - np.repeat(level.pos[:-1], count)
        at = [*(np.repeat(c, count) for c in at), crd]
    tiled = iter(at[1 : 1 + len(layout.tile_modes)])
    start = [next(tiled) * t if t else 0 for t in tiles or (0, 0)]
    for block, r, c in zip(blocks, start[0] + at[-2] * 2, start[1] + at[-1] * 3, strict=True):
        found[r : r + 2, c : c + 3] = block.reshape(3, 2).T if transposed else block.reshape(2, 3)
    np.testing.assert_array_equal(found, values)


def test_positions_of_blocks() -> None:
    """A block of 2 x 3 in the middle, one that two edges cut."""
    at = in_elements(np.array([[0, 1], [1, 2]]), (2, 3), (3, 8))
    assert at.T.tolist() == [[0, 3], [0, 4], [0, 5], [1, 3], [1, 4], [1, 5], [2, 6], [2, 7]]


def test_blocks_are_offered_to_matrices_that_fill_them() -> None:
    def offered(tensor: SparseTensor, machine: Machine = MACHINE) -> list[str]:
        return [str(form) for form in offered_blocks(tensor, machine)]

    mask = generate("bigbird", shape=(256, 256), block=32, seed=0)
    assert offered(mask) == ["dense,32x32"] and offered(mask, load_machine("rda")) == []
    oblong = generate("block_sparse", shape=(64, 64), block=[1, 16], density=0.2, seed=0)
    assert offered(oblong) == ["bcsr(1x16)"]  # sides go with modes, so the loops must
    assert offered(generate("uniform", shape=(64, 64), density=0.1, seed=0)) == []
    assert offered(SparseTensor.from_dense(np.ones((8, 8)))) == []
    program = parse_program("Z(i,j) = P(i,k) * B(k,j)")
    values = SparseTensor.from_dense(np.ones((256, 32)))
    space = MappingSpace(Workload(program, {"P": mask, "B": values}), MACHINE)
    drawn = (space.sample(np.random.default_rng(seed)) for seed in range(40))
    assert any(block_plan(next(iter(space.inputs.values())), mapping, MACHINE, 0) for mapping in drawn)
