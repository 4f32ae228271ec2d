"""Entries of a statement's result: how many prefixes end up with a value.

More than the oracle's pattern has are made of padded operands (``costmodel.padding``), and by a sum or dense map that
runs over a full extent under a coordinate that some operand lacks.
"""

from __future__ import annotations

import numpy as np

from costmodel.factors import Floats, Ints
from costmodel.nest import Nest
from costmodel.operand import Operand
from costmodel.padding import padded
from costmodel.statistics import TensorStatistics


def with_values(nest: Nest, reached: Floats, products: Floats) -> Floats:
    """Prefixes of the innermost output loop that at least one of ``products`` meets, of those ``reached`` at which
    every operand stores a value further down: each value of the sparser operand finds partners with equal chance."""
    trailing = {i for i, _ in nest.loops[nest.value_depth :]}
    reduced = [o for o in nest.operands if trailing & set(o.access.indices)]
    if not reduced:
        return np.minimum(reached, products)
    below = min(_positions(nest, o, len(nest.loops)) / max(1.0, _positions(nest, o, nest.value_depth)) for o in reduced)
    most = max(1.0, below)
    share = np.divide(products, reached * most, out=np.zeros_like(reached), where=reached > 0)
    return np.asarray(reached * -np.expm1(most * np.log1p(-np.minimum(share, 1 - 1e-12))))


def reduced_entries(nest: Nest) -> Floats:
    """Entries of the result per lane of a statement without accumulator."""
    products = nest.joined(len(nest.loops))
    if nest.statement.function == "sparse_relu":  # zeros are not stored, whoever made them
        return _known(nest, products)
    if nest.statement.kind != "contract":
        return products
    entries = with_values(nest, nest.joined(nest.value_depth, valued=True), products)
    return entries if padded(nest) or nest.partial else _known(nest, entries)


def _known(nest: Nest, entries: Floats) -> Floats:
    """Entries per lane, as many in all as the known result has."""
    total = float(entries.sum())
    return entries * (nest.target.nnz / total) if total else entries


def allowed(nest: Nest) -> tuple[Ints, ...]:
    """Coordinates along every mode of the result at which it can have entries, at level L2: of a product those at which
    every operand stores a value."""
    indices, depth = nest.statement.target.indices, len(nest.loops)
    found = [np.arange(extent) for extent in nest.target.shape]
    for operand in nest.operands if nest.statement.kind == "contract" else ():
        leaf = operand.leaf(nest.loops, depth, valued=True)
        assert isinstance(leaf.stats, TensorStatistics)
        for mode, granule in leaf.view:
            if (index := leaf.indices[mode]) in indices:
                own, m = leaf.stats.nodes(((mode, granule),))[0], indices.index(index)
                found[m] = found[m][np.isin(found[m] // granule, own)]
    return tuple(found)


def _positions(nest: Nest, operand: Operand, depth: int) -> float:
    """Nodes of an operand within the first ``depth`` loops that have a stored value below."""
    variables = {i: g for i, g in nest.variables(depth).items() if i in operand.access.indices}
    return nest.counter.total([operand.leaf(nest.loops, depth, valued=True)], variables)
