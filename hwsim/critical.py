"""What bounds a run: the busiest resource, the next one, and the chain of waits behind the last context to finish."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mapper.errors import InputError
from mapper.graph import Context, Graph

from .result import ContextProfile, Profile

DRAM = "dram"
"""Name of the off-chip memory among the resources."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A context or the off-chip memory, and the cycles for which it works: no run of the same work is shorter."""

    name: str
    busy_cycles: int


@dataclass(frozen=True, slots=True)
class Link:
    """``resource`` waits for ``cycles`` in ``state`` ``"starved"``, ``"blocked"`` or ``"memory"``, its longest wait; or
    it ends the chain, ``"busy"`` for ``cycles``. ``channel`` leads to the next link (``None``: to the off-chip memory,
    or nowhere)."""

    resource: str
    state: str
    cycles: int
    channel: str | None


@dataclass(frozen=True, slots=True)
class CriticalChain:
    """Result of :func:`critical_chain`.

    ``bound`` is the busiest resource and ``next_bound`` the second: making the bound faster pays until
    ``next_bound`` is the bound. ``links`` lead from the context that finishes last to what it waits for in the end.
    ``loop`` says that the last link waits for one before it: contexts that hold each other up, as
    latency or shallow channels make them.
    """

    cycles: int
    bound: Resource
    next_bound: Resource | None
    links: tuple[Link, ...]
    loop: bool

    @property
    def waiting_cycles(self) -> int:
        """Cycles in which even the bound does not work: filling, latency, dependences, shallow channels."""
        return self.cycles - self.bound.busy_cycles

    @property
    def headroom_cycles(self) -> int:
        """Work by which the bound exceeds the next one: more than this, a faster bound alone cannot save."""
        return self.bound.busy_cycles - (self.next_bound.busy_cycles if self.next_bound else 0)

    def __str__(self) -> str:
        share = self.bound.busy_cycles / self.cycles if self.cycles else 0.0
        lines = [f"{self.cycles} cycles; bound: {self.bound.name}, busy {self.bound.busy_cycles} ({share:.0%})"]
        if self.next_bound:
            lines.append(f"next bound: {self.next_bound.name}, busy {self.next_bound.busy_cycles}")
        for link in self.links:
            via = f" via {link.channel}" if link.channel else ""
            lines.append(f"  {link.resource}: {link.state} {link.cycles}{via}")
        return "\n".join(lines + ["  which waits for one of those above"] * self.loop)


def dram_busy_cycles(graph: Graph, profile: Profile) -> int:
    """Cycles in which the off-chip memory moves bursts and opens their rows, averaged over its channels and rounded
    up; 0 without one."""
    if (dram := graph.dram) is None:
        return 0
    bursts = profile.burst_bytes // dram.burst_bytes
    cycles = bursts * math.ceil(dram.burst_bytes / dram.bytes_per_cycle)
    if dram.row_bytes is not None:
        cycles += profile.row_misses * dram.row_miss_cycles + (bursts - profile.row_misses) * dram.row_hit_cycles
    return math.ceil(cycles / dram.channels)


def critical_chain(graph: Graph, profile: Profile) -> CriticalChain:
    """Bound, next bound and chain of waits of ``profile``, a run of ``graph``.

    The chain follows each context's longest wait: starved to the producer, blocked to the consumer, memory to the
    off-chip memory (or to the load in front, if that is starved most of the time itself). It ends at a context
    that waits no longer than the bound does and is busy at least as long as its longest wait, or where nothing else is
    waited for. A profile counts waits per context, not per channel; so of several inputs the chain takes the one that
    was least full at its best, of several outputs the fullest, then the one whose consumer starved least. A tie goes to
    the busier neighbour, then to the first port.

    Raises ``InputError`` if the run was not of ``graph``, of no context at all, or ended in a deadlock
    (``Profile.deadlock`` is its chain).
    """
    profile.require_run_of(graph)
    if not profile.contexts or profile.status == "deadlock":
        raise InputError(
            f"a critical chain needs contexts and a run without deadlock, got {len(profile.contexts)} contexts and "
            f"status {profile.status!r}; the chain of a deadlock is Profile.deadlock"
        )
    ranked = [Resource(c.name, c.busy) for c in profile.contexts]
    if graph.dram is not None:
        ranked.append(Resource(DRAM, dram_busy_cycles(graph, profile)))
    ranked.sort(key=lambda resource: -resource.busy_cycles)  # stable: ties in the order of the graph
    links, loop = _Walk(graph, profile, profile.cycles - ranked[0].busy_cycles).chain()
    return CriticalChain(profile.cycles, ranked[0], ranked[1] if len(ranked) > 1 else None, links, loop)


