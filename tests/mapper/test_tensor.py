"""SparseTensor: canonical order, sums, and the refusal of data that have no meaning."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from mapper.errors import InputError
from mapper.tensor import SparseTensor, distinct_columns


def test_entries_are_sorted_and_duplicates_summed_with_a_note() -> None:
    tensor = SparseTensor.from_coo((2, 3), [[1, 0, 1], [2, 1, 2]], [1.0, 2.0, 4.0])
    assert tensor.coords.tolist() == [[0, 1], [1, 2]]
    assert tensor.values.tolist() == [2.0, 5.0]
    assert tensor.notes == ("1 duplicate entries were summed",)
    assert tensor.coords.dtype == np.int64


def test_explicit_zeros_stay() -> None:
    assert SparseTensor.from_coo((3,), [1], [0.0]).nnz == 1
    assert SparseTensor.from_dense(np.zeros((2, 2)), keep_zeros=True).nnz == 4
    assert SparseTensor.from_dense(np.zeros((2, 2))).nnz == 0


@pytest.mark.parametrize("shape", [(), (0,), (3,), (0, 4), (4, 0), (2, 3), (1, 5, 2)])
@pytest.mark.parametrize("keep_zeros", [False, True])
def test_dense_round_trip(shape: tuple[int, ...], keep_zeros: bool) -> None:
    dense = np.random.default_rng(0).integers(-1, 2, size=shape).astype(float)
    tensor = SparseTensor.from_dense(dense, keep_zeros=keep_zeros)
    assert tensor.shape == shape
    assert np.array_equal(tensor.to_dense(), dense)


def test_scalar_stores_its_one_value() -> None:
    assert SparseTensor.from_any(2.5).values.tolist() == [2.5]
    assert SparseTensor.from_coo((), [], []).values.tolist() == [0.0]
    assert SparseTensor.from_coo((), [], [1.0, 2.0]).values.tolist() == [3.0]


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "dok", "bsr"])
@pytest.mark.parametrize("kind", ["matrix", "array"])
def test_scipy_objects(form: str, kind: str) -> None:
    dense = np.array([[0.0, 2.0], [3.0, 0.0], [0.0, 0.0]])
    tensor = SparseTensor.from_any(getattr(scipy.sparse, f"{form}_{kind}")(dense))
    assert np.array_equal(tensor.to_dense(), dense)
    assert tensor.coords.dtype == np.int64


def test_key_is_the_content() -> None:
    one = SparseTensor.from_coo((2, 2), [[0, 1], [1, 0]], [1.0, 2.0])
    assert one.key == SparseTensor.from_coo((2, 2), [[1, 0], [0, 1]], [2.0, 1.0], ("a note",)).key
    assert one.key != SparseTensor.from_coo((2, 3), [[0, 1], [1, 0]], [1.0, 2.0]).key
    assert one.key != SparseTensor.from_coo((2, 2), [[0, 1], [1, 0]], [1.0, 3.0]).key


def test_extents_beyond_32_bits() -> None:
    extent = 5_000_000_000
    tensor = SparseTensor.from_coo((extent, extent), [[extent - 1, 0], [0, extent - 1]], [1.0, 2.0])
    assert tensor.coords.tolist() == [[0, extent - 1], [extent - 1, 0]]
    assert tensor.density == 2 / extent**2


@pytest.mark.parametrize(
    ("shape", "coords", "values", "message"),
    [
        ((2, 2), [[0], [2]], [1.0], "coordinate 2 of entry 0 is outside mode 1 of extent 2"),
        ((2, 2), [[-1], [0]], [1.0], "coordinate -1 of entry 0 is outside mode 0"),
        ((2, 2), [[0, 1], [0, 1], [0, 0]], [1.0, 2.0], r"need coordinates of shape \(2, 2\), got \(3, 2\)"),
        ((2, 2), [[0, 1, 0], [1, 0, 0]], [1.0], r"1 values in 2 modes need coordinates of shape \(2, 1\)"),
        ((2,), [0.5], [1.0], "coordinates must be integers, got float64"),
        ((2,), [0], [1j], "values must be real numbers, got complex128"),
        ((2,), [0], ["x"], "values must be real numbers"),
        ((-1,), [], [], "extents must not be negative"),
    ],
)
def test_bad_entries(shape: tuple[int, ...], coords: list[object], values: list[object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SparseTensor.from_coo(shape, coords, values)  # type: ignore[arg-type]


def test_bad_objects() -> None:
    with pytest.raises(InputError, match="got dict"):
        SparseTensor.from_any({})
    with pytest.raises(InputError, match="rectangular"):
        SparseTensor.from_any([[1.0], [1.0, 2.0]])


def test_distinct_columns_are_those_of_numpy() -> None:
    rng = np.random.default_rng(2)
    for rows, n in ((1, 40), (2, 40), (3, 1), (2, 0)):
        columns = rng.integers(0, 4, (rows, n))
        points, count, place = distinct_columns(columns)
        np.testing.assert_array_equal(points[:, place], columns)
        if n:
            expected, often = np.unique(columns, axis=1, return_counts=True)
            np.testing.assert_array_equal(points, expected)
            np.testing.assert_array_equal(count, often)
        assert count.sum() == n


def test_differences_of_values_that_are_not_finite() -> None:
    """Equal ones differ by nothing; the largest magnitude is that of the finite ones."""
    inf, nan = np.inf, np.nan
    one = SparseTensor.from_coo((6,), [[0, 1, 2, 3, 4]], [inf, nan, -inf, 2.0, inf])
    other = SparseTensor.from_coo((6,), [[0, 1, 2, 3, 5]], [inf, nan, inf, 5.0, -1.0])
    assert one.minus(other).values.tolist() == [0.0, 0.0, -inf, -3.0, inf, 1.0]
    assert one.near(one) and not one.near(other) and one.magnitude == 2.0
    number = SparseTensor.from_dense(nan)
    assert number.near(number) and not number.near(SparseTensor.from_dense(1.0))
