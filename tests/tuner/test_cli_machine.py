"""``sparseloom machine``: fields, energy, area and sources."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hwsim import Limits
from mapper.area import area_mm2
from mapper.canonical import plain
from mapper.errors import InputError
from mapper.machine import load_machine, machine_sources, preset_names
from mapper.mapping import Loops, Mapping
from studies.spec import load_spec
from tuner.cli_machine import app
from tuner.evaluate import evaluate
from tuner.problem import load_problem

SPEC = """
program: Z(i,j) = A(i,k) * B(k,j)
tensors:
  A: {random: {shape: [24, 30], density: 0.15, seed: 1}}
  B: {random: {shape: [30, 20], density: 0.15, seed: 2}}
machine: rda
"""


def run(*words: str) -> str:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return result.output


def test_list() -> None:
    rows = {row["name"]: row for row in json.loads(run("list", "--json"))}
    assert tuple(rows) == preset_names()
    for name, row in rows.items():
        assert row["area_mm2"] == (None if name.startswith("comal") else pytest.approx(area_mm2(load_machine(name))))
        assert row["dram_pj_per_byte"] == load_machine(name).energy.dram_pj_per_byte
    assert all(name in run("list") for name in preset_names())


@pytest.mark.parametrize("name", ["onyx", "comal"])
def test_show(name: str) -> None:
    data = json.loads(run("show", name, "--json"))
    assert data["sources"] == machine_sources(name)
    assert data["energy"]["dram_pj_per_byte"] == load_machine(name).energy.dram_pj_per_byte
    area = area_mm2(load_machine(name))
    assert data["area_mm2"] is None if area is None else data["area_mm2"]["total"] == pytest.approx(area)
    text = run("show", name)
    assert "energy.token_pj" in text and "* fifo_depth" in text and "  area " in text
    assert all(source in text for source in machine_sources(name).values())


def test_areas_of_another_process_are_scaled() -> None:
    at_45, at_15 = (json.loads(run("show", "rda", "--json", *more)) for more in ((), ("--process-nm", "15")))
    assert (at_45["process_nm"], at_15["process_nm"]) == (45, 15)
    for part, area in at_45["area_mm2"].items():
        assert at_15["area_mm2"][part] == pytest.approx(area / 9)


def test_calibrate(tmp_path: Path) -> None:
    spec, chip = tmp_path / "small.yaml", tmp_path / "chip.json"
    spec.write_text(SPEC)
    workload = load_problem(load_spec(spec)).workload
    real = load_machine("rda").with_fields(dram_latency_cycles=163)
    formats = tuple((t, ("dense", "compressed")) for t in "ABZ")
    entries = []
    for order in (("i", "k", "j"), ("i", "j", "k")):
        mapping = Mapping((), (Loops(order, (("k", 8),)),), formats)
        cycles = evaluate(workload, mapping, real, Limits()).latency_cycles
        entries.append({"mapping": plain(mapping), "cycles": cycles})
    chip.write_text(json.dumps(entries))
    words = ("calibrate", str(spec), str(chip), "--free", "dram_latency_cycles=20:400")
    found = json.loads(run(*words, "--json"))
    assert found["fitted"] == {"dram_latency_cycles": 163}
    assert found["after"]["measured"] == found["after"]["simulated"] == [e["cycles"] for e in entries]
    text = run(*words, "--free", "clock_ghz=0.5:2.0")
    assert "error after: mean 0.00%, worst 0.00%" in text and "dram_latency_cycles: 163" in text
    assert "undetermined" in text.split("clock_ghz")[1]
    for wrong in (
        "dram_latency_cycles",
        "dram_latency_cycles=3",
        "dram_latency_cycles=a:b",
        "dram_latency_cycles=1:2:3",
    ):
        result = CliRunner().invoke(app, [*words[:-1], wrong])
        assert isinstance(result.exception, InputError)
        assert "--free must be name=low:high" in str(result.exception)
