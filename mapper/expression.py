"""Expressions of index notation and their normal form, in which every operator is a statement of its own.

An index that the target lacks is summed in the smallest product that contains all its uses; an access alone is
the smallest product there is. Each term of a sum is therefore reduced before the terms are added, and the factors
of a product keep whatever another factor needs.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mapper.errors import NotationError, nearest
from mapper.program import Access, Program, Statement

At = tuple[int, int]
"""Line and column of a token, both 1-based."""


@dataclass(frozen=True, slots=True)
class Read:
    """An access as written; ``index_at`` places every index."""

    access: Access
    at: At
    index_at: tuple[At, ...]


@dataclass(frozen=True, slots=True)
class Product:
    """``scale`` times all factors; without factors a number."""

    factors: tuple[Node, ...]
    scale: float
    at: At


@dataclass(frozen=True, slots=True)
class Sum:
    """Two terms or more, each with its sign."""

    terms: tuple[tuple[int, Node], ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A unary map."""

    function: str
    argument: Node


@dataclass(frozen=True, slots=True)
class Reduction:
    """The explicit ``sum(indices, argument)``."""

    indices: tuple[str, ...]
    argument: Node
    index_at: tuple[At, ...]


Node = Read | Product | Sum | Call | Reduction


@dataclass(frozen=True, slots=True)
class Line:
    """One assignment as written."""

    target: Read
    value: Node


def children(node: Node) -> tuple[Node, ...]:
    """Direct operands."""
    match node:
        case Read():
            return ()
        case Product():
            return node.factors
        case Sum():
            return tuple(term for _, term in node.terms)
        case _:
            return (node.argument,)


def nodes(node: Node) -> Iterator[Node]:
    """``node`` and everything below it, in the order of the text."""
    yield node
    for child in children(node):
        yield from nodes(child)


def reads(line: Line) -> Iterator[Read]:
    """Accesses on the right side, in the order of the text."""
    return (n for n in nodes(line.value) if isinstance(n, Read))


def free(node: Node) -> set[str]:
    """Indices of ``node`` that no explicit sum inside it binds."""
    if isinstance(node, Read):
        return set(node.access.indices)
    inner = set[str]().union(*map(free, children(node)))
    return inner - set(node.indices) if isinstance(node, Reduction) else inner


def normalise(lines: Iterable[Line], text: str) -> Program:
    """The program of ``lines``. Raises NotationError, placed in ``text``, for whatever has no meaning."""
    lines = tuple(lines)
    _check_tensors(lines, text)
    writer = _Writer({r.access.tensor for line in lines for r in (line.target, *reads(line))})
    for line in lines:
        _check_indices(line, text)
        writer.write(line)
    return Program(tuple(writer.statements))


class _Writer:
    """Collects statements; temporaries are called T1, T2, ... past every name the user took."""

    def __init__(self, taken: set[str]) -> None:
        self.statements: list[Statement] = []
        self._taken = taken
        self._temporaries = 0
        self._order: dict[str, int] = {}

    def write(self, line: Line) -> None:
        """Appends the statements of one line, the last of which assigns the line's target."""
        written = (*line.target.access.indices, *(i for r in reads(line) for i in r.access.indices))
        self._order = {index: n for n, index in enumerate(dict.fromkeys(written))}
        self._lower(line.value, set(line.target.access.indices), line.target.access)

    def _lower(self, node: Node, keep: set[str], target: Access | None = None) -> Access:
        """The access that holds ``node``, reduced to the indices in ``keep``."""
        match node:
            case Read():
                if target is None and keep.issuperset(node.access.indices):
                    return node.access
                return self._emit("contract", (node.access,), keep, target)
            case Product(factors=(single,), scale=1.0):
                return self._lower(single, keep, target)
            case Product(scale=1.0):
                return self._contract(node, keep, set(), target)
            case Product():
                inner = self._lower(Product(node.factors, 1.0, node.at), keep)
                return self._emit("map", (inner,), keep, target, function="scale", factor=node.scale)
            case Sum():
                operands = tuple(self._lower(term, keep) for _, term in node.terms)
                return self._emit("add", operands, keep, target, signs=tuple(sign for sign, _ in node.terms))
            case Call():
                inner = self._lower(node.argument, keep)
                return self._emit("map", (inner,), keep, target, function=node.function)
            case Reduction():
                return self._reduce(node, keep, target)

    def _contract(self, node: Product, keep: set[str], bound: set[str], target: Access | None) -> Access:
        operands = []
        for n, factor in enumerate(node.factors):
            others = (*node.factors[:n], *node.factors[n + 1 :])
            if isinstance(factor, Read):
                operands.append(factor.access)
            else:
                operands.append(self._lower(factor, (keep | bound).union(*map(free, others))))
        return self._emit("contract", tuple(operands), keep - bound, target)

    def _reduce(self, node: Reduction, keep: set[str], target: Access | None) -> Access:
        bound = set(node.indices)
        match node.argument:
            case Read():
                return self._lower(node.argument, keep - bound, target)
            case Product(factors=(_, _, *_), scale=1.0):
                return self._contract(node.argument, keep, bound, target)
            case _:
                inner = self._lower(node.argument, keep | bound)
                return self._emit("contract", (inner,), keep - bound, target)

    def _emit(
        self,
        kind: str,
        operands: tuple[Access, ...],
        keep: set[str],
        target: Access | None,
        signs: tuple[int, ...] = (),
        function: str = "",
        factor: float = 1.0,
    ) -> Access:
        if target is None:
            kept = {i for operand in operands for i in operand.indices} & keep
            target = Access(self._fresh(), tuple(sorted(kept, key=self._order.__getitem__)))
        self.statements.append(Statement(target, kind, operands, signs, function, factor))
        return target

    def _fresh(self) -> str:
        while True:
            self._temporaries += 1
            if (name := f"T{self._temporaries}") not in self._taken:
                return name


