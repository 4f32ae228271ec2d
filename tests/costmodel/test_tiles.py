from __future__ import annotations

import itertools

import numpy as np
import pytest
from random_mappings import random_tensor

from costmodel.statistics import Statistics
from costmodel.tiles import tile_sizes, tile_view
from costmodel.uniform import UniformStatistics
from mapper.formats import parse_format
from mapper.machine import load_machine
from mapper.storage import Layout, group_problem, store_tensor
from mapper.tensor import SparseTensor

MACHINE = load_machine("rda").with_fields(value_bytes=2, coordinate_bytes=3, pointer_bytes=5, descriptor_bytes=7)


def layouts(ndim: int) -> list[Layout]:
    """Every mode order with every kind per level, tiles from a few patterns."""
    found = []
    for modes in itertools.permutations(range(ndim)):
        for kinds in itertools.product(("dense", "compressed"), repeat=ndim):
            for tiles in ((0,) * ndim, (3, 4, 2)[:ndim], (0, 5, 3)[:ndim], (2, 0, 100)[:ndim]):
                tiled = tuple(m for m in modes if tiles[m])
                found.append(Layout(modes, kinds, tiled, tiles))
    return found


@pytest.mark.parametrize("shape", [(11,), (11, 9), (7, 6, 5), (5, 8)])
def test_sizes_equal_those_of_stored_tensors(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(shape))
    for density in (0.0, 0.1, 0.6):
        tensor = random_tensor(rng, shape, density)
        for layout in layouts(len(shape)):
            sizes = tile_sizes(Statistics(), Statistics().of(tensor), layout, MACHINE)
            stored = store_tensor(tensor, layout, MACHINE)
            order = np.lexsort(
                [sizes.coords[[m for m, _ in sizes.view].index(m)] for m in layout.tile_modes[::-1]]
                or [np.zeros(sizes.values.size)]
            )
            assert sizes.values[order].tolist() == stored.tile_value_bytes.tolist()
            assert sizes.metadata[order].tolist() == stored.tile_metadata_bytes.tolist()
            held = stored.tile_value_bytes + stored.tile_metadata_bytes - MACHINE.descriptor_bytes
            assert sizes.largest == held.max(initial=0)
            assert sizes.total_values == pytest.approx(stored.value_bytes)
            assert sizes.total_metadata == pytest.approx(stored.metadata_bytes)


@pytest.mark.parametrize(
    "name",
    [
        "bitmask,bitmask", "dense,bitmask", "compressed,bitmask", "coo", "rle", "compressed,rle", "2:4",
        "2:4,compressed", "3:4,dense", "dense,2x2", "dense,1x4", "bitmask,dense", "bitmap:fp16", "rle:int8", "csf:bf16",
    ],
)  # fmt: skip
def test_every_level_kind(name: str) -> None:
    rng = np.random.default_rng(5)
    form, compared = parse_format(name, 2), 0
    for density, modes, tiles in itertools.product(
        (0.0, 0.1, 0.4), ((0, 1), (1, 0)), ((0, 0), (4, 0), (0, 8), (4, 8), (8, 4))
    ):
        tensor = random_tensor(rng, (13, 21), density)
        if "rle" in name:
            tensor = SparseTensor(tensor.shape, tensor.coords, np.ceil(tensor.values * 2))
        layout = Layout(modes, form.kinds, tuple(m for m in modes if tiles[m]), tiles, form.dtype)
        if group_problem(tensor, layout):
            continue
        compared += 1
        sizes = tile_sizes(Statistics(), Statistics().of(tensor), layout, MACHINE)
        stored = store_tensor(tensor, layout, MACHINE)
        order = np.lexsort([sizes.coords[m] for m in modes[::-1]]) if len(sizes.view) == 2 else slice(None)
        assert sizes.values[order].tolist() == stored.tile_value_bytes.tolist()
        assert sizes.metadata[order].tolist() == stored.tile_metadata_bytes.tolist()
    assert compared >= 10


def test_blocks_below_further_levels() -> None:
    rng = np.random.default_rng(6)
    for kinds, tiles in itertools.product(("compressed", "dense", "bitmask"), ((0, 0, 0), (3, 4, 4), (0, 2, 0))):
        tensor = random_tensor(rng, (7, 9, 10), 0.1)
        modes = tuple(map(int, rng.permutation(3)))
        layout = Layout(modes, (kinds, "dense", "2x2"), tuple(m for m in modes if tiles[m]), tiles)
        if any(tiles[m] % 2 for m in modes[1:]):
            layout = Layout(modes, layout.kinds, (), (0, 0, 0))
        sizes = tile_sizes(Statistics(), Statistics().of(tensor), layout, MACHINE)
        stored = store_tensor(tensor, layout, MACHINE)
        assert sorted(sizes.values) == sorted(stored.tile_value_bytes)
        assert sorted(sizes.metadata) == sorted(stored.tile_metadata_bytes)


@pytest.mark.parametrize("kinds", ["dense,compressed", "bitmap", "coo", "4:4", "dense,2x4"])
def test_a_full_tensor_is_the_same_at_level_l0(kinds: str) -> None:
    layout = Layout((0, 1), parse_format(kinds, 2).kinds, (0, 1), (4, 4))
    exact = tile_sizes(Statistics(), Statistics().of(SparseTensor.from_dense(np.ones((12, 16)))), layout, MACHINE)
    mean = tile_sizes(Statistics(), UniformStatistics((12, 16), 192), layout, MACHINE)
    assert (mean.tiles, mean.total_values, mean.total_metadata) == (12, exact.total_values, exact.total_metadata)


def test_uniform_tensors_match_level_l0_on_average() -> None:
    rng = np.random.default_rng(3)
    layout = Layout((0, 1), ("compressed", "compressed"), (0, 1), (8, 8))
    tensor = SparseTensor.from_dense(rng.random((160, 160)) < 0.02)
    exact = tile_sizes(Statistics(), Statistics().of(tensor), layout, MACHINE)
    mean = tile_sizes(Statistics(), UniformStatistics((160, 160), tensor.nnz), layout, MACHINE)
    assert mean.tiles == pytest.approx(exact.tiles, rel=0.05)
    assert mean.total_metadata == pytest.approx(exact.total_metadata, rel=0.05)
    assert tile_view(layout) == ((0, 8), (1, 8))


def test_runs_end_with_the_tiles_that_modes_without_levels_tell() -> None:
    """Boxes of windows carry the numbers of their tiles as modes that the layout does not store: (0, 0, 1) and
    (1, 0, 2) are neighbours along the last mode, in two boxes."""
    boxes = SparseTensor.from_coo((2, 1, 4), [[0, 0, 1, 1], [0, 0, 0, 0], [0, 1, 2, 3]], [5.0, 5.0, 5.0, 5.0])
    layout = Layout((1, 2), ("dense", "rle"), (0,), (1, 0, 0))
    assert (
        tile_sizes(Statistics(), Statistics().of(boxes), layout, MACHINE).values.tolist() == [MACHINE.value_bytes] * 2
    )
