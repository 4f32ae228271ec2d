"""Matrix Market files (``.mtx``, ``.mtx.gz``), read by scipy between strict checks.

scipy parses the numbers. Everything it would accept silently or explain badly is checked here: the header and the
words of every line before it, repeated and mirrored entries after it, for which it is given a ``general`` header and so
keeps file order.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.io

from mapper.errors import InputError, nearest
from mapper.file_content import finite_note, read_content
from mapper.number_lines import Kind, check_number_lines
from mapper.tensor import LARGEST_EXTENT, Coords, SparseTensor

LAYOUTS = ("coordinate", "array")
FIELDS: dict[str, tuple[Kind, ...]] = {
    "real": (float,),
    "double": (float,),
    "integer": (int,),
    "unsigned-integer": (int,),
    "complex": (float, float),
    "pattern": (),
}
"""Numbers that make up a value of each field."""
SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")
EXACT_INTEGERS = 2**53

_EXPONENTS = bytes.maketrans(b"dD", b"ee")
"""Fortran's exponents as scipy reads them; no other number has these letters."""

EXAMPLE = "%%MatrixMarket matrix coordinate real general"


@dataclass(frozen=True, slots=True)
class _Header:
    """``line`` is that of the sizes (1-based), ``end`` the byte behind it."""

    layout: str
    field: str
    symmetry: str
    sizes: tuple[int, ...]
    line: int
    end: int


def read_matrix_market(
    path: str | Path,
    *,
    duplicates: Literal["sum", "error"] = "sum",
    complex_values: Literal["error", "abs"] = "error",
    keep_explicit_zeros: bool = True,
) -> SparseTensor:
    """The matrix in ``path``, mirrored where its header says so.

    Indices are int64 and values float64. Stored zeros of a ``coordinate`` file stay stored entries unless
    ``keep_explicit_zeros`` is false; an ``array`` file stores its non-zeros. The tensor's notes tell of pattern
    values, summed duplicates, dropped zeros, magnitudes, rounded integers and non-finite values. Raises InputError
    with file and line for everything else that a strict reader refuses.
    """
    _check_option("duplicates", duplicates, ("sum", "error"))
    _check_option("complex_values", complex_values, ("error", "abs"))
    path = Path(path)
    content = read_content(path)
    header = _header(path, content)
    if header.field == "complex" and complex_values == "error":
        raise InputError(f"{path}:1: values are complex; pass complex_values='abs' to take their magnitudes")
    notes = []
    if header.layout == "array":
        coords, values = _dense_entries(path, content, header)
        notes.append("array file: its zeros are not stored")
    else:
        coords, values, merged = _sparse_entries(path, content, header, duplicates)
        notes += merged
    if header.field == "pattern":
        notes.append("pattern file: every entry has the value 1")
    if np.iscomplexobj(values):
        values = np.abs(values)
        notes.append("complex values were replaced by their magnitudes")
    if rounded := int((np.abs(values) >= EXACT_INTEGERS).sum()) if "integer" in header.field else 0:
        notes.append(f"integers of 2^53 or more, which float64 may round: {rounded}")
    notes += finite_note(values)
    if not keep_explicit_zeros and (zeros := int((values == 0).sum())):
        coords, values = coords[:, values != 0], values[values != 0]
        notes.append(f"explicit zeros dropped: {zeros}")
    return SparseTensor.from_coo(header.sizes[:2], coords, values, tuple(notes))


def _check_option(name: str, value: str, valid: tuple[str, ...]) -> None:
    if value not in valid:
        raise InputError(f"unknown value {value!r} of {name!r}.{nearest(value, valid)}")


