"""What a knob that a change brings with it takes over from the knobs that were there.

Whether two statements are fused decides which knobs their loops have: one region's, or each its own. Where a search
flips such a choice the loops should stay as they were as far as they may, or the new mapping says nothing about the
choice: drawn anew they are bad by themselves, most of the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

PER_STATEMENT = " | "
"""Between the orders of a region's statements."""


def inherited(name: str, choices: Sequence[Any], params: Mapping[str, Any]) -> Any | None:
    """The one of ``choices`` that ``params``, which lack the knob ``name``, have for the same statement or index, None
    if they have none."""
    kind, what = _parts(name)
    if kind == "order":
        return _order(what.split("+"), choices, dict(_by_statement(kind, params)))
    if kind in ("lanes", "partition"):
        value = dict(_by_statement(kind, params)).get(what.split("+")[0])
        return value if value in choices else None
    if kind in ("tile", "tiled"):
        index = what.partition(".")[2]
        known = [v for n, v in params.items() for k, w in [_parts(n)] if k == kind and w.partition(".")[2] == index]
        return next((value for value in reversed(known) if value in choices), None)
    return None


def _parts(name: str) -> tuple[str, str]:
    """(kind, what it is of) of a knob, without the rewriting that it belongs to."""
    kind, _, what = name.rpartition(": ")[2].partition(".")
    return kind, what


def _by_statement(kind: str, params: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What the knobs of a kind, one per region, say of each statement."""
    for name, value in params.items():
        own, what = _parts(name)
        if own != kind:
            continue
        statements = what.split("+")
        values = value.split(PER_STATEMENT) if kind == "order" and isinstance(value, str) else [value] * len(statements)
        yield from zip(statements, values, strict=False)


def _order(statements: Sequence[str], choices: Sequence[Any], known: Mapping[str, Any]) -> Any | None:
    """The orders that all had, or the first of those that leave the first statement's as it was."""
    if not all(isinstance(choice, str) for choice in choices):  # so many that they are numbered
        return None
    same = PER_STATEMENT.join(str(known.get(s)) for s in statements)
    if same in choices:
        return same
    return next((c for c in choices if c.split(PER_STATEMENT)[0] == known.get(statements[0])), None)
