"""Machines: every preset loads, says where its figures come from, has an area if it is finite, and runs."""

from __future__ import annotations

import dataclasses

import pytest

from hwsim import Limits
from mapper.area import FIFO_UM2_PER_BIT, SRAM_MM2, UNIT_UM2, area_mm2, area_parts_mm2, process_scale, sram_mm2
from mapper.default_mapping import default_mapping
from mapper.errors import InputError
from mapper.graph import Dram, Graph
from mapper.legality import violations
from mapper.lowering import lower_region
from mapper.machine import (
    SOURCE_GROUPS,
    Energy,
    Machine,
    load_machine,
    machine_sources,
    numeric_fields,
    preset_names,
)
from mapper.mapping import Loops
from mapper.notation import parse_program
from mapper.schedule import schedule
from mapper.space import MappingSpace
from mapper.storage import store_tensor
from mapper.synthetic import uniform
from mapper.units import PORTED
from mapper.workload import Workload
from tuner.evaluate import evaluate

PRESETS = (
    "comal", "comal-hbm", "cpu-simd", "extensor", "gamma", "onyx", "opal", "rda", "rda-blocks", "tensor-core-2to4",
)  # fmt: skip
ENDLESS = ("comal", "comal-hbm")
FINITE = tuple(name for name in PRESETS if name not in ENDLESS)
CITED = ("TeAAL", "SAM", "garnet", "CACTI", "cacti", "Horowitz", "Aladdin", "Comal", "nothing is bounded")


def on_chip_bytes(machine: Machine) -> int:
    assert machine.units is not None and machine.buffer_bytes is not None and machine.accumulator_bytes is not None
    buffers = machine.units["tile_load"] * machine.prefetch_tiles * machine.buffer_bytes
    return buffers + machine.units["accumulate"] * machine.accumulator_bytes


def test_presets() -> None:
    assert preset_names() == PRESETS
    assert len({load_machine(name).key for name in PRESETS}) == len(PRESETS)


@pytest.mark.parametrize("name", PRESETS)
def test_every_figure_has_a_source(name: str) -> None:
    figures = [f.name for f in dataclasses.fields(Energy)]
    assert sorted(f for group in SOURCE_GROUPS.values() for f in group) == sorted([*numeric_fields(), "units"])
    sources = machine_sources(name)
    assert sorted(sources) == sorted([*SOURCE_GROUPS, *figures, "area"])
    for group, source in sources.items():
        assert "assumption" in source or any(word in source for word in CITED), (group, source)


@pytest.mark.parametrize("name", PRESETS)
def test_fields_are_valid(name: str) -> None:
    machine = load_machine(name)
    assert machine.with_fields(**{field: getattr(machine, field) for field in numeric_fields()}) == machine
    assert machine.units is None or set(machine.units) == set(PORTED)
    assert all(getattr(machine.energy, f.name) > 0 for f in dataclasses.fields(Energy))
    assert machine.energy.multiply_pj > machine.energy.add_pj > machine.energy.compare_pj


@pytest.mark.parametrize("name", PRESETS)
def test_a_small_product_runs(name: str) -> None:
    machine = load_machine(name)
    tensors = {"A": uniform((20, 24), 0.2, 1), "B": uniform((24, 18), 0.2, 2)}
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), tensors)
    mapping = default_mapping(MappingSpace(workload, machine))
    assert violations(workload, mapping, machine) == ()
    result = evaluate(workload, mapping, machine, Limits())
    assert result.failure is None
    assert result.latency_cycles > machine.dram_latency_cycles * (machine.dram_channels is not None)
    assert result.energy_pj > 0
    assert (result.traffic_bytes > 0) == (machine.dram_channels is not None)


def test_tiles_and_lanes_fit_the_finite_machines() -> None:
    tensors = {"A": uniform((32, 32), 0.2, 1), "B": uniform((32, 32), 0.2, 2)}
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), tensors)
    for name in FINITE:
        machine = load_machine(name)
        mapping = default_mapping(MappingSpace(workload, machine))
        tiles = (("i", 4), ("k", 8), ("j", 8))
        loops = dataclasses.replace(mapping.loops[0], tiles=tiles, parallel=(("i", 4, "balanced"),))
        lanes = dataclasses.replace(mapping, loops=(loops,))
        assert violations(workload, lanes, machine) == (), name
        assert evaluate(workload, lanes, machine, Limits()).failure is None, name


