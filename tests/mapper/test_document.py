"""Places of values in YAML: every scalar style, and errors that point at them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mapper.document import Document, parse_document, read_document
from mapper.errors import InputError, NotationError

PROGRAMS = {
    "literal": "program: |\n  # product\n\n  Z(i,j) = A(i,k)\n    * QQ(k,j)\n",
    "literal, kept, explicit indent": "program: |2+  # a comment\n  Z(i,j) = A(i,k) * QQ(k,j)\n\n",
    "folded": "program: >-\n  Z(i,j) =\n  A(i,k) *\n  QQ(k,j)\n",
    "plain": "program: Z(i,j) = A(i,k)\n  * QQ(k,j)\n",
    "single quoted": "program: 'Z(i,j) = ''A''(i,k) * QQ(k,j)'\n",
    "double quoted": 'program: "Z(i,j)\\t=\\n \\"A\\"(i,k) * QQ(k,j)"\n',
    "in a flow mapping": "{name: x, program: Z(i) = QQ(i)}\n",
    "windows lines": "program: |\r\n  Z(i) =\r\n  QQ(i)\r\n",
}


@pytest.mark.parametrize("style", PROGRAMS)
def test_position_in_text_is_found_in_the_file(style: str, tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_bytes(PROGRAMS[style].encode())
    document = read_document(file)
    text = document.values["program"]
    line = next(n for n, content in enumerate(text.split("\n"), 1) if "QQ" in content)
    column = text.split("\n")[line - 1].index("QQ") + 1
    source = document.text.splitlines()
    row = next(n for n, content in enumerate(source, 1) if "QQ" in content)
    error = document.text_error(("program",), line, column, "here")
    assert str(error).startswith(f"{file}:{row}:{source[row - 1].index('QQ') + 1}: here\n")
    caret = str(error).splitlines()[-1].index("^")
    assert str(error).splitlines()[-2][caret : caret + 2] == "QQ"


def test_position_after_the_end_of_a_line() -> None:
    document = parse_document("program: |\n  Z(i) = A(i\n  Y(i) = Z(i)\n", "f")
    assert str(document.text_error(("program",), 1, 11, "open")).startswith("f:2:13: open")


def test_position_in_empty_text() -> None:
    document = parse_document("name: x\nprogram: ''\n", "f")
    assert str(document.text_error(("program",), 1, 1, "empty")).startswith("f:2:10: empty")


def test_notation_error_keeps_its_reason() -> None:
    document = parse_document("program: Z(i) = %\n", "f")
    error = document.notation_error(("program",), NotationError("bad", "Z(i) = %", 1, 8))
    assert str(error) == "f:1:17: bad\n  program: Z(i) = %\n                  ^"


def test_scalars_follow_yaml_1_2() -> None:
    text = "[1e9, 1.5e-3, .5, 1_000, -3, 012, no, on, yes, true, False, ~, null, '', 0x1F, 1:30, .inf, -.inf]"
    expected = [1e9, 1.5e-3, 0.5, 1000, -3, 12, "no", "on", "yes", True, False, None, None, "", "0x1F", "1:30"]
    values = parse_document(text, "f").values
    assert values == [*expected, float("inf"), float("-inf")]
    assert [type(v) for v in values[:5]] == [float, float, float, int, int]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("!!int abc", "f:1:8: must be a whole number of at most 4300 digits, got abc\n"),
        ("!!float x", "f:1:8: must be a number, got x\n"),
        ("!!bool maybe", "f:1:8: must be true or false, got maybe\n"),
        ("9" * 5000, f"f:1:8: must be a whole number of at most 4300 digits, got {'9' * 40}... (5000 characters)\n"),
    ],
)
def test_what_is_no_number_is_placed(value: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_document(f"a: [1, {value}]\n", "f")
    assert str(caught.value).startswith(message)


def test_keys_are_text() -> None:
    assert parse_document("{1: a, no: b, ~: c}", "f").values == {"1": "a", "no": "b", "~": "c"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "f:1:6: not valid YAML"),
        ("a: 1\nb: 2\na: 3", "f:3:1: key 'a' is given twice"),
        ("", "f: is empty"),
        ("# nothing\n", "f: is empty"),
        ("a: &x [*x]", "f:1:4: a value cannot contain itself"),
        ("a: !python/object:os.system x", "f:1:4: tag '!python/object:os.system' is not supported"),
        ("? [1]\n: 2", "f:1:3: a key must be a single word"),
        ("a: 1\n---\nb: 2", "f:2:1: not valid YAML"),
        ("a: \x01", "f: not valid YAML"),
        ("a: *nowhere", "f:1:4: not valid YAML"),
        ("a:\n\t- 1", "f:2:1: not valid YAML"),
    ],
)
def test_bad_yaml_names_the_place(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_document(text, "f")
    assert str(caught.value).startswith(message)


def test_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe9")
    for name, message in (("none.yaml", "cannot be read"), ("", "cannot be read"), ("latin.yaml", "byte 6 is not")):
        with pytest.raises(InputError, match=message):
            read_document(tmp_path / name)


def test_error_without_text_names_the_path() -> None:
    error = Document("study", {}).error(("search", "seed"), "must be positive")
    assert str(error) == "study: search.seed: must be positive"


def test_aliases_share_values() -> None:
    assert parse_document("a: &x [1]\nb: *x\n", "f").values == {"a": [1], "b": [1]}
