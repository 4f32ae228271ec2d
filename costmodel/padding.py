"""Operands that store zeros, and where results have entries because of them.

Stored values give an entry, zeros that a dense level stores included; so operands *padded* by dense inner levels make
more entries than the oracle's pattern has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from costmodel.factors import Ints
from costmodel.statistics import TensorStatistics
from costmodel.widened import Widened
from mapper.formats import pads, slots_of
from mapper.tensor import SparseTensor

if TYPE_CHECKING:
    from costmodel.nest import Nest, Operand

MOST_LISTED = 1_000_000
"""Joined points that are listed to find where there are any; of more only the number of entries is estimated."""


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
    if any(slots_of(o.layout.kinds[-1]) for o in nest.operands if o.loops):  # where free slots have zeros is not known
        return {}
    leaves = [o.leaf(nest.loops, len(nest.loops)) for o in nest.operands]
    groups = [[x] for x in leaves] if statement.kind == "add" else [leaves]
    every, columns = dict.fromkeys(nest.extents, 1), tuple((i, 1) for i in target.indices)
    if sum(nest.counter.total(group, every) for group in groups) > MOST_LISTED:
        return {}

    def filled() -> SparseTensor:
        points = [nest.counter.by(group, every, columns).coords for group in groups]
        return _filled(known.tensor, [np.concatenate(own) for own in zip(*points, strict=True)])

    said = repr((statement.kind, [x.key for x in leaves], columns, sorted(nest.extents.items())))
    key = f"{known.key} of {hashlib.sha256(said.encode()).hexdigest()}"
    return {target.tensor: Widened(target.tensor, key, filled)}


def _more(nest: Nest, operand: Operand) -> bool:
    """Whether an operand stores positions that hold no entry of it, or zeros of an earlier product of such operands."""
    if operand.access.tensor in nest.model.widened:
        return True
    kinds = operand.layout.kinds
    if not operand.stored or not pads(kinds):
        return False
    n, m = slots_of(kinds[-1]) or (1, 1)
    return operand.stats.density(operand.full_view) < n / m


def _filled(known: SparseTensor, places: Sequence[Ints]) -> SparseTensor:
    """The values of ``known``, and zeros at those of the ``places`` where it has none."""
    own, more = (np.ravel_multi_index(tuple(crd), known.shape) for crd in (known.coords, places))
    keys = np.union1d(own, more)
    values = np.zeros(keys.size)
    values[np.searchsorted(keys, own)] = known.values
    return SparseTensor(known.shape, np.stack(np.unravel_index(keys, known.shape)), values)
