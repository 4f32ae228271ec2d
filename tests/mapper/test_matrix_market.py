"""Every odd Matrix Market file gives the stated tensor, note or error."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from mapper.errors import InputError
from mapper.matrix_market import read_matrix_market
from mapper.tensor import SparseTensor

REAL = "%%MatrixMarket matrix coordinate real general\n"
SYMMETRIC = "%%MatrixMarket matrix coordinate real symmetric\n"
ARRAY = "%%MatrixMarket matrix array real general\n"

Read = Callable[..., SparseTensor]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads a text through a file called data.mtx."""

    def through_file(text: str, **options: Any) -> SparseTensor:
        path = tmp_path / "data.mtx"
        path.write_bytes(text.encode())
        return read_matrix_market(path, **options)

    return through_file


def dense(tensor: SparseTensor) -> list[list[float]]:
    result: list[list[float]] = tensor.to_dense().tolist()
    return result


def test_pattern_has_ones_and_a_note(read: Read) -> None:
    tensor = read("%%MatrixMarket matrix coordinate pattern general\n2 2 2\n1 2\n2 1\n")
    assert dense(tensor) == [[0, 1], [1, 0]]
    assert tensor.notes == ("pattern file: every entry has the value 1",)


def test_symmetric_halves_are_mirrored_and_the_diagonal_is_not(read: Read) -> None:
    assert dense(read(SYMMETRIC + "2 2 3\n1 1 1\n2 1 3\n2 2 4\n")) == [[1, 3], [3, 4]]
    assert dense(read(SYMMETRIC + "2 2 1\n1 2 3\n")) == [[0, 3], [3, 0]]
    full = read(SYMMETRIC + "4 4 5\n1 1 1\n2 2 2\n3 3 3\n4 4 4\n4 1 7\n")
    assert full.nnz == 6 and full.notes == ()


def test_symmetric_with_both_halves_is_an_error(read: Read) -> None:
    with pytest.raises(InputError, match=r"data\.mtx: a symmetric file stores one half, but lines 5 and 6 hold"):
        read(SYMMETRIC + "2 2 3\n1 1 1\n\n2 1 3\n1 2 3\n")


def test_skew_symmetric(read: Read) -> None:
    banner = "%%MatrixMarket matrix coordinate real skew-symmetric\n"
    assert dense(read(banner + "2 2 1\n2 1 5\n")) == [[0, -5], [5, 0]]
    assert dense(read(banner + "2 2 1\n1 2 5\n")) == [[0, 5], [-5, 0]]
    with pytest.raises(InputError, match=r"data\.mtx:4: a skew-symmetric matrix has a zero diagonal, got 3\.0"):
        read(banner + "2 2 2\n2 1 1\n1 1 3\n")


def test_complex_needs_an_explicit_choice(read: Read) -> None:
    text = "%%MatrixMarket matrix coordinate complex hermitian\n2 2 2\n1 1 2 0\n2 1 3 4\n"
    with pytest.raises(InputError, match="values are complex; pass complex_values='abs'"):
        read(text)
    tensor = read(text, complex_values="abs")
    assert dense(tensor) == [[2, 5], [5, 0]]
    assert tensor.notes == ("complex values were replaced by their magnitudes",)
    cancelling = "%%MatrixMarket matrix coordinate complex general\n1 1 2\n1 1 3 4\n1 1 -3 0\n"
    assert dense(read(cancelling, complex_values="abs")) == [[4]]


def test_duplicates(read: Read) -> None:
    text = REAL + "2 2 4\n1 1 1\n2 1 5\n1 1 3\n1 1 0.5\n"
    tensor = read(text)
    assert dense(tensor) == [[4.5, 0], [5, 0]]
    assert tensor.notes == ("duplicate entries summed: 2, the first in lines 3 and 5",)
    with pytest.raises(InputError, match="duplicate entries: 2, the first in lines 3 and 5"):
        read(text, duplicates="error")
    mirrored = read(SYMMETRIC + "2 2 3\n2 1 1\n2 1 5\n1 1 3\n")
    assert dense(mirrored) == [[3, 6], [6, 0]]
    assert mirrored.notes == ("duplicate entries summed: 1, the first in lines 3 and 4",)


