"""numpy files: ``.npy`` holds one dense array, ``.npz`` an archive of sparse and dense ones. Nothing is unpickled.

A sparse member is a group of arrays with one prefix: what ``scipy.sparse.save_npz`` writes (no prefix), or the
``adj_data, adj_indices, adj_indptr, adj_shape`` of published graph archives (member ``adj``).
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from mapper.errors import InputError, nearest
from mapper.file_content import check_repeats, finite_note, read_content
from mapper.tensor import SparseTensor

PARTS = ("data", "shape", "indices", "indptr", "row", "col", "coords", "offsets", "format", "_is_array")
"""Arrays that may make up a sparse member; the first two always do."""

WHOLE = "matrix"
"""Name of the member without a prefix."""

WHOLE_NUMBERS = ("shape", "indices", "indptr", "row", "col", "coords", "offsets")
"""Parts that scipy would round towards zero."""

FORMATS = ("csr", "csc", "bsr", "coo", "dia")


def read_npy(path: str | Path) -> SparseTensor:
    """The non-zeros of a dense array. Raises InputError for other content than one array of real numbers."""
    path = Path(path)
    with _placed(path, "a .npy file of one array"):
        array = _load(path)
        if not isinstance(array, np.ndarray):
            raise InputError("the file is an archive; name it .npz")
        return _dense(array)


def read_npz(path: str | Path, *, duplicates: str = "sum", member: str | None = None) -> SparseTensor:
    """The sparse or dense ``member`` of an archive; None: the only one, or the only sparse one.

    Raises InputError naming the members if ``member`` is not among them or must be given, and for groups of arrays
    that do not make up a sparse matrix.
    """
    path = Path(path)
    with _placed(path, "a .npz archive of arrays"):
        archive = _load(path)
        if isinstance(archive, np.ndarray):
            raise InputError("the file holds a single array; name it .npy")
        prefixes = [name.removesuffix("data") for name in archive.files if name.endswith("data")]
        sparse = {prefix.rstrip("_.") or WHOLE: prefix for prefix in prefixes if prefix + "shape" in archive}
        used = {prefix + part for prefix in sparse.values() for part in PARTS}
        dense = [name for name in archive.files if name not in used]
        names = [*sparse, *dense]
        if member is None:
            if len(among := [*sparse] or dense) != 1:
                raise InputError(f"the archive holds {', '.join(names) or 'nothing'}; name one of them as 'member'")
            member = among[0]
        if member not in names:
            raise InputError(f"the archive has no member {member!r}.{nearest(member, names)}")
        if member in dense:
            return _dense(archive[member])
        prefix = sparse[member]
        matrix = _matrix({part: archive[prefix + part] for part in PARTS if prefix + part in archive}).tocoo()
        at, values = np.array(matrix.coords), matrix.data
        check_repeats(path, at, duplicates, lambda n: f"entry {n + 1}")
        tensor = SparseTensor.from_coo(tuple(map(int, matrix.shape)), at, values)
        return SparseTensor(tensor.shape, tensor.coords, tensor.values, (*tensor.notes, *finite_note(tensor.values)))


def _dense(array: np.ndarray[Any, Any]) -> SparseTensor:
    tensor = SparseTensor.from_dense(array)
    notes = ("dense array: its zeros are not stored", *finite_note(tensor.values))
    return SparseTensor(tensor.shape, tensor.coords, tensor.values, notes)


def _matrix(parts: dict[str, Any]) -> Any:
    """The scipy matrix that ``parts`` describe, all its indices checked."""
    guess = "csr" if "indptr" in parts else "coo"
    kind = np.asarray(parts.get("format", guess)).item()
    kind = kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)
    if kind not in FORMATS:
        raise InputError(f"unknown sparse format {kind!r}.{nearest(kind, FORMATS)}")
    _check_whole(parts)
    index: tuple[Any, ...]
    if kind == "coo":
        index = (tuple(parts["coords"] if "coords" in parts else (parts["row"], parts["col"])),)
    else:
        index = (parts["offsets"],) if kind == "dia" else (parts["indices"], parts["indptr"])
    shape = tuple(int(extent) for extent in parts["shape"])
    matrix = getattr(scipy.sparse, f"{kind}_array")((parts["data"], *index), shape=shape)
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)
    if "indptr" in parts and kind in ("csr", "csc", "bsr") and parts["indptr"][-1] != len(parts["data"]):
        raise InputError(
            f"the last entry of 'indptr' must be the length of 'data', {len(parts['data'])}, got {parts['indptr'][-1]}"
        )
    return matrix


def _check_whole(parts: dict[str, Any]) -> None:
    """Raises InputError for numbers that are to be whole and are not."""
    for name in WHOLE_NUMBERS:
        given = np.ravel(parts.get(name, ()))
        with np.errstate(invalid="ignore"):  # of infinities and NaNs, which no whole number equals
            broken = given[given != given.astype(np.int64)] if given.dtype.kind == "f" else given[:0]
        if broken.size:
            raise InputError(f"{name!r} must hold whole numbers of 64 bits, got {broken[0]}")


def _load(path: Path) -> Any:
    content = read_content(path)
    if not content.startswith((b"\x93NUMPY", b"PK")):
        raise InputError("the file is not in numpy's format")
    return np.load(io.BytesIO(content), allow_pickle=False)


@contextmanager
def _placed(path: Path, wanted: str) -> Iterator[None]:
    """Turns what numpy and scipy raise for malformed content into InputError with the file's name."""
    try:
        yield
    except InputError as error:
        raise error if str(error).startswith(str(path)) else InputError(f"{path}: {error}") from error
    except KeyError as error:
        raise InputError(f"{path}: must be {wanted}: {error.args[0]} is missing") from error
    except (ValueError, TypeError, IndexError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        objects = "Object arrays" in str(error)
        reason = "it holds Python objects, which are never loaded" if objects else str(error)
        raise InputError(f"{path}: must be {wanted}: {reason}") from error
