"""FROSTT text: what is read, and where each mistake is found."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from mapper.errors import InputError
from mapper.frostt import read_frostt
from mapper.tensor import SparseTensor


def read(folder: Path, text: str, duplicates: str = "sum") -> SparseTensor:
    path = folder / "data.tns"
    path.write_text(text)
    return read_frostt(path, duplicates=duplicates)


def test_entries_in_any_order(tmp_path: Path) -> None:
    tensor = read(tmp_path, "# a comment\n3 1 2 0.5\r\n\n1\t2 1 -4\n  # another\n1 1 1 0\n")
    assert tensor.shape == (3, 2, 2)
    assert tensor.coords.T.tolist() == [[0, 0, 0], [0, 1, 0], [2, 0, 1]]
    assert tensor.values.tolist() == [0.0, -4.0, 0.5]
    assert tensor.notes == ()


def test_compressed_and_vector(tmp_path: Path) -> None:
    path = tmp_path / "data.tns.gz"
    path.write_bytes(gzip.compress(b"4 1.5"))
    assert read_frostt(path).to_dense().tolist() == [0, 0, 0, 1.5]


def test_duplicates(tmp_path: Path) -> None:
    text = "# c\n1 1 2\n2 1 5\n1 1 3\n"
    tensor = read(tmp_path, text)
    assert tensor.values.tolist() == [5.0, 5.0] and tensor.notes == ("1 duplicate entries were summed",)
    with pytest.raises(InputError, match=r"data\.tns: duplicate entries: 1, the first in line 2 and line 4"):
        read(tmp_path, text, "error")


def test_large_extents_and_special_values(tmp_path: Path) -> None:
    tensor = read(tmp_path, f"{2**62} {2**62} 1\n1 1 nan\n")
    assert tensor.shape == (2**62, 2**62) and tensor.coords[:, 1].tolist() == [2**62 - 1] * 2
    assert tensor.density == 2 / 2**124
    assert tensor.notes == ("values that are not finite: 1",)
    with pytest.raises(InputError, match=r"more than 2\^31 positions"):
        tensor.to_dense()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"data\.tns: holds no entry"),
        ("# only\n\n", r"data\.tns: holds no entry"),
        ("3\n10 10 10\n1 1 1 1\n", r"data\.tns:1: an entry is coordinates and a value.*header"),
        ("1 1 1\n# c\n1 1\n", r"data\.tns:3: every line must hold 3 numbers as the first, got 2"),
        ("1 1 1\n\n1 x 1\n", r"data\.tns:3: entry must be a whole number of 64 bits, got 'x'"),
        ("1 1 1\n1 1.0 1\n", r"data\.tns:2: entry must be a whole number of 64 bits, got '1\.0'"),
        ("1 1_0 1\n", r"data\.tns:1: .*got '1_0'"),
        (f"1 {2**63} 1\n", r"data\.tns:1: entry must be a whole number of 64 bits"),
        (f"1 {'9' * 50} 1\n", r"data\.tns:1: entry must be a whole number of 64 bits, got '9{40}'"),
        ("1 1 1\n1 1 one\n", r"data\.tns:2: entry must be a number, got 'one'"),
        ("1 1 1\n0 1 1\n", r"data\.tns:2: coordinates start at 1 and end at 2\^62, got 0 1"),
        ("1 -3 1\n", r"data\.tns:1: coordinates start at 1"),
        (f"1 {2**62 + 1} 1\n", r"data\.tns:1: coordinates start at 1 and end at 2\^62"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, text)


def test_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "cut.tns.gz"
    path.write_bytes(gzip.compress(b"1 1 1\n" * 1000)[:-12])
    with pytest.raises(InputError, match=r"cut\.tns\.gz: cannot be read"):
        read_frostt(path)
    with pytest.raises(InputError, match=r"absent\.tns: cannot be read: No such file"):
        read_frostt(tmp_path / "absent.tns")
