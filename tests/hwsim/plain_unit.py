"""The rules of channels and clocks, for the contexts of the plain simulator.

Tokens are the tuples of ``source``: ``("val", x)``, ``("stop", n)``, ``("empty",)``, ``("done",)``. A context is a
generator that yields when it cannot go on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from mapper.graph import UNCONNECTED, Channel, Context, Dram

Token = tuple[Any, ...]
Body = Generator[None, Any, Any]

EMPTY: Token = ("empty",)
DONE: Token = ("done",)


def val_token(x: Any) -> Token:
    return ("val", x)


def stop_token(n: int) -> Token:
    return ("stop", n)


def is_val(token: Token) -> bool:
    return bool(token[0] == "val")


def is_stop(token: Token) -> bool:
    return bool(token[0] == "stop")


def number(token: Token) -> float:
    return 0.0 if token == EMPTY else float(token[1])


@dataclass
class Fifo:
    """Tokens with their availability, and the times from which slots are free again, in order of the pops."""

    record: Channel
    from_memory: bool = False
    items: deque[tuple[Token, int]] = field(default_factory=deque)
    credits: list[int] = field(default_factory=list)
    pushes: list[int] = field(default_factory=list)
    waiter: Unit | None = None

    def most_held(self) -> int | None:
        """The most slots in use at once, of those that were freed: that of token n by all pushed before its release."""
        if self.record.capacity is None:
            return None
        return max((bisect_left(self.pushes, release) - n for n, release in enumerate(self.credits)), default=0)


@dataclass
class Request:
    """Bytes ``address`` to ``end`` of a tensor, of which what is left is asked for at ``t``."""

    t: int
    unit: Unit
    address: int
    end: int
    write: bool
    finish: int = 0


@dataclass
class Host:
    """What all contexts share: who can go on, and off-chip memory."""

    tensors: tuple[str, ...]
    dram: Dram | None
    ready: deque[Unit] = field(default_factory=deque)
    requests: list[Request] = field(default_factory=list)
    traffic: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def account(self, tensor: int, direction: str, values: int, metadata: int, requests: int = 1) -> None:
        row = self.traffic.setdefault((self.tensors[tensor], direction), [0, 0, 0])
        row[:] = row[0] + values, row[1] + metadata, row[2] + requests


class Unit:
    """A context that runs: its clock, where its time went, and the channel rules."""

    def __init__(self, host: Host, fifos: list[Fifo], index: int, context: Context) -> None:
        self.host, self.index, self.name, self.kind = host, index, context.name, context.kind
        self.params, self.arrays = context.params, {name: a.tolist() for name, a in context.arrays.items()}
        self.ins = [None if n == UNCONNECTED else fifos[n] for n in context.inputs]
        self.outs = [None if n == UNCONNECTED else fifos[n] for n in context.outputs]
        for out in self.outs:
            if out and (context.kind == "tile_load" or (context.kind in ("array", "scan") and "tensor" in self.params)):
                out.from_memory = True
        self.t, self.ended = 0, False
        self.spent = {"busy": 0, "starved": 0, "blocked": 0, "memory": 0}
        self.counts = {"multiplies": 0, "spilled": 0, "hits": 0, "misses": 0}
        self.coords: list[list[int]] = []
        self.values: list[float] = []
        self.seen: list[tuple[Token, int]] = []
        self.flying: list[int] = []  # when its bursts in flight end
        self.body: Body

    def until(self, t: int, why: str) -> None:
        self.spent[why] += max(t - self.t, 0)
        self.t = max(self.t, t)

    def cost(self, cycles: int = 1) -> None:
        self.until(self.t + cycles, "busy")

    def arrived(self, fifo: Fifo | None) -> Body:
        """Waits for a head without looking at its time: the clock of a turn that never begins does not move."""
        assert fifo is not None
        while not fifo.items:
            fifo.waiter = self
            yield

    def peek(self, fifo: Fifo | None) -> Body:
        yield from self.arrived(fifo)
        assert fifo is not None
        token, available = fifo.items[0]
        self.until(available, "memory" if fifo.from_memory else "starved")
        return token

    def pop(self, fifo: Fifo | None) -> Body:
        token = yield from self.peek(fifo)
        assert fifo is not None
        fifo.items.popleft()
        fifo.credits.append(self.t + fifo.record.response_latency)
        self._wake(fifo)
        return token

    def room(self, fifo: Fifo | None) -> Body:
        """Waits until the next token has a slot."""
        if fifo is None or fifo.record.capacity is None or len(fifo.pushes) < fifo.record.capacity:
            return
        slot = len(fifo.pushes) - fifo.record.capacity
        while len(fifo.credits) <= slot:
            fifo.waiter = self
            yield
        self.until(fifo.credits[slot], "blocked")

    def push(self, fifo: Fifo | None, token: Token, available: int = 0) -> Body:
        if fifo is None:
            return
        requested = max(available, self.t + 1)
        yield from self.room(fifo)
        fifo.items.append((token, max(requested, self.t + fifo.record.latency)))
        fifo.pushes.append(self.t)
        self._wake(fifo)

    def push_all(self, fifos: list[Fifo | None], token: Token) -> Body:
        for fifo in fifos:
            yield from self.push(fifo, token)

    def memory(self, address: int, size: int, write: bool) -> Body:
        """When a request made now finishes; the clock goes to when its last burst is asked for."""
        self.host.requests.append(Request(self.t, self, address, address + size, write, self.t))
        return (yield)

    def _wake(self, fifo: Fifo) -> None:
        if fifo.waiter:
            self.host.ready.append(fifo.waiter)
            fifo.waiter = None