def _check_tensors(lines: tuple[Line, ...], text: str) -> None:
    """Each tensor has one number of modes, is assigned once, and is assigned before it is read."""
    assigned: dict[str, int] = {}
    first: dict[str, Read] = {}
    for n, line in enumerate(lines):
        name = line.target.access.tensor
        if name in assigned:
            where = lines[assigned[name]].target.at[0]
            raise NotationError(f"tensor {name!r} is already assigned on line {where}", text, *line.target.at)
        assigned[name] = n
        for read in (line.target, *reads(line)):
            other = first.setdefault(read.access.tensor, read)
            modes, before = len(read.access.indices), len(other.access.indices)
            if modes != before:
                there = f"on line {other.at[0]}, column {other.at[1]}"
                message = f"tensor {read.access.tensor!r} has {_count(modes)} here, but {_count(before)} {there}"
                raise NotationError(message, text, *read.at)
    for n, line in enumerate(lines):
        for read in reads(line):
            producer = assigned.get(read.access.tensor, -1)
            if producer == n:
                message = f"tensor {read.access.tensor!r} cannot be read by the statement that assigns it"
                raise NotationError(f"{message}; give the result another name", text, *read.at)
            if producer > n:
                where = lines[producer].target.at[0]
                message = f"tensor {read.access.tensor!r} is read before line {where} assigns it"
                raise NotationError(f"{message}; move that statement up", text, *read.at)


def _check_indices(line: Line, text: str) -> None:
    """No access repeats an index, the right side has every index of the target, sums bind their own indices."""
    for read in (line.target, *reads(line)):
        for n, index in enumerate(read.access.indices):
            if index in read.access.indices[:n]:
                message = f"index {index!r} is repeated in {read.access}; diagonals are not supported"
                raise NotationError(message, text, *read.index_at[n])
    used = free(line.value)
    for index, at in zip(line.target.access.indices, line.target.index_at, strict=True):
        if index not in used:
            message = f"index {index!r} of the target appears nowhere on the right side"
            raise NotationError(f"{message}.{nearest(index, used)}", text, *at)
    for node in nodes(line.value):
        if isinstance(node, Reduction):
            inner = free(node.argument)
            for n, (index, at) in enumerate(zip(node.indices, node.index_at, strict=True)):
                if index in node.indices[:n]:
                    raise NotationError(f"index {index!r} is summed twice", text, *at)
                if index not in inner:
                    message = f"sum over {index!r}, which its argument does not use"
                    raise NotationError(f"{message}.{nearest(index, inner)}", text, *at)
                if index in used:
                    message = f"index {index!r} is summed here but also used outside this sum"
                    raise NotationError(f"{message}; rename one of the two", text, *at)


def _count(modes: int) -> str:
    return f"{modes} {'index' if modes == 1 else 'indices'}"


def resembles(name: str, valid: Iterable[str]) -> bool:
    """Whether ``name`` is a likely misspelling of a valid name."""
    return bool(difflib.get_close_matches(name, list(valid), n=1))
