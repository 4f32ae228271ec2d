"""Mapping: every choice made for one program on one machine, as a frozen value with a content hash."""

from __future__ import annotations

import math
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mapper.canonical import content_hash
from mapper.dtypes import FP32
from mapper.formats import Format

Loop = tuple[str, str]
"""A loop over a split index: (index, "tile") over tile coordinates or (index, "inner") within a tile."""


Lane = tuple[str, int, str]
"""A parallel index: (index, lanes, partition)."""

PARTITIONS = ("balanced", "block", "cyclic")
"""How coordinates are dealt to lanes: contiguous ranges with equal numbers of stored entries, equal ranges, in turn."""


@dataclass(frozen=True, slots=True)
class Loops:
    """How one statement iterates.

    ``order``: its indices, outer to inner. ``tiles``: (index, tile extent) of the tiled ones, outer to inner; tile
    loops stand above all inner loops. ``parallel``: the parallel indices; every combination of their lanes is a copy
    of the hardware.
    """

    order: tuple[str, ...]
    tiles: tuple[tuple[str, int], ...] = ()
    parallel: tuple[Lane, ...] = ()

    @property
    def nest(self) -> tuple[Loop, ...]:
        """All loops, outer to inner."""
        return _nest(tuple([i for i, _ in self.tiles]), self.order)

    @property
    def lanes(self) -> int:
        """Number of parallel copies."""
        return math.prod([lanes for _, lanes, _ in self.parallel])

    def lanes_over(self, indices: tuple[str, ...]) -> int:
        """Number of parallel copies that differ in some of ``indices``."""
        return math.prod([lanes for index, lanes, _ in self.parallel if index in indices])

    def steps(self, index: str, extent: int) -> int:
        """Iterations of the outermost loop over ``index``."""
        return -(-extent // dict(self.tiles).get(index, 1))


@lru_cache(maxsize=65536)
def _nest(tiled: tuple[str, ...], order: tuple[str, ...]) -> tuple[Loop, ...]:
    return (*((i, "tile") for i in tiled), *((i, "inner") for i in order))


@dataclass(frozen=True, slots=True)
class Mapping:
    """All choices for a program.

    ``cuts``: per producer-consumer edge (order of ``Program.edges``), True where the tensor is materialised.
    ``loops``: one per statement. ``formats``: (tensor, level kinds within a tile), sorted by tensor, for every
    tensor that is stored. ``dtypes``: (tensor, type of values), sorted by tensor, for those that are stored but not in
    fp32. ``residency``: what a tile buffer does with tiles it held before: ``none`` fetches at
    every visit, ``lru`` keeps the most recently used that fit, ``keep`` the first that fit, ``overbooked`` as ``lru``
    but of a tile larger than the buffer its head. ``machine``: chosen values of machine knobs.
    ``joins``: whether a product looks coordinates up in dense levels (``locate``) or scans them (``intersect``).
    ``variant``: which rewriting of the program is meant (``rewrites.variants``), empty for the program as written.
    """

    cuts: tuple[bool, ...]
    loops: tuple[Loops, ...]
    formats: tuple[tuple[str, tuple[str, ...]], ...]
    residency: str = "none"
    machine: tuple[tuple[str, int | float | None], ...] = ()
    variant: str = ""
    dtypes: tuple[tuple[str, str], ...] = ()
    joins: str = "intersect"

    @property
    def key(self) -> str:
        """Content hash, the identity of the mapping."""
        return content_hash(self)

    def kinds(self, tensor: str) -> tuple[str, ...]:
        """Level kinds of a stored tensor."""
        return dict(self.formats)[tensor]

    def dtype(self, tensor: str) -> str:
        """Type of the values of a stored tensor."""
        return dict(self.dtypes).get(tensor, FP32)

    def stored_formats(self) -> tuple[tuple[str, Format], ...]:
        """(tensor, format) of every stored tensor."""
        return tuple((tensor, Format(kinds, None, self.dtype(tensor))) for tensor, kinds in self.formats)

    @classmethod
    def from_json(cls, data: MappingABC[str, Any]) -> Mapping:
        """Inverse of ``canonical.plain``."""
        return cls(
            cuts=tuple(bool(c) for c in data["cuts"]),
            loops=tuple(
                Loops(
                    tuple(entry["order"]),
                    tuple((i, int(t)) for i, t in entry["tiles"]),
                    tuple((i, int(lanes), partition) for i, lanes, partition in entry["parallel"]),
                )
                for entry in data["loops"]
            ),
            formats=tuple((t, tuple(kinds)) for t, kinds in data["formats"]),
            residency=data["residency"],
            machine=tuple((name, value) for name, value in data["machine"]),
            variant=data["variant"],
            joins=data["joins"],
            dtypes=tuple((t, dtype) for t, dtype in data.get("dtypes", ())),
        )
