"""The dataflow graph that lowering makes and ``hwsim`` runs: contexts joined by channels.

Plain data, no behaviour. ``CONTEXT_KINDS`` is the contract between lowering and simulator: the ports of
every kind in their order. A port written ``name*`` repeats; ``docs/simulator.md`` gives each kind's timing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

UNCONNECTED = -1
"""Channel number of an output port that nobody reads: tokens pushed there cost nothing."""

CONTEXT_KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "root": ((), ("ref",)),
    "scan": (("ref",), ("crd", "ref")),
    "repeat_signal": (("in",), ("signal",)),
    "repeat": (("ref", "signal"), ("ref",)),
    "fork": (("in",), ("out*",)),
    "intersect": (("crd*", "ref*"), ("crd", "ref*")),
    "union": (("crd*", "ref*"), ("crd", "ref*")),
    "array": (("ref",), ("val",)),
    "alu": (("a", "b"), ("val",)),
    "map": (("val",), ("val",)),
    "reduce": (("val", "outer?"), ("val",)),
    "accumulate": (("outer", "crd*", "val"), ("crd*", "val")),
    "drop_empty": (("crd", "val"), ("crd", "val")),
    "number": (("crd",), ("ref",)),
    "stream_scan": (("ref", "crd", "payload?", "parent"), ("crd", "ref")),
    "tile_load": (("ref",), ("ref",)),
    "store": (("crd*", "val"), ()),
    "convert": ((), ()),
    "crd_write": (("crd",), ()),
    "value_write": (("val",), ()),
    "source": ((), ("out",)),
    "sink": (("in",), ()),
    "locate": (("crd", "ref"), ("ref",)),
    "mask": (("crd", "val", "mask"), ("crd", "val")),
    "hold": (("outer", "in"), ("out",)),
    "drop_fiber": (("outer", "crd"), ("outer", "crd")),
    "scatter": (("in",), ("out*",)),
    "gather": (("in*",), ("out",)),
    "combine": (("val*",), ("val",)),
    "block_alu": (("a", "b"), ("ref",)),
    "python": (("in*",), ("out*",)),
}


@dataclass(frozen=True, slots=True)
class Channel:
    """A FIFO between two ports; ``capacity`` in tokens (``None``: unbounded), latencies in cycles (>= 1)."""

    name: str
    capacity: int | None
    latency: int = 1
    response_latency: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """One unit: its kind, the channels at its ports in contract order, its parameters and data arrays."""

    name: str
    kind: str
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dram:
    """Off-chip memory: ``channels``, each moving ``bytes_per_cycle``; ``docs/simulator.md`` gives its timing.

    ``interleave_bytes``: bytes that follow one another in a channel before the next channel's turn (None: a burst).
    ``startup_cycles``: from the start of a run until a channel takes its first burst. ``row_bytes``: of a channel's row
    buffer (None: none modelled), with the cycles that a burst takes beyond its transfer if its row is open
    (``row_hit_cycles``) and if it is not. ``outstanding``: bursts in flight per context (None: any number).
    """

    channels: int
    bytes_per_cycle: float
    burst_bytes: int
    latency_cycles: int
    interleave_bytes: int | None = None
    startup_cycles: int = 0
    row_bytes: int | None = None
    row_hit_cycles: int = 0
    row_miss_cycles: int = 0
    outstanding: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Contexts and channels of one fused region. ``tensors`` names the traffic accounts that the
    ``tensor`` parameter of memory contexts counts into; without ``dram`` memory takes no time."""

    contexts: tuple[Context, ...]
    channels: tuple[Channel, ...]
    tensors: tuple[str, ...] = ()
    dram: Dram | None = None
