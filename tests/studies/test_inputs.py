"""Data of a study: read, generated or in memory; errors placed in the specification."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from mapper.errors import InputError
from mapper.synthetic import uniform
from studies.inputs import dataset_records, load_workload
from studies.spec import StudySpec, load_spec, spec_from_values

MATRIX = "%%MatrixMarket matrix coordinate real general\n3 2 3\n1 1 2.0\n1 1 3.0\n3 2 4.0\n"
SPEC = """\
program: y(i) = A(i,k) * x(k)
tensors:
  A: {file: a.mtx}
  x: {random: {shape: [2], density: 1.0, seed: 7}}
"""


def spec_in(folder: Path, text: str = SPEC) -> StudySpec:
    (folder / "a.mtx").write_text(MATRIX)
    (folder / "study.yaml").write_text(text)
    return load_spec(folder / "study.yaml")


def test_files_and_generators(tmp_path: Path) -> None:
    spec = spec_in(tmp_path)
    workload = load_workload(spec)
    assert workload.tensors["A"].to_dense().tolist() == [[5, 0], [0, 0], [0, 4]]
    assert workload.tensors["x"].key == uniform((2,), 1.0, 7).key
    a, x = dataset_records(spec, {"": workload})
    assert (a.tensor, a.source, a.shape, a.nnz) == ("A", "a.mtx", (3, 2), 2)
    assert any("duplicate" in note for note in a.notes)
    assert x.source == "uniform(density=1.0, seed=7, shape=[2])"
    assert a.key == workload.tensors["A"].key


def test_archives_and_patterns(tmp_path: Path) -> None:
    np.savez(tmp_path / "graph.npz", weights=np.array([[2.0, 0, 3], [0, 0, 4]]), labels=np.array([1]))
    (tmp_path / "p.smtx").write_text("3, 2, 2\n0 1 1 2\n1 0\n")
    values = {
        "program": "Z(i,j) = A(i,k) * B(k,j)",
        "tensors": {"A": {"file": "graph.npz", "member": "weights"}, "B": {"file": "p.smtx", "values": {"seed": 5}}},
    }
    spec = spec_from_values(values, folder=tmp_path, name="s")
    workload = load_workload(spec)
    assert workload.tensors["A"].to_dense().tolist() == [[2, 0, 3], [0, 0, 4]]
    drawn = workload.tensors["B"]
    assert drawn.coords.tolist() == [[0, 2], [1, 0]] and (np.abs(drawn.values) != 1).any()
    assert drawn.key == load_workload(spec).tensors["B"].key
    a, b = dataset_records(spec, {"": workload})
    assert a.source == "graph.npz[weights]" and "values drawn with seed 5" in b.notes


def test_masks(tmp_path: Path) -> None:
    mask = {"kind": "bigbird", "shape": [32, 32], "block": 4, "seed": 0}
    blocks = {"kind": "block_sparse", "shape": [32, 32], "block": [4, 8], "density": 0.5, "seed": 0}
    values = {"program": "S(i,j) = M(i,j) * X(i,j)", "tensors": {"M": {"random": mask}, "X": {"random": blocks}}}
    tensors = load_workload(spec_from_values(values, folder=tmp_path, name="s")).tensors
    assert set(tensors["M"].values) == {1.0} and tensors["X"].nnz == 512
    mask["blok"] = mask.pop("block")
    with pytest.raises(InputError, match=r"unknown name 'blok' in tensors\.M\.random\. Did you mean 'block'"):
        spec_from_values(values, folder=tmp_path, name="s")


def test_data_in_memory(tmp_path: Path) -> None:
    values = {"program": "y(i) = A(i,k) * x(k)", "tensors": {}}
    spec = spec_from_values(values, folder=tmp_path, name="s", in_memory=("A", "x"))
    workload = load_workload(spec, {"A": sparse.eye(2, format="csr"), "x": np.array([1.0, 0.0])})
    assert workload.tensors["x"].nnz == 1
    assert [r.source for r in dataset_records(spec, {"": workload})] == ["memory", "memory"]
    with pytest.raises(InputError, match="tensor 'x' is to be handed over in memory"):
        load_workload(spec, {"A": sparse.eye(2)})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("file: a.mtx", "file: aa.mtx", r"study\.yaml:3:13: no data file 'aa\.mtx'"),
        ("file: a.mtx", "file: study.yaml", r"study\.yaml:3:13: .*suffix of a data file must be one of"),
        ("file: a.mtx", "file: a.mtx, duplicates: error", r"study\.yaml:3:13: .*duplicate"),
        (
            "file: a.mtx",
            "file: a.mtx, member: w",
            r"study\.yaml:3:13: .*only an \.npz archive has members",
        ),
        ("density: 1.0, ", "", r"study\.yaml:4:15: generator 'uniform' needs 'density'"),
        ("density: 1.0", "density: 2.0", r"study\.yaml:4:15: 'density' must be between 0 and 1"),
        ("shape: [2]", "shape: [3]", r"study\.yaml:1:10: index 'k' has extent 2"),
    ],
)
def test_mistakes_are_placed(tmp_path: Path, old: str, new: str, message: str) -> None:
    spec = spec_in(tmp_path, SPEC.replace(old, new))
    with pytest.raises(InputError, match=message):
        load_workload(spec)
