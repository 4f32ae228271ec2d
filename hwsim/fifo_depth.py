"""The smallest FIFO depth at which a graph finishes.

With deeper channels no context waits longer for a free slot, so a graph that finishes at one depth finishes at every
greater one, and the depth can be bisected.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from mapper.graph import Graph

from .result import Profile
from .simulate import Limits, simulate

_NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class FifoDepth:
    """Result of :func:`smallest_depth`.

    ``depth``: tokens per channel, or ``None`` if even unbounded channels do not let the graph finish. ``profile`` is
    the run at ``depth`` (``None``: with unbounded channels), ``below`` the run at ``depth - 1``, whose deadlock says
    which channels must be deeper (``None`` at depth 1). ``simulations`` counts the runs.
    """

    depth: int | None
    profile: Profile
    below: Profile | None
    simulations: int

    def __str__(self) -> str:
        if self.depth is None:
            why = f"\n{self.profile.deadlock}" if self.profile.deadlock else ""
            return f"no FIFO depth suffices: with unbounded channels the run ends with {self.profile.status}{why}"
        text = f"FIFO depth {self.depth} suffices ({self.profile.cycles} cycles)"
        if self.below is None:
            return text
        why = f"\n{self.below.deadlock}" if self.below.deadlock else ""
        return f"{text}; at depth {self.depth - 1} the run ends with {self.below.status}{why}"


def with_depth(graph: Graph, depth: int | None) -> Graph:
    """``graph`` with ``depth`` tokens (``None``: unbounded) in every channel but those that a tile_load fills: their
    capacity is the number of tiles fetched ahead, a size of the buffer."""
    prefetch = {channel for c in graph.contexts if c.kind == "tile_load" for channel in c.outputs}
    channels = (c if n in prefetch else dataclasses.replace(c, capacity=depth) for n, c in enumerate(graph.channels))
    return dataclasses.replace(graph, channels=tuple(channels))


def smallest_depth(graph: Graph, limits: Limits = _NO_LIMITS) -> FifoDepth:
    """The smallest uniform FIFO depth at which ``graph`` finishes within ``limits``; its own depths do not count.

    Unbounded channels first (a run that they do not let finish, no depth does), then depths doubled until one suffices,
    then bisection. A limit reached counts as not finished; ``depth`` suffices and ``depth - 1`` does not in any case.

    Raises ``GraphError`` as :func:`hwsim.simulate` does.
    """
    unbounded = simulate(with_depth(graph, None), limits)
    if unbounded.status != "done":
        return FifoDepth(None, unbounded, None, 1)
    runs: dict[int, Profile] = {}
    short, enough = 0, max((1, *(c.tokens for c in unbounded.channels)))  # who holds all its tokens is unbounded
    while enough - short > 1 or enough not in runs:
        bisecting = enough in runs
        depth = (short + enough) // 2 if bisecting else min(max(1, 2 * short), enough)
        runs[depth] = simulate(with_depth(graph, depth), limits)
        if runs[depth].status == "done" or depth == enough:
            enough = depth
        else:
            short = depth
    return FifoDepth(enough, runs[enough], runs.get(enough - 1), 1 + len(runs))