def _header(path: Path, content: bytes) -> _Header:
    """Banner and size line, both checked."""
    stream = io.BytesIO(content)
    banner = stream.readline().decode("latin-1").lower().split()
    if len(banner) != 5 or banner[0].lstrip("%") != "matrixmarket" or not banner[0].startswith("%"):
        raise InputError(f"{path}:1: the first line must be a banner like {EXAMPLE!r}, got {' '.join(banner)[:60]!r}")
    _, thing, layout, field, symmetry = banner
    if thing == "vector":
        raise InputError(f"{path}:1: 'vector' files are not supported; write a 'matrix array' of one column instead")
    for word, valid in ((thing, ("matrix",)), (layout, LAYOUTS), (field, FIELDS), (symmetry, SYMMETRIES)):
        if word not in valid:
            raise InputError(f"{path}:1: unknown word {word!r} in the banner.{nearest(word, valid)}")
    impossible = (
        (field == "pattern" and (layout == "array" or symmetry in ("skew-symmetric", "hermitian")))
        or (symmetry == "hermitian" and field != "complex")
    )  # fmt: skip
    if impossible:
        raise InputError(f"{path}:1: {field!r} values cannot be combined with '{layout} {symmetry}'")
    number = 1
    while line := stream.readline():
        number += 1
        if line.strip() and not line.lstrip().startswith(b"%"):
            sizes = _sizes(path, content[stream.tell() :], line, number, layout)
            header = _Header(layout, field, symmetry, sizes, number, stream.tell())
            _check_sizes(path, content, header)
            return header
    raise InputError(f"{path}:{number}: the file ends before its size line")


def _sizes(path: Path, body: bytes, line: bytes, number: int, layout: str) -> tuple[int, ...]:
    needed = ("rows", "columns", "entries") if layout == "coordinate" else ("rows", "columns")
    words = line.decode("latin-1").split()
    if len(words) == 2 < len(needed):
        count = sum(1 for row in body.splitlines() if row.strip())
        hint = f"the number of entries is missing; append {count}, that of the lines that follow"
        raise InputError(
            f"{path}:{number}: the size line must be 'rows columns entries', got {' '.join(words)!r}: {hint}"
        )
    if len(words) != len(needed) or not all(word.isascii() and word.isdigit() for word in words):
        raise InputError(f"{path}:{number}: the size line must be '{' '.join(needed)}', got {' '.join(words)[:60]!r}")
    return tuple(map(int, words))


