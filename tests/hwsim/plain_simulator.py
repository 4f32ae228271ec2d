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
from plain_unit import Body, Fifo, Host, Token, Unit

from mapper.graph import Dram, Graph


@dataclass(frozen=True)
class PlainProfile:
    """What the plain simulator tells; ``units``: (busy, starved, blocked, memory) of every context, whose sum is its
    final clock. ``traffic``: (values bytes, metadata bytes, requests) by (tensor, direction)."""

    status: str
    cycles: int
    tokens: int
    units: tuple[tuple[int, int, int, int], ...]
    traffic: dict[tuple[str, str], tuple[int, int, int]]
    burst_bytes: int
    effectual_multiplies: int
    spilled_entries: int
    tile_hits: int
    tile_misses: int
    outputs: dict[str, tuple[list[list[int]], list[float]]]
    sinks: dict[str, list[tuple[Token, int]]]


def simulate_plainly(graph: Graph) -> PlainProfile:
    """Runs ``graph`` until every context has ended, or none can go on."""
    sim = _Simulation(graph)
    while sim.host.ready or sim.host.requests:
        if sim.host.ready:
            sim.resume(sim.host.ready.popleft())
        else:  # all are blocked: the earliest request, ties by context
            sim.serve(min(sim.host.requests, key=lambda request: request[:2]))
    units = sim.units
    return PlainProfile(
        status="done" if all(u.ended for u in units) else "deadlock",
        cycles=max((u.t for u in units), default=0),
        tokens=sum(f.pushed for f in sim.fifos),
        units=tuple((s["busy"], s["starved"], s["blocked"], s["memory"]) for s in (u.spent for u in units)),
        traffic={key: (row[0], row[1], row[2]) for key, row in sim.host.traffic.items() if row[2]},
        burst_bytes=sim.bursts * (graph.dram.burst_bytes if graph.dram else 0),
        effectual_multiplies=sum(u.counts["multiplies"] for u in units),
        spilled_entries=sum(u.counts["spilled"] for u in units),
        tile_hits=sum(u.counts["hits"] for u in units),
        tile_misses=sum(u.counts["misses"] for u in units),
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
        self.free_from = [0] * (graph.dram.channels if graph.dram else 0)
        self.bursts = 0

    def resume(self, unit: Unit, finish: int | None = None) -> None:
        try:
            unit.body.send(finish)
        except StopIteration:
            unit.ended = True

    def serve(self, request: tuple[int, int, int, int, bool]) -> None:
        self.host.requests.remove(request)
        t, index, address, size, write = request
        self.resume(self.units[index], t if self.dram is None else self._transfer(self.dram, t, address, size, write))

    def _transfer(self, dram: Dram, t: int, address: int, size: int, write: bool) -> int:
        burst_cycles, finish = math.ceil(dram.burst_bytes / dram.bytes_per_cycle), 0
        for burst in range(address // dram.burst_bytes, (address + size - 1) // dram.burst_bytes + 1):
            channel = burst % dram.channels
            self.free_from[channel] = max(self.free_from[channel], t) + burst_cycles
            finish = max(finish, self.free_from[channel])
            self.bursts += 1
        return finish if write else finish + dram.latency_cycles


BODIES: dict[str, Callable[[Unit], Body]] = {
    "root": walk.root, "scan": walk.scan, "repeat_signal": walk.repeat_signal, "repeat": walk.repeat,
    "fork": walk.fork, "intersect": lambda u: walk.join(u, False), "union": lambda u: walk.join(u, True),
    "array": walk.array, "alu": compute.alu, "map": compute.map_values, "reduce": compute.reduce,
    "accumulate": memory.accumulate, "drop_empty": walk.drop_empty, "number": walk.number_fibers,
    "stream_scan": walk.stream_scan, "tile_load": memory.tile_load, "store": memory.store,
    "convert": memory.convert, "crd_write": walk.crd_write, "value_write": walk.value_write, "source": walk.source,
    "sink": walk.sink,
}  # fmt: skip
"""A context of every kind as a generator."""
