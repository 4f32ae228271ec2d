"""DLMC text: what is read, and where each mistake is found."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from mapper.errors import InputError
from mapper.smtx import read_smtx
from mapper.tensor import SparseTensor


def read(folder: Path, text: str, duplicates: str = "sum") -> SparseTensor:
    path = folder / "data.smtx"
    path.write_text(text)
    return read_smtx(path, duplicates=duplicates)


def test_pattern(tmp_path: Path) -> None:
    tensor = read(tmp_path, "3, 4, 3 \n0 2 2 3 \n3 1 0 \n\n")
    assert tensor.to_dense().tolist() == [[0, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0]]
    assert tensor.notes == ("pattern file: every entry has the value 1",)


@pytest.mark.parametrize("text", ["2,3,0\n0 0 0\n\n", "2 3 0\n0 0 0", "2, 3, 0\r\n0 0 0\r\n"])
def test_empty(tmp_path: Path, text: str) -> None:
    tensor = read(tmp_path, text)
    assert tensor.shape == (2, 3) and tensor.nnz == 0


def test_no_positions_and_large_extents(tmp_path: Path) -> None:
    assert read(tmp_path, "0, 0, 0\n0\n").shape == (0, 0)
    assert read(tmp_path, f"1, {2**62}, 1\n0 1\n{2**62 - 1}\n").coords.tolist() == [[0], [2**62 - 1]]


def test_duplicates(tmp_path: Path) -> None:
    text = "2, 3, 3\n0 2 3\n1 1 1\n"
    tensor = read(tmp_path, text)
    assert tensor.values.tolist() == [2.0, 1.0] and "1 duplicate entries were summed" in tensor.notes
    with pytest.raises(InputError, match=r"the first in column index 1 of line 3 and column index 2 of line 3"):
        read(tmp_path, text, "error")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r":1: the first line must be 'rows, columns, entries', got ''"),
        ("2, 3\n0 0 0\n\n", r":1: the first line must be 'rows, columns, entries', got '2, 3'"),
        ("2, x, 0\n0 0 0\n\n", r":1: the first line must be"),
        ("2, -3, 0\n0 0 0\n\n", r":1: the first line must be"),
        (f"2, {2**62 + 1}, 0\n0 0 0\n\n", r":1: sizes must be at most 2\^62"),
        ("2, 3, 1\n0 1\n0\n", r":2: line 1 asks for 3 row pointers, got 2"),
        ("2, 3, 1\n", r":2: line 1 asks for 3 row pointers, got 0"),
        ("2, 3, 2\n0 1 2\n0\n", r":3: line 1 asks for 2 column indices, got 1"),
        ("2, 3, 1\n0 1 2\n0\n", r":2: row pointers must rise from 0 to the 1 entries of line 1, got 0 to 2"),
        ("2, 3, 1\n1 1 1\n0\n", r":2: row pointers must rise from 0 to the 1 entries of line 1, got 1 to 1"),
        ("3, 3, 1\n0 2 1 1\n0\n", r":2: .*got 0 to 1, but number 3 is below the one before"),
        ("2, 3, 2\n0 1 2\n0 3\n", r":3: column indices must be 0 to 2, number 2 is 3"),
        ("2, 3, 2\n0 1 2\n0 -1\n", r":3: column indices must be 0 to 2, number 2 is -1"),
        ("2, 3, 2\n0 1 2\n0 a\n", r":3: entry must be a whole number of 64 bits, got 'a'"),
        ("2, 3, 1\n0 1 1\n0\n1 2 3\n", r":4: the file must end with line 3"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=r"data\.smtx" + message):
        read(tmp_path, text)


def test_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "cut.smtx.gz"
    path.write_bytes(gzip.compress(b"2, 3, 0\n0 0 0\n\n")[:-4])
    with pytest.raises(InputError, match=r"cut\.smtx\.gz: cannot be read"):
        read_smtx(path)
