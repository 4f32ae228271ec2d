"""From text to costs: random programs in random mappings on every kind of machine."""

from __future__ import annotations

import numpy as np
import pytest
from random_notation import RandomNotation

from costmodel import Statistics, estimate
from costmodel.bounds import bounds
from hwsim import Limits
from mapper.errors import EmptySpace, InputError
from mapper.machine import load_machine
from mapper.residency import RESIDENCIES
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from tuner.evaluate import StorageCache, evaluate

MEASURES = ("latency_cycles", "traffic_bytes", "energy_pj")


@pytest.mark.parametrize("name", ["rda", "comal", "rda-blocks", "comal-hbm"])
def test_values_bytes_and_bounds(name: str) -> None:
    """What runs has the values of the oracle, moves the bytes that the model says and costs no less than the bounds.
    What does not is a deadlock or goes on for too long."""
    rng, machine, ran = np.random.default_rng([7, len(name)]), load_machine(name), 0
    if machine.dram_channels is not None:
        machine = machine.with_fields(buffer_bytes=2048, accumulator_bytes=4096, fifo_depth=64)
    limits = SpaceLimits(residency=tuple(RESIDENCIES), max_lanes=4)
    while ran < 25:
        try:
            workload = RandomNotation(rng).workload()
            mapping = MappingSpace(workload, machine, limits).sample(rng, tries=300)
        except (InputError, EmptySpace):
            continue
        result = evaluate(workload, mapping, machine, Limits(max_cycles=300_000), StorageCache())
        case = str(workload.program), mapping
        if result.failure is not None:
            assert "deadlock" in result.failure or "limit" in result.failure, case
            continue
        statistics, ran = Statistics(), ran + 1
        predicted = estimate(workload, mapping, machine, statistics=statistics)
        least = bounds(workload, mapping, machine, statistics=statistics)
        assert predicted.traffic_bytes == pytest.approx(result.traffic_bytes, rel=0.01), (
            str(workload.program),
            mapping,
        )
        for measure in MEASURES:
            assert getattr(least, measure) <= getattr(result, measure) * (1 + 1e-9), case