def _check_sizes(path: Path, content: bytes, header: _Header) -> None:
    """Sizes that the symmetry allows and that the rest of the file can hold, before memory is taken for them."""
    rows, columns = header.sizes[:2]
    where = f"{path}:{header.line}"
    if max(header.sizes) > LARGEST_EXTENT:
        raise InputError(f"{where}: sizes must be at most 2^62, got {' x '.join(map(str, header.sizes))}")
    if header.symmetry != "general" and rows != columns:
        raise InputError(f"{where}: a {header.symmetry} matrix must be square, got {rows} x {columns}")
    body = content[header.end :]
    if header.layout == "array":
        triangle = {"general": rows * columns, "skew-symmetric": rows * (rows - 1) // 2}
        announced, shortest = triangle.get(header.symmetry, rows * (rows + 1) // 2), 2
    else:
        announced, shortest = header.sizes[2], 4
    if announced * shortest > len(body) + 1:
        count = sum(1 for line in body.splitlines() if line.strip())
        raise InputError(f"{where}: the header announces {announced} entries; lines that follow: {count}")


def _parse(path: Path, content: bytes, header: _Header, symmetry: str) -> Any:
    """What scipy reads under a banner that says ``symmetry``."""
    kinds = (*((int, int) if header.layout == "coordinate" else ()), *FIELDS[header.field])
    what = f"the '{header.layout} {header.field}' file (see line 1)"
    check_number_lines(path, content, header.end, header.line + 1, kinds, what)
    if any(content.find(letter, header.end) >= 0 for letter in b"dD"):
        content = content.translate(_EXPONENTS)
    field = "real" if header.field == "double" else header.field
    banner = f"%%MatrixMarket matrix {header.layout} {field} {symmetry}\n".encode()
    try:
        return scipy.io.mmread(io.BytesIO(banner + content[content.index(b"\n") + 1 :]))
    except (ValueError, OverflowError) as error:
        line, reason = re.fullmatch(r"(?:Line (\d+): )?(.*)", str(error), re.DOTALL).groups()  # type: ignore[union-attr]
        if "out of bounds" in reason:
            reason += f": indices start at 1 and the matrix is {header.sizes[0]} x {header.sizes[1]}"
        raise InputError(f"{path}{f':{line}' if line else ''}: {reason}") from error


def _dense_entries(path: Path, content: bytes, header: _Header) -> tuple[Coords, Any]:
    if 0 in header.sizes:
        if content[header.end :].strip():
            raise InputError(f"{path}:{header.line}: a matrix without positions is followed by values")
        return np.zeros((2, 0), np.int64), np.zeros(0)
    dense = _parse(path, content, header, header.symmetry)
    coords = np.argwhere(dense).T
    return coords, dense[tuple(coords)].astype(np.complex128 if np.iscomplexobj(dense) else np.float64)


def _sparse_entries(path: Path, content: bytes, header: _Header, duplicates: str) -> tuple[Coords, Any, list[str]]:
    """Unique coordinates and values, mirrored; a note if entries were summed."""
    matrix = _parse(path, content, header, "general")
    row, column = matrix.row.astype(np.int64), matrix.col.astype(np.int64)
    values = matrix.data.astype(np.complex128 if np.iscomplexobj(matrix.data) else np.float64)

    def lines(*entries: int) -> str:
        return " and ".join(str(_line_of(content, header, int(entry))) for entry in sorted(entries))

    if header.symmetry == "skew-symmetric":
        for wrong in np.flatnonzero((row == column) & (values != 0))[:1]:
            message = f"a skew-symmetric matrix has a zero diagonal, got {values[wrong]}"
            raise InputError(f"{path}:{lines(wrong)}: {message}; the symmetry named in line 1 is wrong")
    mirrored = header.symmetry != "general"
    low, high = (np.minimum(row, column), np.maximum(row, column)) if mirrored else (row, column)
    order = np.lexsort((high, low))
    again = np.flatnonzero((np.diff(low[order]) == 0) & (np.diff(high[order]) == 0))
    first, second = order[again], order[again + 1]
    for half in np.flatnonzero(row[first] != row[second])[:1]:
        pair = lines(first[half], second[half])
        message = f"a {header.symmetry} file stores one half, but lines {pair} hold an entry and its mirror image"
        raise InputError(f"{path}: {message}; remove one half or say 'general' in line 1")
    notes = []
    if again.size:
        pair = lines(first[0], second[0])
        if duplicates == "error":
            message = f"duplicate entries: {again.size}, the first in lines {pair}"
            raise InputError(f"{path}: {message}; duplicates='sum' would add them")
        notes.append(f"duplicate entries summed: {again.size}, the first in lines {pair}")
        starts = np.delete(np.arange(order.size), again + 1)
        values = np.add.reduceat(values[order], starts)
        row, column = row[order][starts], column[order][starts]
    coords, values = _mirrored(header.symmetry, np.stack([row, column]), values)
    return coords, values, notes


def _mirrored(symmetry: str, coords: Coords, values: Any) -> tuple[Coords, Any]:
    """The stored half and the image of its entries off the diagonal."""
    if symmetry == "general":
        return coords, values
    image = {"symmetric": values, "skew-symmetric": -values, "hermitian": np.conj(values)}[symmetry]
    off = coords[0] != coords[1]
    return np.concatenate([coords, coords[::-1, off]], axis=1), np.concatenate([values, image[off]])


def _line_of(content: bytes, header: _Header, entry: int) -> int:
    """Line of the file that holds entry number ``entry`` (0-based)."""
    following = enumerate(content[header.end :].splitlines(), header.line + 1)
    return [number for number, line in following if line.strip()][entry]
