"""Tile statistics of a tensor: how many nodes its levels have at any resolution, counted once and remembered.

The nodes of a view (``costmodel.views``) are the distinct points that stored entries have there: the nodes of a
storage level with all levels above it (notation of Tailors, DRT and Sparseloop: occupancy).
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache, cached_property
from typing import Any, TypeVar

import numpy as np

from costmodel.disk_cache import DiskCache, cache_folder
from costmodel.factors import Floats, Ints
from costmodel.views import View, coarsens, distinct_points, grouped
from mapper.canonical import content_hash
from mapper.tensor import SparseTensor

KEPT_ENTRIES = 50_000
"""Entries from which on a tensor's node lists are kept on disk: those of smaller ones are counted as fast as read."""

STONES = (16, 8, 4)
"""Granules of the views between the entries of a large tensor and its tiles."""

SMALL_BYTES = 20_000
"""Size of values that large ones do not push out."""

T = TypeVar("T")

MODEL_LEVELS = ("L0", "L1", "L2")
"""L0: shape and number of entries; L1: one number per tile shape; L2: marginal vectors, exact for inputs."""


class Statistics:
    """Everything counted so far, by content hash of the tensor; the least recently used goes at ``limit_bytes``, of
    which values below ``SMALL_BYTES`` (numbers, estimates of regions) have a quarter for themselves.

    With a ``disk`` the node lists of large tensors are also kept there, for other processes and later runs.
    """

    def __init__(self, disk: DiskCache | None = None, limit_bytes: int = 256 << 20) -> None:
        self.disk = disk
        self._small, self._large = _Memo(limit_bytes // 4), _Memo(limit_bytes - limit_bytes // 4)

    @property
    def held_bytes(self) -> int:
        """Memory that is in use, about."""
        return self._small.held + self._large.held

    def of(self, tensor: SparseTensor) -> TensorStatistics:
        """Statistics of ``tensor``, one object for equal content."""
        return self.named(tensor.key, lambda: tensor)

    def named(self, key: str, make: Callable[[], SparseTensor]) -> TensorStatistics:
        """Statistics of the tensor that ``key`` identifies and ``make`` gives."""
        return self.remember(("tensor", key), lambda: TensorStatistics(make(), key, self))

    def holds(self, key: Hashable) -> bool:
        """Whether the value for ``key`` is remembered."""
        return key in self._small or key in self._large

    def keeps(self, size: int) -> bool:
        """Whether a value of ``size`` bytes would be remembered."""
        return size <= self._large.most

    def remember(self, key: Hashable, make: Callable[[], T]) -> T:
        """``make()``, or what it gave the last time for ``key``."""
        for memo in (self._small, self._large):
            if key in memo:
                held: T = memo.get(key)
                return held
        value = make()
        size = _bytes(value)
        (self._small if size < SMALL_BYTES else self._large).put(key, value, size)
        return value


class _Memo:
    """Values by key; the least recently used go at ``limit`` bytes, and none of more than a tenth is kept."""

    def __init__(self, limit: int) -> None:
        self._limit, self.most, self.held = limit, limit // 10, 0
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def get(self, key: Hashable) -> Any:
        self._values.move_to_end(key)
        return self._values[key][0]

    def put(self, key: Hashable, value: Any, size: int) -> None:
        if size > self.most:
            return
        self._values[key] = (value, size)
        self.held += size
        while self.held > self._limit:
            self.held -= self._values.popitem(last=False)[1][1]


@cache
def shared_statistics() -> Statistics:
    """The statistics of this process, kept on disk too (``costmodel.disk_cache`` says where)."""
    folder = cache_folder()
    return Statistics(None if folder is None else DiskCache(folder))


@dataclass(slots=True)
class _Known:
    """Of one tensor: ``views`` whose nodes were listed, and how many nodes they have; ``counts`` of nodes; views by
    which the nodes of others were counted (``marginals``), and how many points that gave."""

    views: dict[View, int] = field(default_factory=dict)
    counts: dict[View, int] = field(default_factory=dict)
    marginals: dict[View, dict[View, int]] = field(default_factory=dict)


class TensorStatistics:
    """Counts of one tensor. Points come as one int64 array per column, in coordinate order."""

    def __init__(self, tensor: SparseTensor, key: str, store: Statistics) -> None:
        self._tensor, self.key, self.shape, self.nnz = tensor, key, tensor.shape, tensor.nnz
        self._store, self._known = store, store.remember((key, "known"), _Known)

    @property
    def tensor(self) -> SparseTensor:
        """The tensor itself."""
        return self._tensor

    @cached_property
    def effectual(self) -> TensorStatistics:
        """Statistics of the entries that are not zero."""
        alive = self.tensor.values != 0
        if alive.all():
            return self
        kept = SparseTensor(self.shape, self.tensor.coords[:, alive], self.tensor.values[alive])
        return self._store.named(f"{self.key} without zeros", lambda: kept)

    @property
    def held_bytes(self) -> int:
        """Memory that it holds, about."""
        return 1000 + int(self._tensor.coords.nbytes + self._tensor.values.nbytes)

    def cells(self, view: View) -> int:
        """Positions that a view has."""
        return math.prod(-(-self.shape[m] // g) for m, g in view)

    def nodes(self, view: View) -> tuple[Ints, ...]:
        """Distinct points of the stored entries in ``view``. O(nnz log nnz) once, then remembered."""
        if view == self._entries:
            return tuple(self.tensor.coords)
        found = self._store.remember((self.key, view), lambda: self._nodes(view))
        if view:
            self._known.views[view] = self._known.counts[view] = found[0].size
        return found

    def count(self, view: View) -> int:
        """Number of nodes."""
        if not view:
            return int(self.nnz > 0)
        if view == self._entries:
            return self.nnz
        if view not in self._known.counts:
            self._known.counts[view] = self.nodes(view)[0].size
        return self._known.counts[view]

    def density(self, view: View) -> float:
        """Share of a view's positions that are nodes."""
        cells = self.cells(view)
        return self.count(view) / cells if cells else 0.0

    def marginal(self, view: View, keep: View) -> tuple[tuple[Ints, ...], Floats]:
        """Nodes of ``view`` counted per point of ``keep``: a subset of its modes at the same or coarser granules."""
        if view == keep:
            return self.nodes(view), np.ones(self.count(view))
        found = self._store.remember((self.key, view, keep), lambda: self._marginal(view, keep))
        if keep:
            self._known.marginals.setdefault(view, {})[keep] = self._known.counts[keep] = found[1].size
        return found

    def _marginal(self, view: View, keep: View) -> tuple[tuple[Ints, ...], Floats]:
        if not keep:
            return (), np.array([float(self.count(view))])
        stone = self._stone(keep) if view == self._entries else keep
        base = self._finer(keep, stone, self._known.marginals.setdefault(view, {}), (view,)) or view
        points, counted = (self.nodes(view), None) if base == view else self.marginal(view, base)
        return grouped(base, points, keep, self.shape, counted)

    def _nodes(self, view: View) -> tuple[Ints, ...]:
        if not view:
            return ()
        if self._store.holds((self.key, self._entries, view)):
            return self.marginal(self._entries, view)[0]
        disk = self._store.disk if self.nnz >= KEPT_ENTRIES else None
        name = f"{content_hash(self.key)[:32]}/{content_hash(view)[:32]}" if disk else ""
        if disk and (kept := disk.load(name, len(view))) is not None:
            return tuple(kept)
        base = self._finer(view, self._stone(view), self._known.views, ()) or self._entries
        found = distinct_points(base, self.nodes(base), view, self.shape)
        if disk:
            disk.save(name, np.array(found))
        return found

    @property
    def _entries(self) -> View:
        """The view of all entries."""
        return tuple((m, 1) for m in range(len(self.shape)))

    def _stone(self, view: View) -> View:
        """A finer view that many share, whose nodes are fewer than the entries; ``view`` itself of small tensors, and
        where a mode is too fine for nodes to be much fewer."""
        if self.nnz < KEPT_ENTRIES or any(granule % STONES[-1] for _, granule in view):
            return view
        return tuple((m, next(g for g in (*STONES, granule) if granule % g == 0)) for m, granule in view)

    def _finer(self, view: View, stone: View, known: dict[View, int], prefix: tuple[View, ...]) -> View | None:
        """Of the ``known`` views that ``view`` is a coarsening of, the one with the fewest points, if there is any; of
        large tensors at least a stepping stone. Drops those that are no longer held under their keys, which begin with
        ``prefix``."""
        size, best, least = 8 * (len(stone) + len(prefix)) * self._known.counts.get(stone, 0), None, math.inf
        if stone != view and self._store.keeps(size):
            if stone not in known:
                return stone
            best, least = stone, known[stone]
        for other, count in list(known.items()):
            if count < least and other != view and coarsens(view, other):
                if self._store.holds((self.key, *prefix, other)):
                    best, least = other, count
                else:
                    del known[other]
        return best


def _bytes(value: Any) -> int:
    """Memory that a remembered value holds, about."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes) + 100
    if isinstance(value, tuple):
        return 100 + sum(map(_bytes, value))
    if isinstance(value, TensorStatistics):
        return value.held_bytes
    if is_dataclass(value):
        return 100 + sum(_bytes(getattr(value, f.name)) for f in fields(value))
    return 200
