"""DLMC files (``.smtx``, ``.smtx.gz``): patterns of pruned weights as three lines of numbers that count from 0.

Line 1: rows, columns and entries, separated by commas; line 2: rows + 1 row pointers; line 3: column indices
(Gale et al., arXiv:2006.10901). The files hold no values: every entry is 1.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mapper.errors import InputError
from mapper.file_content import check_repeats, parse_numbers, read_content
from mapper.tensor import LARGEST_EXTENT, Coords, SparseTensor


def read_smtx(path: str | Path, *, duplicates: str = "sum") -> SparseTensor:
    """The matrix in ``path``, every value 1. Raises InputError with file and line for a header, row pointers or
    column indices that do not fit each other."""
    path = Path(path)
    lines = read_content(path).splitlines()
    rows, columns, entries = _header(path, lines[0] if lines else b"")
    for number, line in enumerate(lines[3:], 4):
        if line.strip():
            raise InputError(f"{path}:{number}: the file must end with line 3, the column indices")
    pointers = _numbers(path, lines, 2, "row pointers", rows + 1)
    column = _numbers(path, lines, 3, "column indices", entries)
    lengths = np.diff(pointers)
    if pointers[0] != 0 or (lengths < 0).any() or pointers[-1] != entries:
        drop = f", but number {int(np.argmax(lengths < 0)) + 2} is below the one before" if (lengths < 0).any() else ""
        ends = f"got {pointers[0]} to {pointers[-1]}{drop}"
        raise InputError(f"{path}:2: row pointers must rise from 0 to the {entries} entries of line 1, {ends}")
    outside = np.flatnonzero((column < 0) | (column >= columns))
    if outside.size:
        place = f"number {outside[0] + 1} is {column[outside[0]]}"
        raise InputError(f"{path}:3: column indices must be 0 to {columns - 1}, {place}")
    at = np.stack([np.repeat(np.arange(rows), lengths), column])
    check_repeats(path, at, duplicates, lambda n: f"column index {n + 1} of line 3")
    return SparseTensor.from_coo((rows, columns), at, np.ones(entries), ("pattern file: every entry has the value 1",))


def _header(path: Path, line: bytes) -> tuple[int, int, int]:
    words = line.replace(b",", b" ").split()
    sizes = [int(word) for word in words if word.isdigit() and len(word) < 20]
    if len(words) != 3 or len(sizes) != 3:
        shown = line[:60].decode("latin-1")
        raise InputError(f"{path}:1: the first line must be 'rows, columns, entries', got {shown!r}")
    if max(sizes) > LARGEST_EXTENT:
        raise InputError(f"{path}:1: sizes must be at most 2^62, got {', '.join(map(str, sizes))}")
    return sizes[0], sizes[1], sizes[2]


def _numbers(path: Path, lines: list[bytes], number: int, what: str, expected: int) -> Coords:
    words = lines[number - 1].split() if len(lines) >= number else []
    if len(words) != expected:
        raise InputError(f"{path}:{number}: line 1 asks for {expected} {what}, got {len(words)}")
    return parse_numbers(path, words, int, lambda _: number)
