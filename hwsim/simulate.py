"""Runs a dataflow graph on the token engine: checks the records, calls the compiled core, reads its results."""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import _hwsim_core as core
import numpy as np

from mapper.errors import GraphError
from mapper.graph import CONTEXT_KINDS, UNCONNECTED, Context, Graph

from .deadlock import Blocked, Deadlock
from .parameters import check_parameters
from .python_context import Driver
from .result import ChannelProfile, ContextProfile, Profile, TrafficRow

_NO_LIMIT = 2**63 - 1


SIMULATOR_VERSION = 3
"""Raised whenever a profile may change; rows of a study carry it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a simulation stops and gives back what it has (``None``: nowhere). Studies use ``max_cycles`` and
    ``max_tokens`` only, because those two stop at the same place on every machine."""

    max_cycles: int | None = None
    max_tokens: int | None = None
    max_host_bytes: int | None = None
    wall_seconds: float | None = None


def simulate(graph: Graph, limits: Limits = Limits(), *, shuffle_seed: int | None = None) -> Profile:
    """Simulates ``graph`` cycle by cycle.

    ``shuffle_seed`` runs the contexts on the host in a shuffled order, which must not change any result: a test of
    the engine itself. A deadlock or a reached limit is a result (``Profile.status``).

    Raises ``GraphError`` if the graph is malformed (kinds, ports, parameters, dangling or doubly used channels) or
    if its streams do not fit each other; the message names context, port, cycle and tokens.
    """
    for context in graph.contexts:
        check_parameters(context, len(graph.tensors))
    _check_wiring(graph)
    dram = graph.dram
    try:
        raw = core.run(
            [(c.name, c.kind, c.inputs, c.outputs, _parameters(c), dict(c.arrays)) for c in graph.contexts],
            [(-1 if c.capacity is None else c.capacity, c.latency, c.response_latency) for c in graph.channels],
            len(graph.tensors),
            (dram.channels, dram.bytes_per_cycle, dram.burst_bytes, dram.latency_cycles) if dram else None,
            (
                _or_no_limit(limits.max_cycles),
                _or_no_limit(limits.max_tokens),
                _or_no_limit(limits.max_host_bytes),
                float("inf") if limits.wall_seconds is None else limits.wall_seconds,
            ),
            shuffle_seed,
        )
    except core.Fault as fault:
        raise GraphError(str(fault)) from None
    return _profile(graph, raw)


@functools.cache
def port_names(ports: tuple[str, ...], count: int) -> tuple[str, ...] | None:
    """Names of ``count`` ports of a kind: ``crd*`` becomes ``crd_1``, ``crd_2``, ...; ``None`` if that many do not
    fit. Trailing optional ports (``name?``) may be missing."""
    starred = sum(p.endswith("*") for p in ports)
    repeats, rest = divmod(count - len(ports) + starred, starred) if starred else (0, 0)
    names: list[str] = []
    for port in ports:
        names += [f"{port[:-1]}_{i + 1}" for i in range(repeats)] if port.endswith("*") else [port.rstrip("?")]
    required = len(names) - (0 if starred or not ports else ports[-1].endswith("?"))
    return tuple(names[:count]) if rest == 0 and repeats >= 0 and required <= count <= len(names) else None


def _check_wiring(graph: Graph) -> None:
    """Every channel has one writer and one reader, and every context the ports of its kind."""
    for c in graph.channels:
        if (c.capacity is not None and c.capacity < 1) or c.latency < 1 or c.response_latency < 1:
            raise GraphError(f"channel {c.name!r}: capacity and latencies must be at least 1, got {c}.")
    if dram := graph.dram:
        for field, least in (("channels", 1), ("burst_bytes", 1), ("latency_cycles", 0)):
            if getattr(dram, field) < least:
                raise GraphError(f"memory: {field} must be at least {least}, got {dram}.")
        if not dram.bytes_per_cycle > 0:
            raise GraphError(f"memory: bytes_per_cycle must be above 0, got {dram}.")
    ends: tuple[list[str | None], list[str | None]] = ([None] * len(graph.channels), [None] * len(graph.channels))
    for context in graph.contexts:
        kind_ports = CONTEXT_KINDS[context.kind]
        for reads, given in ((1, context.inputs), (0, context.outputs)):
            ports, users, side = kind_ports[0 if reads else 1], ends[reads], "input" if reads else "output"
            names = port_names(ports, len(given))
            if names is None:
                raise GraphError(
                    f"context {context.name!r} ({context.kind}) must have {side} ports {', '.join(ports) or 'none'}, "
                    f"got {len(given)} channels."
                )
            for name, channel in zip(names, given, strict=True):
                if channel == UNCONNECTED and (not reads or name + "?" in ports or _looked_up(context, name)):
                    continue
                if not 0 <= channel < len(graph.channels):
                    raise GraphError(
                        f"context {context.name!r} ({context.kind}): {side} port {name} must be a channel number "
                        f"below {len(graph.channels)}, got {channel}."
                    )
                if users[channel] is not None:
                    raise GraphError(
                        f"channel {graph.channels[channel].name!r} must have one {'reader' if reads else 'writer'}, "
                        f"got {users[channel]!r} and {context.name!r}; fork the stream."
                    )
                users[channel] = context.name
    for users, missing in ((ends[0], "writer"), (ends[1], "reader")):
        if None in users:
            dangling = graph.channels[users.index(None)].name
            raise GraphError(f"channel {dangling!r} must have one {missing}, got none.")


