"""A graph as DOT text for Graphviz, contexts coloured by their utilisation."""

from __future__ import annotations

from mapper.graph import Graph

from .result import ChannelProfile, ContextProfile, Profile

IDLE, BUSY, FULL = (255, 255, 255), (240, 101, 67), "#c0392b"


def to_dot(graph: Graph, profile: Profile | None = None) -> str:
    """DOT text of ``graph``: a box per context and an edge per channel with its capacity.

    With a ``profile`` of a run of it, boxes go from white (idle) to orange (busy all the time) and say their share of
    busy cycles; edges say tokens and greatest fill, and are red where the channel was full.

    Raises ``InputError`` if the profile is not a run of this graph.
    """
    if profile:
        profile.require_run_of(graph)
    lines = ["digraph {", "  rankdir=TB;", '  node [shape=box, style=filled, fillcolor="#ffffff", fontname=Helvetica];']
    for n, context in enumerate(graph.contexts):
        unit = profile.contexts[n] if profile else None
        look = _look(context.name, context.kind, unit, profile.cycles if profile else 0)
        lines.append(f"  c{n} [{look}];")
    writer = {channel: n for n, c in enumerate(graph.contexts) for channel in c.outputs}
    reader = {channel: n for n, c in enumerate(graph.contexts) for channel in c.inputs}
    for n, channel in enumerate(graph.channels):
        row = profile.channels[n] if profile else None
        lines.append(f"  c{writer[n]} -> c{reader[n]} [{_edge(channel.capacity, row)}];")
    return "\n".join([*lines, "}", ""])


def utilisation_colour(share: float) -> str:
    """``#rrggbb`` from white (0) to orange (1)."""
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(IDLE, BUSY, strict=True))


def _look(name: str, kind: str, unit: ContextProfile | None, cycles: int) -> str:
    label = name if name.startswith(kind) else f"{name}\n{kind}"
    if unit is None:
        return f"label={_quoted(label)}"
    share = unit.busy / cycles if cycles else 0.0
    label += f"\n{share:.0%} busy"
    return f"label={_quoted(label)}, fillcolor={_quoted(utilisation_colour(share))}"


def _edge(capacity: int | None, row: ChannelProfile | None) -> str:
    depth = "" if capacity is None else str(capacity)
    if row is None:
        return f"label={_quoted(depth)}"
    full = capacity is not None and row.max_fill == capacity
    fill = f" {row.max_fill}/{depth}" if depth else ""
    return f"label={_quoted(f'{row.tokens}{fill}')}" + (f', color="{FULL}", fontcolor="{FULL}"' if full else "")


def _quoted(text: str) -> str:
    """A DOT string; line breaks become centred ones."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
