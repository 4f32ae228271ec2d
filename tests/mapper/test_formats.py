"""Names of formats: what they stand for, that they read back, which are refused and which are offered."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mapper.errors import InputError
from mapper.formats import Format, default_formats, fullest_group, offered_formats, pads, parse_format, writable
from mapper.tensor import SparseTensor


@pytest.mark.parametrize(
    ("name", "ndim", "kinds", "order"),
    [
        ("csr", 2, ("dense", "compressed"), (0, 1)),
        ("dcsc", 2, ("compressed", "compressed"), (1, 0)),
        ("coo", 3, ("nonunique", "singleton", "singleton"), None),
        ("bitmap", 2, ("dense", "bitmask"), None),
        ("bitmap", 1, ("bitmask",), None),
        ("rle", 3, ("dense", "dense", "rle"), None),
        ("2:4", 2, ("dense", "2:4"), None),
        ("nm(2, 4)", 2, ("dense", "2:4"), None),
        ("BCSR(4x8)", 2, ("dense", "4x8"), (0, 1)),
        ("compressed, dense, 4x8", 3, ("compressed", "dense", "4x8"), None),
        ("dense,1:2", 2, ("dense", "1:2"), None),
        ("dense", 0, (), None),
    ],
)
def test_names(name: str, ndim: int, kinds: tuple[str, ...], order: tuple[int, ...] | None) -> None:
    assert parse_format(name, ndim) == Format(kinds, order)


def test_every_format_reads_back() -> None:
    families = ["dense", "csf", "coo", "bitmap", "rle", "2:4", "1:8", "compressed,bitmask", "2:4,dense"]
    matrices = ["csr", "csc", "dcsr", "dcsc", "bcsr(2x3)", "dense,4x4"]
    for name, ndim, suffix in itertools.product(families, (1, 2, 3), ("", ":fp16", ":bf16", ":int8")):
        if ("," in name and ndim != 2) or (name == "coo" and ndim == 1):
            continue
        form = parse_format(name + suffix, ndim)
        assert parse_format(str(form), ndim) == form
        assert form.dtype == (suffix[1:] or "fp32")
    for name in matrices:
        assert str(parse_format(name, 2)) == name
    assert str(parse_format("csr:fp32", 2)) == "csr"
    assert str(parse_format("2:4:int8", 2)) == "2:4:int8"


@pytest.mark.parametrize(
    ("name", "ndim", "message"),
    [
        ("csx", 2, "Did you mean 'cs"),
        ("csr", 3, "is for matrices, the tensor has 3 modes"),
        ("csr:fp8", 2, "unknown value type in format 'csr:fp8'. Valid: bf16, fp16, fp32, int8"),
        ("dense,compressed", 3, "unknown format"),
        ("coo", 1, "must have a singleton level below it"),
        ("dense,singleton", 2, "must stand below a nonunique or singleton one, got dense"),
        ("nonunique,compressed", 2, "must have a singleton level below it, got compressed"),
        ("rle,compressed", 2, "an rle level must be the last one"),
        ("compressed,4x4", 2, "blocks .* must be the last level, below a dense one"),
        ("4:2", 2, "1 <= N <= M"),
        ("bcsr(0x4)", 2, "positive extents"),
    ],
)
def test_refused(name: str, ndim: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_format(name, ndim)


def test_padding_and_writing() -> None:
    assert [pads(parse_format(n, 2).kinds) for n in ("dense", "2:4", "bcsr(2x2)", "csr", "bitmap", "coo", "rle")] == [
        True, True, True, False, False, False, False,
    ]  # fmt: skip
    assert [writable(parse_format(n, 2).kinds) for n in ("dense", "2:4", "bcsr(2x2)", "coo", "rle")] == [
        True, False, True, True, False,
    ]  # fmt: skip


def test_offered_formats() -> None:
    dense = np.ones((8, 8))
    assert [str(f) for f in offered_formats(SparseTensor.from_dense(dense))] == ["dense"]
    sparse = SparseTensor.from_dense(np.eye(16))
    assert offered_formats(sparse) == default_formats(2, sparse.density)
    checks = SparseTensor.from_dense(np.indices((8, 8)).sum(axis=0) % 2)  # every other position: 2 of any 4
    assert [str(f) for f in offered_formats(checks)] == ["dense,compressed", "csf", "bitmap", "2:4"]
    assert fullest_group(checks, 0, 4) == fullest_group(checks, 1, 4) == 2
    halves = SparseTensor.from_dense(np.kron(np.eye(2), np.ones((4, 4))))  # blocks: 4 of 4 along both modes
    assert [str(f) for f in offered_formats(halves)] == ["dense,compressed", "csf", "bitmap"]
