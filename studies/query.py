"""Questions to a table in the user's words, without ever running the user's text as code.

A condition is a Python comparison over column names: ``latency_cycles < 1e6 and state == 'simulated'``,
``order_S0 in ('i,k,j', 'k,i,j')``, ``not front``, ``model_latency_cycles / latency_cycles > 2``.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from mapper.errors import InputError, NotationError, nearest

if TYPE_CHECKING:
    import pandas as pd

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left.isin(right),
    ast.NotIn: lambda left, right: ~left.isin(right),
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def select_rows(frame: pd.DataFrame, condition: str) -> pd.DataFrame:
    """Rows of ``frame`` for which ``condition`` holds; missing values satisfy ``!=`` and ``not in`` alone.

    Raises NotationError with the column for anything but comparisons, arithmetic, and / or / not over columns.
    """
    try:
        tree = ast.parse(condition, mode="eval")
    except SyntaxError as error:
        column = error.offset or len(condition) + 1
        raise NotationError(f"not a condition: {error.msg}", condition, 1, column) from error
    chosen: pd.Series[bool] = _Evaluator(frame, condition).value(tree.body)
    if not _is_truth(chosen):
        raise NotationError("a condition must compare columns with values", condition, 1, 1)
    return frame.loc[chosen]


def sort_rows(frame: pd.DataFrame, column: str, *, descending: bool = False) -> pd.DataFrame:
    """``frame`` by ``column``, missing values last, equal ones in their old order."""
    return frame.sort_values(known_column(frame, column), ascending=not descending, kind="stable", na_position="last")


def pick_columns(frame: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """``frame`` with the named columns alone, each once, in that order."""
    return frame[[known_column(frame, c) for c in dict.fromkeys(columns)]]


def known_column(frame: pd.DataFrame, name: str) -> str:
    """``name`` if it is a column. Raises InputError with the nearest valid name otherwise."""
    if name not in frame.columns:
        raise InputError(f"unknown column {name!r}.{nearest(name, frame.columns)}")
    return name


def _is_truth(value: Any) -> bool:
    return getattr(getattr(value, "dtype", None), "kind", "") == "b"


class _Evaluator:
    """Walks a condition; values are columns, constants, or tuples of constants."""

    def __init__(self, frame: pd.DataFrame, text: str) -> None:
        self._frame, self._text = frame, text

    def value(self, node: ast.expr) -> Any:
        """The value of a part of the condition."""
        try:
            return self._value(node)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise self._error(node, f"these cannot be compared or combined: {error}") from error

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=constant):
                return constant
            case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
                return tuple(self.value(item) for item in items)
            case ast.Name(id=name):
                try:
                    return self._frame[known_column(self._frame, name)]
                except InputError as error:
                    raise self._error(node, str(error)) from error
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.value(operand)
            case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
                return ~self._truth(operand)
            case ast.BoolOp(op=op, values=parts):
                truths = [self._truth(part) for part in parts]
                combine = operator.and_ if isinstance(op, ast.And) else operator.or_
                total = truths[0]
                for truth in truths[1:]:
                    total = combine(total, truth)
                return total
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                return _ARITHMETIC[type(op)](self.value(left), self.value(right))
            case ast.Compare(left=left, ops=ops, comparators=rights):
                return self._compare(node, [left, *rights], ops)
        raise self._error(node, "only columns, constants, + - * /, comparisons, and, or, not are allowed here")

    def _truth(self, node: ast.expr) -> Any:
        found = self.value(node)
        if not _is_truth(found):
            raise self._error(node, "true or false is needed here: compare it with something")
        return found

    def _compare(self, node: ast.expr, sides: list[ast.expr], ops: list[ast.cmpop]) -> Any:
        values = [self.value(side) for side in sides]
        total: Any = True
        for (left, right), op in zip(pairwise(values), ops, strict=True):
            if type(op) not in _COMPARISONS:
                raise self._error(node, "this comparison is not allowed; use == != < <= > >= in not in")
            if isinstance(op, ast.In | ast.NotIn) and not (isinstance(right, tuple) and hasattr(left, "isin")):
                raise self._error(node, "in needs a column on its left and a list of values on its right")
            if isinstance(left, tuple) or (isinstance(right, tuple) and not isinstance(op, ast.In | ast.NotIn)):
                raise self._error(node, "a list of values may only stand to the right of in and not in")
            total = _COMPARISONS[type(op)](left, right) & total
        return total

    def _error(self, node: ast.expr, message: str) -> NotationError:
        return NotationError(message, self._text, 1, node.col_offset + 1)
