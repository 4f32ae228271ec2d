"""Seeded random graphs, and what the compiled simulator must agree with on each of them."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from plain_simulator import PlainProfile, simulate_plainly
from random_programs import LoweredStep, random_machine, random_step
from random_weaves import random_weave

from hwsim import Limits, Profile, simulate
from mapper.graph import UNCONNECTED, Channel, Context, Graph

CONTEXTS = range(5, 61)
"""Sizes of graphs that are kept."""

NO_HANG = Limits(wall_seconds=60)
"""Ends a run that hangs: its status is then that of no other simulator."""

DEPTHS = (1, 1, 2, 2, 3, 4, 8, 32, None)


@dataclass(frozen=True)
class Case:
    """A graph; ``lowered`` knows what it must store if it came from a program."""

    seed: int
    graph: Graph
    lowered: LoweredStep | None


@dataclass(frozen=True)
class Outcome:
    """A case that ran everywhere: its place in the distribution, and how simulators disagree (empty: they do not)."""

    seed: int
    status: str
    contexts: int
    tokens: int
    cycles: int
    reconvergent: bool
    lowered: bool
    dram: bool
    spilled_entries: int
    tile_hits: int
    row_misses: int
    fields: frozenset[str]  # of the memory and the buffers, that are not neutral
    kinds: frozenset[str]
    levels: tuple[str, ...]  # formats of what is scanned or stored
    channels: tuple[tuple[int | None, int, int], ...]  # capacity, latency, response latency
    faults: tuple[str, ...]


def random_case(seed: int) -> Case:
    """The case of a seed: half are lowered programs, half are woven by hand."""
    rng = np.random.default_rng(seed)
    while True:
        lowered = random_step(rng) if rng.random() < 0.5 else None
        graph = lowered.graph if lowered else random_weave(rng, random_machine(rng), int(rng.integers(3, 22)))
        if len(graph.contexts) in CONTEXTS:
            return Case(seed, _with_random_channels(rng, graph), lowered)


def run_case(case: Case) -> Outcome:
    """Runs a case with the core, twice, the second time in a shuffled order, and with the plain simulator."""
    graph = case.graph
    profile, plain = simulate(graph, NO_HANG), simulate_plainly(graph)
    shuffled = simulate(graph, NO_HANG, shuffle_seed=case.seed)
    faults = differences(profile, plain)
    if shuffled.to_json() != profile.to_json() or repr(shuffled.sinks) != repr(profile.sinks):
        faults.append("the result depends on the run order")
    for c in profile.contexts:
        if c.busy + c.starved + c.blocked + c.memory + c.finished != profile.cycles:
            faults.append(f"cycles of {c.name!r} do not add up: {c}")
    if case.lowered and profile.status == "done" and (wrong := case.lowered.wrong_values(profile)):
        faults.append(f"wrong values: {wrong}")
    return Outcome(
        seed=case.seed,
        status=profile.status,
        contexts=len(graph.contexts),
        tokens=profile.tokens,
        cycles=profile.cycles,
        reconvergent=has_reconvergent_fork(graph),
        lowered=case.lowered is not None,
        dram=graph.dram is not None,
        spilled_entries=profile.spilled_entries,
        tile_hits=profile.tile_hits,
        row_misses=profile.row_misses,
        fields=frozenset(_fields(graph)),
        kinds=frozenset(c.kind for c in graph.contexts),
        levels=tuple(level for c in graph.contexts for level in _levels(c)),
        channels=tuple((c.capacity, c.latency, c.response_latency) for c in graph.channels),
        faults=tuple(faults),
    )


def differences(profile: Profile, plain: PlainProfile) -> list[str]:
    """Every figure in which the two simulators differ."""
    traffic = {(r.tensor, r.direction): (r.values_bytes, r.metadata_bytes, r.requests) for r in profile.traffic}
    names = ("status", "cycles", "tokens", "burst_bytes", "effectual_multiplies", "spilled_entries", "tile_hits",
             "tile_misses", "row_misses")  # fmt: skip
    pairs: list[tuple[str, Any, Any]] = [(name, getattr(profile, name), getattr(plain, name)) for name in names]
    pairs.append(("fills", tuple(c.max_fill for c in profile.channels), plain.fills))
    pairs.append(("traffic", traffic, plain.traffic))
    pairs += [
        (f"(busy, starved, blocked, memory) of {c.name}", (c.busy, c.starved, c.blocked, c.memory), spent)
        for c, spent in zip(profile.contexts, plain.units, strict=True)
    ]
    found = [f"{name}: {ours}, plainly {theirs}" for name, ours, theirs in pairs if ours != theirs]
    for name, (coords, values) in plain.outputs.items():
        ours = profile.outputs[name]
        if ours[0].tolist() != coords or not _close(ours[1].tolist(), values):
            found.append(f"output of {name}: {ours}, plainly {coords}, {values}")
    for name, seen in plain.sinks.items():
        sink = profile.sinks[name]
        same = len(sink) == len(seen) and all(
            s[0][0] == p[0][0] and s[1] == p[1] and _close(s[0][1:], p[0][1:]) for s, p in zip(sink, seen, strict=True)
        )
        if not same:
            found.append(f"tokens of {name}: {sink}, plainly {seen}")
    return found


def has_reconvergent_fork(graph: Graph) -> bool:
    """Whether two branches of a fork meet again in one context."""
    reader = {channel: n for n, c in enumerate(graph.contexts) for channel in c.inputs if channel != UNCONNECTED}
    readers = [{reader[channel] for channel in c.outputs if channel != UNCONNECTED} for c in graph.contexts]

    def reached(start: int) -> set[int]:
        seen, stack = {start}, [start]
        while stack:
            new = readers[stack.pop()] - seen
            seen |= new
            stack += new
        return seen

    for context in graph.contexts:
        if context.kind == "fork":
            meets = Counter(n for out in context.outputs if out != UNCONNECTED for n in reached(reader[out]))
            if max(meets.values(), default=0) > 1:
                return True
    return False


def distribution(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Shares and quartiles over cases that ran; an empty cell would be a kind of graph that is not tested."""

    def share(flags: Iterable[bool]) -> float:
        return round(sum(flags) / len(outcomes), 4)

    def quartiles(figures: list[int]) -> list[int]:
        return [int(x) for x in np.percentile(figures, [0, 25, 50, 75, 100])]

    channels = [channel for o in outcomes for channel in o.channels]
    return {
        "graphs": len(outcomes),
        "graphs_with_faults": sum(bool(o.faults) for o in outcomes),
        "share_with_reconvergent_fork": share(o.reconvergent for o in outcomes),
        "share_deadlocking": share(o.status == "deadlock" for o in outcomes),
        "share_lowered": share(o.lowered for o in outcomes),
        "share_lowered_with_values_checked": share(o.lowered and o.status == "done" for o in outcomes),
        "share_with_dram": share(o.dram for o in outcomes),
        "share_with_spills": share(o.spilled_entries > 0 for o in outcomes),
        "share_with_tile_hits": share(o.tile_hits > 0 for o in outcomes),
        "share_with_row_misses": share(o.row_misses > 0 for o in outcomes),
        "contexts_quartiles": quartiles([o.contexts for o in outcomes]),
        "tokens_quartiles": quartiles([o.tokens for o in outcomes]),
        "cycles_quartiles": quartiles([o.cycles for o in outcomes]),
        "graphs_by_context_kind": dict(Counter(kind for o in outcomes for kind in sorted(o.kinds)).most_common()),
        "graphs_by_memory_field": dict(sorted(Counter(name for o in outcomes for name in o.fields).items())),
        "levels_by_format": dict(Counter(level for o in outcomes for level in o.levels).most_common()),
        "channels_by_fifo_depth": dict(Counter(str(depth) for depth, _, _ in channels).most_common()),
        "channels_by_latencies": dict(sorted(Counter(f"{x}/{y}" for _, x, y in channels).items())),
    }


