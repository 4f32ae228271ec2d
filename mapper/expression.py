"""Expressions of index notation and their normal form, in which every operator is a statement of its own.

An index that the target lacks is summed in the smallest product that contains all its uses; an access alone is
the smallest product there is. Each term of a sum is therefore reduced before the terms are added, and the factors
of a product keep whatever another factor needs.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from mapper.errors import NotationError, nearest
from mapper.program import MOST_JOINED, Access, Affine, Program, Statement, joinable

At = tuple[int, int]
"""Line and column of a token, both 1-based."""


@dataclass(frozen=True, slots=True)
class Read:
    """An access as written; ``index_at`` places every mode; ``windows``: its coordinates, if some is no index."""

    access: Access
    at: At
    index_at: tuple[At, ...]
    windows: tuple[Affine, ...] = ()

    @property
    def indices(self) -> tuple[str, ...]:
        """Every index, in the order of the text."""
        return tuple(i for w in self.windows for i, _ in w.terms) if self.windows else self.access.indices


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
class Pair:
    """Two operands combined where both are stored: ``operation`` of ``program.COMBINE``, but no product."""

    operation: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Call:
    """A unary map; ``factor`` as in ``Statement``."""

    function: str
    argument: Node
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Over:
    """A function along indices: an explicit reduction (``sum``, ``max``, ``mean``), which binds them, or
    a normalisation (``softmax``, ``layernorm``), which keeps them."""

    function: str
    indices: tuple[str, ...]
    argument: Node
    index_at: tuple[At, ...]

    @property
    def binds(self) -> bool:
        """Whether the indices are gone from the result."""
        return self.function not in NORMALISATIONS


Node = Read | Product | Sum | Pair | Call | Over

NORMALISATIONS = ("softmax", "layernorm")
EPSILON = 1e-5
"""Added to the variance by ``layernorm``, as PyTorch does."""


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
        case Pair():
            return (node.left, node.right)
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
    """Indices of ``node`` that no explicit reduction inside it binds."""
    if isinstance(node, Read):
        return set(node.indices)
    inner = set[str]().union(*map(free, children(node)))
    return inner - set(node.indices) if isinstance(node, Over) and node.binds else inner


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
        written = (*line.target.access.indices, *(i for r in reads(line) for i in r.indices))
        self._order = {index: n for n, index in enumerate(dict.fromkeys(written))}
        self._lower(line.value, set(line.target.access.indices), line.target.access)

    def _lower(self, node: Node, keep: set[str], target: Access | None = None) -> Access:
        """The access that holds ``node``, reduced to the indices in ``keep``."""
        match node:
            case Read():
                whole = target is not None and sorted(target.indices) == sorted(node.indices)
                if whole and node.windows and not node.access.pattern:
                    return self._view(node, target)
                access = self._view(node)
                if target is None and keep.issuperset(access.indices):
                    return access
                return self._emit("contract", (access,), keep, target)
            case Product(factors=(single,), scale=1.0):
                return self._lower(single, keep, target)
            case Product(scale=1.0):
                return self._contract(node, keep, set(), target)
            case Product():
                inner = self._lower(Product(node.factors, 1.0, node.at), keep)
                return self._emit("map", (inner,), keep, target, function="scale", factor=node.scale)
            case Sum():
                operands = tuple(self._lower(term, keep) for _, term in node.terms)
                operands, signs = self._joinable("add", operands, keep, tuple(sign for sign, _ in node.terms))
                return self._emit("add", operands, keep, target, signs=signs)
            case Pair():
                left = self._lower(node.left, keep | free(node.right))
                right = self._lower(node.right, keep | free(node.left))
                return self._emit("contract", (left, right), keep, target, combine=node.operation)
            case Call():
                inner = self._lower(node.argument, keep)
                return self._emit("map", (inner,), keep, target, function=node.function, factor=node.factor)
            case Over(function="softmax"):
                return self._softmax(node, keep, target)
            case Over(function="layernorm"):
                return self._layernorm(node, keep, target)
            case Over():
                return self._reduce(node, keep, target)

    def _view(self, read: Read, target: Access | None = None) -> Access:
        """What ``read`` says with an index per mode: windows become a tensor of their own, ``target`` or a new one."""
        if not read.windows:
            return read.access
        target = target or Access(self._fresh(), read.indices)
        source = replace(read.access, pattern=False)
        self.statements.append(Statement(target, "view", (source,), windows=read.windows))
        return replace(target, pattern=read.access.pattern)

    def _contract(self, node: Product, keep: set[str], bound: set[str], target: Access | None) -> Access:
        operands = []
        for n, factor in enumerate(node.factors):
            others = (*node.factors[:n], *node.factors[n + 1 :])
            if isinstance(factor, Read):
                operands.append(self._view(factor))
            else:
                operands.append(self._lower(factor, (keep | bound).union(*map(free, others))))
        factors, _ = self._joinable("contract", tuple(operands), keep - bound)
        return self._emit("contract", factors, keep - bound, target)

    def _joinable(
        self, kind: str, operands: tuple[Access, ...], keep: set[str], signs: tuple[int, ...] = ()
    ) -> tuple[tuple[Access, ...], tuple[int, ...]]:
        """The operands of a sum or product and their signs; while one join does not take them all, the first ones
        become a statement of their own."""
        while not joinable(operands):
            first, rest = operands[:MOST_JOINED], operands[MOST_JOINED:]
            part = self._emit(kind, first, keep.union(*(a.indices for a in rest)), signs=signs[:MOST_JOINED])
            operands, signs = (part, *rest), signs and (1, *signs[MOST_JOINED:])
        return operands, signs

    def _reduce(self, node: Over, keep: set[str], target: Access | None) -> Access:
        bound, reduction = set(node.indices), node.function
        match node.argument:
            case Product(factors=(_, _, *_), scale=1.0) if reduction == "sum":
                return self._contract(node.argument, keep, bound, target)
            case _:
                inner = self._lower(node.argument, keep | bound)
                return self._emit("contract", (inner,), keep - bound, target, reduction=reduction)

    def _softmax(self, node: Over, keep: set[str], target: Access | None) -> Access:
        """exp(x - max) / sum of them, over the stored entries of each fiber."""
        along, outside = keep | set(node.indices), keep - set(node.indices)
        score = self._lower(node.argument, along)
        largest = self._emit("contract", (score,), outside, reduction="max")
        shifted = self._emit("contract", (score, largest), along, combine="sub")
        weight = self._emit("map", (shifted,), along, function="stored_exp")
        total = self._emit("contract", (weight,), outside)
        return self._emit("contract", (weight, total), keep, target, combine="div")

    def _layernorm(self, node: Over, keep: set[str], target: Access | None) -> Access:
        """(x - mean) / sqrt(variance + EPSILON) over the full extent."""
        along, outside = keep | set(node.indices), keep - set(node.indices)
        x = self._lower(node.argument, along)
        mean = self._emit("contract", (x,), outside, reduction="mean")
        centred = self._emit("add", (x, mean), along, signs=(1, -1))
        square = self._emit("map", (centred,), along, function="square")
        variance = self._emit("contract", (square,), outside, reduction="mean")
        padded = self._emit("map", (variance,), outside, function="shift", factor=EPSILON)
        scale = self._emit("map", (padded,), outside, function="rsqrt")
        return self._emit("contract", (centred, scale), keep, target)

    def _emit(
        self,
        kind: str,
        operands: tuple[Access, ...],
        keep: set[str],
        target: Access | None = None,
        signs: tuple[int, ...] = (),
        function: str = "",
        factor: float = 1.0,
        combine: str = "mul",
        reduction: str = "sum",
    ) -> Access:
        if target is None:
            kept = {i for operand in operands for i in operand.indices} & keep
            target = Access(self._fresh(), tuple(sorted(kept, key=self._order.__getitem__)))
        self.statements.append(Statement(target, kind, operands, signs, function, factor, combine, reduction))
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
        for n, index in enumerate(read.indices):
            if index in read.indices[:n]:
                message = f"index {index!r} is repeated in {read.access}; diagonals are not supported"
                mode = n if not read.windows else max(m for m, w in enumerate(read.windows) if index in dict(w.terms))
                raise NotationError(message, text, *read.index_at[mode])
    used = free(line.value)
    for index, at in zip(line.target.access.indices, line.target.index_at, strict=True):
        if index not in used:
            message = f"index {index!r} of the target appears nowhere on the right side"
            raise NotationError(f"{message}.{nearest(index, used)}", text, *at)
    for node in nodes(line.value):
        if isinstance(node, Over):
            inner, name = free(node.argument), node.function
            for n, (index, at) in enumerate(zip(node.indices, node.index_at, strict=True)):
                if index in node.indices[:n]:
                    raise NotationError(f"index {index!r} is named twice in this {name}", text, *at)
                if index not in inner:
                    message = f"{name} over {index!r}, which its argument does not use"
                    raise NotationError(f"{message}.{nearest(index, inner)}", text, *at)
                if index in used and node.binds:
                    message = f"index {index!r} is bound by this {name} but also used outside it"
                    raise NotationError(f"{message}; rename one of the two", text, *at)


def _count(modes: int) -> str:
    return f"{modes} {'index' if modes == 1 else 'indices'}"


def resembles(name: str, valid: Iterable[str]) -> bool:
    """Whether ``name`` is a likely misspelling of a valid name."""
    return bool(difflib.get_close_matches(name, list(valid), n=1))
