"""Patterns: generated ones are recognised, and real ones with their known structure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mapper.datasets import load_tensor
from mapper.format_sizes import Widths
from mapper.pattern import analyse
from mapper.synthetic import generate
from mapper.tensor import SparseTensor

SQUARE = {"shape": [512, 512], "seed": 2}


def punched(tensor: SparseTensor, share: float) -> SparseTensor:
    """``tensor`` without a random ``share`` of its entries."""
    keep = np.random.default_rng(0).random(tensor.nnz) >= share
    return SparseTensor.from_coo(tensor.shape, tensor.coords[:, keep], tensor.values[keep])


@pytest.mark.parametrize(
    ("kind", "params", "expected", "recommendation"),
    [
        ("uniform", {"density": 0.02}, "unstructured", "csr"),
        ("uniform", {"density": 0.5}, "unstructured", "bitmap"),
        ("uniform", {"density": 0.95}, "dense", "dense"),
        ("uniform", {"density": 0.0}, "empty", "dcsr"),
        ("power_law", {"nnz": 5000}, "row-skewed", "csr"),
        ("banded", {"bandwidth": 0, "density": 1.0}, "diagonal", "csr"),
        ("banded", {"bandwidth": 9, "density": 1.0}, "banded", "bcsr(3x3)"),
        ("banded", {"bandwidth": 30, "density": 0.1}, "banded", "csr"),
        ("block_sparse", {"block": [4, 4], "density": 0.1}, "block", "bcsr(4x4)"),
        ("block_sparse", {"block": [1, 16], "density": 0.1}, "block", "bcsr(1x16)"),
        ("bigbird", {"block": 32}, "block", "bcsr(32x32)"),
        ("n_of_m", {"n": 2, "m": 4}, "N:M", "2:4"),
        ("n_of_m", {"n": 1, "m": 8}, "N:M", "1:8"),
    ],
)
def test_generated_patterns(kind: str, params: dict[str, object], expected: str, recommendation: str) -> None:
    found = analyse(generate(kind, **SQUARE, **params))
    assert (found.kind, found.recommendation) == (expected, recommendation), found
    name = f"{found.blocks.rows}x{found.blocks.columns} blocks" if "bcsr" in recommendation else recommendation
    assert found.reason.startswith(f"store {'dense' if name == 'dense' else 'as ' + name}: ")


def test_regularity_survives_missing_entries() -> None:
    blocks = analyse(punched(generate("block_sparse", **SQUARE, block=[4, 4], density=0.1), 0.1))
    assert (blocks.kind, blocks.recommendation) == ("block", "bcsr(4x4)")
    assert blocks.blocks.fill == pytest.approx(0.9, abs=0.01)
    sizes = dict(blocks.sizes_bytes)
    gain = f"{sizes['csr'] / sizes['bcsr(4x4)']:.3g}x smaller than csr"
    assert f"{100 * blocks.blocks.fill:.3g} % of each touched block is filled; {gain}" in blocks.reason
    pairs = analyse(punched(generate("n_of_m", **SQUARE, n=2, m=4), 0.05))
    assert (pairs.kind, pairs.recommendation) == ("N:M", "2:4")
    assert pairs.groups.fill == pytest.approx(0.95, abs=0.01) and pairs.groups.two_of_four == 1


def test_regular_formats_are_preferred_when_hardly_larger() -> None:
    # A pair takes 12 bytes and an entry of csr 8: blocks win as long as more than 1.5 of each touched pair are stored.
    tensor = generate("block_sparse", **SQUARE, block=[1, 2], density=0.05)
    assert analyse(punched(tensor, 0.15)).recommendation == "bcsr(1x2)"
    close = analyse(punched(tensor, 0.35))
    sizes = dict(close.sizes_bytes)
    assert sizes["csr"] < sizes["bcsr(1x2)"] < 1.1 * sizes["csr"]
    assert close.recommendation == "bcsr(1x2)" and "larger than csr, but regular" in close.reason
    assert analyse(punched(tensor, 0.6)).recommendation == "csr"


def test_nearly_two_of_four_is_worth_a_remark() -> None:
    tensor = generate("n_of_m", **SQUARE, n=2, m=4)
    extra = np.stack([np.arange(512), np.arange(512)])
    spoilt = analyse(SparseTensor.from_coo(tensor.shape, np.hstack([tensor.coords, extra]), np.ones(tensor.nnz + 512)))
    # each row gains at most one entry, in one of its 128 groups
    assert 1 - 1 / 128 <= spoilt.groups.two_of_four < 1 and "2:4" not in dict(spoilt.sizes_bytes)
    assert "of the groups of four were pruned to two entries" in spoilt.reason


def test_width_of_values_decides() -> None:
    tensor = generate("n_of_m", **SQUARE, n=2, m=16)
    assert analyse(tensor).recommendation == "2:16"
    narrow = analyse(tensor, Widths(value=1))
    # 2 values and 8 bits for 16 positions: 3 bytes; a bit a position and 2 values: 4
    assert dict(narrow.sizes_bytes)["2:16"] == 512 * 32 * 3 and dict(narrow.sizes_bytes)["bitmap"] == 512 * 32 * 4


@pytest.mark.parametrize("shape", [(), (7,), (0,), (3, 0), (1, 9), (4, 5, 6), (2, 3, 4, 5)])
def test_any_number_of_modes(shape: tuple[int, ...]) -> None:
    found = analyse(generate("uniform", shape=list(shape), density=0.4, seed=1))
    assert found.recommendation in dict(found.sizes_bytes) and found.shape == shape


def test_extents_beyond_products_of_64_bits() -> None:
    far = 2**62 - 1
    found = analyse(SparseTensor.from_coo((2**62, 2**62, 2**62), [[0, far], [far, far], [0, far]], [1.0, 2.0]))
    sizes = dict(found.sizes_bytes)
    assert sizes["dense"] == 4 * 2**186 and found.recommendation == "csf"
    # two nodes a level: pointers 2 + 3 + 3, six coordinates, two values
    assert sizes["csf"] == 4 * (8 + 6 + 2)
    assert found.rows.count == 2**124 and found.diagonals.bandwidth == far


def test_real_patterns(data_dir: Path) -> None:
    pruned = analyse(load_tensor(data_dir / "radixnet-n1024-l1" / "n1024-l1.mtx.gz"))
    assert (pruned.rows.mean, pruned.rows.longest, pruned.rows.gini) == (32, 32, 0)
    # two of every 64 neighbours: 32 values and 32 places of 6 bits a row
    assert pruned.kind == "N:M" and pruned.recommendation == "2:64"
    assert dict(pruned.sizes_bytes)["2:64"] == 1024 * (32 * 4 + 32 * 6 // 8)
    stiffness = analyse(load_tensor(data_dir / "bcsstk33" / "bcsstk33.mtx.gz"))
    assert (stiffness.kind, stiffness.recommendation) == ("block", "bcsr(2x2)")
    # 193,647 blocks of 2 x 2 for 591,904 entries, counted with numpy alone
    assert stiffness.blocks.count == 193_647 and stiffness.blocks.fill == 591_904 / (4 * 193_647)
    weights = analyse(load_tensor(next((data_dir / "dlmc").glob("rn50_magnitude_0.98*"))))
    assert (weights.kind, weights.recommendation) == ("unstructured", "csr")
    stencil = analyse(load_tensor(data_dir / "orsreg_1" / "orsreg_1.mtx.gz"))
    assert stencil.kind == "diagonal" and stencil.diagonals.count == 7
    assert analyse(load_tensor(data_dir / "wiki-Vote" / "wiki-Vote.mtx.gz")).kind == "row-skewed"
    mass = analyse(load_tensor(data_dir / "bcsstm02" / "bcsstm02.mtx"))
    assert mass.kind == "diagonal" and mass.diagonals.bandwidth == 0
