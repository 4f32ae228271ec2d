"""Generators: exact counts, shapes of the patterns, and bits that depend on the seed alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mapper import synthetic
from mapper.errors import InputError
from mapper.synthetic import generate

EXAMPLES = [
    ("uniform", {"shape": [40, 50], "density": 0.1}),
    ("uniform", {"shape": [40, 50], "density": 0.6}),
    ("uniform", {"shape": [5_000_000_000, 5_000], "density": 2e-11}),
    ("uniform", {"shape": [], "density": 1}),
    ("uniform", {"shape": [7], "density": 0.5}),
    ("uniform", {"shape": [0, 3], "density": 0.5}),
    ("dense", {"shape": [4, 3, 2]}),
    ("banded", {"shape": [30, 20], "bandwidth": 3, "density": 0.5}),
    ("power_law", {"shape": [300, 200], "nnz": 1000}),
    ("power_law", {"shape": [30, 20], "nnz": 500}),
    ("power_law", {"shape": [10, 9, 8], "nnz": 44}),
    ("power_law", {"shape": [0, 5], "nnz": 0}),
]


@pytest.mark.parametrize(("kind", "params"), EXAMPLES)
def test_seed_decides_every_bit(kind: str, params: dict[str, object]) -> None:
    tensor = generate(kind, **params, seed=3)
    assert tensor.key == generate(kind, **params, seed=3).key
    if tensor.nnz > 5:
        assert tensor.key != generate(kind, **params, seed=4).key


@pytest.mark.parametrize(
    ("kind", "params", "start"),
    [
        ("uniform", {"shape": [6, 5], "density": 0.2}, "aae0012e61ec1b43"),
        ("power_law", {"shape": [60, 50], "nnz": 20}, "b6de19479695ba83"),
    ],
)
def test_bits_are_pinned(kind: str, params: dict[str, object], start: str) -> None:
    # A study names its data by generator and seed, so that a change of these bits must be noticed.
    assert generate(kind, **params, seed=0).key.startswith(start)


@pytest.mark.parametrize(("kind", "params"), EXAMPLES)
def test_values_are_exact_eighths(kind: str, params: dict[str, object]) -> None:
    tensor = generate(kind, **params, seed=1)
    eighths = tensor.values * 8
    assert np.array_equal(eighths, np.round(eighths))
    assert tensor.nnz == 0 or (np.abs(eighths).min() >= 1 and np.abs(eighths).max() <= 16)
    assert tensor.notes == ()


@pytest.mark.parametrize("density", [0, 0.001, 0.1, 0.3, 0.99, 1])
def test_uniform_count(density: float) -> None:
    assert synthetic.uniform((37, 41), density, 5).nnz == round(density * 37 * 41)


def test_uniform_covers_every_position() -> None:
    hits = sum((synthetic.uniform((4, 4), 0.2, seed).to_dense() != 0).astype(int) for seed in range(400))
    # 3 of 16 positions each time: 75 expected per position, standard deviation 7.8
    assert hits.min() > 75 - 5 * 7.8 and hits.max() < 75 + 5 * 7.8


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (9, 2), (2, 9), (0, 3), (3, 0), (1, 1)])
@pytest.mark.parametrize("bandwidth", [0, 1, 3, 20])
def test_banded_pattern(shape: tuple[int, int], bandwidth: int) -> None:
    band = np.abs(np.subtract.outer(np.arange(shape[0]), np.arange(shape[1]))) <= bandwidth
    assert np.array_equal(synthetic.banded(shape, bandwidth, 1.0, 0).to_dense() != 0, band)
    half = synthetic.banded(shape, bandwidth, 0.5, 0)
    assert half.nnz == round(0.5 * band.sum())
    assert band[tuple(half.coords)].all()


@pytest.mark.parametrize("nnz", [0, 1, 17, 299, 300])
def test_power_law_count(nnz: int) -> None:
    assert synthetic.power_law((15, 20), nnz, 2).nnz == nnz


@pytest.mark.parametrize("shape", [(2000, 2000), (300, 300)])  # drawn by rejection and by keys
def test_power_law_is_skewed_in_both_modes(shape: tuple[int, int]) -> None:
    nnz = 8000
    tensor = synthetic.power_law(shape, nnz, 1)
    flat = synthetic.uniform(shape, nnz / math.prod(shape), 1)
    for mode in range(2):
        degrees = np.bincount(tensor.coords[mode], minlength=shape[mode])
        assert degrees.max() > 4 * np.bincount(flat.coords[mode]).max()
        assert np.median(degrees) < degrees.mean()


@pytest.mark.parametrize("exponent", [2.1, 2.5, 3.0])
def test_power_law_exponent(exponent: float) -> None:
    # Degrees that fall off as d^-exponent have the r-th largest at r^(-1 / (exponent - 1)): a line in log-log.
    tensor = synthetic.power_law((2000, 2000), 20_000, 1, exponent)
    ranks = np.arange(10, 500)
    for mode in range(2):
        degrees = np.sort(np.bincount(tensor.coords[mode], minlength=2000))[::-1]
        slope = np.polyfit(np.log(ranks), np.log(degrees[ranks - 1]), 1)[0]
        assert 1 - 1 / slope == pytest.approx(exponent, abs=0.2)


def test_power_law_draws_agree() -> None:
    # Both ways draw one after another without replacement: equal inclusion rates, up to sampling noise.
    extents, count, rounds = (4, 3), 4, 3000
    weights = [np.arange(1, n + 1) ** -0.8 for n in extents]
    rates = []
    for draw in (synthetic._draw_by_keys, synthetic._draw_by_rejection):
        rng = np.random.default_rng(11)
        hits = np.concatenate([draw(rng, extents, weights, count) for _ in range(rounds)])
        rates.append(np.bincount(hits, minlength=12) / rounds)
    assert np.abs(rates[0] - rates[1]).max() < 5 * math.sqrt(2 * 0.25 / rounds)


@pytest.mark.parametrize(
    ("kind", "params", "message"),
    [
        ("unifrm", {}, "unknown generator 'unifrm'. Did you mean 'uniform'"),
        ("uniform", {"shape": [2, 2], "densty": 1, "seed": 1}, "no parameter 'densty'. Did you mean 'density'"),
        ("uniform", {"shape": [2, 2]}, "needs 'density', 'seed'; got shape"),
        ("uniform", {"shape": "ab", "density": 1, "seed": 0}, "'shape' must be a list of extents"),
        ("uniform", {"shape": 4, "density": 1, "seed": 0}, "'shape' must be a list of extents"),
        ("uniform", {"shape": [2, -1], "density": 1, "seed": 0}, "'shape' must be a whole number.*got -1"),
        ("uniform", {"shape": [2.5], "density": 1, "seed": 0}, "'shape' must be a whole number.*got 2.5"),
        ("uniform", {"shape": [2], "density": 1.5, "seed": 0}, "'density' must be between 0 and 1"),
        ("uniform", {"shape": [2], "density": "all", "seed": 0}, "'density' must be a number, got 'all'"),
        ("uniform", {"shape": [2], "density": math.nan, "seed": 0}, "'density' must be between 0 and 1"),
        ("uniform", {"shape": [2], "density": 1, "seed": True}, "'seed' must be a whole number"),
        ("uniform", {"shape": [2**20, 2**20], "density": 1, "seed": 0}, "entry count .* must be at most"),
        ("uniform", {"shape": [2**40, 2**40], "density": 0, "seed": 0}, "fewer than 2\\^62 positions"),
        ("banded", {"shape": [2], "bandwidth": 1, "density": 1, "seed": 1}, "a banded tensor has 2 modes"),
        ("banded", {"shape": [2**31, 1], "bandwidth": 1, "density": 0, "seed": 1}, "extent .* must be at most"),
        ("power_law", {"shape": [2, 2], "nnz": 5, "seed": 1}, "at most the 4 positions"),
        ("power_law", {"shape": [2**31], "nnz": 5, "seed": 1}, "extent .* must be at most"),
        ("power_law", {"shape": [2, 2], "nnz": 1, "seed": 1, "exponent": 1.5}, "'exponent' must be at least 2"),
    ],
)
def test_bad_parameters(kind: str, params: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        generate(kind, **params)
