"""Data files by name: in the specification's folder first, then in the folder that SPARSELOOM_DATA names."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from mapper.errors import InputError, nearest
from mapper.frostt import read_frostt
from mapper.matrix_market import read_matrix_market
from mapper.numpy_files import read_npy, read_npz
from mapper.smtx import read_smtx
from mapper.tensor import SparseTensor

DATA_VARIABLE = "SPARSELOOM_DATA"

READERS: dict[str, Callable[..., SparseTensor]] = {
    ".mtx": read_matrix_market,
    ".mtx.gz": read_matrix_market,
    ".tns": read_frostt,
    ".tns.gz": read_frostt,
    ".smtx": read_smtx,
    ".smtx.gz": read_smtx,
    ".npz": read_npz,
    ".npy": lambda path, **_: read_npy(path),
}
"""Reader of every supported file suffix."""


def find_data(name: str, folder: Path | None) -> Path:
    """The file called ``name``: a path from ``folder`` (None: the current one), a path or file name anywhere below
    SPARSELOOM_DATA, or the name of a folder in one of the two that holds exactly one data file.

    Raises InputError that lists where it looked and the nearest names, or the candidates if there are several.
    """
    here = folder if folder is not None else Path.cwd()
    data = os.environ.get(DATA_VARIABLE)
    roots = [here, Path(data)] if data and here.resolve() != Path(data).resolve() else [here]
    for root in roots:
        if (root / name).is_file():
            return root / name
    below = sorted(Path(data).rglob("*")) if data else []
    named = [path for path in below if path.name == name and path.is_file()]
    sets = [path for root in roots if (root / name).is_dir() for path in _data_files(root / name)]
    for candidates in (named, sets):
        if len(candidates) > 1:
            raise InputError(f"{name!r} may be any of {', '.join(map(str, candidates))}; name one of them")
        if candidates:
            return candidates[0]
    names = {path.name for path in _data_files(here)} | {p.name for p in below if _suffix(p) or p.is_dir()}
    looked = f"looked in {here} and " + (f"below {data}" if data else f"nowhere else ({DATA_VARIABLE} is not set)")
    raise InputError(f"no data file {name!r}: {looked}.{nearest(name, names)}")


def data_files() -> list[Path]:
    """Readable files below SPARSELOOM_DATA, sorted. Raises InputError if it names no folder."""
    data = os.environ.get(DATA_VARIABLE)
    if not data or not Path(data).is_dir():
        raise InputError(f"{DATA_VARIABLE} must name a folder of data files, got {data!r}")
    return [path for path in sorted(Path(data).rglob("*")) if _suffix(path) and path.is_file()]


def load_tensor(path: Path, *, duplicates: str = "sum", member: str | None = None) -> SparseTensor:
    """The tensor in ``path``, read as its suffix says; ``duplicates``: "sum" them or "error"; ``member``: which one
    of an ``.npz`` archive.

    Raises InputError for other suffixes and for files that the reader refuses.
    """
    suffix = _suffix(path)
    if suffix is None:
        raise InputError(f"{path}: the suffix of a data file must be one of {', '.join(READERS)}")
    if member is not None and suffix != ".npz":
        raise InputError(f"{path}: only an .npz archive has members, got member {member!r}")
    return READERS[suffix](path, duplicates=duplicates, **({} if member is None else {"member": member}))


def _suffix(path: Path) -> str | None:
    return next((suffix for suffix in READERS if path.name.lower().endswith(suffix)), None)


def _data_files(folder: Path) -> list[Path]:
    """Readable data files directly in ``folder``."""
    return sorted(p for p in folder.glob("*") if p.is_file() and _suffix(p))