@pytest.mark.parametrize("entry", ["0 1 1", "1 0 1", "3 1 1", "1 3 1"])
def test_indices_out_of_bounds(read: Read, entry: str) -> None:
    with pytest.raises(InputError, match=r"data\.mtx:4: .*out of bounds: indices start at 1 and the matrix is 2 x 2"):
        read(REAL + f"2 2 2\n1 1 1\n{entry}\n")


def test_wrong_number_of_entries(read: Read) -> None:
    with pytest.raises(InputError, match=r"data\.mtx:2: the header announces 2 entries; lines that follow: 1"):
        read(REAL + "2 2 2\n1 1 1\n")
    with pytest.raises(InputError, match=r"data\.mtx: Truncated file\. Expected another 1 lines"):
        read(REAL + "2 2 3\n1 1 1.25\n1 2 1.25\n")
    with pytest.raises(InputError, match=r"data\.mtx:4: Too many lines"):
        read(REAL + "2 2 1\n1 1 1\n1 2 1\n")
    with pytest.raises(InputError, match="announces 1000000000000000 entries"):
        read(REAL + "5 5 1000000000000000\n1 1 3\n")


def test_size_line_without_entries(read: Read) -> None:
    with pytest.raises(InputError, match=r"data\.mtx:3: .* got '2 2': the number of entries is missing; append 2"):
        read(REAL + "% comment\n2 2\n1 1 1\n\n2 2 1\n")


@pytest.mark.parametrize("sizes", ["x 2 1", "2 2 1 1", "-2 2 1", "2.0 2 1", "5"])
def test_bad_size_line(read: Read, sizes: str) -> None:
    with pytest.raises(InputError, match=r"data\.mtx:2: the size line must be 'rows columns entries'"):
        read(REAL + sizes + "\n1 1 1\n")


@pytest.mark.parametrize("sizes", ["0 0 0", "0 3 0", "3 0 0", "3 4 0"])
def test_nothing_stored(read: Read, sizes: str) -> None:
    tensor = read(REAL + sizes + "\n")
    assert tensor.nnz == 0
    assert tensor.shape == tuple(map(int, sizes.split()[:2]))


def test_non_finite_values_are_kept_and_flagged(read: Read) -> None:
    tensor = read(REAL + "2 2 3\n1 1 1e400\n1 2 nan\n2 2 1\n")
    assert np.array_equal(tensor.values, [np.inf, np.nan, 1.0], equal_nan=True)
    assert tensor.notes == ("values that are not finite: 2",)


def test_explicit_zeros(read: Read) -> None:
    text = REAL + "2 2 2\n1 1 0\n2 2 1\n"
    assert read(text).nnz == 2 and read(text).notes == ()
    dropped = read(text, keep_explicit_zeros=False)
    assert dropped.nnz == 1 and dropped.notes == ("explicit zeros dropped: 1",)


def test_array_files_become_coordinates(read: Read) -> None:
    tensor = read(ARRAY + "2 3\n1\n0\n3\n4\n0\n6\n")
    assert dense(tensor) == [[1, 3, 0], [0, 4, 6]]
    assert tensor.nnz == 4 and tensor.notes == ("array file: its zeros are not stored",)
    assert dense(read(ARRAY.replace("general", "symmetric") + "2 2\n1\n2\n3\n")) == [[1, 2], [2, 3]]
    assert dense(read(ARRAY.replace("general", "skew-symmetric") + "2 2\n2\n")) == [[0, -2], [2, 0]]
    hermitian = ARRAY.replace("real general", "complex hermitian") + "2 2\n2 0\n3 4\n4 0\n"
    assert dense(read(hermitian, complex_values="abs")) == [[2, 5], [5, 4]]


