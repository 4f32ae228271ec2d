"""YAML with the place of every value, so that an error can name file, line and column.

Scalars follow YAML 1.2 (``1e9`` is a number, ``no`` and ``on`` are words), keys are always text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from mapper.errors import InputError, NotationError, nearest

Place = tuple[str | int, ...]
"""Path of keys and list positions from the root to a value."""


class _Loader(yaml.SafeLoader):
    """SafeLoader with the scalar types of YAML 1.2's core schema."""


_Loader.yaml_implicit_resolvers = {}


_DECIMAL = r"[0-9][0-9_]*"
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    ("null", r"~|null|Null|NULL|", [*"~nN", ""]),
    ("int", rf"[-+]?{_DECIMAL}", [*"-+0123456789"]),
    ("float", rf"[-+]?(\.[0-9]+|{_DECIMAL}(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan", [*"-+.0123456789"]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), _first)


_SCALARS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "null": ("null", lambda _: None),
    "bool": ("true or false", lambda text: {"true": True, "false": False}[text.lower()]),
    "int": ("a whole number of at most 4300 digits", lambda text: int(text.replace("_", ""))),
    "float": (
        "a number",
        lambda text: float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan")),
    ),
    "str": ("text", str),
}
"""Of every tag, what it stands for and how its text is read."""

LONGEST_SHOWN = 40
"""Characters of a value that an error repeats."""


@dataclass(frozen=True, eq=False)
class Document:
    """``values``: the document as dicts, lists and scalars; without ``text`` it was given as Python values and
    errors name the path of keys alone."""

    file: str
    values: Any
    text: str = ""
    nodes: dict[Place, yaml.Node] = field(default_factory=dict)
    keys: dict[Place, yaml.Node] = field(default_factory=dict)

    def error(self, place: Place, message: str, *, key: bool = False) -> InputError:
        """InputError at the value of ``place``, or at its key; at the nearest enclosing value if it has none."""
        node = self.keys.get(place) if key else None
        known = place
        while node is None and known and known not in self.nodes:
            known = known[:-1]
        node = node or self.nodes.get(known)
        path = ".".join(map(str, place))
        if node is None:
            return InputError(f"{self.file}: {path + ': ' if path else ''}{message}")
        return self._located(message, node.start_mark.line, node.start_mark.column)

    def known(self, place: Place, name: str, valid: Iterable[str], *, key: bool = False) -> None:
        """Raises the error of ``place`` unless ``name``, its value or (``key``) its key, is among ``valid``."""
        names = tuple(valid)
        if name not in names:
            what = ".".join(step for step in (place[:-1] if key else place) if isinstance(step, str))
            raise self.error(place, f"unknown name {name!r} in {what}.{nearest(name, names)}", key=key)

    def notation_error(self, place: Place, error: NotationError) -> InputError:
        """``error`` about the text at ``place``, moved to where that text stands in the file."""
        return self.text_error(place, error.line, error.column, error.reason)

    def text_error(self, place: Place, line: int, column: int, message: str) -> InputError:
        """InputError at ``line``, ``column`` (1-based) of the text that is the value of ``place``."""
        node = self.nodes.get(place)
        if not isinstance(node, yaml.ScalarNode):
            return self.error(place, f"line {line}, column {column}: {message}")
        return self._located(message, *_position(self.text, node, line, column))

    def _located(self, message: str, line: int, column: int) -> InputError:
        source = self.text.splitlines()[line] if line < len(self.text.splitlines()) else ""
        return InputError(f"{self.file}:{line + 1}:{column + 1}: {message}\n  {source}\n  {' ' * column}^")


def read_document(path: Path) -> Document:
    """Reads one YAML document. Raises InputError for a missing or unreadable file, syntax errors, repeated keys
    and tags other than those of plain data."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: must be UTF-8 text, byte {error.start} is not") from error
    return parse_document(text, str(path))


def parse_document(text: str, file: str) -> Document:
    """``read_document`` of text in memory; ``file`` is the name that errors show."""
    document = Document(file, {}, text)
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = "; ".join(filter(None, (error.context, error.problem)))
        line, column = (mark.line, mark.column) if mark else (0, 0)
        raise document._located(f"not valid YAML: {reason}", line, column) from error
    except yaml.YAMLError as error:
        raise InputError(f"{file}: not valid YAML: {error}") from error
    if root is None:
        raise InputError(f"{file}: is empty; it must hold keys and their values")
    values = _convert(document, root, (), ())
    return Document(file, values, text, document.nodes, document.keys)


def _convert(document: Document, node: yaml.Node, place: Place, inside: tuple[yaml.Node, ...]) -> Any:
    """Plain value of a node; records the places of all values and keys below it."""
    document.nodes[place] = node
    if node in inside:
        raise document.error(place, "a value cannot contain itself")
    if isinstance(node, yaml.MappingNode):
        values: dict[str, Any] = {}
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else "?"
            below = (*place, name)
            repeated = name in values
            document.keys[below] = key
            if name == "?" or repeated:
                reason = f"key {name!r} is given twice" if repeated else "a key must be a single word"
                raise document.error(below, reason, key=True)
            values[name] = _convert(document, value, below, (*inside, node))
        return values
    if isinstance(node, yaml.SequenceNode):
        return [_convert(document, item, (*place, n), (*inside, node)) for n, item in enumerate(node.value)]
    return _scalar(document, node, place)


def _scalar(document: Document, node: yaml.Node, place: Place) -> Any:
    text, kind = str(node.value), node.tag.removeprefix("tag:yaml.org,2002:")
    if kind not in _SCALARS:
        raise document.error(place, f"tag {node.tag!r} is not supported: use text, numbers, lists and mappings")
    what, read = _SCALARS[kind]
    try:
        return read(text)
    except (KeyError, ValueError) as error:  # by a tag, what is no number may be called one
        shown = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}... ({len(text)} characters)"
        raise document.error(place, f"must be {what}, got {shown}") from error


def _position(text: str, node: yaml.ScalarNode, line: int, column: int) -> tuple[int, int]:
    """(line, column), 0-based, in the file of 1-based ``line``, ``column`` of a scalar's value.

    Folding, indentation and escapes change white space alone, so the non-blank characters of value and source
    correspond one to one in every scalar style; a blank position is counted from the non-blank one before it.
    """
    lines = str(node.value).split("\n")[:line]
    before = "".join(lines[:-1]) + (lines[-1][: column - 1] if lines else "")
    at = lines[-1][column - 1 : column].strip() if lines else ""
    count = len("".join(before.split()))
    offsets = list(_visible(text, node))
    if at and count < len(offsets):
        offset = offsets[count]
    elif count:
        gap = len(before) - len(before.rstrip())
        offset = offsets[min(count, len(offsets)) - 1] + 1 + gap
    else:
        offset = offsets[0] if offsets else node.start_mark.index
    head = text[:offset]
    return head.count("\n"), offset - (head.rfind("\n") + 1)


def _visible(text: str, node: yaml.ScalarNode) -> Iterator[int]:
    """Offsets in the file of a scalar's non-blank characters, in order."""
    offset, end = node.start_mark.index, node.end_mark.index
    if node.style in ("|", ">"):
        offset = text.index("\n", offset) + 1
    elif node.style in ("'", '"'):
        offset, end = offset + 1, end - 1
    while offset < end:
        escaped = (node.style, text[offset]) in (("'", "'"), ('"', "\\"))
        character = text[offset : offset + 1 + escaped]
        if not character.isspace() and character not in ("\\n", "\\t", "\\r", "\\ ", "\\\n"):
            yield offset
        offset += len(character)
