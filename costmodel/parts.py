"""Leaves of which only a part of the nodes counts: for replays that follow some tiles, or stretches of a walk."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from costmodel.counting import Leaf
from costmodel.factors import Column, Factor, radices

Range = tuple[Column, tuple[int, ...]]
"""A column whose coordinates lie from a first edge to before the second, or from a third to before a fourth, ..."""


@dataclass(frozen=True, slots=True)
class Part(Leaf):
    """Some nodes of a leaf."""

    @property
    def key(self) -> Any:
        """Identity for memoisation."""
        plain: tuple[Hashable, ...] = (self.stats.key, self.columns, self.view)
        return (*plain, self._what)

    @property
    @abstractmethod
    def _what(self) -> Hashable:
        """Which part it is."""

    @abstractmethod
    def _inside(self, nodes: Factor) -> np.ndarray:
        """Whether each node belongs to it."""

    def marginal(self, columns: Sequence[Column]) -> Factor:
        """Nodes counted per point of ``columns``."""
        whole = Leaf(self.stats, self.indices, self.view).marginal(self.columns)
        at = np.flatnonzero(self._inside(whole))  # taking places takes a fraction of the time of taking by truth values
        kept = Factor(whole.columns, tuple(c[at] for c in whole.coords), whole.weights[at])
        return kept.reduced(tuple(columns), dict(zip(self.indices, self.stats.shape, strict=True)))


@dataclass(frozen=True, slots=True)
class Within(Part):
    """Nodes of a leaf that lie within ``ranges``, as far as it has their columns."""

    ranges: tuple[Range, ...] = ()

    @property
    def _what(self) -> Hashable:
        return self.ranges

    def _inside(self, nodes: Factor) -> np.ndarray:
        inside = np.ones(nodes.weights.size, bool)
        for column, edges in self.ranges:
            if column in nodes.columns:
                crd = nodes.column(*column)
                if len(edges) == 2:
                    inside &= (crd >= edges[0]) & (crd < edges[1])
                else:
                    inside &= np.searchsorted(edges, crd, side="right") % 2 == 1
        return inside


@dataclass(frozen=True, slots=True)
class Below(Part):
    """Nodes of a leaf below ``points``, of which it has all columns, no coarser; ``name`` tells them from others."""

    points: Factor = field(compare=False)
    name: Hashable

    @property
    def _what(self) -> Hashable:
        return self.name

    def _inside(self, nodes: Factor) -> np.ndarray:
        columns = self.points.columns
        extents = dict(zip(self.indices, self.stats.shape, strict=True))
        return np.asarray(self.points.at([nodes.column(*c) for c in columns], radices(columns, extents)) != 0)