class _Walk:
    """The graph by channel ends; a context that waits for ``shortest_wait`` cycles or less may end the chain."""

    def __init__(self, graph: Graph, profile: Profile, shortest_wait: int) -> None:
        self.graph, self.profile, self.shortest_wait = graph, profile, shortest_wait
        self.writer = {channel: n for n, c in enumerate(graph.contexts) for channel in c.outputs}
        self.reader = {channel: n for n, c in enumerate(graph.contexts) for channel in c.inputs}

    def chain(self) -> tuple[tuple[Link, ...], bool]:
        """The links, and whether the last waits for one before it."""
        at: int | None = min(range(len(self.graph.contexts)), key=lambda n: self.profile.contexts[n].finished)
        links: list[Link] = []
        seen: set[int] = set()
        while at is not None and at not in seen:
            seen.add(at)
            unit = self.profile.contexts[at]
            state, cycles = _longest_wait(unit)
            if unit.starved + unit.blocked + unit.memory <= self.shortest_wait and cycles <= unit.busy:
                links.append(Link(unit.name, "busy", unit.busy, None))
                return tuple(links), False
            channel, following = self._follow(self.graph.contexts[at], state, cycles)
            links.append(Link(unit.name, state, cycles, None if channel is None else self.graph.channels[channel].name))
            if state == "memory" and channel is None and self.graph.dram is not None:
                links.append(Link(DRAM, "busy", dram_busy_cycles(self.graph, self.profile), None))
            at = following
        return tuple(links), at is not None

    def _follow(self, context: Context, state: str, cycles: int) -> tuple[int | None, int | None]:
        """Channel and context that come next."""
        units = self.profile.contexts
        if state == "starved" and (channels := [c for c in context.inputs if c in self.writer]):
            channel = min(channels, key=lambda c: (self._fullness(c), -units[self.writer[c]].busy))
            return channel, self.writer[channel]
        if state == "blocked" and (channels := [c for c in context.outputs if c in self.reader]):
            by = {c: (-self._fullness(c), units[self.reader[c]].starved, -units[self.reader[c]].busy) for c in channels}
            channel = min(channels, key=by.__getitem__)
            return channel, self.reader[channel]
        if state == "memory":
            loads = [c for c in context.inputs if c in self.writer and self._starved_load(self.writer[c], cycles)]
            if loads:
                return loads[0], self.writer[loads[0]]
        return None, None

    def _fullness(self, channel: int) -> float:
        """Most tokens held, over the capacity; 0 for an unbounded channel."""
        capacity, fill = self.graph.channels[channel].capacity, self.profile.channels[channel].max_fill
        return 0.0 if capacity is None or fill is None else fill / capacity

    def _starved_load(self, context: int, cycles: int) -> bool:
        """Whether it loads from off-chip memory and waits for its input through most of ``cycles``."""
        unit, params = self.profile.contexts[context], self.graph.contexts[context].params
        loads = unit.kind == "tile_load" or (unit.kind in ("array", "scan") and "tensor" in params)
        return loads and 2 * unit.starved > cycles


def _longest_wait(unit: ContextProfile) -> tuple[str, int]:
    """State and cycles; a tie goes to the first of memory, starved, blocked."""
    waits = {"memory": unit.memory, "starved": unit.starved, "blocked": unit.blocked}
    return max(waits.items(), key=lambda item: item[1])
