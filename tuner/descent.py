"""Descent: local search over the model's estimates, one knob at a time; where it ends, the search asks.

The model takes milliseconds, so a descent may look at many mappings; only its end becomes a proposal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mapper.errors import EmptySpace, IllegalMapping
from mapper.mapping import Mapping
from mapper.space import MappingSpace
from tuner.inheritance import inherited

LEAST_ESTIMATES, ESTIMATES_PER_KNOB = 200, 12
"""Mappings that one descent looks at, the larger of the two: spaces of whole models have more knobs."""

DRAWS = 8
"""Uniform draws of which the best is where a descent starts that was given no start."""

INHERITED = 0.8
"""Share of the knobs that come with a change which are as before, where that may be."""

Score = Callable[[Mapping], float]


@dataclass(frozen=True, slots=True)
class Descent:
    """One descent: from the best of ``starts`` (parameters; those missing are drawn), or of a few uniform draws where
    there are none, along ``weights`` of the log objectives."""

    starts: tuple[dict[str, Any], ...]
    weights: tuple[float, ...]
    seed: int


@dataclass(slots=True)
class Recorder:
    """A chooser that follows ``params``, mostly takes over what they leave open (``tuner.inheritance``) or else draws
    it, and remembers every knob asked."""

    params: dict[str, Any]
    rng: np.random.Generator
    choices: dict[str, Sequence[Any]] = field(default_factory=dict)
    chosen: dict[str, Any] = field(default_factory=dict)

    def categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """The parameter if it is one of ``choices``, else what others have instead of it, else a draw."""
        value = self.params.get(name)
        if value not in choices:
            value = inherited(name, choices, self.params)
            if value is None or self.rng.random() >= INHERITED:
                value = choices[int(self.rng.integers(len(choices)))]
        self.choices[name], self.chosen[name] = choices, value
        return value

    def integer(self, name: str, low: int, high: int) -> int:
        """The parameter if it is in [low, high], else a draw."""
        return int(self.categorical(name, range(low, high + 1)))


def descend(space: MappingSpace, descent: Descent, score: Score) -> dict[str, Any]:
    """Parameters of the best mapping found. ``score``: smaller is better."""
    rng = np.random.default_rng(descent.seed)
    starts = descent.starts or _drawn(space, rng)
    best, value = min((_evaluated(space, start, rng, score) for start in starts), key=lambda found: found[1])
    left, knobs = max(LEAST_ESTIMATES, ESTIMATES_PER_KNOB * len(best.choices)), _shuffled(list(best.choices), rng)
    while left > 0 and knobs:  # knobs that have not been tried since the last improvement
        name = knobs.pop()
        for other in _shuffled([c for c in best.choices[name] if c != best.chosen[name]], rng)[:left]:
            left -= 1
            tried, found = _evaluated(space, {**best.chosen, name: other}, rng, score)
            if found < value:
                best, value, knobs = tried, found, _shuffled(list(tried.choices), rng)
                break
    return best.chosen


def _drawn(space: MappingSpace, rng: np.random.Generator) -> list[dict[str, Any]]:
    try:
        return [space.params(space.sample(rng)) for _ in range(DRAWS)]
    except EmptySpace:  # too few are legal to be drawn: knob by knob the descent may still find one
        return [{}]


def _shuffled(items: list[Any], rng: np.random.Generator) -> list[Any]:
    return [items[n] for n in rng.permutation(len(items))]


def _evaluated(
    space: MappingSpace, params: dict[str, Any], rng: np.random.Generator, score: Score
) -> tuple[Recorder, float]:
    recorder = Recorder(params, rng)
    try:
        return recorder, score(space.choose(recorder))
    except IllegalMapping:
        return recorder, float("inf")
