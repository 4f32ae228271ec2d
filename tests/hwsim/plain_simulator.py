"""The simulator once more, in plain Python: a second reading of its documents, to compare the compiled core with.

The run order is first come, first served, which must not matter. Streams are taken to fit each other: an assertion
fails where they do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import plain_compute as compute
import plain_contexts as walk
import plain_memory as memory
from plain_unit import Body, Fifo, Host, Request, Token, Unit

from mapper.graph import Dram, Graph


@dataclass(frozen=True)
class PlainProfile:
    """What the plain simulator tells; ``units``: (busy, starved, blocked, memory) of every context, whose sum is its
    final clock. ``fills``: the most that each bounded channel held. ``traffic``: (values bytes, metadata bytes,
    requests) by (tensor, direction)."""

    status: str
    cycles: int
    tokens: int
    units: tuple[tuple[int, int, int, int], ...]
    fills: tuple[int | None, ...]
    traffic: dict[tuple[str, str], tuple[int, int, int]]
    burst_bytes: int
    effectual_multiplies: int
    spilled_entries: int
    tile_hits: int
    tile_misses: int
    row_misses: int
    outputs: dict[str, tuple[list[list[int]], list[float]]]
    sinks: dict[str, list[tuple[Token, int]]]


def simulate_plainly(graph: Graph) -> PlainProfile:
    """Runs ``graph`` until every context has ended, or none can go on."""
    sim = _Simulation(graph)
    while sim.host.ready or sim.host.requests:
        if sim.host.ready:
            sim.resume(sim.host.ready.popleft())
        else:  # all are blocked: the earliest request, ties by context
            sim.serve(min(sim.host.requests, key=lambda request: (request.t, request.unit.index)))
    units = sim.units
    return PlainProfile(
        status="done" if all(u.ended for u in units) else "deadlock",
        cycles=max((u.t for u in units), default=0),
        tokens=sum(len(f.pushes) for f in sim.fifos),
        units=tuple((s["busy"], s["starved"], s["blocked"], s["memory"]) for s in (u.spent for u in units)),
        fills=tuple(f.most_held() for f in sim.fifos),
        traffic={key: (row[0], row[1], row[2]) for key, row in sim.host.traffic.items() if row[2]},
        burst_bytes=sim.bursts * (graph.dram.burst_bytes if graph.dram else 0),
        effectual_multiplies=sum(u.counts["multiplies"] for u in units),
        spilled_entries=sum(u.counts["spilled"] for u in units),
        tile_hits=sum(u.counts["hits"] for u in units),
        tile_misses=sum(u.counts["misses"] for u in units),
        row_misses=sim.row_misses,
        outputs={u.name: (u.coords, u.values) for u in units if u.kind in ("store", "crd_write", "value_write")},
        sinks={u.name: u.seen for u in units if u.kind == "sink"},
    )


class _Simulation:
    def __init__(self, graph: Graph) -> None:
        self.host, self.dram = Host(graph.tensors, graph.dram), graph.dram
        self.fifos = [Fifo(channel) for channel in graph.channels]
        self.units = [Unit(self.host, self.fifos, n, context) for n, context in enumerate(graph.contexts)]
        for unit in self.units:
            unit.body = BODIES[unit.kind](unit)
        self.host.ready.extend(self.units)
        self.free_from = [graph.dram.startup_cycles] * graph.dram.channels if graph.dram else []
        self.open_rows: dict[int, tuple[int, bool, int]] = {}  # of a channel: tensor, direction, row
        self.bursts = self.row_misses = 0

    def resume(self, unit: Unit, finish: int | None = None) -> None:
        try:
            unit.body.send(finish)
        except StopIteration:
            unit.ended = True

    def serve(self, request: Request) -> None:
        """One burst, or all of a request that takes no time."""
        unit, dram = request.unit, self.dram
        if dram and request.address < request.end:
            unit.flying = [end for end in unit.flying if end > request.t]
            if dram.outstanding and len(unit.flying) >= dram.outstanding:
                request.t = min(unit.flying)
                return
            end = self._transfer(dram, request)
            unit.flying.append(end)
            request.finish = max(request.finish, end)
            request.address = (request.address // dram.burst_bytes + 1) * dram.burst_bytes
            if request.address < request.end:
                return
        self.host.requests.remove(request)
        unit.until(request.t, "memory")
        self.resume(unit, request.finish)

    def _transfer(self, dram: Dram, request: Request) -> int:
        """When the burst of the request's first byte ends."""
        begin = request.address // dram.burst_bytes * dram.burst_bytes
        chunk = dram.interleave_bytes or dram.burst_bytes
        channel = begin // chunk % dram.channels
        cycles = math.ceil(dram.burst_bytes / dram.bytes_per_cycle)
        if dram.row_bytes:
            inside = begin // chunk // dram.channels * chunk + begin % chunk
            params, write = request.unit.params, request.write
            tensor = params.get("result", params["tensor"]) if write else params["tensor"]  # a conversion has both
            row = (tensor, write, inside // dram.row_bytes)
            hit = self.open_rows.get(channel) == row
            cycles += dram.row_hit_cycles if hit else dram.row_miss_cycles
            self.row_misses += not hit
            self.open_rows[channel] = row
        self.free_from[channel] = max(self.free_from[channel], request.t) + cycles
        self.bursts += 1
        return self.free_from[channel] + (0 if request.write else dram.latency_cycles)


BODIES: dict[str, Callable[[Unit], Body]] = {
    "root": walk.root, "scan": memory.scan, "repeat_signal": walk.repeat_signal, "repeat": walk.repeat,
    "fork": walk.fork, "intersect": lambda u: walk.join(u, False), "union": lambda u: walk.join(u, True),
    "array": memory.array, "alu": compute.alu, "map": compute.map_values, "reduce": compute.reduce,
    "accumulate": memory.accumulate, "drop_empty": walk.drop_empty, "number": walk.number_fibers,
    "locate": walk.locate, "stream_scan": walk.stream_scan, "tile_load": memory.tile_load, "store": memory.store,
    "convert": memory.convert, "crd_write": walk.crd_write, "value_write": walk.value_write, "source": walk.source,
    "sink": walk.sink,
}  # fmt: skip
"""A context of every kind as a generator."""
