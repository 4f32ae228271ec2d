"""Runs as a Chrome trace: what every context did when, for Perfetto (ui.perfetto.dev) or chrome://tracing.

The JSON follows the Trace Event Format: a process per run, runs one after the other; a thread per context with a
complete event (``X``) per slice; a counter (``C``) of off-chip traffic. A cycle is shown as a microsecond.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mapper.errors import InputError

from .result import Profile, Timeline

STATES = ("busy", "starved", "blocked", "memory")
"""Names of slices, in the order of the columns of ``Timeline.cycles``."""

Event = dict[str, Any]


def chrome_trace(runs: Sequence[tuple[str, Profile]]) -> dict[str, Any]:
    """The trace of runs that follow each other, each with its name, as a JSON object.

    A merged slice (``Timeline.grain_cycles`` above 1) is named after its longest state; ``args`` has the cycles of
    each. ``otherData`` says how far each run was merged. Raises ``InputError`` for a run without a timeline.
    """
    events: list[Event] = []
    told: list[dict[str, Any]] = []
    start = 0
    for pid, (name, profile) in enumerate(runs):
        if profile.timeline is None:
            raise InputError(f"run {name!r} has no timeline to trace; simulate it with max_slices above 0")
        events += _names(pid, name, profile)
        events += _slices(pid, profile.timeline, start)
        events += _samples(pid, profile.timeline, start)
        told.append({
            "name": name,
            "status": profile.status,
            "cycles": profile.cycles,
            "begins_at_cycle": start,
            "slices": len(profile.timeline.begin),
            "slices_merged_within_cycles": profile.timeline.grain_cycles,
            "traffic_summed_over_cycles": profile.timeline.sample_cycles,
        })  # fmt: skip
        start += profile.cycles
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"1 us": "1 cycle", "runs": told}}


def write_trace(file: Path, runs: Sequence[tuple[str, Profile]]) -> None:
    """Writes ``chrome_trace(runs)``. Raises ``InputError`` as that does."""
    file.write_text(json.dumps(chrome_trace(runs), separators=(",", ":")), encoding="utf-8")


def _names(pid: int, name: str, profile: Profile) -> Iterator[Event]:
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
    for tid, context in enumerate(profile.contexts):
        text = context.name if context.name.startswith(context.kind) else f"{context.name} ({context.kind})"
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": text}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}}


def _slices(pid: int, timeline: Timeline, start: int) -> Iterator[Event]:
    columns = (timeline.context, timeline.begin, timeline.cycles)
    for tid, begin, cycles in zip(*(column.tolist() for column in columns), strict=True):
        event = {"ph": "X", "name": STATES[cycles.index(max(cycles))], "cat": "context", "pid": pid, "tid": tid}
        event |= {"ts": start + begin, "dur": sum(cycles)}
        if max(cycles) < event["dur"]:
            event["args"] = {state: n for state, n in zip(STATES, cycles, strict=True) if n}
        yield event


def _samples(pid: int, timeline: Timeline, start: int) -> Iterator[Event]:
    name, length = "off-chip bytes per cycle", timeline.sample_cycles
    samples = timeline.dram_bytes.tolist()
    for k, moved in enumerate([*samples, 0] if samples else []):  # the last one back to zero
        if k == 0 or moved != samples[k - 1]:
            at = {"pid": pid, "tid": 0, "ts": start + k * length}
            yield {"ph": "C", "name": name, **at, "args": {"bytes": round(moved / length, 3)}}
