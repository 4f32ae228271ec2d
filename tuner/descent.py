"""Descent: local search over the model's estimates, one knob at a time; where it ends, the search asks.

The model takes milliseconds, so a descent may look at many mappings; only its end becomes a proposal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mapper.errors import IllegalMapping
from mapper.mapping import Mapping
from mapper.space import MappingSpace

MOST_ESTIMATES = 100
"""Mappings that one descent looks at."""

TRIED_PER_KNOB = 6
"""Other values of a knob that are tried before the next knob's turn."""

Score = Callable[[Mapping], float]


@dataclass(frozen=True, slots=True)
class Descent:
    """One descent: from ``start`` (parameters; those missing are drawn) along ``weights`` of the log objectives."""

    start: dict[str, Any]
    weights: tuple[float, ...]
    seed: int


@dataclass(slots=True)
class Recorder:
    """A chooser that follows ``params``, draws what they leave open, and remembers every knob asked."""

    params: dict[str, Any]
    rng: np.random.Generator
    choices: dict[str, Sequence[Any]] = field(default_factory=dict)
    chosen: dict[str, Any] = field(default_factory=dict)

    def categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """The parameter if it is one of ``choices``, else a draw."""
        value = self.params.get(name)
        self.choices[name] = choices
        self.chosen[name] = value if value in choices else choices[int(self.rng.integers(len(choices)))]
        return self.chosen[name]

    def integer(self, name: str, low: int, high: int) -> int:
        """The parameter if it is in [low, high], else a draw."""
        return int(self.categorical(name, range(low, high + 1)))


def descend(space: MappingSpace, descent: Descent, score: Score) -> dict[str, Any]:
    """Parameters of the best mapping found. ``score``: smaller is better, infinite for what may not be simulated."""
    rng = np.random.default_rng(descent.seed)
    best, value = _evaluated(space, descent.start, rng, score)
    left, stale = MOST_ESTIMATES, 0
    while left > 0 and stale < len(best.choices):
        name = list(best.choices)[int(rng.integers(len(best.choices)))]
        stale += 1
        others = [c for c in best.choices[name] if c != best.chosen[name]]
        for other in rng.permutation(len(others))[: min(left, TRIED_PER_KNOB)]:
            left -= 1
            tried, found = _evaluated(space, {**best.chosen, name: others[other]}, rng, score)
            if found < value or (np.isinf(value) and np.isinf(found)):  # where nothing fits yet, wander
                best, value, stale = tried, found, 0
                break
    return best.chosen


def _evaluated(
    space: MappingSpace, params: dict[str, Any], rng: np.random.Generator, score: Score
) -> tuple[Recorder, float]:
    recorder = Recorder(params, rng)
    try:
        return recorder, score(space.choose(recorder))
    except IllegalMapping:
        return recorder, float("inf")
