"""Lines of numbers are told from lines that a parser would read in part, wherever in a file they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from mapper.errors import InputError
from mapper.number_lines import STRETCH, Kind, check_number_lines


def check(text: str, *kinds: Kind) -> None:
    check_number_lines(Path("data"), text.encode("latin-1"), 0, 1, kinds, "a table")


@pytest.mark.parametrize(
    "word",
    ["0", "-12", "1.", ".5", "-0.25", "1e5", "1.5E-10", "2.d+3", "1D4", "nan", "-NaN", "inf", "-Infinity", "+7"],
)
def test_numbers(word: str) -> None:
    check(f"1 {word}\n", int, float)


@pytest.mark.parametrize(
    "word",
    [".", "-", "e5", "1e", "1e5.0", "1e+", "1.5.2", "--1", "1-2", "0x10", "1_0", "3,5", "1.5+02", "infx", "nan(1)", "d",
     "é", "1\0", "\x0b1", "1f"],
)  # fmt: skip
def test_other_words(word: str) -> None:
    with pytest.raises(InputError, match="data:2: entry must be a number, got "):
        check(f"1 1\n1 {word}\n", int, float)


def test_blanks_and_line_ends() -> None:
    check("", int, int)
    check("\n \n1 2\n\t1\t\t2  \r\n\r\n  1 2", int, int)
    check("\n \n", int)


def test_words_of_a_line() -> None:
    for text in ("1", "1 2 3", "1\r2 3\n", "1 2 %"):
        with pytest.raises(InputError, match=rf"data:2: a line of a table is 2 numbers, got {len(text.split())} in "):
            check(f"1 2\n{text}\n1 2\n", int, int)


@pytest.mark.parametrize("before", [0, 1, STRETCH // 8 - 1, STRETCH // 8, STRETCH // 8 + 1, STRETCH])
def test_the_line_is_named_beyond_the_first_stretch(before: int) -> None:
    text = "123 456\n" * before
    check(text, int, int)
    with pytest.raises(InputError, match=f"data:{before + 2}: entry must be a whole number, got '4.5'"):
        check(text + "\n1 4.5\n1 x\n", int, int)
