"""Prefixes that a fused stream carries although nothing lies below them.

A statement passes every coordinate at which its operands meet, loop by loop; that nothing is left below one shows only
further in, when its reader has joined it, and perhaps loaded a tile for it. From a reduction on, and at the last level,
results leave only where there are some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from costmodel.counting import Leaf
from costmodel.factors import Ints, distinct
from costmodel.statistics import TensorStatistics
from costmodel.views import View
from costmodel.widened import MOST_LISTED
from mapper.tensor import SparseTensor

if TYPE_CHECKING:
    from costmodel.nest import Nest


def passing(maker: Nest) -> int:
    """Outer levels of a stream that may hold fibers without anything in them."""
    kept, depth = maker.statement.target.indices, maker.value_depth
    reduced = (q for q, (index, _) in enumerate(maker.loops[:depth], 1) if index not in kept)
    return next(reduced, depth) - 1


def passed(maker: Nest, level: int, view: View) -> TensorStatistics | None:
    """A tensor whose nodes in ``view`` are all that the first ``level`` levels of the stream of ``maker`` hold; None
    where those of the known result are all, or what is joined is too much to be listed."""
    target, known = maker.statement.target, maker.target
    if not 0 < level <= passing(maker) or not isinstance(known, TensorStatistics):
        return None
    groups, variables = _groups(maker, level), maker.variables(level)
    if not groups or sum(maker.counter.total(own, variables) for own in groups) > MOST_LISTED:
        return None
    keep = tuple((target.indices[mode], granule) for mode, granule in view)

    def made() -> SparseTensor:
        found = [maker.counter.by(own, variables, keep) for own in groups]
        points = [np.concatenate(crds) for crds in zip(*(f.coords for f in found), strict=True)]
        cells = [-(-known.shape[mode] // granule) for mode, granule in view]
        held = dict(zip((mode for mode, _ in view), distinct(points, cells), strict=True))
        return _at_corners(known.shape, view, held)

    return maker.model.statistics.named(f"{known.key} passed by {maker.digest} in {view}", made)


def _groups(maker: Nest, level: int) -> list[list[Leaf]]:
    """Leaves that are joined, for every group of operands whose prefixes the stream holds together. Empty where the
    known result tells all: dense maps and sums of what is stored store something below every prefix."""
    kind = maker.statement.kind
    if kind == "contract" or (kind == "map" and not maker.statement.universal):
        return [maker.leaves(level)]
    if kind == "add" and not all(operand.stored for operand in maker.operands):
        return [[leaf] for leaf in maker.leaves(level)]
    return []


def _at_corners(shape: tuple[int, ...], view: View, held: dict[int, Ints]) -> SparseTensor:
    """An entry at the first position of every cell."""
    granules, size = dict(view), next(iter(held.values())).size
    none = np.zeros(size, np.int64)
    coords = [held[mode] * granules[mode] if mode in held else none for mode in range(len(shape))]
    return SparseTensor(shape, np.stack(coords), np.ones(size))
