"""Tilings of others: by definition, and DRT's walk against one that lists every step."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel import Statistics, screen
from costmodel.baselines import BASELINES, OVERFLOW, conservative, overbooked, prescient
from costmodel.dynamic_tiling import dynamic_traffic
from costmodel.tile_search import Frame, largest_square
from mapper.errors import InputError
from mapper.machine import Machine, load_machine
from mapper.notation import parse_program
from mapper.residency import OVERBOOKED
from mapper.synthetic import generate
from mapper.tensor import SparseTensor
from mapper.workload import Workload

MACHINE = load_machine("rda").with_fields(
    buffer_bytes=1024, accumulator_bytes=4096, value_bytes=4, coordinate_bytes=4, pointer_bytes=4, descriptor_bytes=0
)


def frame(a: SparseTensor, b: SparseTensor | None = None, machine: Machine = MACHINE) -> Frame:
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), {"A": a, "B": a if b is None else b})
    return Frame(workload, machine, ("i", "k", "j"), ("i", "k", "j"), statistics=Statistics())


def skewed(seed: int = 0) -> SparseTensor:
    return generate("power_law", shape=(120, 120), nnz=1500, seed=seed)


def sides(mapping: object) -> dict[str, int]:
    return dict(mapping.loops[0].tiles)  # type: ignore[attr-defined]


def test_conservative_by_hand() -> None:
    """16 * 16 * 4 bytes fill the buffer of an operand; of the result 16 * 16 * 12 bytes fit 4096, 19 * 19 no more."""
    assert sides(conservative(frame(skewed()))) == {"i": 16, "k": 16, "j": 16}
    small = MACHINE.with_fields(accumulator_bytes=12 * 64)
    assert sides(conservative(frame(skewed(), machine=small))) == {"i": 8, "k": 8, "j": 8}


def test_prescient_is_a_square_that_fits() -> None:
    own = frame(skewed())
    found = sides(prescient(own))
    assert len(set(found.values())) == 1
    assert 16 <= found["i"] <= largest_square(own)
    assert not screen(own.workload, prescient(own), MACHINE, own.statistics)


@pytest.mark.parametrize("seed", range(4))
def test_overbooked_tiles_overflow_about_as_often_as_wanted(seed: int) -> None:
    own = frame(generate("uniform", shape=(300, 300), density=0.05, seed=seed))
    mapping = overbooked(own)
    assert mapping.residency == OVERBOOKED
    assert not screen(own.workload, mapping, MACHINE, own.statistics)
    side = sides(mapping)["i"]
    tiles = own.workload.tensor("A").coords // side
    number = tiles[0] * 1000 + tiles[1]
    entries = np.unique(number, return_counts=True)[1]
    rows = np.unique(np.stack([number, own.workload.tensor("A").coords[0]]), axis=1)
    filled = np.unique(rows[0], return_counts=True)[1]
    size = entries * 8 + filled * 4 + (1 + 1 + filled) * 4 + 4  # values, coordinates, rows, pointers of two levels
    assert 0 < (size - 4 > MACHINE.buffer_bytes).mean() < 4 * OVERFLOW


def test_all_may_be_simulated() -> None:
    own = frame(skewed(3))
    for tiling in BASELINES.values():
        assert not screen(own.workload, tiling(own), MACHINE, own.statistics)


def test_drt_on_one_tile() -> None:
    """Everything fits: both operands once, the result once, nothing partial."""
    a = SparseTensor.from_dense(np.eye(8))
    found = dynamic_traffic(frame(a), micro=4)
    # two micro-tiles of 4 entries in 4 rows: 16 + 16 + 16 bytes of values and coordinates, 8 and 20 of pointers
    assert found.loads_bytes == 2 * 2 * 76
    assert (found.partial_bytes, found.tiles) == (0.0, 1)
    assert found.store_bytes == 8 * 8 + 8 * 8


def test_drt_on_tiles_of_one_micro_tile() -> None:
    """A buffer that holds no two micro-tiles: every micro-tile of A meets the row of B below it."""
    a, b = skewed(1), skewed(2)
    tiny = MACHINE.with_fields(buffer_bytes=1, accumulator_bytes=1 << 30)
    own = frame(a, b, tiny)
    found = dynamic_traffic(own, micro=16)
    unlimited = dynamic_traffic(frame(a, b, MACHINE.with_fields(buffer_bytes=1 << 30, accumulator_bytes=1 << 30)), 16)
    blocks = np.unique(a.coords // 16, axis=1)
    per_row = {k: size_of(b, k, 16) for k in range(8)}
    ours = sum(size_of(a, k, 16) for k in range(8))
    assert found.tiles == blocks.shape[1]
    assert found.loads_bytes == ours + sum(per_row[k] for k in blocks[1].tolist())
    assert unlimited.loads_bytes == ours + sum(per_row[k] for k in set(blocks[1].tolist()))
    assert found.partial_bytes == 0.0


def size_of(tensor: SparseTensor, row: int, micro: int) -> int:
    """Bytes of a row of micro-tiles: values and coordinates, filled rows, pointers."""
    total = 0
    coords = tensor.coords[:, tensor.coords[0] // micro == row]
    for column in set((coords[1] // micro).tolist()):
        inside = coords[:, coords[1] // micro == column]
        filled = len(set(inside[0].tolist()))
        total += 8 * inside.shape[1] + 4 * filled + 4 * 2 + 4 * (filled + 1)
    return total


def test_drt_partial_results() -> None:
    """One block of rows, whose result exceeds the accumulator: a tile of A per micro-column leaves all it makes."""
    rng = np.random.default_rng(0)
    a = SparseTensor.from_dense((rng.random((4, 12)) < 0.8) * 1.0)
    b = SparseTensor.from_dense((rng.random((12, 20)) < 0.5) * 1.0)
    machine = MACHINE.with_fields(buffer_bytes=1, accumulator_bytes=1)
    found = dynamic_traffic(frame(a, b, machine), micro=4)
    dense = [a.to_dense()[:, k : k + 4] @ b.to_dense()[k : k + 4] for k in (0, 4, 8)]
    assert found.partial_bytes == sum(2 * 12 * np.count_nonzero(part) for part in dense)


def test_drt_is_for_matrix_products() -> None:
    x = generate("dense", shape=(4, 4), seed=0)
    workload = Workload(parse_program("Z(i,j) = A(i,j) + B(i,j)"), {"A": x, "B": x})
    with pytest.raises(InputError, match="DRT"):
        dynamic_traffic(Frame(workload, MACHINE, ("i", "j"), ("i", "j")))
