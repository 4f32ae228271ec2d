"""Why one mapping beats another: what it saves, in sentences made from the two profiles."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mapper.mapping import Mapping
from mapper.program import Program
from mapper.rewrites import rewriting
from studies.records import TrialRecord
from studies.units import shown

MOST_TENSORS = 3
"""Tensors whose traffic is told."""

SMALL = 0.02
"""Share of the difference below which a tensor is not told."""


def reasons(program: Program, winner: TrialRecord, baseline: TrialRecord) -> tuple[str, ...]:
    """Sentences on how ``winner`` differs from ``baseline``, both simulated; ``program`` as written."""
    if not (winner.profile and baseline.profile and winner.mapping and baseline.mapping):
        return ()
    ours, theirs = Mapping.from_json(winner.mapping), Mapping.from_json(baseline.mapping)
    return (
        *_rewriting(ours, winner.profile, baseline.profile),
        *_fusion(fused := _streamed(program, ours) - _streamed(program, theirs), baseline.profile),
        *_traffic(winner.profile, baseline.profile, fused),
        *_time(winner.profile, baseline.profile),
        *_lanes(ours),
    )


def _rewriting(ours: Mapping, mine: dict[str, Any], other: dict[str, Any]) -> list[str]:
    if not ours.variant:
        return []
    here, there = mine["effectual_multiplies"], other["effectual_multiplies"]
    return [f"It computes {ours.variant}: {here:,} multiplications instead of {there:,}."]


def _streamed(program: Program, mapping: Mapping) -> set[str]:
    edges = rewriting(program, mapping.variant).edges
    cut = {e.tensor for e, c in zip(edges, mapping.cuts, strict=True) if c}
    return {e.tensor for e in edges} - cut


def _fusion(fused: set[str], other: dict[str, Any]) -> list[str]:
    if not fused:
        return []
    size = sum(moved for (tensor, _), moved in _moved(other).items() if tensor in fused)
    gone = f", which saves the {shown('traffic_bytes', size)} that they move otherwise" if size else ""
    return [f"{', '.join(sorted(fused))} {'is' if len(fused) == 1 else 'are'} streamed and never stored{gone}."]


def _traffic(mine: dict[str, Any], other: dict[str, Any], fused: set[str]) -> list[str]:
    ours, theirs = _moved(mine), _moved(other)
    change = {key: theirs[key] - ours[key] for key in {*ours, *theirs} if key[0] not in fused}
    whole = sum(map(abs, change.values()))
    told = sorted((k for k in change if abs(change[k]) > SMALL * whole), key=lambda k: (-abs(change[k]), k))
    return [
        f"{tensor}: {shown('traffic_bytes', ours[tensor, way])} {way} instead of "
        f"{shown('traffic_bytes', theirs[tensor, way])}."
        for tensor, way in told[:MOST_TENSORS]
    ]


def _time(mine: dict[str, Any], other: dict[str, Any]) -> list[str]:
    found = []
    for who, profile in (("It spends most of its time", mine), ("the other", other)):
        step = max(profile["steps"], key=lambda s: s["cycles"], default=None)
        if step is None or not step["cycles"]:
            return []
        unit = max(step["contexts"], key=lambda c: c["busy"], default=None)
        share = step["cycles"] / sum(s["cycles"] for s in profile["steps"])
        busiest = (
            "" if unit is None else f", where {unit['name']} works {unit['busy'] / step['cycles']:.0%} of the time"
        )
        found.append(f"{who} in {step['name']} ({share:.0%}{busiest})")
    return ["; ".join(found) + "."]


def _lanes(ours: Mapping) -> list[str]:
    most = max((loops.lanes for loops in ours.loops), default=1)
    return [f"Up to {most} lanes work side by side."] if most > 1 else []


def _moved(profile: dict[str, Any]) -> Counter[tuple[str, str]]:
    """Bytes per (tensor, read or written)."""
    found = Counter[tuple[str, str]]()
    for row in profile["traffic"]:
        way = "read" if row["direction"] == "read" else "written"
        found[row["tensor"], way] += row["values_bytes"] + row["metadata_bytes"]
    return found
