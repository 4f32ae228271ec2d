"""Measurements and sizes against plain loops over dense arrays, and sizes against the storage itself."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from mapper.format_sizes import Widths, format_sizes
from mapper.machine import load_machine
from mapper.matrix_stack import MatrixStack
from mapper.regularity import measure_blocks, measure_diagonals, measure_groups, measure_rows
from mapper.storage import Layout, store_tensor
from mapper.synthetic import uniform
from mapper.tensor import SparseTensor

SHAPES = [(7, 10), (10, 7), (12, 12), (1, 9), (9, 1), (5,), (3, 5, 6), (2, 3, 4, 5), ()]


def dense_stack(tensor: SparseTensor) -> np.ndarray:
    """bool[matrices, rows, columns]: where entries stand."""
    shape = (1,) * (2 - tensor.ndim) + tensor.shape
    stored = np.zeros(tensor.shape, bool)
    stored[tuple(tensor.coords)] = True
    return stored.reshape(math.prod(shape[:-2]), *shape[-2:])


@pytest.mark.parametrize("density", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_counts(shape: tuple[int, ...], density: float) -> None:
    tensor = uniform(shape, density, 3)
    stack, stored = MatrixStack(tensor), dense_stack(tensor)
    matrices, rows, columns = stored.shape
    assert (stack.matrices, stack.rows, stack.columns) == stored.shape
    for height, width in itertools.product((1, 2, 3, 5), repeat=2):
        cut = [
            stored[m, r : r + height, c : c + width].any()
            for m in range(matrices)
            for r in range(0, rows, height)
            for c in range(0, columns, width)
        ]
        assert stack.block_count(height, width) == sum(cut)
        sizes = [stored[:, :, c : c + width].sum(axis=2) for c in range(0, columns, width)]
        occupied = sorted(int(n) for part in sizes for n in part.flat if n)
        assert sorted(stack.group_sizes(width).tolist()) == occupied
    lengths = stored.sum(axis=2)
    assert stack.row_lengths.tolist() == [int(n) for n in lengths.flat if n]


@pytest.mark.parametrize("density", [0.1, 0.5])
@pytest.mark.parametrize("shape", SHAPES)
def test_measurements(shape: tuple[int, ...], density: float) -> None:
    tensor = uniform(shape, density, 4)
    stack, stored = MatrixStack(tensor), dense_stack(tensor)
    if not tensor.nnz:
        return
    _, rows, columns = stored.shape
    offset = np.arange(columns) - np.arange(rows)[:, None]
    where = np.broadcast_to(offset, stored.shape)
    found = measure_diagonals(stack)
    used = np.unique(where[stored])
    assert found.count == used.size
    assert found.fill == tensor.nnz / np.isin(where, used).sum()
    assert found.bandwidth == np.abs(where[stored]).max()
    assert found.band_fill == tensor.nnz / (np.abs(where) <= found.bandwidth).sum()
    near = (np.abs(where[stored]) <= found.bandwidth95).mean()
    nearer = (np.abs(where[stored]) < found.bandwidth95).mean()
    assert near >= 0.95 > nearer
    lengths = stored.sum(axis=2).ravel()
    held = lengths[lengths > 0].astype(float)
    measured = measure_rows(stack)
    assert (measured.count, measured.empty) == (lengths.size, int((lengths == 0).sum()))
    assert (measured.mean, measured.longest) == (pytest.approx(held.mean()), held.max())
    assert measured.dispersion == pytest.approx(held.var() / held.mean())
    gini = np.abs(np.subtract.outer(held, held)).mean() / (2 * held.mean())
    assert measured.gini == pytest.approx(gini, abs=1e-12)
    groups = measure_groups(stack, 32)
    fours = np.stack([stored[:, :, c : c + 4].sum(axis=2) for c in range(0, columns, 4)])
    assert groups.two_of_four == (fours <= 2).mean()
    if groups.n:
        most = max(int(stored[:, :, c : c + groups.m].sum(axis=2).max()) for c in range(0, columns, groups.m))
        assert most == groups.n <= groups.m // 2


@pytest.mark.parametrize("density", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_sizes_equal_those_of_storage(shape: tuple[int, ...], density: float) -> None:
    tensor, machine = uniform(shape, density, 5), load_machine("rda")
    widths = Widths(machine.value_bytes, machine.coordinate_bytes, machine.pointer_bytes)
    stack = MatrixStack(tensor)
    sizes = format_sizes(stack, widths, measure_blocks(stack, 4, 4), measure_groups(stack, 32))
    modes = tuple(range(len(shape)))
    formats = {"dense": ("dense",) * len(shape), "csf": ("compressed",) * len(shape)}
    if len(shape) == 2:
        formats = {"dense": ("dense",) * 2, "csr": ("dense", "compressed"), "dcsr": ("compressed",) * 2}
    assert set(formats) <= set(sizes)
    for name, kinds in formats.items():
        stored = store_tensor(tensor, Layout(modes, kinds), machine)
        assert sizes[name] == stored.value_bytes + stored.metadata_bytes - machine.descriptor_bytes, name


def test_sizes_by_hand() -> None:
    # Two full 2 x 2 blocks in a 6 x 8 matrix: (0, 0) and (4, 6).
    tensor = SparseTensor.from_coo((6, 8), [[0, 0, 1, 1, 4, 4, 5, 5], [0, 1, 0, 1, 6, 7, 6, 7]], np.ones(8))
    stack = MatrixStack(tensor)
    blocks, groups = measure_blocks(stack, 4, 4), measure_groups(stack, 32)
    assert (blocks.rows, blocks.columns, blocks.count, blocks.fill) == (2, 2, 2, 1.0)
    # at most 2 of 4: 12 groups with 2 places each for 8 entries; in eights, 6 groups but 3 bits a place
    assert (groups.n, groups.m, groups.fill, groups.two_of_four) == (2, 8, 8 / 12, 1.0)
    sizes = format_sizes(stack, Widths(value=4, coordinate=2, pointer=8), blocks, groups)
    assert sizes == {
        "dense": 48 * 4,
        "csr": 7 * 8 + 8 * (2 + 4),
        "dcsr": 2 * 8 + 4 * 2 + 5 * 8 + 8 * (2 + 4),
        "bitmap": 6 + 8 * 4,
        "bcsr(2x2)": 4 * 8 + 2 * (2 + 16),
        "2:8": 12 * 4 + 5,  # 36 bits
    }
