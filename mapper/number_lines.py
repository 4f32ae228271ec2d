"""Lines of numbers, checked before a parser that stops at the first character it does not know reads them.

A line is judged by its shape: runs of digits count as one 0, runs of blanks as one. Millions of lines have a handful
of shapes, so that only these are looked at one by one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mapper.errors import InputError
from mapper.file_content import MOST_DIGITS

Kind = type[int] | type[float]

STRETCH = 1 << 17
"""Bytes judged at once; they and what is made of them stay in the cache."""

_BLANK, _DIGIT = b" 0"
_CLASSES = bytes.maketrans(
    b"\t\r0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZd", b"  0000000000abceefghijklmnopqrstuvwxyze"
)  # Fortran writes exponents with a D
_SHAPES: dict[Kind, bytes] = {
    int: rb"[-+]?0",
    float: rb"[-+]?(?:(?:0\.?0?|\.0)(?:e[-+]?0)?|nan|inf(?:inity)?)",
}
_WANTED: dict[Kind, str] = {int: "whole number", float: "number"}


def check_number_lines(path: Path, content: bytes, start: int, line: int, kinds: Sequence[Kind], what: str) -> None:
    """Raises InputError with file and line for the first line from byte ``start``, line number ``line``, that is
    neither blank nor numbers of ``kinds``, as lines of ``what`` are."""
    whole = re.compile(rb" ?(?:%b ?)?" % b" ".join(b"(?:%b)" % _SHAPES[kind] for kind in kinds))
    known: set[bytes] = set()
    while start < len(content):
        end = content.find(b"\n", start + STRETCH)
        stretch = content[start : end if end >= 0 else len(content)]
        shapes = _shapes(stretch)
        new = set(shapes) - known
        if wrong := {shape for shape in new if not whole.fullmatch(shape)}:
            place = next(n for n, shape in enumerate(shapes) if shape in wrong)
            fault = _fault(stretch.split(b"\n")[place], kinds, what)
            raise InputError(f"{path}:{line + place}: {fault}")
        known |= new
        start += len(stretch) + 1
        line += len(shapes)


def _shapes(text: bytes) -> list[bytes]:
    """The shape of every line."""
    classes = np.frombuffer(text.translate(_CLASSES), np.uint8)
    kept = (classes != _BLANK) & (classes != _DIGIT)
    kept[:1] = True
    kept[1:] |= classes[1:] != classes[:-1]
    collapsed: bytes = classes[kept].tobytes()
    return collapsed.split(b"\n")


def _fault(line: bytes, kinds: Sequence[Kind], what: str) -> str:
    words = re.findall(rb"[^ \t\r]+", line)
    shown = [word[:MOST_DIGITS].decode("latin-1") for word in words]
    if len(words) != len(kinds):
        numbers = "1 number" if len(kinds) == 1 else f"{len(kinds)} numbers"
        return f"a line of {what} is {numbers}, got {len(words)} in {' '.join(shown)[:60]!r}"
    return next(
        f"entry must be a {_WANTED[kind]}, got {text!r}"
        for word, text, kind in zip(words, shown, kinds, strict=True)
        if not re.fullmatch(_SHAPES[kind], _shapes(word)[0])
    )
