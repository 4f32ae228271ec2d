"""One unit between sources and sinks, streams written as text, and nested lists as streams.

Text: ``"3 4 S0 N D"`` is Val 3, Val 4, Stop 0, Empty, Done; a number with a point is a float value. Results are written
``"3@1 S0@2 D@3"``: token @ time at which the sink, which costs nothing, popped it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hwsim import ContextProfile, Profile, simulate
from mapper.graph import UNCONNECTED, Channel, Context, Dram, Graph

Token = tuple[Any, ...]


def tokens(text: str) -> list[Token]:
    """Tokens of a text."""
    words: dict[str, Token] = {"N": ("empty",), "D": ("done",)}
    return [
        words[w] if w in words else ("stop", int(w[1:])) if w[0] == "S" else ("val", float(w) if "." in w else int(w))
        for w in text.split()
    ]


def text(stream: Sequence[Token]) -> str:
    """The text of tokens; float values keep their point."""
    return " ".join({"val": str(t[-1]), "stop": f"S{t[-1]}", "empty": "N", "done": "D"}[t[0]] for t in stream)


@dataclass(frozen=True)
class Run:
    """A finished run of one unit."""

    profile: Profile
    streams: tuple[str, ...]  # of every output port
    timed: tuple[str, ...]

    @property
    def cycles(self) -> int:
        """Final clock of the unit itself."""
        unit = self.unit
        return unit.busy + unit.starved + unit.blocked + unit.memory

    @property
    def unit(self) -> ContextProfile:
        return next(c for c in self.profile.contexts if c.name == "unit")


def unit_graph(
    kind: str, inputs: Sequence[str | Sequence[Token] | None], outputs: int = 1, *,
    params: Mapping[str, Any] | None = None, arrays: Mapping[str, Any] | None = None, depth: int | None = None,
    latency: int = 1, response_latency: int = 1, floats: Sequence[int] = (), unconnected: Sequence[int] = (),
    times: Mapping[int, Sequence[int]] | None = None, sink_times: Mapping[int, Sequence[int]] | None = None,
    tensors: tuple[str, ...] = (), dram: Dram | None = None,
) -> Graph:  # fmt: skip
    """source -> unit -> sink. ``floats``: output ports with float values. ``times``: earliest pushes per input."""
    channels: list[Channel] = []
    contexts: list[Context] = []

    def channel(name: str) -> int:
        channels.append(Channel(name, depth, latency, response_latency))
        return len(channels) - 1

    ins = []
    for n, stream in enumerate(inputs):
        if stream is None:
            ins.append(UNCONNECTED)
            continue
        ins.append(channel(f"in {n}"))
        source: dict[str, Any] = {"tokens": tokens(stream) if isinstance(stream, str) else list(stream)}
        if times and n in times:
            source["times"] = list(times[n])
        contexts.append(Context(f"source {n}", "source", (), (ins[-1],), source))
    outs = [UNCONNECTED if n in unconnected else channel(f"out {n}") for n in range(outputs)]
    typed = {"values": np.float64}
    data = {k: np.ascontiguousarray(v, dtype=typed.get(k, np.int64)) for k, v in (arrays or {}).items()}
    contexts.append(Context("unit", kind, tuple(ins), tuple(outs), params or {}, data))
    for n, out in enumerate(outs):
        if out != UNCONNECTED:
            sink: dict[str, Any] = {"dtype": "float" if n in floats else "int"}
            if sink_times and n in sink_times:
                sink["times"] = list(sink_times[n])
            contexts.append(Context(f"sink {n}", "sink", (out,), (), sink))
    return Graph(tuple(contexts), tuple(channels), tensors, dram)


def run_unit(kind: str, inputs: Sequence[str | Sequence[Token] | None], outputs: int = 1, **options: Any) -> Run:
    """Runs ``unit_graph`` to its end, twice, the second time shuffled: nothing may change."""
    graph = unit_graph(kind, inputs, outputs, **options)
    profile = simulate(graph)
    shuffled = simulate(graph, shuffle_seed=1)
    assert profile.status == "done"
    assert shuffled.to_json() == profile.to_json() and repr(shuffled.sinks) == repr(profile.sinks)  # NaN != NaN
    for context in profile.contexts:
        parts = context.busy + context.starved + context.blocked + context.memory + context.finished
        assert parts == profile.cycles, context
    sinks = [profile.sinks.get(f"sink {n}", ()) for n in range(outputs)]
    return Run(
        profile,
        tuple(text([token for token, _ in sink]) for sink in sinks),
        tuple(" ".join(f"{text([token])}@{time}" for token, time in sink) for sink in sinks),
    )


def stream(nest: Any, depth: int) -> list[Token]:
    """The stream of ``depth`` nested lists (a bare value for 0; ``None`` is Empty), without Done."""
    if depth == 0:
        return [("empty",) if nest is None else ("val", nest)]
    parts = [stream(item, depth - 1) for item in nest]
    if depth == 1:
        return [*(token for part in parts for token in part), ("stop", 0)]
    if not parts:
        return [("stop", depth - 1)]
    last = parts[-1]
    return [*(t for part in parts[:-1] for t in part), *last[:-1], ("stop", depth - 1)]


def done(nest: Any, depth: int) -> list[Token]:
    """``stream`` and Done."""
    return [*stream(nest, depth), ("done",)]
