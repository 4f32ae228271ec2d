"""Programs: statements over named tensors, each a contraction, an addition, a unary map or a view of windows.

Index notation is brought to this normal form by ``notation.parse_program``: every operator of a larger
expression becomes a statement of its own, so that each producer-consumer edge can be cut or fused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

ZERO_PRESERVING = frozenset(
    {"relu", "sparse_relu", "tanh", "abs", "neg", "sqrt", "square", "gelu", "scale", "stored_exp"}
)
"""Maps that touch stored entries alone, as f(0) = 0. For ``stored_exp`` an absent entry stands for minus infinity, as
in a masked softmax; ``sparse_relu`` stores positive results only, so that its pattern depends on the data."""

FUNCTIONS = frozenset({*ZERO_PRESERVING, "exp", "log", "sigmoid", "rsqrt", "shift"})
"""Every unary map; those outside ZERO_PRESERVING make their result dense."""

COMBINE = {"mul": "*", "div": "/", "sub": ".-", "add": ".+"}
"""How a contraction combines its operands where all of them are stored, with the operator that writes it."""

IN_PLACE = "in_place"
"""The function of a view whose windows are read from its operand and not stored."""

MOST_JOINED = 8
"""Operands that one join takes: of a statement at most so many have the same index; and partial sums of lanes."""

REDUCTIONS = ("sum", "max", "mean")
"""How a contraction reduces: over the stored entries; ``mean`` divides the sum by the extents of the indices."""


@dataclass(frozen=True, slots=True)
class Affine:
    """A coordinate: the sum of index * coefficient over ``terms``, plus ``offset``; as ``2*p+r-1``."""

    terms: tuple[tuple[str, int], ...]
    offset: int = 0

    @property
    def plain(self) -> bool:
        """Whether this is an index alone."""
        return len(self.terms) == 1 and self.terms[0][1] == 1 and not self.offset

    def __str__(self) -> str:
        text = "+".join(index if coefficient == 1 else f"{coefficient}*{index}" for index, coefficient in self.terms)
        return text + (f"{self.offset:+d}" if self.offset else "") if text else str(self.offset)


@dataclass(frozen=True, slots=True)
class Access:
    """A tensor with one index name per mode, as ``A(i,k)``; with ``pattern`` every stored entry counts as 1. The
    operand of a view has the text of a coordinate per mode."""

    tensor: str
    indices: tuple[str, ...]
    pattern: bool = False

    def __str__(self) -> str:
        text = f"{self.tensor}({','.join(self.indices)})"
        return f"pattern({text})" if self.pattern else text


def joinable(operands: Sequence[Access]) -> bool:
    """Whether no index stands in more operands than one join takes."""
    return max(Counter(i for access in operands for i in access.indices).values(), default=0) <= MOST_JOINED


@dataclass(frozen=True)
class Statement:
    """One operation; ``kind`` says which fields count.

    * ``contract``: target = ``reduction`` over ``reduced`` of the operands, joined where all are stored and combined by
      ``combine`` (a product has any number of operands, the others two);
    * ``add``: target = sum of sign * operand, an operand that lacks an index is broadcast over it;
    * ``map``: target = function(operand), for ``scale`` times ``factor``, for ``shift`` plus ``factor``;
    * ``view``: target = the operand at coordinates ``windows``, one per mode; positions outside of it are not stored.
      Every index has a mode of the target (an im2col; a padding of n is an offset of -n). With function ``in_place``
      the windows are not stored: readers load them from the operand.
    """

    target: Access
    kind: str
    operands: tuple[Access, ...]
    signs: tuple[int, ...] = ()
    function: str = ""
    factor: float = 1.0
    combine: str = "mul"
    reduction: str = "sum"
    windows: tuple[Affine, ...] = ()

    @cached_property
    def indices(self) -> tuple[str, ...]:
        """Every loop index: those of the target first, then reduced ones in order of appearance."""
        if self.kind == "view":
            return self.target.indices
        used = (*self.target.indices, *(i for operand in self.operands for i in operand.indices))
        return tuple(dict.fromkeys(used))

    @cached_property
    def reduced(self) -> tuple[str, ...]:
        """Indices reduced over: those that the target lacks."""
        return tuple(i for i in self.indices if i not in self.target.indices)

    @cached_property
    def universal(self) -> tuple[str, ...]:
        """Indices that run over their full extent: of a map whatever is stored, of a sum under each operand that lacks
        one."""
        if self.kind == "add":
            return tuple(i for i in self.indices if any(i not in operand.indices for operand in self.operands))
        return self.indices if self.kind == "map" and self.function not in ZERO_PRESERVING else ()

    @cached_property
    def valued(self) -> tuple[int, ...]:
        """Operands whose values count: in a product a pattern only selects."""
        every = tuple(range(len(self.operands)))
        if (self.kind, self.combine) != ("contract", "mul"):
            return every
        return tuple(n for n in every if not self.operands[n].pattern) or every[:1]

    def __str__(self) -> str:
        match self.kind:
            case "contract":
                right = f" {COMBINE[self.combine]} ".join(map(str, self.operands))
                if self.reduction != "sum":
                    right = f"{self.reduction}({', '.join((*self.reduced, right))})"
            case "add":
                terms = [("+ " if s > 0 else "- ") + str(a) for s, a in zip(self.signs, self.operands, strict=True)]
                right = " ".join(terms).removeprefix("+ ")
            case "view":
                right = f"{self.operands[0]}"
            case _:
                numbers = {"scale": f"{self.factor!r} * ", "shift": f"{self.factor!r} + "}
                call = f"{self.operands[0]}"
                right = f"{numbers[self.function]}{call}" if self.function in numbers else f"{self.function}({call})"
        return f"{self.target} = {right}"


@dataclass(frozen=True, slots=True)
class Edge:
    """A tensor made by statement ``producer`` and read as operand ``operand`` of statement ``consumer``."""

    tensor: str
    producer: int
    consumer: int
    operand: int

    @property
    def name(self) -> str:
        """Stable label for knobs and tables, as ``T>S2.0``."""
        return f"{self.tensor}>S{self.consumer}.{self.operand}"


@dataclass(frozen=True)
class Program:
    """Statements in an order that respects their dependences (each tensor is assigned once)."""

    statements: tuple[Statement, ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self.statements)

    @cached_property
    def producers(self) -> dict[str, int]:
        """Statement number that makes each computed tensor."""
        return {s.target.tensor: n for n, s in enumerate(self.statements)}

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Tensors read but never assigned, in order of first use."""
        used = (a.tensor for s in self.statements for a in s.operands)
        return tuple(dict.fromkeys(t for t in used if t not in self.producers))

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """Producer-consumer pairs, by consumer and operand position."""
        return tuple(
            Edge(a.tensor, self.producers[a.tensor], c, n)
            for c, s in enumerate(self.statements)
            for n, a in enumerate(s.operands)
            if a.tensor in self.producers
        )

    @cached_property
    def viewed(self) -> tuple[bool, ...]:
        """Per edge, whether it ends or begins at a view: a view reads and writes memory, it is never fused."""
        return tuple("view" in (self.statements[e.producer].kind, self.statements[e.consumer].kind) for e in self.edges)

    def stored_as(self, tensor: str) -> str:
        """The tensor in memory that a reader of ``tensor`` loads: another one for windows read in place."""
        made = self.statements[self.producers[tensor]] if tensor in self.producers else None
        return made.operands[0].tensor if made is not None and made.function == IN_PLACE else tensor

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Tensors assigned but never read: the results."""
        read = {e.tensor for e in self.edges}
        return tuple(s.target.tensor for s in self.statements if s.target.tensor not in read)

    def __str__(self) -> str:
        return "\n".join(map(str, self.statements))


@lru_cache(maxsize=256)
def pattern_sensitive(program: Program) -> frozenset[str]:
    """Tensors in which a stored zero is not the same as nothing: a maximum, a difference or quotient of stored entries,
    ``stored_exp`` or a pattern is computed from them, directly or not."""
    sensitive: set[str] = set()
    for statement in reversed(program.statements):
        special = statement.combine != "mul" or statement.reduction == "max" or statement.function == "stored_exp"
        if special or statement.target.tensor in sensitive:
            sensitive |= {a.tensor for a in statement.operands}
        sensitive |= {a.tensor for a in statement.operands if a.pattern}
    return frozenset(sensitive)