def _looked_up(context: Context, port: str) -> bool:
    """Whether the port is a follower's coordinates, which its arrays hold."""
    return context.params.get("strategy") == "leader_follower" and port.startswith("crd_") and port != "crd_1"


def _parameters(context: Context) -> dict[str, Any]:
    """Parameters as the core takes them: a fresh run of the generator for a ``python`` context."""
    return {"driver": Driver(context)} if context.kind == "python" else dict(context.params)


def _or_no_limit(limit: int | None) -> int:
    return _NO_LIMIT if limit is None else limit


def _profile(graph: Graph, raw: Mapping[str, Any]) -> Profile:
    totals = np.array([unit[6] for unit in raw["units"]], dtype=np.int64).reshape(-1, 6).sum(axis=0)
    multiplies, additions, comparisons, spilled, hits, misses = (int(total) for total in totals)
    outputs, sinks = {}, {}
    for context in graph.contexts:
        if context.kind == "sink":
            sinks[context.name] = _tokens(context, *raw["outputs"][context.name])
        elif context.name in raw["outputs"]:
            outputs[context.name] = raw["outputs"][context.name]
    return Profile(
        status=raw["status"],
        cycles=raw["cycles"],
        tokens=raw["tokens"],
        contexts=tuple(
            ContextProfile(c.name, c.kind, *u[:6], *u[6][4:]) for c, u in zip(graph.contexts, raw["units"], strict=True)
        ),
        channels=tuple(
            ChannelProfile(c.name, tokens, fill if c.capacity is not None else None)
            for c, (tokens, fill) in zip(graph.channels, raw["channels"], strict=True)
        ),
        traffic=tuple(
            TrafficRow(tensor, direction, *row[at : at + 3])
            for tensor, row in zip(graph.tensors, raw["traffic"], strict=True)
            for direction, at in (("read", 0), ("write", 3))
            if row[at + 2]
        ),
        burst_bytes=raw["burst_bytes"],
        effectual_multiplies=multiplies,
        additions=additions,
        comparisons=comparisons,
        spilled_entries=spilled,
        tile_hits=hits,
        tile_misses=misses,
        deadlock=_deadlock(graph, raw["waits"]) if raw["status"] == "deadlock" else None,
        outputs=outputs,
        sinks=sinks,
    )


def _deadlock(graph: Graph, waits: list[tuple[int, int, bool, int, bool, int, int]]) -> Deadlock:
    """The cycle in a chain of waits; a chain that ends at a finished context is an error of the graph instead."""
    chain = []
    for context, other, other_finished, channel, for_token, fill, time in waits:
        unit, record = graph.contexts[context], graph.channels[channel]
        side = unit.inputs if for_token else unit.outputs
        names = port_names(CONTEXT_KINDS[unit.kind][0 if for_token else 1], len(side))
        assert names is not None  # checked before the run
        port = names[side.index(channel)]
        waits_for = graph.contexts[other].name
        blocked = Blocked(unit.name, waits_for, port, for_token, record.name, fill, record.capacity, time)
        if other_finished:
            raise GraphError(f"{blocked}, but {blocked.waits_for} has finished: the streams do not fit each other.")
        chain.append(blocked)
    start = next(i for i, wait in enumerate(chain) if wait.context == chain[-1].waits_for)
    return Deadlock(tuple(chain[start:]))


def _tokens(
    context: Context, kinds: np.ndarray[Any, Any], bits: np.ndarray[Any, Any], times: np.ndarray[Any, Any]
) -> tuple[tuple[tuple[Any, ...], int], ...]:
    """Recorded tokens in the notation of ``source``; parameter ``dtype`` says how values are read."""
    as_float = context.params.get("dtype", "int") == "float"

    def token(kind: int, x: int) -> tuple[Any, ...]:
        if kind == 0:
            return ("val", struct.unpack("<d", struct.pack("<q", x))[0] if as_float else x)
        return ("stop", x) if kind == 1 else ("empty",) if kind == 2 else ("done",)

    return tuple((token(k, x), t) for k, x, t in zip(kinds.tolist(), bits.tolist(), times.tolist(), strict=True))
