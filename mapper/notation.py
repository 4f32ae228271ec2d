"""Index notation and einsum strings, read into programs with errors that point at the column.

One statement per line or ``;``, ``#`` starts a comment::

    H(i,k) = A(i,j) * X(j,k)
    Z(i,m) = relu(H(i,k) * W(k,m) + b(m))

Operators are ``+``, ``-``, ``*`` and ``/`` over accesses, scalars (no parentheses) and numbers, ``.+`` and ``.-`` for
sums where both sides are stored, the unary maps of ``program.FUNCTIONS``, ``pattern(A(i,k))`` for ones where A is
stored, ``sum(k, ...)``, ``max`` and ``mean`` where the implicit summation of TACO says something else, and
``softmax(k, ...)`` and ``layernorm(k, ...)`` along an index. A coordinate on the right side may be a sum, as in
``X(c, 2*p+r-1)``: a window, stored as a tensor with modes p and r; what lies outside of X is not stored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mapper.errors import InputError, NotationError, nearest
from mapper.expression import (
    NORMALISATIONS,
    At,
    Call,
    Line,
    Node,
    Over,
    Pair,
    Product,
    Read,
    Sum,
    normalise,
    reads,
    resembles,
)
from mapper.program import FUNCTIONS, REDUCTIONS, Access, Affine, Program

CALLABLE = FUNCTIONS - {"scale", "shift"}  # these are written as numbers
ALONG = (*REDUCTIONS, *NORMALISATIONS)
RESERVED = frozenset({*ALONG, "pattern", "min", "prod"})
MAX_DEPTH = 100
MOST_STRIDE = 2**31
_TOKEN = re.compile(
    r"(?P<name>[^\W\d]\w*)|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<sign>\.[-+]|[-+*/=(),;])|\S"
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # "name", "number", "end" of a statement, or the character itself
    text: str
    at: At


def parse_program(text: str) -> Program:
    """The program that index notation ``text`` says. Raises NotationError with line and column."""
    lines = _Parser(text).lines()
    if not lines:
        raise NotationError("a program needs at least one statement, such as Z(i,j) = A(i,k) * B(k,j)", text, 1, 1)
    return normalise(lines, text)


def parse_einsum(text: str, names: Sequence[str], target: str = "Z") -> Program:
    """One contraction in numpy's spelling, such as ``ik,kj->ij``; ``names`` are those of the operands.

    Without ``->`` the result has the indices that occur once, in alphabetical order. Raises NotationError with
    the column, InputError when names and operands differ in number.
    """
    left, arrow, right = text.partition("->")
    for column, character in enumerate(left + " " * len(arrow) + right, 1):
        if not (character.isalpha() or character in " \t" or (character == "," and column <= len(left))):
            message = f"unexpected {character!r}; an einsum has single letters, ',' between operands and one '->'"
            raise NotationError(message, text, 1, column)
    operands, starts, start = [], [], 1
    for term in left.split(","):
        operands.append(_letters(term, start))
        starts.append((1, start))
        start += len(term) + 1
    if len(names) != len(operands):
        raise InputError(f"einsum {text!r} has {len(operands)} operands, got {len(names)} names: {', '.join(names)}")
    result = _letters(right, len(left) + len(arrow) + 1)
    if not arrow:
        written = [index for letters in operands for index, _ in letters]
        result = [(index, (1, 1)) for index in sorted(set(written)) if written.count(index) == 1]
    factors = tuple(map(_read, names, starts, operands))
    value = factors[0] if len(factors) == 1 else Product(factors, 1.0, (1, 1))
    return normalise([Line(_read(target, (1, 1), result), value)], text)


def locate(text: str, tensor: str) -> At:
    """Line and column of the first use of ``tensor`` in index notation ``text``. Raises InputError if none."""
    accesses = [read for line in _Parser(text).lines() for read in (line.target, *reads(line))]
    for read in accesses:
        if read.access.tensor == tensor:
            return read.at
    raise InputError(f"the program has no tensor {tensor!r}.{nearest(tensor, {r.access.tensor for r in accesses})}")


def _letters(term: str, start: int) -> list[tuple[str, At]]:
    return [(letter, (1, column)) for column, letter in enumerate(term, start) if letter.isalpha()]


def _read(tensor: str, at: At, indices: Sequence[tuple[str, At]]) -> Read:
    return Read(Access(tensor, tuple(index for index, _ in indices)), at, tuple(where for _, where in indices))


def _tokens(text: str) -> Iterator[_Token]:
    """Tokens of ``text``; an ``end`` follows each statement, placed right behind its last token."""
    for number, line in enumerate(text.splitlines(), 1):
        end = 1
        for match in _TOKEN.finditer(line.partition("#")[0]):
            kind, at = match.lastgroup, (number, match.start() + 1)
            if kind is None:
                message = f"unexpected character {match[0]!r}; expected a name, a number or one of = + - * ( ) , ; #"
                raise NotationError(message, text, *at)
            if kind == "sign":
                kind = "end" if match[0] == ";" else match[0]
            yield _Token(kind, match[0], at)
            end = match.end() + 1
        yield _Token("end", "end of the line", (number, end))


class _Parser:
    """Recursive descent; one method per rule of the grammar."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._position = 0
        self._depth = 0

    def lines(self) -> list[Line]:
        """Every statement of the text."""
        found = []
        while self._position < len(self._tokens):
            if not self._take("end"):
                found.append(self._line())
        return found

    @property
    def _next(self) -> _Token:
        return self._tokens[self._position]

    def _take(self, kind: str) -> _Token | None:
        token = self._next
        if token.kind != kind:
            return None
        self._position += 1
        return token

    def _fail(self, message: str, token: _Token | None = None) -> NotationError:
        return NotationError(message, self._text, *(token or self._next).at)

    def _line(self) -> Line:
        name = self._take("name")
        if name is None:
            raise self._fail(f"a statement starts with the tensor it assigns, got {self._next.text!r}")
        if name.text in CALLABLE | RESERVED:
            raise self._fail(f"{name.text!r} is a function and cannot name a tensor", name)
        target = self._access(name)
        if target.windows:
            at = next(n for n, window in enumerate(target.windows) if not window.plain)
            message = f"the target takes an index per mode, got {target.windows[at]}; read windows on the right side"
            raise NotationError(message, self._text, *target.index_at[at])
        if not self._take("="):
            raise self._fail(f"expected '=' after {target.access}, got {self._next.text!r}")
        start = self._next
        value = self._expression()
        if not self._take("end"):
            closing = self._next.kind == ")"
            reason = "closes nothing" if closing else "cannot follow here; an operator is missing"
            raise self._fail(f"{self._next.text!r} {reason}")
        if isinstance(value, Product) and not value.factors:
            raise self._fail("the right side must read a tensor; a number can only multiply", start)
        return Line(target, value)

    def _expression(self) -> Node:
        negative = self._take("-") is not None
        terms = [(-1 if negative else 1, self._next, self._term())]
        while operator := self._take("+") or self._take("-"):
            terms.append((1 if operator.kind == "+" else -1, self._next, self._term()))
        if len(terms) == 1:
            return _negated(terms[0][2]) if negative else terms[0][2]
        numbers = [(sign, term.scale) for sign, _, term in terms if isinstance(term, Product) and not term.factors]
        others = tuple((sign, term) for sign, _, term in terms if not (isinstance(term, Product) and not term.factors))
        if not others:
            raise self._fail("a sum must read a tensor, not numbers alone", terms[0][1])
        value: Node = Sum(others)
        if len(others) == 1:
            value = others[0][1] if others[0][0] > 0 else _negated(others[0][1])
        constant = sum(sign * number for sign, number in numbers)
        return Call("shift", value, constant) if numbers else value

    def _term(self) -> Node:
        node = self._product()
        while operator := self._take(".-") or self._take(".+"):
            right = self._product()
            self._tensors(operator, node, right)
            node = Pair("sub" if operator.kind == ".-" else "add", node, right)
        return node

    def _product(self) -> Node:
        start = self._next
        found = [self._factor()]
        while operator := self._take("*") or self._take("/"):
            factor = self._factor()
            if operator.kind == "*":
                found.append(factor)
            elif isinstance(factor, Product) and not factor.factors:
                if factor.scale == 0:
                    raise self._fail("division by zero", operator)
                found.append(Product((), 1.0 / factor.scale, factor.at))
            else:
                left = self._multiplied(found, start)
                self._tensors(operator, left, factor)
                found = [Pair("div", left, factor)]
        return self._multiplied(found, start)

    def _multiplied(self, found: list[Node], start: _Token) -> Node:
        numbers = [f for f in found if isinstance(f, Product) and not f.factors]
        factors = tuple(f for f in found if f not in numbers)
        scale = math.prod(n.scale for n in numbers)
        if not math.isfinite(scale):
            raise self._fail("this number is too large for a float64", start)
        return factors[0] if len(factors) == 1 and not numbers else Product(factors, float(scale), start.at)

    def _tensors(self, operator: _Token, *sides: Node) -> None:
        if any(isinstance(side, Product) and not side.factors for side in sides):
            raise self._fail(f"{operator.text!r} needs a tensor on both sides, got a number", operator)

    def _factor(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._fail(f"expressions may be nested {MAX_DEPTH} deep, not deeper")
        node = self._operand()
        self._depth -= 1
        return node

    def _operand(self) -> Node:
        if self._take("-"):
            return _negated(self._factor())
        if number := self._take("number"):
            return Product((), float(number.text), number.at)
        if opened := self._take("("):
            return self._closed(opened, self._expression())
        if name := self._take("name"):
            if name.text in CALLABLE:
                return self._call(name)
            return self._reserved(name) if name.text in RESERVED else self._access(name)
        before = self._tokens[self._position - 1].text
        raise self._fail(f"an operand is missing after {before!r}, got {self._next.text!r}")

    def _closed(self, opened: _Token, node: Node) -> Node:
        if self._take(")"):
            return node
        if self._next.kind == "end":
            raise self._fail("this parenthesis is never closed", opened)
        raise self._fail(f"expected an operator or ')', got {self._next.text!r}")

    def _call(self, name: _Token) -> Node:
        opened = self._take("(")
        if opened is None:
            raise self._fail(f"function {name.text!r} needs its argument in parentheses", name)
        start = self._next
        argument = self._closed(opened, self._expression())
        if isinstance(argument, Product) and not argument.factors:
            raise self._fail(f"{name.text!r} needs a tensor, not a number", start)
        return Call(name.text, argument)

    def _reserved(self, name: _Token) -> Node:
        if name.text == "pattern":
            return self._pattern(name)
        if name.text not in ALONG:
            raise self._fail(f"{name.text!r} is not supported; {', '.join(ALONG)} are", name)
        opened = self._take("(")
        indices: list[tuple[str, At]] = []
        while opened and self._next.kind == "name" and self._tokens[self._position + 1].kind == ",":
            indices.append((self._next.text, self._next.at))
            self._position += 2
        if opened is None or not indices:
            raise self._fail(f"{name.text} needs its indices first, as {name.text}(k, A(i,k))", name)
        argument = self._closed(opened, self._expression())
        return Over(name.text, tuple(i for i, _ in indices), argument, tuple(at for _, at in indices))

    def _pattern(self, name: _Token) -> Read:
        opened = self._take("(")
        tensor = self._take("name") if opened else None
        if opened is None or tensor is None or tensor.text in CALLABLE | RESERVED:
            raise self._fail("pattern needs one tensor, as pattern(A(i,k))", name)
        read = self._access(tensor)
        self._closed(opened, read)
        return replace(read, access=replace(read.access, pattern=True))

    def _access(self, name: _Token) -> Read:
        opened = self._take("(")
        if opened is None or self._take(")"):
            return _read(name.text, name.at, [])
        windows, places = [], []
        while True:
            places.append(self._next.at)
            windows.append(self._coordinate(name, opened))
            if self._take(")"):
                access = Access(name.text, tuple(map(str, windows)))
                affine = () if all(w.plain for w in windows) else tuple(windows)
                return Read(access, name.at, tuple(places), affine)
            self._position += 1

    def _coordinate(self, name: _Token, opened: _Token) -> Affine:
        """A sum of indices, their multiples and numbers."""
        terms: list[tuple[str, int]] = []
        offset = 0
        sign = self._take("-")
        while True:
            number = self._take("number")
            index = self._take("name") if number is None or self._take("*") else None
            before = self._tokens[self._position - 1]
            operator = self._take("+") or self._take("-")
            if before not in (number, index) or not (operator or self._next.kind in ",)"):
                raise self._bad_access(name, opened, index)
            if number is not None and not (number.text.isdigit() and int(number.text) < MOST_STRIDE):
                raise self._fail(f"numbers in coordinates are integers below {MOST_STRIDE}", number)
            if index is None:
                offset += int(before.text) * (-1 if sign else 1)
            elif sign is not None:
                raise self._fail(f"index {index.text!r} cannot be subtracted; coordinates grow with indices", sign)
            elif number is not None and int(number.text) == 0:
                raise self._fail(f"the coefficient of {index.text!r} must be at least 1", number)
            else:
                terms.append((index.text, int(number.text) if number else 1))
            if operator is None:
                return Affine(tuple(terms), offset)
            sign = operator if operator.kind == "-" else None

    def _bad_access(self, name: _Token, opened: _Token, index: _Token | None) -> NotationError:
        """Why what stands between the parentheses is no list of indices."""
        inside = self._tokens[self._tokens.index(opened) + 1 :]
        inside = inside[: next(n for n, token in enumerate(inside) if token.kind == "end")]
        depth = 1
        for n, token in enumerate(inside):
            depth += {"(": 1, ")": -1}.get(token.kind, 0)
            if depth == 0:
                inside = inside[:n]
                break
        if depth:
            return self._fail("this parenthesis is never closed", opened)
        kinds = {token.kind for token in inside}
        operators = kinds & {"+", "-", "*", "/"}
        if "(" in kinds or (operators and resembles(name.text, CALLABLE)):
            return self._fail(f"unknown function {name.text!r}.{nearest(name.text, CALLABLE | RESERVED)}", name)
        if operators:
            text = "".join(token.text for token in inside)
            return self._fail(f"coordinates are sums such as 2*p+r-1, of indices, multiples and numbers, got {text!r}")
        if index is not None:
            return self._fail(f"expected ',' or ')' after index {index.text!r}, got {self._next.text!r}")
        return self._fail(f"expected the name of an index in {name.text!r}, got {self._next.text!r}")


def _negated(node: Node) -> Node:
    if isinstance(node, Product) and (node.scale != 1.0 or not node.factors):
        return Product(node.factors, -node.scale, node.at)
    return Call("neg", node)