def test_using_more_units_than_there_are_is_illegal() -> None:
    tensors = {"A": uniform((64, 32), 0.2, 1), "B": uniform((64, 32), 0.2, 2)}
    workload = Workload(parse_program("Z(i,j) = A(i,j) + B(i,j)"), tensors)
    for name in FINITE:
        machine = load_machine(name)
        assert machine.units is not None
        mapping = default_mapping(MappingSpace(workload, machine))
        loops = dataclasses.replace(mapping.loops[0], tiles=(), parallel=(("i", 64, "balanced"),))
        found = violations(workload, dataclasses.replace(mapping, loops=(loops,)), machine)
        assert {v.rule for v in found} == {"units"}, name
        assert any(v.limit == f"at most {machine.units['union']}" for v in found), name
        joins = violations(workload, dataclasses.replace(mapping, loops=(Loops(("i", "j")),)), machine)
        assert bool(joins) == (machine.units["union"] == 0), name  # machines that intersect only cannot add


def test_sums_that_the_sources_state() -> None:
    machines = {name: load_machine(name) for name in PRESETS}
    assert machines["rda"].bytes_per_cycle == 64
    assert machines["gamma"].bytes_per_cycle * machines["gamma"].clock_ghz == 128
    for name in ("extensor", "onyx", "opal"):
        assert machines[name].bytes_per_cycle == pytest.approx(68.256, rel=5e-4)
    assert machines["cpu-simd"].bytes_per_cycle * machines["cpu-simd"].clock_ghz == pytest.approx(25.6)
    assert machines["comal-hbm"].bytes_per_cycle == 16  # 4 elements of 4 bytes
    assert machines["comal-hbm"].dram_latency_cycles + 4 / machines["comal-hbm"].dram_bytes_per_cycle == 19
    sizes = {"gamma": 3 * 2**20, "onyx": 2**22, "opal": 2**22, "cpu-simd": 2**20, "tensor-core-2to4": 2**18}
    for name, size in sizes.items():
        assert on_chip_bytes(machines[name]) == size
    assert on_chip_bytes(machines["extensor"]) == 30 * 2**20 + 128 * 64 * 2**10  # the LLB and the buffers of 128 PEs
    for machine in (machines["onyx"], machines["opal"]):
        assert machine.units is not None
        memory = sum(machine.units[k] for k in ("scan", "array", "accumulate", "tile_load", "store"))
        assert (memory, sum(machine.units.values()) - memory) == (128, 384)


def test_opal_is_onyx_by_assumption() -> None:
    assert dataclasses.replace(load_machine("opal"), name="onyx") == load_machine("onyx")


def test_comal_hbm_is_comal_with_memory() -> None:
    comal, hbm = load_machine("comal"), load_machine("comal-hbm")
    memory = {f: getattr(comal, f) for f in ("name", *SOURCE_GROUPS["dram"])}
    assert dataclasses.replace(hbm, **memory) == comal


def test_unknown_machines() -> None:
    for load in (load_machine, machine_sources):
        with pytest.raises(InputError, match="Did you mean 'gamma'"):
            load("gama")


def test_rates_by_hand() -> None:
    rda = load_machine("rda")  # 8 channels x 8 bytes per cycle, bursts of 8 cycles, latency 100
    assert rda.streaming_bytes_per_cycle == rda.bytes_per_cycle == 64
    assert rda.port_bytes_per_cycle("read") == rda.buffer_fill_bytes_per_cycle == float("inf")
    assert rda.bank_read_cycles == 1
    # Of 4 bursts in a row one takes 8 + 20 cycles, three 8 + 2: 58 for 256 bytes, times 8 channels.
    rows = rda.with_fields(dram_row_bytes=256, dram_row_hit_cycles=2, dram_row_miss_cycles=20)
    assert rows.streaming_bytes_per_cycle == pytest.approx(8 * 256 / 58)
    # A burst of 64 bytes keeps its channel for two whole cycles at 48 bytes per cycle, for one at 64 and more.
    rates = [rda.with_fields(dram_bytes_per_cycle=b).streaming_bytes_per_cycle for b in (48.0, 64.0, 128.0)]
    assert rates == [8 * 32, 8 * 64, 8 * 64]
    # 3 bursts of 64 bytes in 8 + 100 cycles, or in 8 for writes.
    port = rda.with_fields(dram_outstanding=3)
    assert port.port_bytes_per_cycle("read") == pytest.approx(192 / 108)
    assert port.port_bytes_per_cycle("write") == 24
    assert load_machine("comal").with_fields(dram_outstanding=3).port_bytes_per_cycle("read") == float("inf")
    # 4-byte values out of banks of 1.5 bytes per cycle: 3 cycles each; four of them take 6 bytes per cycle in.
    banks = rda.with_fields(buffer_banks=4, buffer_bytes_per_cycle=1.5)
    assert (banks.bank_read_cycles, banks.buffer_fill_bytes_per_cycle) == (3, 6)


