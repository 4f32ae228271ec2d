"""Descents over estimates: where they start, what they look at, where they end."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from costmodel import estimate
from mapper.default_mapping import default_mapping
from mapper.errors import IllegalMapping
from mapper.machine import load_machine
from mapper.mapping import Mapping
from mapper.notation import parse_program
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.synthetic import generate
from mapper.workload import Workload
from tuner import descent as module
from tuner.descent import Descent, Recorder, descend

RDA = load_machine("rda").with_fields(buffer_bytes=1024)
WORKLOAD = Workload(
    parse_program("Z(i,j) = A(i,k) * B(k,j)"),
    {name: generate("uniform", shape=(40, 40), density=0.1, seed=seed) for seed, name in enumerate("AB")},
)
SPACE = MappingSpace(WORKLOAD, RDA, SpaceLimits(tiles=dict.fromkeys("ijk", (8, 16)), max_lanes=2))


def cycles(mapping: Mapping) -> float:
    return estimate(WORKLOAD, mapping, RDA).latency_cycles


def mapping_of(params: dict[str, Any]) -> Mapping:
    return SPACE.choose(Recorder(params, np.random.default_rng(0)))


@pytest.mark.parametrize("seed", range(4))
def test_no_change_of_one_knob_improves_the_end(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_ESTIMATES", 10_000)
    seen: list[float] = []

    def score(mapping: Mapping) -> float:
        seen.append(cycles(mapping))
        return seen[-1]

    end = Recorder(descend(SPACE, Descent((), (1.0,), seed), score), np.random.default_rng(0))
    best = cycles(SPACE.choose(end))
    assert best == min(seen)
    for name, choices in end.choices.items():
        for other in choices:
            changed = Recorder({**end.chosen, name: other}, np.random.default_rng(0))
            try:
                mapping = SPACE.choose(changed)
            except IllegalMapping:
                continue
            if changed.chosen == {**end.chosen, name: other}:  # else a knob came with it, of any value
                assert cycles(mapping) >= best


def test_the_best_start_is_taken() -> None:
    rng = np.random.default_rng(3)
    starts = [SPACE.sample(rng) for _ in range(5)]
    best = min(starts, key=cycles)
    seen: list[Mapping] = []

    def score(mapping: Mapping) -> float:
        seen.append(mapping)
        return cycles(mapping) if len(seen) <= len(starts) else math.inf  # nothing improves

    end = descend(SPACE, Descent(tuple(map(SPACE.params, starts)), (1.0,), 0), score)
    assert (seen[: len(starts)], mapping_of(end)) == (starts, best)


def test_without_starts_it_begins_at_legal_draws() -> None:
    seen: list[Mapping] = []

    def score(mapping: Mapping) -> float:
        seen.append(mapping)
        return math.inf

    descend(SPACE, Descent((), (1.0,), 0), score)
    assert [SPACE.violations(mapping) for mapping in seen[: module.DRAWS]] == [()] * module.DRAWS
    knobs = len(SPACE.params(default_mapping(MappingSpace(WORKLOAD, RDA))))
    assert len(seen) <= module.DRAWS + max(module.LEAST_ESTIMATES, module.ESTIMATES_PER_KNOB * knobs)
