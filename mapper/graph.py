"""The dataflow graph that lowering makes and ``hwsim`` runs: contexts joined by channels.

Plain data, no behaviour. ``CONTEXT_KINDS`` is the contract between lowering and simulator: the ports of
every kind in their order and what their streams carry; ``docs/simulator.md`` gives each kind's timing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

UNCONNECTED = -1
"""Channel number of an output port that nobody reads: tokens pushed there cost nothing."""

STREAM_TYPES = ("crd", "ref", "val", "signal", "any")
"""What a stream carries: coordinates, references, values, the signal of a ``repeat``; ``any`` fits all of them."""

CONTEXT_KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "root": ((), ("ref",)),
    "scan": (("ref",), ("crd", "ref")),
    "repeat_signal": (("in:any",), ("signal",)),
    "repeat": (("ref:t", "signal"), ("ref:t",)),
    "fork": (("in:t",), ("out*:t",)),
    "intersect": (("crd*", "ref*:t*"), ("crd", "ref*:t*")),
    "union": (("crd*", "ref*:t*"), ("crd", "ref*:t*")),
    "array": (("ref",), ("val",)),
    "alu": (("a:val", "b:val"), ("val",)),
    "map": (("val",), ("val",)),
    "reduce": (("val", "outer?:crd"), ("val",)),
    "accumulate": (("outer:crd", "crd*", "val"), ("crd*", "val")),
    "drop_empty": (("crd", "val:t"), ("crd", "val:t")),
    "number": (("crd",), ("ref",)),
    "stream_scan": (("ref", "crd", "payload?:t", "parent:crd"), ("crd", "ref:t")),
    "tile_load": (("ref",), ("ref",)),
    "store": (("crd*", "val"), ()),
    "convert": ((), ()),
    "crd_write": (("crd",), ()),
    "value_write": (("val",), ()),
    "source": ((), ("out:any",)),
    "sink": (("in:any",), ()),
    "locate": (("crd", "ref"), ("ref",)),
    "mask": (("crd", "val:t", "mask:val"), ("crd", "val:t")),
    "hold": (("outer:t", "in:any"), ("out:t",)),
    "drop_fiber": (("outer:t", "crd"), ("outer:t", "crd")),
    "scatter": (("in:t",), ("out*:t",)),
    "gather": (("in*:t",), ("out:t",)),
    "combine": (("val*",), ("val",)),
    "block_alu": (("a:ref", "b:ref"), ("ref",)),
    "block_mac": (("a:ref", "b:ref", "outer?:crd"), ("ref",)),
    "block_accumulate": (("outer:crd", "crd*", "a:ref", "b?:ref"), ("crd*", "ref")),
    "block_store": (("crd*", "ref"), ()),
    "python": (("in*:any",), ("out*:any",)),
}
"""Inputs and outputs of every kind, each written ``name``, ``name*`` (repeats) or ``name?`` (may be left open), and
``:type`` where the type is not the name. A type outside ``STREAM_TYPES`` is a variable: all ports of the context that
have it carry the same; with ``t*`` the k-th of one port matches the k-th of another. A variable that no connected
input binds is the name of its port."""


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
