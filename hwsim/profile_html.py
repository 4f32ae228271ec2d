"""A profile as a fragment of HTML: figures, where the time of every context went, traffic."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from .result import ContextProfile, Profile

COLOURS = {"busy": "#0b6bcb", "starved": "#b9c4cf", "blocked": "#7f90a1", "memory": "#44566a", "finished": "#edf1f4"}
MOST_ROWS = 100
"""Rows of a table; the busiest contexts are kept."""


def profile_html(profile: Profile) -> str:
    """One ``<div>`` without scripts or external files; tables are cut at ``MOST_ROWS`` rows and say so."""
    ranked = sorted(profile.contexts, key=lambda c: -c.busy)
    figures: dict[str, int | str] = {
        "status": profile.status, "cycles": profile.cycles, "tokens": profile.tokens,
        "effectual multiplies": profile.effectual_multiplies, "additions": profile.additions,
        "comparisons": profile.comparisons, "traffic, bytes": profile.traffic_bytes,
        "moved in bursts, bytes": profile.burst_bytes, "spilled entries": profile.spilled_entries,
        "tile hits": profile.tile_hits, "tile misses": profile.tile_misses,
    }  # fmt: skip
    parts = [_table((), ([name, _number(value)] for name, value in figures.items()))]
    if profile.deadlock:
        parts.append(f"<pre>{escape(str(profile.deadlock))}</pre>")
    if ranked:
        legend = " ".join(
            f'<span style="border-left:0.8em solid {c};padding-left:0.3em">{s}</span>' for s, c in COLOURS.items()
        )
        rows = ([escape(c.name), c.kind, _bar(c), _number(c.busy), _number(c.firings)] for c in ranked[:MOST_ROWS])
        parts += [f"<p>{legend}</p>", _table(("context", "kind", "time", "busy cycles", "firings"), rows)]
    if len(ranked) > MOST_ROWS:
        parts.append(f"<p>{len(ranked) - MOST_ROWS} less busy contexts are not shown.</p>")
    if profile.traffic:
        rows = (
            [escape(t.tensor), t.direction, _number(t.values_bytes), _number(t.metadata_bytes), _number(t.requests)]
            for t in profile.traffic[:MOST_ROWS]
        )
        parts.append(_table(("tensor", "direction", "values, bytes", "metadata, bytes", "requests"), rows))
    if len(profile.traffic) > MOST_ROWS:
        parts.append(f"<p>{len(profile.traffic) - MOST_ROWS} more rows of traffic are not shown.</p>")
    return "<div>" + "".join(parts) + "</div>"


def _bar(unit: ContextProfile) -> str:
    """Shares of the elapsed time, side by side."""
    shares = {state: getattr(unit, state) for state in COLOURS}
    total = sum(shares.values()) or 1
    pieces = "".join(
        f'<span title="{state}: {cycles} cycles" style="display:inline-block;height:0.9em;'
        f'width:{100 * cycles / total:.2f}%;background:{COLOURS[state]}"></span>'
        for state, cycles in shares.items()
        if cycles
    )
    return f'<div style="width:16em;line-height:0;white-space:nowrap">{pieces}</div>'


def _number(value: int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else escape(value)


def _table(head: tuple[str, ...], rows: Iterable[list[str]]) -> str:
    top = "<tr>" + "".join(f"<th>{name}</th>" for name in head) + "</tr>" if head else ""
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{top}{body}</table>"
