"""Counting effectual prefixes: coordinate tuples of the outer loops for which operands have stored nodes.

A ``Leaf`` is an operand's node tensor at some depth of a nest; leaves are multiplied (intersection) and summed over
``variables``, the resolution that the loops so far give each index. Level L2 evaluates the sum over the real nodes;
L0 and L1 take every node tensor as uniformly filled and independent of the others (Sparseloop's assumption).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from costmodel.factors import Column, Factor, Floats, kept_columns, needed, sum_product
from costmodel.statistics import Statistics, TensorStatistics, View
from costmodel.uniform import UniformStatistics

AnyStatistics = TensorStatistics | UniformStatistics


@dataclass(frozen=True, slots=True)
class Leaf:
    """Nodes of a tensor in ``view``; ``indices`` names its modes. An empty view constrains nothing."""

    stats: AnyStatistics
    indices: tuple[str, ...]
    view: View

    @property
    def columns(self) -> tuple[Column, ...]:
        """The view in terms of indices."""
        return tuple((self.indices[m], g) for m, g in self.view)

    @property
    def key(self) -> tuple[str, tuple[Column, ...], View]:
        """Identity for memoisation."""
        return self.stats.key, self.columns, self.view

    def marginal(self, columns: Sequence[Column]) -> Factor:
        """Nodes counted per point of ``columns``. Level L2 only."""
        assert isinstance(self.stats, TensorStatistics)
        modes = {self.indices[m]: m for m, _ in self.view}
        keep = tuple(sorted((modes[i], g) for i, g in columns))
        coords, weights = self.stats.marginal(self.view, keep)
        return Factor(tuple((self.indices[m], g) for m, g in keep), coords, weights)


class Counter:
    """Counts prefixes of one statement, whose indices have ``extents``."""

    def __init__(self, statistics: Statistics, level: str, extents: Mapping[str, int]) -> None:
        self._statistics, self._exact, self._extents = statistics, level == "L2", extents
        self._names = tuple(sorted(extents.items()))

    def total(self, leaves: Sequence[Leaf], variables: Mapping[str, int]) -> float:
        """Number of points of ``variables`` at which every leaf has a node."""
        leaves = [x for x in leaves if x.view]
        if not self._exact:
            return self.cells(variables) * math.prod(x.stats.density(x.view) for x in leaves)
        return self.by(leaves, variables, ()).total

    def by(self, leaves: Sequence[Leaf], variables: Mapping[str, int], keep: tuple[Column, ...]) -> Factor:
        """The same number per point of ``keep``, whose granules are no finer than the variables'. Level L2 only."""
        leaves = [x for x in leaves if x.view]
        key = (tuple(x.key for x in leaves), tuple(variables.items()), keep, self._names)
        return self._statistics.remember(key, lambda: self._by(leaves, variables, keep))

    def union(self, leaves: Sequence[Leaf]) -> list[tuple[int, list[Leaf]]]:
        """Inclusion and exclusion: signed groups of leaves whose summed counts are the count of their union."""
        chosen = [x for x in leaves if x.view]
        if len(chosen) < len(leaves):  # an unconstrained leaf holds everything
            return [(1, [])]
        sizes = range(1, len(chosen) + 1)
        return [((-1) ** (n + 1), list(group)) for n in sizes for group in combinations(chosen, n)]

    def cells(self, variables: Mapping[str, int]) -> int:
        """Points of ``variables`` in all."""
        return math.prod(-(-self._extents[i] // g) for i, g in variables.items())

    def _by(self, leaves: Sequence[Leaf], variables: Mapping[str, int], keep: tuple[Column, ...]) -> Factor:
        columns = [x.columns for x in leaves]
        boxes, scale = [], 1.0
        for index, granule in variables.items():
            use = needed(index, [*columns, keep])
            held = needed(index, columns)
            if use is None:
                scale *= self.cells({index: granule})
            elif held is None or held > granule:
                boxes.append(self._box(index, use, granule))
        factors = []
        for n, leaf in enumerate(leaves):
            others = [keep, *(c for m, c in enumerate(columns) if m != n), *(b.columns for b in boxes)]
            factors.append(leaf.marginal(kept_columns(leaf.columns, others)))
        result = sum_product([*factors, *boxes], keep, self._extents)
        return Factor(result.columns, result.coords, result.weights * scale)

    def _box(self, index: str, granule: int, inner: int) -> Factor:
        """How many cells of size ``inner`` each cell of size ``granule`` has: free choice of a finer coordinate."""
        extent = self._extents[index]
        at = np.arange(-(-extent // granule), dtype=np.int64)
        size = np.minimum(granule, extent - at * granule)
        weights: Floats = np.ceil(size / inner)
        return Factor(((index, granule),), (at,), weights)
