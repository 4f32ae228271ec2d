"""Latency of a region: units, drains and memory, which overlap where FIFOs, pieces and lanes allow."""

from __future__ import annotations

import math
from collections.abc import Sequence

from costmodel.nest import Nest
from costmodel.traffic import Transfer
from costmodel.work import Work
from mapper.machine import Machine

FILL_CYCLES_PER_LOOP = 8
"""Contexts that the first token of a loop passes before the next loop sees it, about a cycle each."""

SHARPNESS = 3.0
"""Exponent of the norm that combines compute, bandwidth and waiting for requests: they overlap, but not wholly."""

HANDSHAKE_CYCLES = 2
"""From the use of a loaded tile until the request for the next one: one channel hop forth, one back."""


def region_latency(
    nests: Sequence[Nest], works: Sequence[Work], moved: Sequence[Transfer], machine: Machine
) -> tuple[float, str]:
    """(cycles, what sets them).

    Products are formed, loaded for and spilled in one phase; drained, read back and stored in the next. Within a
    lane the phases follow each other; lanes that drain at different times fill each other's gaps in the memory.
    Of row buffers only the misses of streams count, one per row; those of streams that meet in a channel do not.
    """
    compute, drain, unit = _chain(works)
    late = sum(t.burst_bytes * works[n].drained for n, t in _drain_transfers(nests, moved))
    total, bandwidth, lanes = sum(t.burst_bytes for t in moved), machine.streaming_bytes_per_cycle, nests[0].lanes
    firsts = [_first_load(t, lanes) / bandwidth for t in moved]
    compute += machine.dram_latency_cycles + machine.dram_startup_cycles if total else 0
    ports = [(_port_cycles(t, machine), t.port) for t in moved]
    back = sum(t.burst_bytes for t in moved if (t.traffic.purpose, t.traffic.direction) == ("spill", "read"))
    queued = drain + back / bandwidth * (1 - 1 / lanes)  # a lane's runs come back after those of the others
    together = _norm([_waiting(compute, moved, firsts, machine), (total - late) / bandwidth - sum(firsts)])
    together += max(queued, late / bandwidth)
    apart = _norm([_waiting(compute + drain, moved, firsts, machine), total / bandwidth - sum(firsts)])
    in_step = 1.0 if lanes == 1 else 1.0 / min(w.pieces for w in works)
    fill = FILL_CYCLES_PER_LOOP * sum(len(n.loops) for n in nests)
    limits = [(compute, unit), (drain, "drain"), (total / bandwidth, "memory bandwidth"), *ports]
    return fill + sum(firsts) + apart + in_step * max(0.0, together - apart), max(limits)[1]


def _first_load(transfer: Transfer, lanes: int) -> float:
    """Bytes that every lane loads before it can start: its first tile of an operand."""
    if transfer.traffic.purpose != "load" or not transfer.requests:
        return 0.0
    return transfer.burst_bytes * min(1.0, lanes / transfer.requests)


def _chain(works: Sequence[Work]) -> tuple[float, float, str]:
    """(cycles, final drain, slowest unit) of fused statements: a reader starts with the first piece of its stream. A
    drain lasts as long as its reader takes for what the FIFOs between do not hold (``held``, a share of a piece): until
    then the accumulator takes nothing new. Every statement that only passes the stream on has as many FIFOs again."""
    cycles = drain = held = 0.0
    pieces = math.inf
    for work in works:
        own = work.slowest[0]
        serial, piped = cycles + max(drain, own), max(cycles + max(drain, held * own), own)
        cycles = piped + max(0.0, serial - piped) / pieces
        drain, pieces = float(work.draining.max(initial=0.0)), work.pieces
        held = work.drained or max(0.0, 2.0 * held - 1.0)
    return cycles, drain, max(w.slowest for w in works)[1]


def _drain_transfers(nests: Sequence[Nest], moved: Sequence[Transfer]) -> list[tuple[int, Transfer]]:
    """Transfers that wait for a drain, with the position of their statement."""
    made = {nest.statement.target.tensor: n for n, nest in enumerate(nests)}
    late = {("spill", "read"), ("store", "write")}
    return [(made[t.traffic.tensor], t) for t in moved if (t.traffic.purpose, t.traffic.direction) in late]


def _norm(cycles: Sequence[float]) -> float:
    return float(sum(c**SHARPNESS for c in cycles) ** (1 / SHARPNESS))


def _waiting(compute: float, moved: Sequence[Transfer], firsts: Sequence[float], machine: Machine) -> float:
    """Cycles of computing and of waiting for memory ports, which overlap but for what is computed on tiles kept from
    before: nothing is loaded meanwhile. ``firsts``: cycles of a port's first load, which come before."""
    found = compute
    for transfer, first in zip(moved, firsts, strict=True):
        port, kept = max(0.0, _port_cycles(transfer, machine) - first), transfer.kept * compute
        found = max(found, kept + _norm([compute - kept, port]))
    return found


def _port_cycles(transfer: Transfer, machine: Machine) -> float:
    """Cycles that a memory port waits in the lane where it waits longest: for its requests one after the other, and
    no less than its bursts in flight and, for loads, the ports of its buffer allow."""
    if not transfer.requests:
        return 0.0
    channels, direction = machine.dram_channels or 1, transfer.traffic.direction
    bursts = transfer.burst_bytes / transfer.requests / machine.dram_burst_bytes
    rate = machine.dram_bytes_per_cycle * (machine.streaming_bytes_per_cycle / machine.bytes_per_cycle)
    each = math.ceil(bursts / channels) * machine.dram_burst_bytes / rate
    if direction == "read":
        each += machine.dram_latency_cycles
    turns = float(transfer.turns.max(initial=0.0))
    share = turns / max(turns, float(transfer.turns.sum()))  # of the bytes, that this lane moves
    limits = [turns * (each + HANDSHAKE_CYCLES), share * transfer.burst_bytes / machine.port_bytes_per_cycle(direction)]
    if transfer.traffic.purpose == "load":
        limits.append(share * transfer.traffic.bytes / machine.buffer_fill_bytes_per_cycle)
    return max(limits)
