"""Ports of contexts: their names, and whether every stream carries what its reader takes."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from mapper.errors import GraphError
from mapper.graph import STREAM_TYPES, UNCONNECTED, Context, Graph

from .parameters import KINDS

_HINTS = {
    ("ref", "val"): "put an 'array' between them",
    ("crd", "ref"): "put a 'number' or a 'locate' between them",
    ("int", "val"): "write values as floats, such as 3.0",
    ("val", "crd"): "write coordinates as ints",
}


class Port(NamedTuple):
    """A port of one context; ``type`` is one of ``STREAM_TYPES`` or a variable of the context."""

    name: str
    type: str
    optional: bool


def expand(ports: tuple[str, ...], count: int) -> tuple[Port, ...] | None:
    """The ``count`` ports of a kind: ``crd*`` becomes ``crd_1``, ``crd_2``, ...; ``None`` if that many do not fit.
    A trailing optional port (``name?``) may be missing."""
    parts = [re.fullmatch(r"(\w+)([*?]?)(?::(\w+\*?))?", port) for port in ports]
    written = [part.groups() for part in parts if part]
    starred = sum(mark == "*" for _, mark, _ in written)
    repeats, rest = divmod(count - len(ports) + starred, starred) if starred else (0, 0)
    full: list[Port] = []
    for name, mark, type_ in written:
        if mark == "*":
            full += [Port(f"{name}_{k}", (type_ or name).replace("*", str(k)), False) for k in range(1, repeats + 1)]
        else:
            full.append(Port(name, type_ or name, mark == "?"))
    required = len(full) - (not starred and bool(full) and full[-1].optional)
    return tuple(full[:count]) if rest == 0 and repeats >= 0 and required <= count <= len(full) else None


def ports_of(context: Context, inputs: bool) -> tuple[Port, ...]:
    """Ports of one side of a context. Raises ``GraphError`` if it has another number of channels."""
    given = context.inputs if inputs else context.outputs
    ports = _ports_of_kind(context.kind, inputs, len(given))
    if ports is None:
        raise GraphError(
            f"context {context.name!r} ({context.kind}) must have {'input' if inputs else 'output'} ports "
            f"{', '.join(KINDS[context.kind][0 if inputs else 1]) or 'none'}, got {len(given)} channels."
        )
    return ports


@functools.cache
def _ports_of_kind(kind: str, inputs: bool, count: int) -> tuple[Port, ...] | None:
    return expand(KINDS[kind][0 if inputs else 1], count)


class _Origin(NamedTuple):
    """The output port that says what a stream carries."""

    type: str
    context: Context
    port: str

    def __str__(self) -> str:
        text = f"output port {self.port} of context {self.context.name!r} ({self.context.kind})"
        for n in _first_vals(self.context).values() if self.context.kind == "source" else ():
            text += f", token {n} {self.context.params['tokens'][n]}"
        return text


def value_channels(graph: Graph) -> list[int]:
    """Checks a wired graph: every stream carries what the port that it ends in takes. Returns the channels of values.

    A float may not be read as a reference, nor a reference as a coordinate. Units that pass on what they get (fork,
    repeat, joins, lanes) are seen through. Raises ``GraphError`` with both contexts, ports and types.
    """
    origins = _origins(graph)
    for context in graph.contexts:
        bound: dict[str, str] = {}
        for port, channel in zip(ports_of(context, True), context.inputs, strict=True):
            if channel == UNCONNECTED:
                continue
            got, takes = origins[channel].type, port.type
            if got == takes:
                continue
            if takes not in STREAM_TYPES:
                takes = bound.setdefault(takes, got)
            if got != takes and not _fits(got, takes):
                hint = _HINTS.get((got, takes), f"wire a stream of {takes} there")
                raise GraphError(
                    f"context {context.name!r} ({context.kind}): input port {port.name} takes {takes}, but channel "
                    f"{graph.channels[channel].name!r} carries {got} from {origins[channel]}; {hint}."
                )
    return [channel for channel, origin in enumerate(origins) if origin.type == "val"]


def _fits(got: str, takes: str) -> bool:
    return "any" in (got, takes) or {got, takes} in ({"int", "crd"}, {"int", "ref"}, {"int", "signal"})


def _origins(graph: Graph) -> list[_Origin]:
    """The origin of every channel: upstream through the units that pass on what they get."""
    writers = {channel: (context, k) for context in graph.contexts for k, channel in enumerate(context.outputs)}
    known: dict[int, _Origin] = {}
    for start in range(len(graph.channels)):
        path: dict[int, None] = {}  # in order, and quick to search
        channel = start
        while channel not in known:
            path[channel] = None
            context, k = writers[channel]
            port = ports_of(context, False)[k]
            upstream = None if port.type in STREAM_TYPES else _bound_input(context, port.type)
            if upstream is None:
                known[channel] = _Origin(_own_type(context, port), context, port.name)
            elif upstream in path:  # a loop in which no unit says what goes round
                known[channel] = _Origin("any", context, port.name)
            else:
                channel = upstream
        for passed in path:
            known[passed] = known[channel]
    return [known[channel] for channel in range(len(graph.channels))]


def _bound_input(context: Context, variable: str) -> int | None:
    """The first connected input that binds a type variable."""
    ports = zip(ports_of(context, True), context.inputs, strict=True)
    return next((channel for port, channel in ports if port.type == variable and channel != UNCONNECTED), None)


def _own_type(context: Context, port: Port) -> str:
    if context.kind == "source":
        return next(iter(_first_vals(context)), "any")
    return port.type if port.type in STREAM_TYPES else port.name


def _first_vals(source: Context) -> dict[str, int]:
    """The type of a source, ``val`` or ``int`` (coordinates, references), and the first token that shows it; empty
    without a Val. Raises ``GraphError`` if it mixes the two."""
    first: dict[str, int] = {}
    tokens = source.params["tokens"]
    for n, token in enumerate(tokens):
        if type(token) is tuple and len(token) == 2 and token[0] == "val":
            first.setdefault("val" if isinstance(token[1], float) else "int", n)
    if len(first) > 1:
        got = " and ".join(f"token {n} {tokens[n]}" for n in sorted(first.values()))
        raise GraphError(
            f"context {source.name!r} (source): port out carries ints (coordinates, references) or floats (values), "
            f"got {got}."
        )
    return first
