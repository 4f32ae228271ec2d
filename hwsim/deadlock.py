"""The report of a deadlock: a cycle of contexts, each waiting for the next."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Blocked:
    """``context`` stands still at ``time_cycles`` because of ``waits_for``: at an input ``port`` no token has come,
    at an output ``port`` no slot is free. ``fill`` of ``capacity`` (``None``: unbounded) tokens are in ``channel``."""

    context: str
    waits_for: str
    port: str
    for_token: bool
    channel: str
    fill: int
    capacity: int | None
    time_cycles: int

    def __str__(self) -> str:
        what = "a token" if self.for_token else "a free slot"
        capacity = "unbounded" if self.capacity is None else self.capacity
        return (
            f"{self.context} (cycle {self.time_cycles}) waits for {what} at port {self.port} from {self.waits_for}: "
            f"channel {self.channel} holds {self.fill} of {capacity}"
        )


@dataclass(frozen=True, slots=True)
class Deadlock:
    """The contexts of ``cycle`` wait for one another, the last for the first: nothing can move any more."""

    cycle: tuple[Blocked, ...]

    @property
    def brief(self) -> str:
        """The cycle in a line: who waits for whom, and which channels are full."""
        waits = " > ".join(wait.context for wait in (*self.cycle, self.cycle[0]))
        full = sorted(
            {f"{wait.channel} holds {wait.fill} of {wait.capacity}" for wait in self.cycle if not wait.for_token}
        )
        return "; ".join((waits, *full))

    def __str__(self) -> str:
        full = sorted({wait.channel for wait in self.cycle if not wait.for_token})
        cure = f"deeper channels may resolve it: {', '.join(full)}" if full else "no channel depth can resolve it"
        return "deadlock; " + cure + "\n" + "\n".join(f"  {wait}" for wait in self.cycle)