@pytest.mark.parametrize("sizes", ["0 0", "0 3", "3 0"])
def test_array_without_positions(read: Read, sizes: str) -> None:
    assert read(ARRAY + sizes + "\n").shape == tuple(map(int, sizes.split()))
    with pytest.raises(InputError, match="a matrix without positions is followed by values"):
        read(ARRAY + sizes + "\n1\n")


def test_integers(read: Read) -> None:
    integer = "%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 "
    assert read(integer + "-7\n").values.tolist() == [-7.0]
    assert read(integer + str(2**53 + 1) + "\n").notes == ("integers of 2^53 or more, which float64 may round: 1",)
    with pytest.raises(InputError, match=r"data\.mtx:3: Integer out of range"):
        read(integer + str(2**63) + "\n")


def test_line_ends_tabs_blank_lines_and_comments(read: Read) -> None:
    text = REAL.replace("\n", "\r\n") + "% c\r\n\r\n2\t2 2\r\n1 1 1\r\n\r\n1\t2 3\r\n"
    assert dense(read(text)) == [[1, 3], [0, 0]]
    with pytest.raises(InputError, match=r"data\.mtx:7: Row index out of bounds"):
        read(REAL + "%\n2 2 3\n1 1 1\n\n1 2 1\n0 1 1\n")


def test_banner_is_case_insensitive(read: Read) -> None:
    assert dense(read("%%MATRIXMARKET MATRIX Coordinate REAL General\n1 1 1\n1 1 2\n")) == [[2]]
    assert dense(read("%MatrixMarket matrix coordinate double general\n1 1 1\n1 1 2\n")) == [[2]]


@pytest.mark.parametrize(
    ("banner", "message"),
    [
        ("", "must be a banner"),
        ("1 1 1", "must be a banner"),
        ("%%MatrixMarket matrix coordinate real", "must be a banner"),
        ("%%MatrixMarket matrix coordinat real general", "'coordinat' in the banner. Did you mean 'coordinate'"),
        ("%%MatrixMarket matrix coordinate reel general", "'reel' in the banner. Did you mean 'real'"),
        ("%%MatrixMarket matrix coordinate real symetric", "'symetric' in the banner. Did you mean 'symmetric'"),
        ("%%MatrixMarket graph coordinate real general", "'graph' in the banner.*Valid: matrix"),
        ("%%MatrixMarket vector coordinate real general", "write a 'matrix array' of one column instead"),
        ("%%MatrixMarket matrix array pattern general", "'pattern' values cannot be combined"),
        ("%%MatrixMarket matrix coordinate pattern skew-symmetric", "'pattern' values cannot be combined"),
        ("%%MatrixMarket matrix coordinate real hermitian", "'real' values cannot be combined"),
    ],
)
def test_bad_banners(read: Read, banner: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"data\.mtx:1: .*{message}"):
        read(banner + "\n1 1 1\n1 1 1\n")


def test_file_that_ends_in_its_header(read: Read) -> None:
    with pytest.raises(InputError, match=r"data\.mtx:2: the file ends before its size line"):
        read(REAL + "% only a comment\n")


@pytest.mark.parametrize("symmetry", ["symmetric", "skew-symmetric"])
def test_symmetry_needs_a_square(read: Read, symmetry: str) -> None:
    with pytest.raises(InputError, match=rf"data\.mtx:2: a {symmetry} matrix must be square, got 2 x 3"):
        read(REAL.replace("general", symmetry) + "2 3 1\n2 3 1\n")


