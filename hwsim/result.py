"""What a simulation tells: cycles, where they went, traffic, operations, outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.canonical import plain
from mapper.errors import InputError
from mapper.graph import Graph

from .deadlock import Deadlock


@dataclass(frozen=True, slots=True)
class ContextProfile:
    """Where the cycles of one context went: ``busy + starved + blocked + memory + finished`` is the elapsed time.

    ``starved`` waited for an input, ``blocked`` for a free slot in an output, ``memory`` for off-chip data;
    ``finished`` passed after its end. ``firings`` counts turns. ``hits`` and ``misses`` count tiles (tile_load only).
    """

    name: str
    kind: str
    busy: int
    starved: int
    blocked: int
    memory: int
    finished: int
    firings: int
    hits: int = 0
    misses: int = 0


@dataclass(frozen=True, slots=True)
class ChannelProfile:
    """Tokens that passed a channel, and the most it held at once in simulated time (``None``: unbounded channel)."""

    name: str
    tokens: int
    max_fill: int | None


@dataclass(frozen=True, slots=True)
class TrafficRow:
    """Payload bytes of one tensor in one direction (``"read"`` or ``"write"``) and the requests that moved them."""

    tensor: str
    direction: str
    values_bytes: int
    metadata_bytes: int
    requests: int


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """What contexts did when. Row n of the columns is a slice of context number ``context[n]``: it begins at
    ``begin[n]`` and lasts ``cycles[n].sum()`` cycles, spent busy, starved, blocked and on memory as ``cycles[n]``
    (int64[slices, 4]) says; slices of one context follow each other without a gap.

    With ``grain_cycles`` 1 a slice has one state, and nothing was merged. Else slices that began in the same
    ``grain_cycles`` cycles are one. ``dram_bytes[k]`` moved from cycle ``k * sample_cycles`` on.
    """

    grain_cycles: int
    context: NDArray[np.int64]
    begin: NDArray[np.int64]
    cycles: NDArray[np.int64]
    sample_cycles: int
    dram_bytes: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Profile:
    """Result of :func:`hwsim.simulate`.

    ``status`` is ``"done"``, ``"deadlock"`` or ``"limit:<which>"``; in the last two cases the figures are those at
    the end of what could be simulated. ``burst_bytes`` is what the memory moved in whole bursts, ``traffic`` the
    bytes asked for; ``row_misses`` counts the bursts whose row was not open (0 without row buffers). ``outputs`` maps
    store, crd_write and value_write contexts to (coordinates int64[levels, n], values float64[n]) in stream order;
    ``sinks`` maps sink contexts to ((kind, value), time) per token. ``timeline`` is there if it was asked for.
    """

    status: str
    cycles: int
    tokens: int
    contexts: tuple[ContextProfile, ...]
    channels: tuple[ChannelProfile, ...]
    traffic: tuple[TrafficRow, ...]
    burst_bytes: int
    effectual_multiplies: int
    additions: int
    comparisons: int
    spilled_entries: int
    tile_hits: int
    tile_misses: int
    row_misses: int = 0
    deadlock: Deadlock | None = None
    outputs: Mapping[str, tuple[NDArray[np.int64], NDArray[np.float64]]] = field(default_factory=dict, compare=False)
    sinks: Mapping[str, tuple[tuple[tuple[Any, ...], int], ...]] = field(default_factory=dict, compare=False)
    timeline: Timeline | None = field(default=None, compare=False)

    @property
    def traffic_bytes(self) -> int:
        """Payload bytes over all tensors and both directions."""
        return sum(row.values_bytes + row.metadata_bytes for row in self.traffic)

    def require_run_of(self, graph: Graph) -> None:
        """Raises ``InputError`` unless this can be a run of ``graph``: contexts and channels have the same names."""
        for what, ran, given in (
            ("context", self.contexts, graph.contexts),
            ("channel", self.channels, graph.channels),
        ):
            if [row.name for row in ran] != [record.name for record in given]:
                raise InputError(
                    f"the profile must be a run of this graph, but they differ in their {what}s "
                    f"({len(ran)} and {len(given)}); simulate the graph again"
                )

    def to_json(self) -> dict[str, Any]:
        """Every figure as JSON types; outputs, sinks and the timeline, which are data, are left out."""
        return {f.name: plain(getattr(self, f.name)) for f in fields(self) if f.compare}

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from .profile_html import profile_html  # which imports this module

        return profile_html(self)
