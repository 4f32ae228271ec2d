"""Contexts written in Python, beside the native ones in one graph: to try out a unit, or to wrap a real kernel.

A unit is a generator function. What it yields is done for it, in simulated time, and the outcome comes back::

    def adder(bias: float) -> Moves:
        while True:
            token = yield Pop(0, float)
            yield Push(0, ("val", token[1] + bias) if token[0] == "val" else token)
            if token == DONE:
                return
            yield Advance(1)

    Context("add", "python", (0,), (1,), {"generator": functools.partial(adder, 0.5)})

Tokens are ``("val", x)``, ``("stop", n)``, ``("empty",)`` and ``("done",)``. Every simulation starts the generator
anew. A move costs one to two microseconds of host time; the GIL is held during such moves only.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from mapper.errors import GraphError
from mapper.graph import Context

Token = tuple[Any, ...]
DONE: Token = ("done",)


@dataclass(frozen=True, slots=True)
class Pop:
    """Takes the head of an input, waiting for it; gives the token. ``dtype`` says how a Val is read."""

    port: int
    dtype: type[int] | type[float] = int


@dataclass(frozen=True, slots=True)
class Peek:
    """As ``Pop``, but the token stays."""

    port: int
    dtype: type[int] | type[float] = int


@dataclass(frozen=True, slots=True)
class Push:
    """Pushes a token, waiting for a slot; it is available ``latency_cycles`` later than the channel makes it. A Val
    of Python type ``float`` is a value, an ``int`` a coordinate or reference."""

    port: int
    token: Token
    latency_cycles: int = 0


@dataclass(frozen=True, slots=True)
class Advance:
    """Ends a turn that cost ``cycles``; gives the clock. ``Advance(0)`` reads it."""

    cycles: int = 1


Moves = Generator[Pop | Peek | Push | Advance, Any, None]

_KINDS = ("val", "stop", "empty", "done")  # in the order of the core's token kinds
_END = (4, 0, 2, 0, 0)


class Driver:
    """Runs the generator of one context during one simulation: what the core calls for every move."""

    def __init__(self, context: Context) -> None:
        self.context = context
        try:
            moves: Moves = context.params["generator"]()
            self._send = moves.send
        except (TypeError, AttributeError) as error:
            raise GraphError(
                f"{self._where(0)}: 'generator' must be a generator function without arguments: {error}."
            ) from error
        self.last: Pop | Peek | Push | Advance | None = None

    def __call__(self, kind: int, bits: int, now: int) -> tuple[int, int, int, int, int]:
        """The next move, given the outcome of the last: (move, port, token kind, token bits, cycles)."""
        last = self.last
        outcome: Token | int | None = None
        if isinstance(last, Pop | Peek):
            outcome = _token(kind, bits, last.dtype)
        elif isinstance(last, Advance):
            outcome = now
        try:
            self.last = self._send(outcome)
        except StopIteration:
            return _END
        except Exception as error:
            raise GraphError(f"{self._where(now)}: its generator raised {type(error).__name__}: {error}") from error
        return self._encode(self.last, now)

    def _encode(self, move: object, now: int) -> tuple[int, int, int, int, int]:
        match move:
            case Pop(port) | Peek(port):
                return (0 if isinstance(move, Pop) else 1, self._port(port, self.context.inputs, now), 2, 0, 0)
            case Push(port, token, latency) if latency >= 0:
                return (2, self._port(port, self.context.outputs, now), *self._bits(token, now), latency)
            case Advance(cycles) if cycles >= 0:
                return (3, 0, 2, 0, cycles)
        raise GraphError(
            f"{self._where(now)}: a move is Pop, Peek, Push or Advance, cycles not negative, got {move!r}."
        )

    def _port(self, port: int, ports: Sequence[int], now: int) -> int:
        if port not in range(len(ports)):
            raise GraphError(f"{self._where(now)}: a port must be a number below {len(ports)}, got {port!r}.")
        return port

    def _bits(self, token: Token, now: int) -> tuple[int, int]:
        match token:
            case ("val", float(x)):
                return 0, struct.unpack("<q", struct.pack("<d", x))[0]
            case ("val", int(n)) if -(2**63) <= n < 2**63:
                return 0, n
            case ("stop", int(n)) if 0 <= n < 2**63:
                return 1, n
            case ("empty",) | ("done",):
                return _KINDS.index(token[0]), 0
        raise GraphError(
            f"{self._where(now)}: a token is ('val', x), ('stop', n), ('empty',) or ('done',), got {token!r}."
        )

    def _where(self, now: int) -> str:
        return f"context {self.context.name!r} (python) at cycle {now}"


def _token(kind: int, bits: int, dtype: type[int] | type[float]) -> Token:
    if kind == 0:
        return ("val", struct.unpack("<d", struct.pack("<q", bits))[0] if dtype is float else bits)
    return ("stop", bits) if kind == 1 else (_KINDS[kind],)


@dataclass
class HostKernel:
    """A real callable as a unit: what a call takes on this machine, times ``clock_hz``, is its time in the graph.

    Several contexts (virtual copies) share the one callable: calls run in turn on the host, and side by side in
    simulated time. ``measured_cycles`` holds the cycles of every call by context, in order; given as
    ``replay_cycles`` they are used instead of measuring, so that a rerun gives the same profile.
    """

    kernel: Callable[..., float]
    clock_hz: float
    replay_cycles: dict[str, list[int]] | None = None
    measured_cycles: dict[str, list[int]] = field(default_factory=dict)

    def context(self, name: str, inputs: Sequence[int], output: int) -> Context:
        """A copy of the kernel: for one value at every input, its result; Empty counts as 0. A call occupies the
        copy for its cycles (at least one), and the result is there when it ends."""
        return Context(name, "python", tuple(inputs), (output,), {"generator": lambda: self._moves(name, len(inputs))})

    def _moves(self, name: str, inputs: int) -> Moves:
        self.measured_cycles[name] = []
        while True:
            tokens = []
            for port in range(inputs):
                tokens.append((yield Peek(port, float)))
            for port in range(inputs):
                yield Pop(port, float)
            if all(token[0] in ("val", "empty") for token in tokens):
                result, cycles = self._call(name, [token[1] if token[0] == "val" else 0.0 for token in tokens])
                yield Push(0, ("val", result), cycles - 1)
                yield Advance(cycles)
            elif any(token != tokens[0] for token in tokens):
                raise GraphError(f"misaligned streams: {tokens}.")
            else:
                yield Push(0, tokens[0])
                if tokens[0] == DONE:
                    return
                yield Advance(1)

    def _call(self, name: str, values: list[float]) -> tuple[float, int]:
        start = time.perf_counter()
        result = float(self.kernel(*values))
        cycles = max(1, round((time.perf_counter() - start) * self.clock_hz))
        calls = self.measured_cycles[name]
        if self.replay_cycles is not None:
            recorded = self.replay_cycles.get(name, [])
            if len(calls) >= len(recorded):
                raise GraphError(f"no recorded cycles for call {len(calls)} of {name!r}; measure again.")
            cycles = recorded[len(calls)]
        calls.append(cycles)
        return result, cycles
