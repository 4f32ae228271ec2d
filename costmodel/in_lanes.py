"""Statistics of a tensor of which every lane has a part, told apart by the coordinates of untiled modes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property, partial

import numpy as np

from costmodel.counting import Lanes
from costmodel.factors import Floats, Ints
from costmodel.statistics import Statistics, TensorStatistics
from costmodel.views import Extra, View, distinct_points, grouped
from mapper.tensor import SparseTensor


class InLanes(TensorStatistics):
    """Counts of a tensor with the number of its lane as one more, last mode of every entry, from those of the tensor
    itself (``whole``): ``lanes`` by the modes whose coordinates tell them."""

    def __init__(self, whole: TensorStatistics, lanes: Mapping[int, Lanes], key: str, store: Statistics) -> None:
        super().__init__(whole.tensor, key, store)
        self._whole, self._lanes = whole, lanes
        self.shape = (*whole.shape, math.prod(own.count for own in lanes.values()))

    @property
    def held_bytes(self) -> int:
        """Memory that it holds beside that of the whole."""
        return 1000

    @cached_property
    def tensor(self) -> SparseTensor:
        """The tensor with the mode of lanes."""
        whole = self._whole.tensor
        number = self._number(tuple((m, 1) for m in range(whole.ndim)), tuple(whole.coords))
        return SparseTensor(self.shape, np.concatenate([whole.coords, number[None]]), whole.values)

    def _nodes(self, view: View) -> tuple[Ints, ...]:
        if not self._has_lane(view):
            return self._whole.nodes(view)
        fine = self._telling(view[:-1])
        points = self._whole.nodes(fine)
        if fine == view[:-1]:
            return *points, self._number(fine, points)
        return distinct_points(fine, points, view[:-1], self._whole.shape, self._extra(fine))

    def _count(self, view: View) -> int:
        return self.nodes(view)[0].size

    def _marginal(self, view: View, keep: View) -> tuple[tuple[Ints, ...], Floats]:
        if not self._has_lane(keep) or view[:-1] != self._telling(view[:-1]):
            return super()._marginal(view, keep)
        fine = self._telling(keep[:-1])
        points, counted = self._whole.marginal(view[:-1], fine)
        return grouped(fine, points, keep[:-1], self._whole.shape, counted, self._extra(fine))

    def _has_lane(self, view: View) -> bool:
        return bool(view) and view[-1][0] == len(self.shape) - 1

    def _telling(self, view: View) -> View:
        """A view of the whole tensor whose nodes tell their lanes."""
        return tuple(sorted({**dict(view), **dict.fromkeys(self._lanes, 1)}.items()))

    def _extra(self, view: View) -> Extra:
        return partial(self._number, view), self.shape[-1]

    def _number(self, view: View, points: Sequence[Ints]) -> Ints:
        at = dict(zip((m for m, _ in view), points, strict=True))
        number = np.zeros(points[0].size, np.int64)
        for mode, own in self._lanes.items():
            number = number * own.count + own.of(at[mode])
        return number
