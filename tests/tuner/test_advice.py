"""Advice: gains are those of the model, and what the model cannot use is not told."""

from __future__ import annotations

import dataclasses

import pytest

from costmodel import Statistics, estimate
from mapper.default_mapping import default_mapping
from mapper.machine import load_machine
from mapper.mapping import Loops
from mapper.notation import parse_program
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.synthetic import generate
from mapper.workload import Workload
from tuner.advice import WORTH, Change, advise


def advice(machine: str = "rda", **fields: int) -> tuple[MappingSpace, dict[str, Change]]:
    a = generate("uniform", shape=(60, 50), density=0.1, seed=1)
    b = generate("uniform", shape=(50, 40), density=0.1, seed=2)
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), {"A": a, "B": b})
    space = MappingSpace(workload, load_machine(machine).with_fields(**fields), SpaceLimits(max_lanes=2))
    mapping = dataclasses.replace(default_mapping(space), loops=(Loops(("k", "i", "j")),))
    statistics = Statistics()
    known = estimate(workload, mapping, space.machine, statistics=statistics)
    return space, {change.what: change for change in advise(space, mapping, known, statistics)}


def test_gains_are_ratios_of_estimates() -> None:
    space, found = advice()
    start = dataclasses.replace(default_mapping(space), loops=(Loops(("k", "i", "j")),))
    lanes = dataclasses.replace(start, loops=(Loops(("k", "i", "j"), (), (("i", 2, "block"),)),))
    before, after = (estimate(space.workload, m, space.machine) for m in (start, lanes))
    change = found["lanes Z: none -> 2 over i (block)"]
    assert not change.of_machine
    for measure in ("latency_cycles", "traffic_bytes", "energy_pj"):
        assert change.gain(measure) == pytest.approx(getattr(before, measure) / getattr(after, measure))
    assert change.latency_cycles_gain > 1.2
    measures = ("latency_cycles", "traffic_bytes", "energy_pj")
    assert all(max(map(c.gain, measures)) >= WORTH for c in found.values())


def test_fields_of_the_machine_that_bind() -> None:
    """A slow memory is worth making wider, and no other field comes near; an accumulator that spills, larger."""
    slow = [c for c in advice(dram_channels=1, dram_bytes_per_cycle=1)[1].values() if c.of_machine]
    first, second, *others = sorted(slow, key=lambda change: -change.latency_cycles_gain)
    assert {first.what, second.what} == {"machine dram_bytes_per_cycle: 1 -> 2", "machine dram_channels: 1 -> 2"}
    assert 1.5 < second.latency_cycles_gain <= first.latency_cycles_gain <= 2.0
    assert all(change.latency_cycles_gain < 1.3 for change in others)
    spilling = advice(accumulator_bytes=1024)[1]["machine accumulator_bytes: 1024 -> 2048"]
    assert spilling.of_machine and spilling.traffic_bytes_gain > 1.1
    assert not any("accumulator_bytes" in what for what in advice(accumulator_bytes=2**24)[1])


def test_no_advice_to_overfill_a_buffer() -> None:
    """Whole operands do not fit 2 KiB: untiling is never advised from tiles that do."""
    a, b = (generate("uniform", shape=shape, density=0.5, seed=1) for shape in ((60, 50), (50, 40)))
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), {"A": a, "B": b})
    space = MappingSpace(workload, load_machine("rda").with_fields(buffer_bytes=2048), SpaceLimits(max_lanes=1))
    tiled = dataclasses.replace(default_mapping(space), loops=(Loops(("i", "k", "j"), (("i", 8), ("k", 8), ("j", 8))),))
    statistics = Statistics()
    found = advise(space, tiled, estimate(workload, tiled, space.machine, statistics=statistics), statistics)
    loops = [change.what for change in found if change.what.startswith("loops")]
    assert any("k.tile(16)" in what for what in loops)
    assert all("i.tile" in what.split(" -> ")[1] or "k.tile" in what.split(" -> ")[1] for what in loops)
