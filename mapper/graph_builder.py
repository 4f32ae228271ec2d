"""GraphBuilder: contexts wired by streams; a stream with several readers becomes a fork, with none is dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mapper.graph import UNCONNECTED, Channel, Context, Dram, Graph
from mapper.machine import Machine
from mapper.residency import tiles_ahead


@dataclass(frozen=True, slots=True)
class Stream:
    """Output port ``port`` of context number ``context``."""

    context: int
    port: int


class GraphBuilder:
    """Collects contexts, then makes channels of the machine's FIFO depth between them."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._contexts: list[Context] = []
        self._reads: list[tuple[Stream | None, ...]] = []
        self._ports: list[int] = []
        self._tensors: dict[str, int] = {}

    def account(self, tensor: str) -> int:
        """Number of the traffic account of ``tensor``."""
        return self._tensors.setdefault(tensor, len(self._tensors))

    def add(
        self,
        kind: str,
        name: str,
        reads: Sequence[Stream | None] = (),
        outputs: int = 1,
        params: Mapping[str, Any] | None = None,
        arrays: Mapping[str, np.ndarray[Any, Any]] | None = None,
    ) -> tuple[Stream, ...]:
        """Adds a context that reads the given streams (None: optional port left open); returns its outputs."""
        self._contexts.append(Context(name, kind, params=params or {}, arrays=arrays or {}))
        self._reads.append(tuple(reads))
        self._ports.append(outputs)
        return tuple(Stream(len(self._contexts) - 1, port) for port in range(outputs))

    def kinds(self) -> Counter[str]:
        """Contexts of each kind so far, without the forks that ``build`` adds."""
        return Counter(c.kind for c in self._contexts)

    def build(self) -> Graph:
        """The graph, forks and channels included."""
        self._insert_forks()
        channels: list[Channel] = []
        inputs: list[list[int]] = [[UNCONNECTED] * len(reads) for reads in self._reads]
        outputs: list[list[int]] = [[UNCONNECTED] * ports for ports in self._ports]
        for reader, reads in enumerate(self._reads):
            for port, stream in enumerate(reads):
                if stream is not None:
                    inputs[reader][port] = outputs[stream.context][stream.port] = len(channels)
                    channels.append(self._channel(stream, reader))
        contexts = tuple(
            Context(c.name, c.kind, tuple(inputs[n]), tuple(outputs[n]), c.params, c.arrays)
            for n, c in enumerate(self._contexts)
        )
        return Graph(contexts, tuple(channels), tuple(self._tensors), dram_of(self._machine))

    def _insert_forks(self) -> None:
        readers: dict[Stream, list[tuple[int, int]]] = {}
        for reader, reads in enumerate(self._reads):
            for port, stream in enumerate(reads):
                if stream is not None:
                    readers.setdefault(stream, []).append((reader, port))
        for stream, users in readers.items():
            if len(users) > 1:
                source = self._contexts[stream.context].name
                copies = self.add("fork", f"fork {source}.{stream.port}", [stream], len(users))
                for (reader, port), copy in zip(users, copies, strict=True):
                    read = list(self._reads[reader])
                    read[port] = copy
                    self._reads[reader] = tuple(read)

    def _channel(self, stream: Stream, reader: int) -> Channel:
        machine, source = self._machine, self._contexts[stream.context]
        depth = machine.fifo_depth
        if source.kind == "tile_load":
            depth = tiles_ahead(machine, source.params["residency"])
        name = f"{source.name}.{stream.port} -> {self._contexts[reader].name}"
        return Channel(name, depth, machine.channel_latency_cycles, machine.response_latency_cycles)


def dram_of(machine: Machine) -> Dram | None:
    """The machine's off-chip memory record."""
    if machine.dram_channels is None:
        return None
    return Dram(
        channels=machine.dram_channels,
        bytes_per_cycle=machine.dram_bytes_per_cycle,
        burst_bytes=machine.dram_burst_bytes,
        latency_cycles=machine.dram_latency_cycles,
        interleave_bytes=machine.dram_interleave_bytes,
        startup_cycles=machine.dram_startup_cycles,
        row_bytes=machine.dram_row_bytes,
        row_hit_cycles=machine.dram_row_hit_cycles,
        row_miss_cycles=machine.dram_row_miss_cycles,
        outstanding=machine.dram_outstanding,
    )
