"""Operands that store zeros, and where results have entries because of them.

Stored values give an entry, zeros that a dense level stores included; so operands *padded* by dense inner levels make
more entries than the oracle's pattern has.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING

import numpy as np

from costmodel.counting import AnyStatistics, Leaf
from costmodel.factors import Ints
from costmodel.operand import Operand
from costmodel.slots import free_slots
from costmodel.statistics import TensorStatistics
from costmodel.widened import MOST_LISTED, Widened, filled
from mapper.blocks import in_elements
from mapper.formats import pads, slots_of
from mapper.tensor import SparseTensor

if TYPE_CHECKING:
    from costmodel.nest import Nest


def padded(nest: Nest) -> bool:
    """Whether the result may have entries that are not known: some operand is padded, and where that leads is not
    found."""
    return nest.statement.target.tensor not in nest.model.widened and any(_more(nest, o) for o in nest.operands)


def with_zeros(nest: Nest) -> dict[str, Widened]:
    """The result of a statement with padded operands as it is stored, by its name: zeros where the known result has
    nothing. Empty where operands are not padded, what is joined of them is too much to be listed, or the values
    decide, or everything has an entry."""
    known, target, statement = nest.target, nest.statement.target, nest.statement
    if not target.indices or not isinstance(known, TensorStatistics) or not padded(nest):
        return {}
    if statement.function == "sparse_relu" or (statement.kind == "map" and statement.universal):
        return {}
    if any(o.stored and _unplaced(nest, o) for o in nest.operands):
        return {}
    leaves = [o.leaf(nest.loops, len(nest.loops)) for o in nest.operands]
    groups = [[x] for x in leaves] if statement.kind == "add" else [leaves]
    joins = [_Join(nest, group) for group in groups]
    if sum(max(join.points, join.entries) for join in joins) > MOST_LISTED:
        return {}

    def made() -> SparseTensor:
        return filled(known.tensor, np.concatenate([join.places() for join in joins], axis=1))

    said = repr((statement.kind, [x.key for x in leaves], target.indices, sorted(nest.extents.items())))
    key = f"{known.key} of {hashlib.sha256(said.encode()).hexdigest()}"
    return {target.tensor: Widened(target.tensor, key, made)}


class _Join:
    """Where all of some leaves have nodes, listed no finer than they tell: whole blocks at once, and all coordinates of
    an index that dense levels alone have."""

    def __init__(self, nest: Nest, leaves: list[Leaf]) -> None:
        columns = [column for leaf in leaves for column in leaf.columns]
        granules = {i: math.gcd(*own) for i in nest.extents if (own := [g for name, g in columns if name == i])}
        self._nest, self._leaves, self._granules = nest, leaves, granules
        self._sides = {i: granules.get(i, nest.extents[i]) for i in nest.statement.target.indices}

    @property
    def points(self) -> float:
        """How many are joined."""
        return self._nest.counter.total(self._leaves, self._granules)

    @property
    def entries(self) -> float:
        """Positions of the result that they fill, at most."""
        cells = math.prod(-(-self._nest.extents[i] // side) for i, side in self._sides.items())
        return min(cells, self.points) * math.prod(self._sides.values())

    def places(self) -> Ints:
        """Those positions: int64[modes, entries]."""
        nest, indices = self._nest, self._nest.statement.target.indices
        keep = tuple((i, self._granules[i]) for i in indices if i in self._granules)
        found = nest.counter.by(self._leaves, self._granules, keep)
        size = found.weights.size if found.total else 0
        held = dict(zip((i for i, _ in keep), found.coords, strict=True))
        coords = np.stack([held.get(i, np.zeros(size, np.int64)) for i in indices])
        return in_elements(coords, [self._sides[i] for i in indices], [nest.extents[i] for i in indices])


def _more(nest: Nest, operand: Operand) -> bool:
    """Whether an operand stores positions that hold no entry of it, or zeros of an earlier product of such operands."""
    if operand.access.tensor in nest.model.widened:
        return True
    kinds = operand.layout.kinds
    if not operand.stored or not pads(kinds):
        return False
    if slots_of(kinds[-1]) is None:
        return operand.stats.density(operand.full_view) < 1
    return operand.stats.nnz > _known(nest, operand).nnz or _unplaced(nest, operand)


def _known(nest: Nest, operand: Operand) -> AnyStatistics:
    return nest.model.stats(operand.access.tensor, operand.stats.shape)


def _unplaced(nest: Nest, operand: Operand) -> bool:
    """Whether a stored operand may have free slots of which it is not known where they are."""
    return operand.stats.key == _known(nest, operand).key and free_slots(operand.stats, operand.layout)
