"""Constraint: what must hold between parameters, as a Python predicate or as text that is parsed, never evaluated.

The text is one Python expression over parameter names: numbers, strings, tuples, ``+ - * / // % **``, comparisons
(``in`` too), ``and or not``, ``a if c else b``, ``order[k]`` (item at position k) and the functions of ``FUNCTIONS``.
"""

from __future__ import annotations

import ast
import inspect
import math
import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from mapper.errors import InputError, NotationError, nearest

Point = Mapping[str, Any]
Test = Callable[[Point], Any]

MOST_EXPONENT = 64
"""Exponents larger than this are an error: a constraint must not compute for minutes."""


def _position(order: Any, item: Any) -> int:
    return list(order).index(item)


def _before(order: Any, first: Any, second: Any) -> bool:
    return _position(order, first) < _position(order, second)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs, "min": min, "max": max, "log2": math.log2, "ceil": math.ceil, "floor": math.floor,
    "position": _position, "before": _before,
}  # fmt: skip

_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip
_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
_UNARY: dict[type, Callable[[Any], Any]] = {ast.Not: operator.not_, ast.USub: operator.neg, ast.UAdd: operator.pos}


@dataclass(frozen=True, slots=True)
class Constraint:
    """``test`` of a point that has (at least) the parameters ``names``; ``text`` names it in messages."""

    text: str
    names: tuple[str, ...]
    test: Test

    def holds(self, point: Point) -> bool:
        """Whether it holds. InputError, with the values, if the test itself fails."""
        try:
            return bool(self.test(point))
        except (ArithmeticError, ValueError, TypeError, IndexError, KeyError, AttributeError) as error:
            values = ", ".join(f"{n} = {point[n]!r}" for n in self.names)
            raise InputError(f"constraint {self.text!r} fails at {values}: {type(error).__name__}: {error}") from error


def read_constraint(given: str | Callable[..., Any] | Constraint, names: Collection[str]) -> Constraint:
    """A constraint over parameters ``names`` from an expression or from a function whose arguments are named as they
    are. Raises InputError (NotationError, with the column) for what cannot be read and for unknown names."""
    if isinstance(given, Constraint):
        used, text, test = given.names, given.text, given.test
    elif isinstance(given, str):
        return _parsed(given, names)
    elif not callable(given):
        raise InputError(f"a constraint must be an expression, a function or a Constraint, got {given!r}")
    else:
        function = given
        used = tuple(inspect.signature(function).parameters)
        text = getattr(function, "__name__", repr(function))
        if text == "<lambda>":
            text = f"lambda {', '.join(used)}"

        def test(point: Point) -> Any:
            return function(*(point[n] for n in used))

    if not used:
        raise InputError(f"constraint {text!r} has no arguments: name them after the parameters that it reads")
    for name in used:
        if name not in names:
            raise InputError(f"constraint {text!r} reads {name!r}, which is no parameter.{nearest(name, names)}")
    return Constraint(text, used, test)


def _parsed(text: str, names: Collection[str]) -> Constraint:
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise NotationError(f"a constraint must be one expression: {error.msg}", text, 1, error.offset or 1) from error
    reader = _Reader(text.strip(), names)
    test = reader.read(tree.body)
    if not reader.used:
        raise InputError(f"constraint {text!r} names no parameter: it must hold between parameters")
    return Constraint(text.strip(), tuple(reader.used), test)


class _Reader:
    """Turns a syntax tree into nested functions of a point."""

    def __init__(self, text: str, names: Collection[str]) -> None:
        self._text, self._names = text, names
        self.used: dict[str, None] = {}

    def read(self, node: ast.expr) -> Test:
        match node:
            case ast.Constant(value=bool() | int() | float() | str() as value):
                return lambda _: value
            case ast.Name(id=name):
                if name not in self._names:
                    raise self._error(node, f"unknown parameter {name!r}.{nearest(name, self._names)}")
                self.used[name] = None
                return lambda point: point[name]
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                parts = [self.read(e) for e in elements]
                return lambda point: tuple(part(point) for part in parts)
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _ARITHMETIC:
                return _calculation(_ARITHMETIC[type(sign)], self.read(left), self.read(right))
            case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _UNARY:
                apply, inner = _UNARY[type(sign)], self.read(operand)
                return lambda point: apply(inner(point))
            case ast.BoolOp(op=sign, values=values):
                tests, every = [self.read(v) for v in values], isinstance(sign, ast.And)
                return lambda point: (all if every else any)(bool(t(point)) for t in tests)
            case ast.Compare(left=left, ops=signs, comparators=others):
                terms, compare = [self.read(t) for t in (left, *others)], [_COMPARISONS.get(type(s)) for s in signs]
                if None not in compare:
                    return _comparison(terms, [c for c in compare if c])
            case ast.IfExp(test=asked, body=body, orelse=other):
                condition, then, otherwise = self.read(asked), self.read(body), self.read(other)
                return lambda point: then(point) if condition(point) else otherwise(point)
            case ast.Subscript(value=value, slice=place):
                whole, at = self.read(value), self.read(place)
                return lambda point: whole(point)[at(point)]
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                if name not in FUNCTIONS:
                    raise self._error(node, f"unknown function {name!r}.{nearest(name, FUNCTIONS)}")
                call, given = FUNCTIONS[name], [self.read(a) for a in arguments]
                return lambda point: call(*(g(point) for g in given))
        raise self._error(node, f"{type(node).__name__} is not part of the constraint language")

    def _error(self, node: ast.expr, message: str) -> NotationError:
        return NotationError(message, self._text, node.lineno, node.col_offset + 1)


def _calculation(apply: Callable[[Any, Any], Any], left: Test, right: Test) -> Test:
    def calculate(point: Point) -> Any:
        a, b = left(point), right(point)
        for operand in (a, b):
            if not isinstance(operand, int | float):
                raise TypeError(f"arithmetic needs numbers, got {operand!r}")
        if apply is operator.pow and abs(b) > MOST_EXPONENT:
            raise ValueError(f"an exponent may be at most {MOST_EXPONENT}, got {b}")
        return apply(a, b)

    return calculate


def _comparison(terms: list[Test], compare: list[Callable[[Any, Any], Any]]) -> Test:
    def holds(point: Point) -> bool:
        values = [term(point) for term in terms]
        return all(c(a, b) for c, a, b in zip(compare, values, values[1:], strict=False))

    return holds
