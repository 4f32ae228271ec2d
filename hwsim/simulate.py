"""Runs a dataflow graph on the token engine: checks the records, calls the compiled core, reads its results."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import _hwsim_core as plain_core
import numpy as np

from mapper.errors import GraphError, InputError
from mapper.graph import UNCONNECTED, Context, Dram, Graph

from .deadlock import Blocked, Deadlock
from .parameters import check_parameters
from .ports import ports_of, value_channels
from .python_context import Driver
from .result import ChannelProfile, ContextProfile, Profile, Timeline, TrafficRow

_NO_LIMIT = 2**63 - 1


SIMULATOR_VERSION = 7
"""Raised whenever a profile may change; rows of a study carry it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a simulation stops and gives back what it has (``None``: nowhere). Studies use ``max_cycles`` and
    ``max_tokens`` only, because those two stop at the same place on every machine."""

    max_cycles: int | None = None
    max_tokens: int | None = None
    max_host_bytes: int | None = None
    wall_seconds: float | None = None


def simulate(
    graph: Graph,
    limits: Limits = Limits(),
    *,
    shuffle_seed: int | None = None,
    check_finite: bool = False,
    max_slices: int = 0,
) -> Profile:
    """Simulates ``graph`` cycle by cycle.

    ``shuffle_seed`` runs the contexts on the host in a shuffled order, which must not change any result: a test of
    the engine itself. ``check_finite`` refuses NaN and infinities in streams of values; else they are data like any
    other. ``max_slices`` above 0 keeps that many slices of what contexts did when, and as many samples of memory
    traffic, in ``Profile.timeline``. The check costs about a third of the speed, slices more than half; off, they
    cost nothing. A deadlock or a reached limit is a result (``Profile.status``).

    Raises ``GraphError`` if the graph is malformed (kinds, ports, parameters, dangling or doubly used channels,
    streams of another type than their reader takes) or if its streams do not fit each other; the message names
    context, port, cycle and tokens. Raises ``InputError`` for a negative ``max_slices``.
    """
    if max_slices < 0:
        raise InputError(f"max_slices must be 0 (no timeline) or more, got {max_slices}")
    for context in graph.contexts:
        check_parameters(context, len(graph.tensors))
    _check_wiring(graph)
    values = value_channels(graph)
    core: Any = plain_core
    if check_finite or max_slices:
        import _hwsim_core_watched as core
    try:
        raw = core.run(
            [(c.name, c.kind, c.inputs, c.outputs, _parameters(c), dict(c.arrays)) for c in graph.contexts],
            [(-1 if c.capacity is None else c.capacity, c.latency, c.response_latency) for c in graph.channels],
            len(graph.tensors),
            _dram_shape(graph.dram) if graph.dram else None,
            (
                _or_no_limit(limits.max_cycles),
                _or_no_limit(limits.max_tokens),
                _or_no_limit(limits.max_host_bytes),
                float("inf") if limits.wall_seconds is None else limits.wall_seconds,
            ),
            shuffle_seed,
            (max_slices, values if check_finite else []),
        )
    except core.Fault as fault:
        raise GraphError(str(fault)) from None
    if "not_finite" in raw:
        raise GraphError(_not_finite(graph, set(values), *raw["not_finite"]))
    return _profile(graph, raw)


def _check_wiring(graph: Graph) -> None:
    """Every channel has one writer and one reader, and every context the ports of its kind."""
    if graph.dram:
        _check_dram(graph.dram)
    readers: list[tuple[str, str] | None] = [None] * len(graph.channels)  # context and port
    writers = readers.copy()
    for context in graph.contexts:
        for inputs, given, users in ((True, context.inputs, readers), (False, context.outputs, writers)):
            side = "input" if inputs else "output"
            for port, channel in zip(ports_of(context, inputs), given, strict=True):
                if channel == UNCONNECTED and (not inputs or port.optional or _looked_up(context, port.name)):
                    continue
                if not 0 <= channel < len(graph.channels):
                    raise GraphError(
                        f"context {context.name!r} ({context.kind}): {side} port {port.name} must be a channel number "
                        f"below {len(graph.channels)}, got {channel}."
                    )
                if (other := users[channel]) is not None:
                    raise GraphError(
                        f"channel {graph.channels[channel].name!r} must have one {'reader' if inputs else 'writer'}, "
                        f"got {_end(other)} and {_end((context.name, port.name))}; fork the stream."
                    )
                users[channel] = context.name, port.name
    for c, writer, reader in zip(graph.channels, writers, readers, strict=True):
        if writer is None or reader is None:
            missing = "writer" if writer is None else "reader"
            where = f"channel {c.name!r} from {_end(writer)} to {_end(reader)}"
            raise GraphError(f"{where} must have one {missing}, got none; connect it or leave the port open.")
        if (c.capacity is not None and c.capacity < 1) or c.latency < 1 or c.response_latency < 1:
            where = f"channel {c.name!r} from {_end(writer)} to {_end(reader)}"
            raise GraphError(f"{where}: capacity and latencies must be at least 1, got {c}.")


def _end(end: tuple[str, str] | None) -> str:
    return f"port {end[1]} of {end[0]!r}" if end else "nowhere"


def _check_dram(dram: Dram) -> None:
    for field in ("channels", "burst_bytes", "interleave_bytes", "row_bytes", "outstanding"):
        if (value := getattr(dram, field)) is not None and value < 1:
            raise GraphError(f"memory: {field} must be at least 1, got {dram}.")
    for field in ("latency_cycles", "startup_cycles", "row_hit_cycles", "row_miss_cycles"):
        if getattr(dram, field) < 0:
            raise GraphError(f"memory: {field} must be at least 0, got {dram}.")
    if not dram.bytes_per_cycle > 0:
        raise GraphError(f"memory: bytes_per_cycle must be above 0, got {dram}.")
    for field in ("interleave_bytes", "row_bytes"):
        if (value := getattr(dram, field)) is not None and value % dram.burst_bytes:
            raise GraphError(f"memory: {field} must be a multiple of burst_bytes, got {dram}.")


def _dram_shape(dram: Dram) -> tuple[int, float, int, int, int, int, int, int, int, int]:
    """The record as the core takes it: 0 for no row buffer and no limit."""
    return (
        dram.channels,
        dram.bytes_per_cycle,
        dram.burst_bytes,
        dram.latency_cycles,
        dram.interleave_bytes or dram.burst_bytes,
        dram.row_bytes or 0,
        dram.startup_cycles,
        dram.row_hit_cycles,
        dram.row_miss_cycles,
        dram.outstanding or 0,
    )


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
        row_misses=raw["row_misses"],
        deadlock=_deadlock(graph, raw["waits"]) if raw["status"] == "deadlock" else None,
        timeline=None if raw["timeline"] is None else Timeline(*raw["timeline"]),
        outputs=outputs,
        sinks=sinks,
    )


def _deadlock(graph: Graph, waits: list[tuple[int, int, bool, int, bool, int, int]]) -> Deadlock:
    """The cycle in a chain of waits; a chain that ends at a finished context is an error of the graph instead."""
    chain = []
    for context, other, other_finished, channel, for_token, fill, time in waits:
        unit, record = graph.contexts[context], graph.channels[channel]
        side = unit.inputs if for_token else unit.outputs
        port = ports_of(unit, for_token)[side.index(channel)].name
        waits_for = graph.contexts[other].name
        blocked = Blocked(unit.name, waits_for, port, for_token, record.name, fill, record.capacity, time)
        if other_finished:
            raise GraphError(f"{blocked}, but {blocked.waits_for} has finished: the streams do not fit each other.")
        chain.append(blocked)
    start = next(i for i, wait in enumerate(chain) if wait.context == chain[-1].waits_for)
    return Deadlock(tuple(chain[start:]))


def _not_finite(
    graph: Graph,
    values: set[int],
    at: int,
    channel: int,
    value: float,
    time: int,
    taken: Sequence[tuple[int, int, int]],
) -> str:
    """What a value that is not finite was made of."""
    unit = graph.contexts[at]
    port = ports_of(unit, False)[unit.outputs.index(channel)].name
    text = f"context {unit.name!r} ({unit.kind}) at cycle {time}: output port {port} has Val {value}"
    names = dict(zip(unit.inputs, (port.name for port in ports_of(unit, True)), strict=True))
    heads = [
        f"port {names[c]} {' '.join(map(str, _token(kind, bits, c in values))).capitalize()}" for c, kind, bits in taken
    ]
    made_of = f", its last inputs being {' and '.join(heads)}" if heads else ""
    return f"{text}{made_of}; values must be finite under check_finite: mend the data or leave the check out."


def _token(kind: int, bits: int, as_float: bool) -> tuple[Any, ...]:
    """A token of the core in the notation of ``source``."""
    if kind == 0:
        return ("val", struct.unpack("<d", struct.pack("<q", bits))[0] if as_float else bits)
    return ("stop", bits) if kind == 1 else ("empty",) if kind == 2 else ("done",)


def _tokens(
    context: Context, kinds: np.ndarray[Any, Any], bits: np.ndarray[Any, Any], times: np.ndarray[Any, Any]
) -> tuple[tuple[tuple[Any, ...], int], ...]:
    """Recorded tokens in the notation of ``source``; parameter ``dtype`` says how values are read."""
    as_float = context.params.get("dtype", "int") == "float"
    return tuple(
        (_token(k, x, as_float), t) for k, x, t in zip(kinds.tolist(), bits.tolist(), times.tolist(), strict=True)
    )
