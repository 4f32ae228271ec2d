"""Parts of a problem, what they say of the whole, and studies that listen."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from hwsim import Limits
from mapper.errors import InputError
from mapper.notation import parse_program
from mapper.synthetic import uniform
from mapper.tensor import SparseTensor
from mapper.workload import Workload
from studies.records import TrialRecord
from studies.spec import load_spec
from tuner.crew import Crew
from tuner.problem import load_problem
from tuner.session import open_session, run_session
from tuner.sub_problem import BLOCK, corrected, sub_problem

SPEC = """
program: Z(i,j) = A(i,k) * B(k,j)
tensors:
  A: {random: {kind: power_law, shape: [96, 60], nnz: 500, seed: 1}}
  B: {random: {kind: power_law, shape: [60, 60], nnz: 300, seed: 2}}
mapping: {parallel: {max: 2}}
objectives: [latency_cycles, traffic_bytes]
search: {sampler: SAMPLER, simulations: 6, batch: 2, candidates: 6, descents: 0, workers: 1, sample: 3}
storage: sqlite:///study.db
"""


def workload(program: str, **shapes: tuple[int, ...]) -> Workload:
    tensors = {name: uniform(shape, 0.2, seed) for seed, (name, shape) in enumerate(shapes.items())}
    return Workload(parse_program(program), tensors)


def test_rows_of_a_product() -> None:
    """Of 96 rows in 6 blocks, one in 3: blocks 1 and 4. Columns and the other operand stay whole."""
    whole = workload("Z(i,j) = A(i,k) * B(k,j)", A=(96, 20), B=(20, 30))
    part = sub_problem(whole, 3)
    assert part is not None
    kept = [*range(16, 32), *range(64, 80)]
    np.testing.assert_array_equal(part.tensors["A"].to_dense(), whole.tensors["A"].to_dense()[kept])
    assert part.tensors["B"] is whole.tensors["B"]
    np.testing.assert_allclose(part.computed["Z"].to_dense(), whole.computed["Z"].to_dense()[kept])


def test_modes_that_must_agree_are_cut_alike() -> None:
    """Paths of length two: rows and columns of the graph are the same vertices. Through statements, too."""
    whole = workload("Z(i,j) = A(i,k) * A(k,j)", A=(64, 64))
    part = sub_problem(whole, 4)
    assert part is not None
    kept = list(range(32, 48))
    np.testing.assert_array_equal(part.tensors["A"].to_dense(), whole.tensors["A"].to_dense()[np.ix_(kept, kept)])
    layer = workload("H(i,k) = A(i,j) * X(j,k)\nZ(n,m) = H(n,k) * W(k,m)", A=(64, 9), X=(9, 5), W=(5, 7))
    part = sub_problem(layer, 2)
    assert part is not None
    assert {name: t.shape for name, t in part.tensors.items()} == {"A": (32, 9), "X": (9, 5), "W": (5, 7)}


def test_the_first_mode_that_is_long_enough() -> None:
    part = sub_problem(workload("Z(i,j) = A(i,k) * B(k,j)", A=(31, 8), B=(8, 32)), 2)
    assert part is not None
    assert (part.tensors["A"].shape, part.tensors["B"].shape) == ((31, 8), (8, 16))
    assert sub_problem(workload("Z(i,j) = A(i,k) * B(k,j)", A=(31, 99), B=(99, 31)), 2) is None
    assert BLOCK == 16


def test_what_windows_read_stays_whole() -> None:
    """The positions of a convolution cannot be cut, its channels can."""
    text = "Z(p,m) = X(p+r,c) * W(m,r,c)"
    shapes = {"X": (66, 3), "W": (40, 3, 3)}
    part = sub_problem(workload(text, **shapes), 2)
    assert part is not None
    assert {name: t.shape for name, t in part.tensors.items()} == {"X": (66, 3), "W": (16, 3, 3)}


def test_the_result_of_a_scalar_has_no_rows() -> None:
    assert sub_problem(workload("z = A(i,k) * B(i,k)", A=(99, 99), B=(99, 99)), 2) is None


def row(number: int, estimated: float, measured: float, part: tuple[float, float]) -> TrialRecord:
    estimate = {"latency_cycles": estimated, "sample": {"latency_cycles": list(part)}}
    return TrialRecord(number, 0, "simulated", {}, {}, estimate=estimate, values={"latency_cycles": measured})


def test_a_correction_by_hand() -> None:
    """Without rows the error of the part is taken over; rows in which the whole has its square teach a slope of 2, and
    rows in which the part says nothing a slope of 0."""
    asked = {"latency_cycles": 100.0, "sample": {"latency_cycles": [10.0, 12.0]}}
    (first,) = corrected([asked], [], ["latency_cycles"])
    assert first["corrected"]["latency_cycles"] == pytest.approx(120.0)
    squared = [row(n, 100, 100 * r * r, (10, 10 * r)) for n, r in enumerate([0.01, 0.1, 10, 100])]
    (learned,) = corrected([asked], squared, ["latency_cycles"])
    assert learned["corrected"]["latency_cycles"] == pytest.approx(144.0, rel=1e-3)
    nothing = [row(n, 100, 100, (10, 10 * r)) for n, r in enumerate([0.01, 0.1, 10, 100])]
    (learned,) = corrected([asked], nothing, ["latency_cycles"])
    assert learned["corrected"]["latency_cycles"] == pytest.approx(100.0, rel=1e-3)
    assert "corrected" not in asked
    assert corrected([{"latency_cycles": 1.0}], squared, ["latency_cycles"]) == [{"latency_cycles": 1.0}]


def test_scales_do_not_matter() -> None:
    rows = [row(n, 100, 100 * r, (10, 10 * r)) for n, r in enumerate([0.5, 0.7, 1.3])]
    asked = {"latency_cycles": 1e9, "sample": {"latency_cycles": [1e6, 2e6]}}
    (found,) = corrected([asked], rows, ["latency_cycles"])
    assert math.log(found["corrected"]["latency_cycles"] / 2e9) == pytest.approx(0.0, abs=1e-9)


def written(folder: Path, sampler: str) -> Path:
    path = folder / "small.yaml"
    path.write_text(SPEC.replace("SAMPLER", sampler))
    return path


def test_a_study_says_which_rows_were_sampled(tmp_path: Path) -> None:
    found = []
    for workers in (1, 2):
        (tmp_path / str(workers)).mkdir()
        session = open_session(load_problem(load_spec(written(tmp_path / str(workers), "tpe"))))
        run_session(session, workers, show=False)
        found.append(session.store.trials(session.study.id))
        session.store.close()
    rows = found[0]
    assert rows == found[1]
    sampled = [r for r in rows if "corrected" in (r.estimate or {}) and r.state != "duplicate"]
    assert {r.fidelity for r in sampled if r.state == "screened"} == {"sample"}
    assert {r.fidelity for r in rows if r.state in ("simulated", "failed")} == {"full"}
    assert len(sampled) <= 3 * 2 * (rows[-1].batch + 1)
    assert {r.fidelity for r in rows if r.state == "rejected"} <= {"none"}


def test_the_part_is_what_a_worker_compares(tmp_path: Path) -> None:
    """Simulated on a part that is all of the rows of a small problem, the pair is that of the rows alone."""
    problem = load_problem(load_spec(written(tmp_path, "tpe")))
    mapping = problem.space.sample(np.random.default_rng(0))
    with Crew(problem.space, "mean") as crew:
        (pairs,), (again,) = (crew.sample([mapping], Limits(), 3) for _ in range(2))
        (screening,), (whole,) = crew.screen([mapping]), crew.simulate([mapping], Limits())
        assert crew.sample([mapping], Limits(max_cycles=1), 3) == [None]
        assert crew.sample([mapping], Limits(), 50) == [None]
    assert pairs is not None
    assert pairs == again
    assert screening.estimate is not None
    for objective, (guessed, simulated) in pairs.items():
        assert 0 < simulated < whole.values[objective]
        assert 0 < guessed < screening.estimate[objective]


def test_a_sampler_that_chooses_by_itself_needs_no_samples(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"small\.yaml:8:\d+: sample helps to choose among candidates"):
        load_spec(written(tmp_path, "sparseloom"))


def test_nothing_stored_is_a_part_too() -> None:
    empty = SparseTensor.from_coo((64, 8), np.zeros((2, 0), np.int64), [])
    part = sub_problem(Workload(parse_program("Z(i) = A(i,k) * B(k)"), {"A": empty, "B": uniform((8,), 1.0, 1)}), 2)
    assert part is not None
    assert (part.tensors["A"].shape, part.tensors["A"].nnz) == ((32, 8), 0)