def test_dimensions_beyond_32_bits(read: Read) -> None:
    tensor = read(REAL + "5000000000 5000000000 1\n5000000000 1 3\n")
    assert tensor.shape == (5_000_000_000, 5_000_000_000)
    assert tensor.coords.tolist() == [[4_999_999_999], [0]]
    assert read(REAL + "2 2 1\n1 1 1\n").coords.dtype == np.int64
    with pytest.raises(InputError, match=r"sizes must be at most 2\^62"):
        read(REAL + f"{2**63} 1 0\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1 x", "entry must be a number, got 'x'"),
        ("1 1 3,5", "entry must be a number, got '3,5'"),
        ("1 1 0x10", "entry must be a number, got '0x10'"),
        ("1 1 1.5abc", "entry must be a number, got '1.5abc'"),
        ("1 1 1\0", r"entry must be a number, got '1\\x00'"),
        ("1 1 +3", "Invalid floating-point value"),
        ("1 1", r"a line of the 'coordinate real' file \(see line 1\) is 3 numbers, got 2 in '1 1'"),
        ("1.5 1 1", "entry must be a whole number, got '1.5'"),
        ("1 1 2 3", "is 3 numbers, got 4 in '1 1 2 3'"),
        ("% comment", "is 3 numbers, got 2 in '% comment'"),
    ],
)
def test_bad_entries(read: Read, text: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"data\.mtx:4: .*{message}"):
        read(REAL + f"2 2 2\n2 2 3.5\n{text}\n")


@pytest.mark.parametrize(
    ("field", "text", "message"),
    [
        ("integer", "1 1 3.7", "entry must be a whole number, got '3.7'"),
        ("integer", "1 1 1e3", "entry must be a whole number, got '1e3'"),
        ("pattern", "1 1 4", "is 2 numbers, got 3 in '1 1 4'"),
        ("complex", "1 1 4", "is 4 numbers, got 3 in '1 1 4'"),
        ("unsigned-integer", "1 1 -3", "Invalid integer value"),
    ],
)
def test_bad_entries_of_a_field(read: Read, field: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"data\.mtx:3: .*{message}"):
        read(REAL.replace("real", field) + f"2 2 1\n{text}\n", complex_values="abs")


def test_bad_values_of_an_array(read: Read) -> None:
    with pytest.raises(
        InputError, match=r"data\.mtx:4: a line of the 'array real' file .* is 1 number, got 2 in '2 3'"
    ):
        read(ARRAY + "2 2\n1\n2 3\n4\n5\n")
    with pytest.raises(InputError, match=r"data\.mtx:4: entry must be a number, got '2;'"):
        read(ARRAY + "2 2\n1\n2;\n4\n5\n")


def test_exponents_of_fortran(read: Read) -> None:
    assert read(REAL + "2 2 2\n1 1 1.5D+02\n2 2 -1d-1\n").values.tolist() == [150.0, -0.1]
    text = REAL.replace("real", "complex") + "1 1 1\n1 1 3.D0 4D+0\n"
    assert dense(read(text, complex_values="abs")) == [[5]]


def test_gzip_and_unreadable_files(tmp_path: Path) -> None:
    packed = tmp_path / "data.mtx.gz"
    packed.write_bytes(gzip.compress((REAL + "1 1 1\n1 1 2\n").encode()))
    assert read_matrix_market(str(packed)).values.tolist() == [2.0]
    packed.write_bytes(packed.read_bytes()[:-12])
    for path in (packed, tmp_path / "absent.mtx", tmp_path):
        with pytest.raises(InputError, match=f"{path}: cannot be read"):
            read_matrix_market(path)


def test_unknown_option(read: Read) -> None:
    with pytest.raises(InputError, match=r"'eror' of 'duplicates'\. Did you mean 'error'"):
        read(REAL + "1 1 0\n", duplicates="eror")


def test_real_files_agree_with_scipy(data_dir: Path) -> None:
    for name, nnz in (("add32", 23884), ("bcsstk13", 83883), ("cora_ml", 8416), ("memplus", 126150)):
        path = sorted((data_dir / name).glob("*.mtx.gz"))[0]
        tensor, matrix = read_matrix_market(path), scipy.io.mmread(path)
        expected = SparseTensor.from_any(matrix)
        assert tensor.nnz == expected.nnz == nnz
        assert np.array_equal(tensor.coords, expected.coords)
        assert np.array_equal(tensor.values, expected.values)
