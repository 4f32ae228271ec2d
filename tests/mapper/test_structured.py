"""Regular patterns: exact counts and shapes, and bits that depend on the seed alone."""

from __future__ import annotations

import numpy as np
import pytest

from mapper.errors import InputError
from mapper.structured import bigbird, block_sparse, causal, n_of_m
from mapper.synthetic import generate

SEEDED = [
    ("block_sparse", {"shape": [24, 30], "block": [4, 5], "density": 0.4}),
    ("n_of_m", {"shape": [20, 32], "n": 2, "m": 4}),
    ("bigbird", {"shape": [64, 64], "block": 4}),
]


@pytest.mark.parametrize(("kind", "params"), SEEDED)
def test_seed_decides_every_bit(kind: str, params: dict[str, object]) -> None:
    tensor = generate(kind, **params, seed=3)
    assert tensor.key == generate(kind, **params, seed=3).key != generate(kind, **params, seed=4).key


@pytest.mark.parametrize(
    ("kind", "params", "start"),
    [(*SEEDED[0], "3183188d8c32d26c"), (*SEEDED[1], "f03b9d42d7e1852a"), (*SEEDED[2], "0eed7d67071f2603")],
)
def test_bits_are_pinned(kind: str, params: dict[str, object], start: str) -> None:
    # A study names its data by generator and seed, so that a change of these bits must be noticed.
    assert generate(kind, **params, seed=0).key.startswith(start)


@pytest.mark.parametrize("density", [0, 0.26, 1])
def test_blocks_are_whole(density: float) -> None:
    # 5 x 3 blocks of 4 x 6 cover 18 x 16: the last row of blocks is 2 high, the last column 4 wide.
    stored = block_sparse((18, 16), (4, 6), density, 1).to_dense() != 0
    fills = [(b.any(), b.all()) for r in np.split(stored, [4, 8, 12, 16]) for b in np.split(r, [6, 12], axis=1)]
    assert all(some == full for some, full in fills)
    assert sum(full for _, full in fills) == round(15 * density)


def test_blocks_of_other_modes() -> None:
    assert block_sparse((7,), (2,), 0.5, 0).nnz in (3, 4)
    cube = block_sparse((4, 4, 4), (2, 2, 4), 0.5, 0)
    assert cube.nnz == 2 * 16


@pytest.mark.parametrize(
    ("shape", "n", "m"), [((6, 16), 2, 4), ((3, 10), 1, 4), ((2, 3, 9), 4, 8), ((11,), 0, 3), ((5, 4), 4, 4)]
)
def test_n_of_m(shape: tuple[int, ...], n: int, m: int) -> None:
    stored = (n_of_m(shape, n, m, 5).to_dense() != 0).reshape(-1, shape[-1])
    for start in range(0, shape[-1], m):
        group = stored[:, start : start + m]
        assert (group.sum(axis=1) == min(n, group.shape[1])).all()


def test_n_of_m_reaches_every_position() -> None:
    # 2 of 4 in 4000 groups: each position holds 2000 on average, standard deviation 32
    hits = (n_of_m((4000, 4), 2, 4, 1).to_dense() != 0).sum(axis=0)
    assert (np.abs(hits - 2000) < 5 * 32).all()


@pytest.mark.parametrize(
    ("block", "density", "tolerance"), [(16, 0.1340, 0.004), (32, 0.2617, 0.012), (64, 0.4609, 0.03)]
)
def test_bigbird_density(block: int, density: float, tolerance: float) -> None:
    """1024 positions; tolerance: three standard deviations of the random blocks that fall on stored ones."""
    found = [bigbird((1024, 1024), block, seed).density for seed in range(5)]
    assert np.abs(np.array(found) - density).max() < tolerance


def test_bigbird_parts() -> None:
    def blocks(**options: int) -> np.ndarray:
        stored = bigbird((22, 22), 4, 1, **options).to_dense()
        assert set(np.unique(stored)) <= {0.0, 1.0}
        grid = stored[::4, ::4]
        assert np.array_equal(np.kron(grid, np.ones((4, 4)))[:22, :22], stored)
        return grid

    place = np.arange(6)
    band = np.abs(place[:, None] - place) <= 1
    assert np.array_equal(blocks(global_blocks=0, random_blocks=0), band)
    edges = (place < 2) | (place[:, None] < 2)
    assert np.array_equal(blocks(random_blocks=0), band | edges)
    rows = blocks(window=0, global_blocks=0, random_blocks=3).sum(axis=1)
    assert set(rows) <= {3, 4}
    assert np.array_equal(blocks(random_blocks=6), np.ones((6, 6)))


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3), (0, 0)])
def test_causal(shape: tuple[int, int]) -> None:
    assert np.array_equal(causal(shape).to_dense(), np.tril(np.ones(shape)))
    assert generate("causal", shape=list(shape)).key == causal(shape).key


@pytest.mark.parametrize(
    ("kind", "params", "message"),
    [
        ("block_sparse", {"shape": [4, 4], "block": [2], "density": 1, "seed": 0}, "must be a list of 2 extents"),
        ("block_sparse", {"shape": [4, 4], "block": 2, "density": 1, "seed": 0}, "must be a list of 2 extents"),
        ("block_sparse", {"shape": [4, 4], "block": [0, 2], "density": 1, "seed": 0}, "1 or more"),
        ("block_sparse", {"shape": [2**30, 2**30], "block": [2**15, 2**15], "density": 0.1, "seed": 0}, "at most"),
        ("n_of_m", {"shape": [4, 4], "n": 5, "m": 4, "seed": 0}, "n <= m"),
        ("n_of_m", {"shape": [], "n": 1, "m": 4, "seed": 0}, "one mode or more"),
        ("n_of_m", {"shape": [4], "n": 0, "m": 0, "seed": 0}, "m at least 1"),
        ("n_of_m", {"shape": [2**20, 2**20], "n": 1, "m": 4, "seed": 0}, "position count .* must be at most"),
        ("bigbird", {"shape": [4, 5], "block": 2, "seed": 0}, "square"),
        ("bigbird", {"shape": [4, 4], "block": 0, "seed": 0}, "blocks of 1 or more"),
        ("bigbird", {"shape": [4, 4], "block": 2, "seed": 0, "random_blocks": 3}, "at most the 2 blocks of a row"),
        ("bigbird", {"shape": [2**20, 2**20], "block": 2, "seed": 0}, "block count .* must be at most"),
        ("bigbird", {"shape": [4, 4], "block": 2, "seed": 0, "windw": 1}, "Did you mean 'window'"),
        ("causal", {"shape": [4]}, "2 modes"),
        ("causal", {"shape": [2**20, 2**20]}, "position count .* must be at most"),
    ],
)  # fmt: skip
def test_bad_parameters(kind: str, params: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        generate(kind, **params)
