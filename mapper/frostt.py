"""FROSTT files (``.tns``, ``.tns.gz``): one entry a line, coordinates from 1, then the value; ``#`` opens a comment.

The format has no header (http://frostt.io/tensors/file-formats.html): the first entry tells the number of modes and
the largest coordinate of a mode its extent.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mapper.errors import InputError
from mapper.file_content import check_repeats, finite_note, parse_numbers, read_content
from mapper.tensor import LARGEST_EXTENT, SparseTensor


def read_frostt(path: str | Path, *, duplicates: str = "sum") -> SparseTensor:
    """The tensor in ``path``. Raises InputError with file and line for lines of another length than the first,
    words that are no numbers, and coordinates below 1 or above 2^62."""
    path = Path(path)
    lines = [
        (number, words)
        for number, line in enumerate(read_content(path).splitlines(), 1)
        if (words := line.split()) and not words[0].startswith(b"#")
    ]
    if not lines:
        raise InputError(f"{path}: holds no entry, so that its number of modes is unknown")
    numbers, entries = [number for number, _ in lines], [words for _, words in lines]
    width = len(entries[0])
    if width < 2:
        raise InputError(f"{path}:{numbers[0]}: an entry is coordinates and a value, got one word; is it a header?")
    for number, words in lines:
        if len(words) != width:
            raise InputError(f"{path}:{number}: every line must hold {width} numbers as the first, got {len(words)}")
    modes = width - 1
    flat = [word for words in entries for word in words[:-1]]
    at = parse_numbers(path, flat, int, lambda n: numbers[n // modes]).reshape(-1, modes).T
    values = parse_numbers(path, [words[-1] for words in entries], float, numbers.__getitem__)
    bad = np.flatnonzero(((at < 1) | (at > LARGEST_EXTENT)).any(axis=0))
    if bad.size:
        shown = " ".join(map(str, at[:, bad[0]]))
        raise InputError(f"{path}:{numbers[bad[0]]}: coordinates start at 1 and end at 2^62, got {shown}")
    check_repeats(path, at, duplicates, lambda n: f"line {numbers[n]}")
    return SparseTensor.from_coo(tuple(at.max(axis=1).tolist()), at - 1, values, finite_note(values))
