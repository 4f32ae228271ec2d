"""Data files as bytes, and the numbers in them with the line each stands in."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mapper.errors import InputError
from mapper.tensor import Coords

MOST_DIGITS = 40
"""Longer numbers are refused, so that one of them cannot widen the whole table that is parsed."""


def read_content(path: Path) -> bytes:
    """The bytes of ``path``, decompressed if they are gzip. Raises InputError for files missing or cut short."""
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def parse_numbers(
    path: Path, words: Sequence[bytes], kind: type[int] | type[float], line_of: Callable[[int], int]
) -> npt.NDArray[Any]:
    """int64 or float64 [len(words)]. Raises InputError with the line, ``line_of(position)``, of the first word that
    is no such number."""
    if not any(b"_" in word or len(word) > MOST_DIGITS for word in words):
        try:
            return np.array(words, "S").astype(np.int64 if kind is int else np.float64)
        except (ValueError, OverflowError):
            pass  # which word it was is found below
    for position, word in enumerate(words):
        try:
            number = kind(word)
            fits = b"_" not in word and len(word) <= MOST_DIGITS and (kind is float or abs(number) < 2**63)
        except ValueError:
            fits = False
        if not fits:
            shown, wanted = word[:MOST_DIGITS].decode("latin-1"), "whole number of 64 bits" if kind is int else "number"
            raise InputError(f"{path}:{line_of(position)}: entry must be a {wanted}, got {shown!r}")
    raise AssertionError("unreachable: a word that cannot be parsed has been found")


def check_repeats(path: Path, coords: Coords, duplicates: str, name_of: Callable[[int], str]) -> None:
    """Raises InputError naming, by ``name_of``, two entries at the same ``coords`` if ``duplicates`` is "error"."""
    if duplicates != "error" or coords.shape[1] < 2:
        return
    order = np.lexsort(coords[::-1])
    again = np.flatnonzero((coords[:, order[1:]] == coords[:, order[:-1]]).all(axis=0))
    if again.size:
        first, second = sorted(order[again[0] : again[0] + 2])
        pair = f"{name_of(int(first))} and {name_of(int(second))}"
        raise InputError(
            f"{path}: duplicate entries: {again.size}, the first in {pair}; duplicates='sum' would add them"
        )


def finite_note(values: npt.NDArray[np.float64]) -> tuple[str, ...]:
    """The note that a tensor carries if some values are not finite."""
    infinite = int((~np.isfinite(values)).sum())
    return (f"values that are not finite: {infinite}",) if infinite else ()
