"""One mapping judged over several inputs; sparse activations that pay."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hwsim import Limits
from mapper.default_mapping import default_mapping
from mapper.errors import InputError, StudyError
from mapper.machine import load_machine
from mapper.mapping import Loops
from mapper.notation import parse_program
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.synthetic import generate
from mapper.tensor import SparseTensor
from mapper.workload import Workload
from studies.spec import load_spec
from studies.store import StudyStore
from tuner import tune
from tuner.evaluate import evaluate
from tuner.forecast import forecast
from tuner.over_inputs import combined, joined
from tuner.problem import load_problem
from tuner.session import open_session, run_session
from tuner.work import Worker

RDA = load_machine("rda")
SPEC = """\
program: Z(i,j) = A(i,k) * B(k,j)
tensors:
  A: {format: [csr, dcsr]}
  B: {random: {shape: [40, 20], density: 0.2, seed: 9}}
inputs:
  thin: {A: {random: {shape: [60, 40], density: 0.02, seed: 1}}}
  thick: {A: {random: {shape: [60, 40], density: 0.2, seed: 2}}}
  narrow:
    A: {random: {shape: [60, 12], density: 0.2, seed: 3}}
    B: {random: {shape: [12, 20], density: 0.2, seed: 4}}
machine: {preset: rda, buffer_bytes: 2048}
search: {simulations: 4, batch: 2, candidates: 2, descents: 1, workers: 1, over_inputs: HOW}
storage: sqlite:///study.db
"""


def write(folder: Path, how: str = "worst", text: str = SPEC) -> Path:
    path = folder / "several.yaml"
    path.write_text(text.replace("HOW", how))
    return path


def test_joined_by_hand() -> None:
    assert (joined([1.0, 2.0, 6.0], "mean"), joined([1.0, 2.0, 6.0], "worst")) == (3.0, 6.0)
    one = {"latency_cycles": 4, "traffic_bytes": 10, "energy_pj": 1.0, "tokens": 7, "bottleneck": "S0"}
    two = {"latency_cycles": 8, "traffic_bytes": 2, "energy_pj": 3.0, "tokens": 5, "bottleneck": "S1"}
    assert combined({"": one}, "mean") is one
    found = combined({"a": one, "b": two}, "mean")
    assert (found["latency_cycles"], found["traffic_bytes"], found["energy_pj"], found["tokens"]) == (6, 6, 2.0, 7)
    assert (found["bottleneck"], found["slowest_input"]) == ("S1", "b")
    assert found["inputs"]["a"] == {"latency_cycles": 4, "traffic_bytes": 10, "energy_pj": 1.0, "tokens": 7}
    assert combined({"a": one, "b": two}, "worst")["traffic_bytes"] == 10


@pytest.mark.parametrize("how", ["mean", "worst"])
def test_rows_keep_the_values_of_every_input(tmp_path: Path, how: str) -> None:
    problem = load_problem(load_spec(write(tmp_path, how)))
    session = open_session(problem)
    assert run_session(session, 1, False) == "simulation budget used"
    contents = session.store.load("several")
    session.store.close()
    labels = [d.tensor for d in contents.datasets]
    assert sorted(labels) == ["A of narrow", "A of thick", "A of thin", "B", "B of narrow"]
    rows = [t for t in (contents.baseline, *contents.trials) if t and t.state == "simulated"]
    assert len(rows) >= 3
    for row in rows:
        assert row.profile and row.values and row.mapping and row.estimate
        inputs = row.profile["inputs"]
        assert set(inputs) == {"thin", "thick", "narrow"} == set(row.estimate["inputs"])
        for measure, value in row.values.items():
            assert value == pytest.approx(joined([inputs[name][measure] for name in inputs], how))
    mapping = problem.space.choose(_First())
    worker = Worker(problem.space, how)
    alone = [worker.run(mapping, Limits(), name).latency_cycles for name in problem.space.inputs]
    assert worker.simulate(mapping, Limits()).values["latency_cycles"] == joined(alone, how)
    assert len(set(alone)) == 3


class _First:
    def categorical(self, name: str, choices: Any) -> Any:
        return choices[0]

    def integer(self, name: str, low: int, high: int) -> int:
        return high


def test_identity_holds_every_input_and_how_they_count(tmp_path: Path) -> None:
    one = load_problem(load_spec(write(tmp_path, "worst"))).identity
    assert set(one["data"]) == {"thin", "thick", "narrow"}
    assert one["data"]["thin"]["B"] == one["data"]["thick"]["B"] != one["data"]["narrow"]["B"]
    assert load_problem(load_spec(write(tmp_path, "mean"))).identity != one
    assert one["inputs"] == ["thin", "thick", "narrow"]  # the first decides what is offered
    changed = SPEC.replace("density: 0.2, seed: 3", "density: 0.2, seed: 5")
    assert load_problem(load_spec(write(tmp_path, "worst", changed))).identity["data"] != one["data"]


def test_a_mapping_must_be_legal_for_every_input(tmp_path: Path) -> None:
    """A tile of 16 splits an extent of 40, not one of 12: the violation names the input."""
    space = load_problem(load_spec(write(tmp_path))).space
    loops = Loops(("i", "k", "j"), (("k", 16),))
    mapping = dataclasses.replace(default_mapping(space), loops=(loops,))
    assert [(v.rule, v.where) for v in space.violations(mapping)] == [("tile-extent", "S0 for input narrow")]
    found = Worker(space, "mean").screen(mapping)
    assert found.estimate is None and found.verdicts[0].where == "S0 for input narrow"
    rng = np.random.default_rng(0)
    assert all(dict(space.sample(rng).loops[0].tiles).get("k", 0) < 12 for _ in range(20))
    assert not space.violations(default_mapping(space))


def test_forecast_counts_all_inputs(tmp_path: Path) -> None:
    one = SPEC.split("  thick:", maxsplit=1)[0] + "machine: {preset: rda}\nsearch: {workers: 1}\n"
    alone = forecast(load_problem(load_spec(write(tmp_path, text=one))))
    several = forecast(load_problem(load_spec(write(tmp_path))))
    assert several["tokens_median"] > alone["tokens_median"] > 0


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("A: {random: {shape: [60, 40], density: 0.02", "C: {random: {shape: [60, 40], density: 0.02",
         "several.yaml:6:10: unknown name 'C' in inputs.thin. Valid: A, B"),
        ("over_inputs: HOW", "over_inputs: median", "unknown name 'median' in search.over_inputs"),
        ("{shape: [60, 12]", "{shape: [60, 13]", "several.yaml:8:3: index 'k' has extent 13"),
        ("seed: 1}}", "seed: 1}, format: csr}", "unknown key 'format' in inputs.thin.A"),
        ("thin: {A: {random: {shape: [60, 40], density: 0.02, seed: 1}}}", "thin: {}", "'A' needs either a file or"),
        ("thin: {A: {random: {shape: [60, 40], density: 0.02, seed: 1}}}", "thin: {A: {}}", "needs either a file or"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_placed(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert old in SPEC
    with pytest.raises(InputError) as error:
        load_problem(load_spec(write(tmp_path, text=SPEC.replace(old, new))))
    assert told in str(error.value)


def test_how_to_combine_needs_inputs_to_combine(tmp_path: Path) -> None:
    text = "program: y(i) = A(i)\ntensors: {A: {random: {shape: [3], density: 1.0, seed: 1}}}\n"
    with pytest.raises(InputError, match=r"several\.yaml:3:10: over_inputs needs at least two inputs"):
        load_spec(write(tmp_path, text=text + "search: {over_inputs: mean}\n"))


def test_tune_over_tensors_in_memory(tmp_path: Path) -> None:
    graphs = {f"g{n}": {"A": generate("power_law", shape=(30, 30), nnz=90, seed=n)} for n in range(3)}
    study = tune(
        "Z(i,j) = A(i,k) * X(k,j)", {"X": np.ones((30, 4))}, inputs=graphs, simulations=2, name="graphs",
        search={"batch": 2, "candidates": 2, "descents": 0, "over_inputs": "mean"},
        storage=f"sqlite:///{tmp_path / 'g.db'}",
    )  # fmt: skip
    profile = study.best().trial.profile or {}
    assert sorted(profile["inputs"]) == ["g0", "g1", "g2"]
    assert json.dumps(profile)


def test_sparse_activations_win_traffic() -> None:
    """Two layers over 16 rows; three quarters of the hidden values are negative. Stored compressed, a quarter of them
    is written and read, each with a coordinate: about half the bytes of the dense form."""
    rng = np.random.default_rng(0)
    x, w, v = rng.random((16, 12)), rng.normal(size=(12, 64)), rng.normal(size=(64, 8))
    b = -np.quantile(x @ w, 0.75, axis=0)
    tensors = {name: SparseTensor.from_dense(data) for name, data in {"X": x, "W": w, "V": v, "b": b}.items()}
    workload = Workload(parse_program("H(i,k) = relu(X(i,j)*W(j,k) + b(k))\nZ(i,m) = H(i,k)*V(k,m)"), tensors)
    best: dict[str, int] = {}
    for label in ("", "sparse H"):
        tiles = dict.fromkeys("ijkm", (0,))
        limits = SpaceLimits(fuse={"H": False}, variants=(label,), tiles=tiles, max_lanes=1, residency=("none",))
        space = MappingSpace(workload, RDA, limits)
        for _ in range(25):
            mapping = space.sample(rng)
            result = evaluate(workload, mapping, RDA, Limits())
            assert result.failure is None, (result.failure, mapping)
            np.testing.assert_allclose(result.outputs["Z"].to_dense(), np.maximum(x @ w + b, 0) @ v, atol=1e-9)
            moved = sum(
                r["values_bytes"] + r["metadata_bytes"] for r in result.summary["traffic"] if r["tensor"] == "H"
            )
            best[label] = min(moved, best.get(label, moved))
    assert workload.variant("sparse H").computed["H"].density == pytest.approx(0.25, abs=0.01)
    dense = 2 * (16 * 64 * 4 + 8)
    assert best[""] == dense
    assert best["sparse H"] < 0.6 * dense


def test_a_store_survives_more_inputs(tmp_path: Path) -> None:
    """The same study again is resumed, one with fewer inputs refused."""
    spec = write(tmp_path)
    session = open_session(load_problem(load_spec(spec)))
    session.store.close()
    write(tmp_path, text=SPEC.replace("  thick: {A: {random: {shape: [60, 40], density: 0.2, seed: 2}}}\n", ""))
    with pytest.raises(StudyError, match=r"data\.thick"):
        open_session(load_problem(load_spec(spec)))
    store = StudyStore(load_spec(spec).storage)
    assert [h.name for h in store.studies()] == ["several"]
    store.close()
