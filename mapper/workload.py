"""Workload: a program bound to real tensors, with the extents of all indices and every computed tensor."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from mapper.canonical import content_hash
from mapper.errors import InputError, nearest
from mapper.extents import bind_extents
from mapper.interpreter import Results, effectual_multiplies, evaluate
from mapper.program import Access, Program, pattern_sensitive
from mapper.rewrites import rewriting
from mapper.tensor import Coords, SparseTensor

if TYPE_CHECKING:
    from mapper.stored_format import StoredFormat  # which reads the data of a workload


@dataclass(frozen=True, eq=False)
class Workload:
    """``tensors`` holds data for every input of ``program``, no more and no less; ``label`` says which rewriting of
    another workload it is."""

    program: Program
    tensors: dict[str, SparseTensor]
    label: str = ""
    _results: Results = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in self.program.inputs:
            if name not in self.tensors:
                raise InputError(f"tensor {name!r} of the program has no data.{nearest(name, self.tensors)}")
        for name in self.tensors:
            if name not in self.program.inputs:
                raise InputError(f"tensor {name!r} is not an input of the program.{nearest(name, self.program.inputs)}")

    @cached_property
    def key(self) -> str:
        """Content hash of program and data."""
        return content_hash([self.program.statements, {n: t.key for n, t in self.tensors.items()}])

    @cached_property
    def extents(self) -> tuple[dict[str, int], ...]:
        """Extent of every index, per statement."""
        return bind_extents(self.program, {n: t.shape for n, t in self.tensors.items()})

    @cached_property
    def computed(self) -> dict[str, SparseTensor]:
        """Every assigned tensor as the oracle evaluates it; its pattern is that of a sparse machine."""
        return evaluate(self.program, self.tensors, self._results)

    @cached_property
    def effectual_multiplies(self) -> int:
        """Multiplications of the whole program whose operands are both stored and non-zero."""
        known = {**self.tensors, **self.computed}
        return sum(effectual_multiplies(s, known) for s in self.program.statements)

    def variant(self, label: str) -> Workload:
        """The same data under a rewriting of the program; the empty label is the program as written. Raises InputError
        for a label that no rewriting has."""
        if label == self.label:
            return self
        if label not in self._variants:
            self._variants[label] = Workload(rewriting(self.program, label), self.tensors, label, self._results)
        return self._variants[label]

    def keeps_results(self, label: str) -> bool:
        """Whether a rewriting gives the same outputs on these data. Two may not where a maximum, a difference or a
        quotient of stored entries follows: a relu that leaves out what is not positive, and a product without indices
        of its own, which stores its one value even if it is of nothing."""
        if label not in self._kept:
            other = self.variant(label).program
            doubtful = _storing_otherwise(other) - _storing_otherwise(self.program)
            self._kept[label] = not doubtful & pattern_sensitive(other) or all(
                self.computed[name].near(self.variant(label).computed[name]) for name in self.program.outputs
            )
        return self._kept[label]

    @cached_property
    def _kept(self) -> dict[str, bool]:
        return {}

    @cached_property
    def unit_counts(self) -> dict[Hashable, Coords]:
        """Units of lowered regions by their shape (``units``)."""
        return {}

    @cached_property
    def known_formats(self) -> dict[Hashable, StoredFormat]:
        """What is known of a stored tensor by its level kinds and value type (``stored_format``)."""
        return {}

    @cached_property
    def group_sizes(self) -> dict[Hashable, int]:
        """Largest groups of entries (``reconvergence``)."""
        return {}

    @cached_property
    def drain_limits(self) -> dict[Hashable, dict[str, tuple[bool, ...]] | None]:
        """Tile extents of which FIFOs may hold what leaves an accumulator (``reconvergence``)."""
        return {}

    @cached_property
    def _variants(self) -> dict[str, Workload]:
        return {}

    def tensor(self, name: str) -> SparseTensor:
        """Data of an input or a computed tensor."""
        return self.tensors[name] if name in self.tensors else self.computed[name]

    def shape(self, access: Access, statement: int) -> tuple[int, ...]:
        """Extents of an access of a statement."""
        return tuple(self.extents[statement][i] for i in access.indices)


def _storing_otherwise(program: Program) -> set[str]:
    """Results that need not store what the product of their operands' patterns has."""
    return {s.target.tensor for s in program.statements if s.function == "sparse_relu" or not s.target.indices}
