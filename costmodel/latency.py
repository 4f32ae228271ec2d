"""Latency of a region: units, drains and memory, which overlap where FIFOs, pieces and lanes allow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from costmodel.factors import Floats
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
    compute, drain, unit = _chains(nests, works)
    late = sum(t.burst_bytes * works[n].drained for n, t in _drain_transfers(nests, moved))
    total, bandwidth, lanes = sum(t.burst_bytes for t in moved), machine.streaming_bytes_per_cycle, nests[0].lanes
    firsts = [_first_load(t, lanes) / bandwidth for t in moved]
    first = sum(firsts)
    compute += machine.dram_latency_cycles + machine.dram_startup_cycles if total else 0
    ports = [(float(_port_cycles(t, machine).max()), t.port) for t in moved]
    busy = _busy(works, lanes)
    back = sum(t.burst_bytes for t in moved if (t.traffic.purpose, t.traffic.direction) == ("spill", "read"))
    queued = drain + back / bandwidth * (1 - 1 / lanes)  # a lane's runs come back after those of the others
    waiting = _waiting(compute * busy, moved, firsts, machine)
    together = _norm([waiting.max(), (total - late) / bandwidth - first]) + max(queued, late / bandwidth)
    waiting = _waiting((compute + drain) * busy, moved, firsts, machine)
    apart = max(_norm([waiting.max(), total / bandwidth - first]), served(waiting, moved, bandwidth) - first)
    in_step = 1.0 if lanes == 1 else 1.0 / min(w.pieces for w in works)
    fill = FILL_CYCLES_PER_LOOP * sum(len(n.loops) for n in nests)
    limits = [(compute, unit), (drain, "drain"), (total / bandwidth, "memory bandwidth"), *ports]
    return float(fill + first + apart + in_step * max(0.0, together - apart)), max(limits)[1]


def _busy(works: Sequence[Work], lanes: int) -> Floats:
    """How busy every lane is, of the busiest."""
    cycles = np.max([_over(u.cycles + w.spilling, lanes) for w in works for u in w.units], axis=0)
    return np.asarray(cycles / max(1.0, float(cycles.max())))


def _over(amounts: Floats, lanes: int) -> Floats:
    """Amounts for every lane; a statement that has other lanes than the first serves them all alike."""
    return amounts if amounts.size == lanes else np.full(lanes, amounts.max(initial=0.0))


def _first_load(transfer: Transfer, lanes: int) -> float:
    """Bytes that every lane loads before it can start: its first tile of an operand."""
    if transfer.traffic.purpose != "load" or not transfer.requests:
        return 0.0
    return transfer.burst_bytes * min(1.0, lanes / transfer.requests)


@dataclass(frozen=True, slots=True)
class _Made:
    """When a statement is done: ``cycles`` until it has formed its products, ``drain`` of the last piece of its result
    after that; ``pieces`` that its readers get one after the other; ``held``: share of a piece that the FIFOs do not
    hold, so that its reader keeps it waiting."""

    cycles: float = 0.0
    drain: float = 0.0
    pieces: float = math.inf
    held: float = 0.0

    def read(self, own: float) -> float:
        """Cycles until a reader is done that works for ``own`` cycles: it starts with the first piece. A drain lasts as
        long as the reader takes for what is held."""
        serial, piped = self.cycles + max(self.drain, own), max(self.cycles + max(self.drain, self.held * own), own)
        return piped + max(0.0, serial - piped) / self.pieces


def _chains(nests: Sequence[Nest], works: Sequence[Work]) -> tuple[float, float, str]:
    """(cycles, final drain, slowest unit) of fused statements. Those that do not read one another run side by side; a
    reader is done when it is with the last of its streams. Every statement that only passes a stream on has as many
    FIFOs again."""
    made = dict[int, _Made]()
    for nest, work in zip(nests, works, strict=True):
        streams = [made[maker.number] for maker in nest.makers] or [_Made()]
        own, held = work.slowest[0], max(stream.held for stream in streams)
        made[nest.number] = _Made(
            max(stream.read(own) for stream in streams), float(work.draining.max(initial=0.0)), work.pieces,
            work.drained or max(0.0, 2.0 * held - 1.0),
        )  # fmt: skip
    last = max(made.values(), key=lambda m: m.cycles + m.drain)
    return last.cycles, last.drain, max(w.slowest for w in works)[1]


def _drain_transfers(nests: Sequence[Nest], moved: Sequence[Transfer]) -> list[tuple[int, Transfer]]:
    """Transfers that wait for a drain, with the position of their statement."""
    made = {nest.statement.target.tensor: n for n, nest in enumerate(nests)}
    late = {("spill", "read"), ("store", "write")}
    return [(made[t.traffic.tensor], t) for t in moved if (t.traffic.purpose, t.traffic.direction) in late]


def _norm(cycles: Sequence[Any]) -> Any:
    return sum(c**SHARPNESS for c in cycles) ** (1 / SHARPNESS)


def _waiting(busy: Floats, moved: Sequence[Transfer], firsts: Sequence[float], machine: Machine) -> Floats:
    """Cycles of computing, ``busy``, and of waiting for memory ports, in every lane. They overlap but for what is
    computed on tiles kept from before: nothing is loaded meanwhile. ``firsts``: cycles of a port's first load, which
    come before."""
    found = busy
    for transfer, first in zip(moved, firsts, strict=True):
        port = np.maximum(0.0, _over(_port_cycles(transfer, machine), busy.size) - first)
        kept = _over(transfer.kept, busy.size) * busy
        found = np.maximum(found, kept + _norm([busy - kept, port]))
    return found


def served(alone: Floats, moved: Sequence[Transfer], bandwidth: float) -> float:
    """Cycles until the last lane is served by a memory that serves all alike: while it has too much to do, the lane
    that has most to load gets no more than the others, and ends by itself. ``alone``: cycles of every lane that had
    the memory to itself; bytes come evenly over them."""
    load = np.zeros(alone.size)
    for transfer in moved:
        turns = _over(transfer.turns, alone.size)
        load += transfer.burst_bytes * turns / max(1e-9, float(turns.sum()))
    if not np.ptp(load):
        return 0.0
    rate, cycles, now = load / np.maximum(1.0, alone), alone, 0.0
    while cycles.size:
        slowest = np.sort(rate)
        level = (bandwidth - np.append(0.0, np.cumsum(slowest[:-1]))) / np.arange(rate.size, 0, -1)
        limit = next(iter(level[slowest > level]), math.inf)  # those that ask for more get as much
        speed = np.minimum(1.0, np.divide(limit, rate, out=np.ones(rate.size), where=rate > 0))
        step = float((cycles / speed).min())
        now, cycles = now + step, cycles - step * speed
        going = cycles > 1e-9 * alone.max()
        rate, cycles = rate[going], cycles[going]
    return now


def _port_cycles(transfer: Transfer, machine: Machine) -> Floats:
    """Cycles that a memory port waits in every lane: for its requests one after the other, and no less than its bursts
    in flight and, for loads, the ports of its buffer allow."""
    if not transfer.requests:
        return np.zeros(1)
    channels, direction = machine.dram_channels or 1, transfer.traffic.direction
    bursts = transfer.burst_bytes / transfer.requests / machine.dram_burst_bytes
    each = math.ceil(bursts / channels) * machine.dram_burst_bytes * channels / machine.streaming_bytes_per_cycle
    if direction == "read":
        each += machine.dram_latency_cycles
    turns = transfer.turns
    share = turns / max(1e-9, float(turns.sum()))  # of the bytes; where nothing is reached none waits
    limits = [turns * (each + HANDSHAKE_CYCLES), share * transfer.burst_bytes / machine.port_bytes_per_cycle(direction)]
    if transfer.traffic.purpose == "load":
        limits.append(share * transfer.traffic.bytes / machine.buffer_fill_bytes_per_cycle)
    return np.asarray(np.max(limits, axis=0))
