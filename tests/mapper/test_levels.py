"""Levels of every kind: walked back to the tensor they came from, and their bytes worked by hand."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mapper.formats import parse_format
from mapper.levels import LevelArrays
from mapper.machine import load_machine
from mapper.storage import Layout, Storage, group_problem, store_tensor
from mapper.tensor import SparseTensor

MACHINE = load_machine("rda").with_fields(value_bytes=4, coordinate_bytes=2, pointer_bytes=8, descriptor_bytes=16)


def elements(level: LevelArrays, fiber: int) -> Iterator[tuple[int, int]]:
    """(coordinate, place) of a fiber, by the definition of each storage."""
    begin, end = int(level.pos[fiber]), int(level.pos[fiber + 1])
    match level.params.get("storage"):
        case "bitmask":
            words = (level.params["size"] + 63) // 64
            mask = level.arrays["mask"].view(np.uint64)[fiber * words : (fiber + 1) * words]
            bits = [c for c in range(64 * words) if int(mask[c // 64]) >> c % 64 & 1]
            assert len(bits) == end - begin
            yield from zip(bits, range(begin, end), strict=True)
        case "run_length":
            assert level.crd is not None
            for q in range(begin, end):
                yield from ((int(level.crd[q]) + n, q) for n in range(level.arrays["length"][q]))
        case "n_of_m":
            assert level.crd is not None
            for p in range(begin, end):
                yield level.params["m"] * ((p - begin) // level.params["n"]) + int(level.crd[p]), p
        case _:
            for p in range(begin, end):
                yield p - begin if level.crd is None else int(level.crd[p]), p


def walk(storage: Storage, shape: tuple[int, ...]) -> np.ndarray:
    """Dense array read back by walking every level as a scanner would; each position is met once at most, in order."""
    layout, dense, met = storage.layout, np.zeros(shape), np.zeros(shape, bool)

    def descend(level: int, node: int, coords: list[int]) -> None:
        if level == len(storage.levels):
            at = [0] * len(shape)
            for mode, crd in zip(layout.tile_modes, coords, strict=False):
                at[mode] += crd * layout.tiles[mode]
            for mode, crd in zip(layout.modes, coords[len(layout.tile_modes) :], strict=True):
                at[mode] += crd
            assert not met[tuple(at)]
            met[tuple(at)] = True
            dense[tuple(at)] = storage.values[node]
            return
        last = -1
        for crd, place in elements(storage.levels[level], node):
            assert crd > last
            last = crd
            descend(level + 1, place, [*coords, crd])

    descend(0, 0, [])
    return dense


KINDS = {
    1: ["bitmask", "rle", "2:4", "1:3", "compressed"],
    2: [
        "dense,bitmask", "bitmask,bitmask", "compressed,bitmask", "bitmask,dense", "nonunique,singleton", "dense,rle",
        "compressed,rle", "dense,2:4", "2:4,dense", "2:4,compressed", "3:4,2:3", "dense,2x3", "dense,4x1", "dense,1x1",
    ],
    3: [
        "nonunique,singleton,singleton", "dense,nonunique,singleton", "nonunique,singleton,dense",
        "nonunique,singleton,rle", "bitmask,dense,2x2", "compressed,dense,3x2", "dense,dense,2x2", "dense,2:4,bitmask",
        "bitmask,2:4,rle",
    ],
}  # fmt: skip


@st.composite
def stored(draw: st.DrawFn) -> tuple[SparseTensor, Layout]:
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    kinds = parse_format(draw(st.sampled_from(KINDS[len(shape)])), len(shape)).kinds
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    dense = np.where(rng.random(shape) < draw(st.sampled_from([0.0, 0.2, 0.6])), rng.integers(1, 3, shape), 0)
    modes = tuple(draw(st.permutations(range(len(shape)))))
    tiles = tuple(draw(st.sampled_from([0, 6])) for _ in shape)
    tiles = tuple(t if t < n else 0 for t, n in zip(tiles, shape, strict=True))
    layout = Layout(modes, kinds, tuple(m for m in modes if tiles[m]), tiles)
    return SparseTensor.from_dense(dense), layout


@settings(max_examples=400, deadline=None)
@given(stored())
def test_walking_the_levels_gives_the_tensor_back(case: tuple[SparseTensor, Layout]) -> None:
    tensor, layout = case
    if group_problem(tensor, layout):
        with pytest.raises(ValueError, match="positions are stored"):
            store_tensor(tensor, layout, MACHINE)
        return
    np.testing.assert_array_equal(walk(store_tensor(tensor, layout, MACHINE), tensor.shape), tensor.to_dense())


@pytest.mark.parametrize(
    ("name", "values", "metadata"),
    [
        ("bitmap", 6, 3),
        ("bitmask,bitmask", 6, 1 + 3),
        ("coo", 6, 2 * 8 + 2 * 6 * 2),
        ("compressed,bitmask", 6, 2 * 8 + 3 * 2 + 3),
        ("rle", 4, 5 * 8 + 4 * 2 * 2),
        ("2:4", 16, 4),
        ("bcsr(2x3)", 18, 3 * 8 + 3 * 2),
        ("bcsr(3x4)", 12 + 6 + 4, 3 * 8 + 3 * 2),
    ],
)
def test_sizes_by_hand(name: str, values: int, metadata: int) -> None:
    """Row 0: 0 at 0, 5 (value 1 and 2); row 1: 2, 3 (both 7); row 3: 1 and 2 (both 3).

    * bitmap: 24 bits in 3 bytes; two bitmasks: 4 bits in 1 byte, 3 rows x 6 bits = 18 in 3 bytes;
    * rle: runs {0}, {5}, {2, 3}, {1, 2}: 4 rows + 1 pointers, start and length each;
    * 2:4: groups of 4 and 2 positions: 2 + 2 places per row, 16 in all, 2 bits each;
    * 2x3: rows of blocks 0-1 (blocks 0 and 1), 2-3 (block 0): 3 pointers, 3 blocks of 6;
    * 3x4: rows 0-2 hold blocks 0 (3 x 4) and 1 (3 x 2), row 3 holds block 0 (1 x 4).
    """
    dense = np.zeros((4, 6))
    dense[0, [0, 5]], dense[1, [2, 3]], dense[3, [1, 2]] = (1, 2), 7, 3
    kinds = parse_format(name, 2).kinds
    storage = store_tensor(SparseTensor.from_dense(dense), Layout((0, 1), kinds, (), (0, 0)), MACHINE)
    assert (storage.value_bytes, storage.metadata_bytes) == (4 * values, 16 + metadata)


def test_groups_that_break_a_pattern_are_named() -> None:
    tensor = SparseTensor.from_dense([[1, 1, 0, 0, 1, 1, 1], [0] * 7])
    layout = Layout((0, 1), ("dense", "2:4"), (), (0, 0))
    assert group_problem(tensor, layout) == "3 entries at positions 4 to 6 of mode 1, coordinate 0 of mode 0"
    # Along rows no group of 4 holds more than one entry.
    assert group_problem(tensor, Layout((1, 0), ("dense", "2:4"), (), (0, 0))) is None
    # Tiles of 5 cut the columns into groups 0-3, 4 and 5-6.
    assert group_problem(tensor, Layout((0, 1), ("dense", "2:4"), (1,), (0, 5))) is None


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "int8"])
def test_values_are_stored_rounded(dtype: str) -> None:
    values = np.array([1.0, -0.3, 1 / 3])
    tensor = SparseTensor.from_dense(values)
    storage = store_tensor(tensor, Layout((0,), ("compressed",), (), (0,), dtype), MACHINE)
    assert storage.value_bytes == 3 * {"fp16": 2, "bf16": 2, "int8": 1}[dtype]
    third = {"fp16": 0.333251953125, "bf16": 0.333984375, "int8": 42 / 127}[dtype]
    assert storage.values[2] == pytest.approx(third, abs=1e-15)
