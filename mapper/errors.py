"""Every error a user can cause. The message says what must hold, what was got, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from mapper.violation import Violation


class SparseLoomError(Exception):
    """Root of all errors that SparseLoom raises on purpose."""


class InputError(SparseLoomError):
    """A file, tensor or specification is not usable as given."""


class NotationError(InputError):
    """Index notation that cannot be read; ``line`` and ``column`` (1-based) point into the text."""

    def __init__(self, message: str, text: str, line: int, column: int) -> None:
        self.reason, self.text, self.line, self.column = message, text, line, column
        source = text.splitlines()[line - 1] if text.splitlines() else ""
        super().__init__(f"line {line}, column {column}: {message}\n  {source}\n  {' ' * (column - 1)}^")


class IllegalMapping(SparseLoomError):
    """A mapping breaks rules of its program or machine; ``violations`` says which."""

    def __init__(self, violations: Sequence[Violation], what: str = "") -> None:
        self.violations = tuple(violations)
        super().__init__(what + "; ".join(map(str, violations)))


class EmptySpace(SparseLoomError):
    """No mapping satisfies every constraint; the message names the rule that removed the last one."""


class GraphError(SparseLoomError):
    """A dataflow graph is malformed or its streams do not fit each other."""


class StudyError(SparseLoomError):
    """A study cannot be created, resumed or read as asked."""


def nearest(name: str, valid: Iterable[str]) -> str:
    """Text for an unknown name: the nearest valid one, if any is near, and all valid ones."""
    names = sorted(valid)
    folded = {n.lower(): n for n in names}
    close = difflib.get_close_matches(name.lower(), folded, n=1)
    hint = f" Did you mean {folded[close[0]]!r}?" if close else ""
    return f"{hint} Valid: {', '.join(names) or 'none'}."
