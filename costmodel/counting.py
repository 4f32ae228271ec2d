"""Counting effectual prefixes: coordinate tuples of the outer loops for which operands have stored nodes.

A ``Leaf`` is an operand's node tensor at some depth of a nest; leaves are multiplied (intersection) and summed over
``variables``, the resolution that the loops so far give each index. Level L2 evaluates the sum over the real nodes;
L0 and L1 take every node tensor as uniformly filled and independent of the others (Sparseloop's assumption).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from costmodel.factors import Column, Factor, Floats, Ints, group_sum, radices
from costmodel.products import kept_columns, needed, sum_product
from costmodel.statistics import Statistics, TensorStatistics
from costmodel.uniform import UniformStatistics
from costmodel.views import View
from mapper.tensor import SparseTensor

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


@dataclass(frozen=True, slots=True)
class Cut(Leaf):
    """Nodes of a leaf whose own view is ``whole``, such as blocks, cut along the finer ``view``."""

    whole: View

    @property
    def key(self) -> Any:
        """Identity for memoisation."""
        return self.stats.key, self.columns, self.view, self.whole

    def marginal(self, columns: Sequence[Column]) -> Factor:
        """Pieces counted per point of ``columns``. Level L2 only."""
        extents = dict(zip(self.indices, self.stats.shape, strict=True))
        plain = Leaf(self.stats, self.indices, self.whole)
        found = plain.marginal(plain.columns)
        for n, ((index, granule), (_, finer)) in enumerate(zip(plain.columns, self.columns, strict=True)):
            found = found.cut(n, granule // finer, -(-extents[index] // finer))
        pieces, wanted = Factor(self.columns, found.coords, found.weights), tuple(columns)
        coords, weights = group_sum([pieces.column(*c) for c in wanted], radices(wanted, extents), pieces.weights)
        return Factor(wanted, coords, weights)


def nested(leaves: Sequence[Leaf]) -> list[Leaf]:
    """The leaves, cut so that granules of an index divide each other: blocks of two operands need not."""
    known: dict[str, set[int]] = {}
    for leaf in leaves:
        for index, granule in leaf.columns:
            known.setdefault(index, set()).add(granule)
    finest = dict[str, int]()
    for index, granules in known.items():
        apart = {g for g in granules if any(g % h and h % g for h in granules)}
        if apart:
            finest[index] = math.gcd(*apart)
            known[index] = apart
    if not finest:
        return list(leaves)
    found = []
    for leaf in leaves:
        view = tuple(
            (m, finest[i] if i in finest and g in known[i] else g)
            for (m, g), (i, _) in zip(leaf.view, leaf.columns, strict=True)
        )
        found.append(leaf if view == leaf.view else Cut(leaf.stats, leaf.indices, view, leaf.view))
    return found


LANE: Column = ("(lane)", 1)
"""Column of lane numbers; no index of a program is called so."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """Lanes of a parallel index: lane n ends before coordinate ``ends[n]`` of its loop, whose steps are ``granule``
    coordinates wide; ``cyclic`` lanes take turns instead."""

    index: str
    granule: int
    ends: tuple[int, ...]
    cyclic: bool = False

    def of(self, coordinates: Ints) -> Ints:
        """Lane of every coordinate of the parallel loop."""
        if self.ends[-1] > 4 * coordinates.size:
            if self.cyclic:
                return coordinates % self.count
            return np.searchsorted(self.ends, coordinates, side="right").astype(np.int64)
        if self.cyclic:  # to look up takes a third of the time of a division
            return np.resize(np.arange(self.count), self.ends[-1])[coordinates]
        return np.repeat(np.arange(self.count), np.diff(self.ends, prepend=0))[coordinates]

    @property
    def count(self) -> int:
        """Number of lanes."""
        return len(self.ends)

    @property
    def column(self) -> Column:
        """The loop that is dealt to them."""
        return self.index, self.granule

    @property
    def tag(self) -> Column:
        """The column of their numbers."""
        return f"(lane of {self.index})", 1

    def split(self, factor: Factor) -> Factor:
        """A factor that has the index, with the number of its lane as one more column."""
        lane = self.of(factor.column(*self.column))
        return Factor((*factor.columns, self.tag), (*factor.coords, lane), factor.weights)

    def dealt(self, stats: TensorStatistics, indices: tuple[str, ...], view: View, statistics: Statistics) -> Leaf:
        """The nodes of ``view`` that every lane has entries below: those of the tensor with the number of the lane as
        its last mode."""
        tensor, mode = stats.tensor, indices.index(self.index)

        def tagged() -> SparseTensor:
            lane = self.of(tensor.coords[mode] // self.granule)
            return SparseTensor((*tensor.shape, self.count), np.concatenate([tensor.coords, lane[None]]), tensor.values)

        dealt = statistics.named(f"{stats.key} dealt by mode {mode} {self}", tagged)
        return Leaf(dealt, (*indices, self.tag[0]), (*view, (tensor.ndim, 1)))


def with_lane(factor: Factor, splits: Sequence[Lanes]) -> Factor:
    """A factor that has all their indices, with the number of the lane among all combinations as its last column."""
    lane = np.zeros(factor.weights.size, np.int64)
    for own in splits:
        lane = lane * own.count + own.of(factor.column(*own.column))
    return Factor((*factor.columns, LANE), (*factor.coords, lane), factor.weights)


class Counter:
    """Counts prefixes of one statement, whose indices have ``extents`` and may run in ``lanes``."""

    def __init__(self, statistics: Statistics, level: str, extents: Mapping[str, int], lanes: Sequence[Lanes]) -> None:
        self._statistics, self._exact = statistics, level == "L2"
        each = {own.tag[0]: own.count for own in lanes}
        self.extents = {**extents, **each, LANE[0]: math.prod(each.values())}
        self._names = tuple(sorted(extents.items()))
        self._lists = dict[Hashable, Factor]()

    def total(self, leaves: Sequence[Leaf], variables: Mapping[str, int]) -> float:
        """Number of points of ``variables`` at which every leaf has a node."""
        leaves = [x for x in leaves if x.view]
        if not self._exact:
            return self.cells(variables) * math.prod(x.stats.density(x.view) for x in leaves)
        return self.by(leaves, variables, ()).total

    def by(
        self,
        leaves: Sequence[Leaf],
        variables: Mapping[str, int],
        keep: tuple[Column, ...],
        split: tuple[Lanes, ...] = (),
        ordered: bool = True,
    ) -> Factor:
        """The same number per point of ``keep``, whose granules are no finer than the variables', and per combination
        of the lanes in ``split``, whose loops the variables or numbers of lanes the leaves have: the last column if
        there are any. Points come in coordinate order if ``ordered``. Level L2 only."""
        leaves = [x for x in leaves if x.view]
        key = (tuple(x.key for x in leaves), tuple(variables.items()), keep, split, self._names)
        if ordered:
            return self._statistics.remember(key, lambda: self._by(leaves, variables, keep, split, ordered))
        return self._once(key, lambda: self._by(leaves, variables, keep, split, ordered))

    def _once(self, key: Hashable, make: Callable[[], Factor]) -> Factor:
        """``make()``, remembered by this counter alone: long lists of which only what comes of them is used again."""
        if key not in self._lists:
            self._lists[key] = make()
        return self._lists[key]

    def union(self, leaves: Sequence[Leaf]) -> list[tuple[int, list[Leaf]]]:
        """Inclusion and exclusion: signed groups of leaves whose summed counts are the count of their union."""
        chosen = [x for x in leaves if x.view]
        if len(chosen) < len(leaves):  # an unconstrained leaf holds everything
            return [(1, [])]
        sizes = range(1, len(chosen) + 1)
        return [((-1) ** (n + 1), list(group)) for n in sizes for group in combinations(chosen, n)]

    def cells(self, variables: Mapping[str, int]) -> int:
        """Points of ``variables`` in all."""
        return math.prod(-(-self.extents[i] // g) for i, g in variables.items())

    def _by(
        self,
        leaves: Sequence[Leaf],
        variables: Mapping[str, int],
        keep: tuple[Column, ...],
        split: tuple[Lanes, ...],
        ordered: bool,
    ) -> Factor:
        wanted = (*keep, *(own.column for own in split), *(own.tag for own in split))
        leaves = nested(leaves)
        columns = [x.columns for x in leaves]
        boxes, scale = [], 1.0
        for own in split:
            if own.index not in variables and not any(own.tag in held for held in columns):
                boxes.append(Factor((own.tag,), (np.arange(own.count),), np.ones(own.count)))
        for index, granule in variables.items():
            use = needed(index, [*columns, wanted])
            held = needed(index, columns)
            if use is None:
                scale *= self.cells({index: granule})
            elif held is None or held > granule:
                boxes.append(self._box(index, use, granule))
        factors, names = list[Factor](), list[Hashable]()
        for n, leaf in enumerate(leaves):
            others = [wanted, *(c for m, c in enumerate(columns) if m != n), *(b.columns for b in boxes)]
            kept = kept_columns(leaf.columns, others)
            factors.append(leaf.marginal(kept))
            names.append((leaf.key, kept))
        late = self._number(factors := [*factors, *boxes], [*names, *(None for _ in boxes)], keep, split)
        result = self._multiplied(factors, late, keep, split, ordered)
        return Factor(result.columns, result.coords, result.weights * scale) if scale != 1.0 else result

    def _number(
        self, factors: list[Factor], names: list[Hashable], keep: tuple[Column, ...], split: tuple[Lanes, ...]
    ) -> list[Lanes]:
        """Puts the numbers of lanes into a column of one of the factors, which the others meet at the index; returns
        lanes that no factor tells. ``names`` identify those factors that come again."""
        late = list[Lanes]()
        for own in split:
            holders = [n for n, f in enumerate(factors) if f.granule(own.index) is not None]
            fine = [n for n in holders if (factors[n].granule(own.index) or 0) <= own.granule]
            if fine:  # lanes are few: number them before anything is multiplied
                n = min(fine, key=lambda n: factors[n].weights.size)
                wanted = len(holders) > 1 or needed(own.index, [keep])
                inside = tuple(c for c in (*factors[n].columns, own.tag) if c[0] != own.index or wanted)
                names[n] = None if wanted else names[n] and (names[n], own)
                factors[n] = self._numbered(factors[n], own, inside, names[n])
            elif not any(own.tag in f.columns for f in factors):
                late.append(own)
        return late

    def _numbered(self, factor: Factor, own: Lanes, inside: tuple[Column, ...], name: Hashable) -> Factor:
        def numbered() -> Factor:
            return own.split(factor).reduced(inside, self.extents)

        return numbered() if name is None else self._once(name, numbered)

    def _multiplied(
        self, factors: list[Factor], late: list[Lanes], keep: tuple[Column, ...], split: tuple[Lanes, ...],
        ordered: bool,
    ) -> Factor:  # fmt: skip
        """Their product by the points of ``keep`` and the number of the lane among all combinations."""
        lanes = [own.tag for own in split if own not in late]
        late_indices = {own.index for own in late}
        along = [c for c in keep if c[0] not in late_indices]
        along += [(own.index, min(own.granule, needed(own.index, [keep]) or own.granule)) for own in late]
        result = sum_product(factors, (*along, *lanes), self.extents, ordered)
        if not split:
            return result
        number = np.zeros(result.weights.size, np.int64)
        for own in split:
            at = own.of(result.column(*own.column)) if own in late else result.column(*own.tag)
            number = number * own.count + at
        whole = Factor((*result.columns, LANE), (*result.coords, number), result.weights)
        if not ordered and tuple(along) == keep:  # lanes are one to one with the points' numbers of lanes
            return whole.permuted((*keep, LANE))
        return whole.reduced((*keep, LANE), self.extents)

    def _box(self, index: str, granule: int, inner: int) -> Factor:
        """How many cells of size ``inner`` each cell of size ``granule`` has: free choice of a finer coordinate."""
        extent = self.extents[index]
        at = np.arange(-(-extent // granule), dtype=np.int64)
        size = np.minimum(granule, extent - at * granule)
        weights: Floats = np.ceil(size / inner)
        return Factor(((index, granule),), (at,), weights)
