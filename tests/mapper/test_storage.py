"""Level arrays and exact sizes of stored tensors, checked entry by entry against the coordinates they came from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mapper.machine import load_machine
from mapper.storage import Layout, Storage, store_tensor
from mapper.tensor import SparseTensor

RDA = load_machine("rda")


def walk(storage: Storage, shape: tuple[int, ...]) -> np.ndarray:
    """Dense array read back by walking every level as a scanner would."""
    layout = storage.layout
    dense = np.zeros(shape)

    def descend(level: int, node: int, coords: list[int]) -> None:
        if level == len(storage.levels):
            at = [0] * len(shape)
            for mode, crd in zip(layout.tile_modes, coords, strict=False):
                at[mode] += crd * layout.tiles[mode]
            for mode, crd in zip(layout.modes, coords[len(layout.tile_modes) :], strict=True):
                at[mode] += crd
            dense[tuple(at)] = storage.values[node]
            return
        arrays = storage.levels[level]
        for p in range(arrays.pos[node], arrays.pos[node + 1]):
            crd = p - arrays.pos[node] if arrays.crd is None else arrays.crd[p]
            descend(level + 1, p, [*coords, int(crd)])

    descend(0, 0, [])
    return dense


@st.composite
def stored(draw: st.DrawFn) -> tuple[SparseTensor, Layout]:
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    dense = np.where(rng.random(shape) < draw(st.sampled_from([0.0, 0.2, 0.6])), rng.integers(1, 9, shape), 0)
    modes = tuple(draw(st.permutations(range(len(shape)))))
    tiles = tuple(draw(st.sampled_from([0, 2, 3])) for _ in shape)
    tiles = tuple(t if t < n else 0 for t, n in zip(tiles, shape, strict=True))
    kinds = tuple(draw(st.sampled_from(["dense", "compressed"])) for _ in shape)
    return SparseTensor.from_dense(dense), Layout(modes, kinds, tuple(m for m in modes if tiles[m]), tiles)


@settings(max_examples=200, deadline=None)
@given(stored())
def test_walking_the_levels_gives_the_tensor_back(case: tuple[SparseTensor, Layout]) -> None:
    tensor, layout = case
    np.testing.assert_array_equal(walk(store_tensor(tensor, layout, RDA), tensor.shape), tensor.to_dense())


def test_sizes_of_csr_and_dcsr() -> None:
    # 4 x 5 with rows 0 (2 entries), 2 (1 entry) stored: values 3 x 4 bytes.
    tensor = SparseTensor.from_dense([[1, 0, 2, 0, 0], [0] * 5, [0, 0, 0, 0, 3], [0] * 5])
    csr = store_tensor(tensor, Layout((0, 1), ("dense", "compressed"), (), (0, 0)), RDA)
    # CSR: 4 rows + 1 pointers, 3 column coordinates, one descriptor of 8 bytes.
    assert (csr.value_bytes, csr.metadata_bytes) == (12, 5 * 4 + 3 * 4 + 8)
    dcsr = store_tensor(tensor, Layout((0, 1), ("compressed", "compressed"), (), (0, 0)), RDA)
    # DCSR: 1 + 1 pointers and 2 coordinates for rows, 2 + 1 pointers and 3 coordinates for columns, descriptor.
    assert (dcsr.value_bytes, dcsr.metadata_bytes) == (12, (2 + 2 + 3 + 3) * 4 + 8)


def test_edge_tiles_of_dense_levels_are_smaller() -> None:
    tensor = SparseTensor.from_dense(np.ones((3, 5)))
    storage = store_tensor(tensor, Layout((0, 1), ("dense", "dense"), (0, 1), (2, 4)), RDA)
    # Tiles in row-major order: 2x4, 2x1, 1x4, 1x1 values of 4 bytes; only a descriptor each besides.
    assert storage.tile_value_bytes.tolist() == [32, 8, 16, 4]
    assert storage.tile_metadata_bytes.tolist() == [8, 8, 8, 8]
    # 40 and 16 and 24 bytes, each rounded up to bursts of 64.
    assert storage.tile_address.tolist() == [0, 64, 128, 192]


@pytest.mark.parametrize("kinds", [("dense", "compressed"), ("compressed", "compressed")])
def test_tensor_without_entries(kinds: tuple[str, str]) -> None:
    empty = SparseTensor.from_coo((4, 4), np.zeros((2, 0)), [])
    tiled = store_tensor(empty, Layout((0, 1), kinds, (0, 1), (2, 2)), RDA)
    assert (tiled.value_bytes, tiled.metadata_bytes) == (0, 0)
    whole = store_tensor(empty, Layout((0, 1), kinds, (), (0, 0)), RDA)
    assert whole.value_bytes == 0 and whole.metadata_bytes > 0