def _with_random_channels(rng: np.random.Generator, graph: Graph) -> Graph:
    """The graph with other FIFO depths and latencies: the same on all channels, or mixed."""
    same_depth, same_latency = rng.random() < 0.4, rng.random() < 0.4
    depths = DEPTHS[4:] if rng.random() < 0.25 else DEPTHS
    depth, latency, response = depths[rng.integers(len(depths))], *map(int, rng.integers(1, 4, 2))

    def redrawn(channel: Channel) -> Channel:
        return dataclasses.replace(
            channel,
            capacity=depth if same_depth else depths[rng.integers(len(depths))],
            latency=latency if same_latency else int(rng.integers(1, 4)),
            response_latency=response if same_latency else int(rng.integers(1, 4)),
        )

    return dataclasses.replace(graph, channels=tuple(map(redrawn, graph.channels)))


def _fields(graph: Graph) -> list[str]:
    """What of the memory model matters in a graph, besides channels, bursts, bandwidth and latency."""
    names = ("interleave_bytes", "startup_cycles", "row_bytes", "row_hit_cycles", "row_miss_cycles", "outstanding")
    found = [name for name in names if graph.dram and getattr(graph.dram, name)]
    for c in graph.contexts:
        found += [f"{c.kind} {name}" for name in ("fill_bytes_per_cycle", "banks") if name in c.params]
        found += [f"{c.kind} off-chip"] * (c.kind in ("array", "scan") and "tensor" in c.params)
    return found


def _levels(context: Context) -> list[str]:
    """Formats of the levels that a context reads or writes."""
    if context.kind == "scan":
        lane = " lane" if "lo" in context.params else ""
        plain = "compressed" if "crd" in context.arrays else "dense"
        off = " off-chip" if "tensor" in context.params else ""
        return [context.params.get("storage", plain) + lane + off + " read"]
    return [f"{kind} written" for kind in context.params.get("kinds", ())] if context.kind == "store" else []


def _close(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    """Equal but for the last digits that libraries' exp and erf disagree on."""
    return len(ours) == len(theirs) and all(
        x == y or (math.isnan(x) and math.isnan(y)) or math.isclose(x, y, rel_tol=1e-12, abs_tol=1e-15)
        for x, y in zip(ours, theirs, strict=True)
    )