def test_memory_and_ports_reach_the_graph() -> None:
    tensors = {"A": uniform((20, 24), 0.2, 1), "B": uniform((24, 18), 0.2, 2)}
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), tensors)
    rda = load_machine("rda")
    mapping = default_mapping(MappingSpace(workload, rda))
    (region,) = schedule(workload.program, mapping).regions

    def lowered(machine: Machine) -> Graph:
        return lower_region(workload, mapping, machine, region, lambda t, x: store_tensor(tensors[t], x, machine))

    changes = {
        "dram_interleave_bytes": 256, "dram_startup_cycles": 7, "dram_row_bytes": 1024, "dram_row_hit_cycles": 1,
        "dram_row_miss_cycles": 30, "dram_outstanding": 5,
    }  # fmt: skip
    assert lowered(rda).dram == Dram(8, 8.0, 64, 100)
    assert lowered(rda.with_fields(**changes)).dram == Dram(8, 8.0, 64, 100, 256, 7, 1024, 1, 30, 5)
    for context in lowered(rda).contexts:
        assert "banks" not in context.params and "fill_bytes_per_cycle" not in context.params
    ported = lowered(rda.with_fields(buffer_banks=2, buffer_bytes_per_cycle=1.5))
    arrays = [c.params for c in ported.contexts if c.kind == "array"]
    assert arrays == [{"banks": 2, "bank_bytes_per_cycle": 1.5, "value_bytes": 4}] * 2
    assert {c.params["fill_bytes_per_cycle"] for c in ported.contexts if c.kind == "tile_load"} == {3.0}


def test_values_of_the_fields_of_memory() -> None:
    rda = load_machine("rda")
    for field in ("dram_interleave_bytes", "dram_row_bytes", "dram_outstanding", "buffer_bytes_per_cycle"):
        assert getattr(rda.with_fields(**{field: None}), field) is None
        with pytest.raises(InputError, match=f"{field}' must be positive, got 0"):
            rda.with_fields(**{field: 0})
    for field in ("dram_startup_cycles", "dram_row_hit_cycles", "dram_row_miss_cycles"):
        assert getattr(rda.with_fields(**{field: 0}), field) == 0
        with pytest.raises(InputError, match="must be an integer, got None"):
            rda.with_fields(**{field: None})
    with pytest.raises(InputError, match="'buffer_banks' must be positive, got 0"):
        rda.with_fields(buffer_banks=0)


# ------------------------------------------------------------------------------------------------------------- area


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_machines_have_no_area(name: str) -> None:
    assert area_parts_mm2(load_machine(name)) is None
    assert area_mm2(load_machine(name)) is None


@pytest.mark.parametrize("field", ["fifo_depth", "buffer_bytes", "accumulator_bytes"])
def test_one_unbounded_field_takes_the_area_away(field: str) -> None:
    assert area_mm2(load_machine("rda").with_fields(**{field: None})) is None


def test_every_unit_has_an_area() -> None:
    assert set(UNIT_UM2) >= set(PORTED)


def test_area_by_hand() -> None:
    # One ALU with 2 FIFOs, intersect 4, load 1 and two buffers, accumulate 4 (outer, two coordinates, value).
    units = dict.fromkeys(PORTED, 0) | {"alu": 1, "intersect": 1, "tile_load": 1, "accumulate": 1}
    machine = dataclasses.replace(load_machine("rda"), units=units, fifo_depth=10, accumulator_bytes=2**20)
    parts = area_parts_mm2(machine)
    assert parts == {
        "logic": pytest.approx(sum(UNIT_UM2[k] for k in ("alu", "intersect", "tile_load", "accumulate")) / 1e6),
        "fifos": pytest.approx((2 + 4 + 1 + 4) * 10 * 33 * FIFO_UM2_PER_BIT / 1e6),
        "buffers": pytest.approx(2 * 0.21),
        "accumulators": pytest.approx(3.3),
    }
    assert area_mm2(machine) == pytest.approx(sum(parts.values()))
    assert area_mm2(machine, 15.0) == pytest.approx(sum(parts.values()) / 9)
    assert process_scale(45.0) == 1
    wide = area_parts_mm2(machine.with_fields(value_bytes=8))
    assert wide is not None and wide["fifos"] == pytest.approx(parts["fifos"] * 65 / 33)


def test_sram_table() -> None:
    for kib, mm2 in SRAM_MM2.items():
        assert sram_mm2(kib * 1024) == pytest.approx(mm2)
    assert sram_mm2(32 * 1024) == pytest.approx(0.21 / 2)
    assert sram_mm2(60 * 2**20) == pytest.approx(91 * 2)
    assert sram_mm2(2 * 2**20) == pytest.approx((3.3 * 13.0) ** 0.5)  # half way in logarithms
    sizes = [sram_mm2(2**n) for n in range(10, 27)]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("field", ["fifo_depth", "buffer_bytes", "accumulator_bytes", "prefetch_tiles"])
def test_more_of_anything_takes_more_area(field: str) -> None:
    for name in FINITE:
        machine = load_machine(name)
        small, large = area_mm2(machine), area_mm2(machine.with_fields(**{field: 2 * getattr(machine, field)}))
        assert small is not None and large is not None and small < large, name
