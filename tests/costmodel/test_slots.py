"""Zeros in the free slots of N:M levels, beside storage and a search group by group."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from costmodel import Statistics, slots
from costmodel.slots import free_slots, in_slots
from mapper.machine import load_machine
from mapper.storage import Layout, store_tensor
from mapper.tensor import SparseTensor

RDA = load_machine("rda")


def two_of_four(rng: np.random.Generator, shape: tuple[int, int], mode: int, tile: int) -> SparseTensor:
    """At most two entries in every four along a mode, counted from the start of every tile."""
    array = rng.random(shape) * (rng.random(shape) < 0.3)
    lines = array if mode == 1 else array.T
    for start in range(0, lines.shape[1], tile):
        for first in range(start, min(start + tile, lines.shape[1]), 4):
            group = lines[:, first : min(first + 4, start + tile)]
            group[np.cumsum(group > 0, axis=1) > 2] = 0.0
    return SparseTensor.from_dense(array)


def by_hand(tensor: SparseTensor, layout: Layout) -> set[tuple[int, ...]]:
    """Every group of every stored fiber: its entries, and its first free positions up to two in all."""
    dense, mode, found = tensor.to_dense() != 0, layout.modes[-1], set[tuple[int, ...]]()
    sides = [layout.tiles[m] if m in layout.tile_modes else e for m, e in enumerate(tensor.shape)]
    for corner in itertools.product(*(range(0, e, side) for e, side in zip(tensor.shape, sides, strict=True))):
        ends = [min(c + side, e) for c, side, e in zip(corner, sides, tensor.shape, strict=True)]
        if not dense[tuple(slice(c, e) for c, e in zip(corner, ends, strict=True))].any() and layout.tile_modes:
            continue
        for line in range(corner[1 - mode], ends[1 - mode]):
            at = [(line, p) if mode == 1 else (p, line) for p in range(corner[mode], ends[mode])]
            if layout.kinds[0] == "compressed" and not any(dense[p] for p in at):
                continue
            for first in range(0, len(at), 4):
                group = at[first : first + 4]
                found |= set(sorted(group, key=lambda p: not dense[p])[:2])
    return found


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("tiles", [(), (0, 10), (7, 10), (6, 0)])
@pytest.mark.parametrize("above", ["dense", "compressed"])
def test_slots_are_where_storage_has_them(mode: int, tiles: tuple[int, ...], above: str) -> None:
    tensor = two_of_four(np.random.default_rng(3), (23, 30), mode, tiles[mode] if tiles and tiles[mode] else 30)
    layout = Layout((1 - mode, mode), (above, "2:4"), tuple(m for m, t in enumerate(tiles) if t), tiles)
    statistics = Statistics()
    found = in_slots(statistics, statistics.of(tensor), layout)
    assert set(zip(*found.tensor.coords.tolist(), strict=True)) == by_hand(tensor, layout)
    assert found.nnz == store_tensor(tensor, layout, RDA).values.size > tensor.nnz
    assert found.effectual.nnz == tensor.nnz


def test_full_slots_and_too_many_positions_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    layout, statistics = Layout((0, 1), ("dense", "2:4")), Statistics()
    full = statistics.of(SparseTensor.from_dense(np.tile([1.0, 1.0, 0.0, 0.0], (8, 3))))
    assert not free_slots(full, layout) and in_slots(statistics, full, layout) is full
    thin = statistics.of(SparseTensor.from_dense(np.eye(8)))
    monkeypatch.setattr(slots, "MOST_LISTED", 63)
    assert free_slots(thin, layout) and in_slots(statistics, thin, layout) is thin


@pytest.mark.parametrize("tile", [0, 3, 6, 7])
def test_a_last_group_has_slots_for_all_that_it_reaches(tile: int) -> None:
    """Groups at the ends of fibers and of tiles are shorter than four positions, and may have as many slots."""
    layout = Layout((0, 1), ("dense", "2:4"), (1,) if tile else (), (0, tile) if tile else ())
    statistics = Statistics()
    full = SparseTensor.from_dense(np.tile(np.arange(9) % (tile or 9) % 4 < 2, (4, 1)).astype(float))
    assert not free_slots(statistics.of(full), layout)
    coords = full.coords[:, 1:]  # one entry less, so that its slot is free
    thin = SparseTensor.from_coo(full.shape, coords, np.ones(coords.shape[1]))
    assert free_slots(statistics.of(thin), layout)
    assert in_slots(statistics, statistics.of(thin), layout).nnz == full.nnz
    assert store_tensor(thin, layout, RDA).values.size == full.nnz
