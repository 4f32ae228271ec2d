"""The four ways to give a study its program."""

from __future__ import annotations

from pathlib import Path

import pytest

from mapper.document import parse_document
from mapper.errors import InputError
from studies.inputs import dataset_records, load_workload
from studies.spec import StudySpec, TensorSource, read_spec

TEAAL = """\
einsum:
  declaration: {A: [K, M], B: [K, N], Z: [M, N]}
  expressions:
    - Z[m, n] = A[k, m] * B[k, n]
mapping: {loop-order: {Z: [K, M, N]}}
"""

MODEL = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x):
        return torch.relu(self.layer(x))

def example_inputs():
    return torch.ones(5, 4)
"""

DATA = """\
tensors:
  A: {random: {shape: [4, 3], density: 0.5, seed: 1}}
  B: {random: {shape: [4, 2], density: 0.5, seed: 2}}
"""


def read(text: str, folder: Path = Path("/nowhere")) -> StudySpec:
    return read_spec(parse_document(text, "s.yaml"), folder=folder, name="s")


def test_notation_under_its_own_key_is_the_same_study() -> None:
    text = "Z(m,n) = A(k,m) * B(k,n)"
    plain, keyed = read(f"program: {text}\n{DATA}"), read(f"program: {{notation: '{text}'}}\n{DATA}")
    assert plain.identity() == keyed.identity()


def test_einsum() -> None:
    spec = read(f"program: {{einsum: 'km,kn->mn', operands: [A, B], result: Y}}\n{DATA}")
    assert str(spec.program) == "Y(m,n) = A(k,m) * B(k,n)"


def test_teaal(tmp_path: Path) -> None:
    (tmp_path / "gram.yaml").write_text(TEAAL)
    spec = read(f"program: {{teaal: gram.yaml}}\n{DATA}", tmp_path)
    assert str(spec.program) == "Z(m,n) = A(k,m) * B(k,n)"


class TestTorch:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> Path:
        pytest.importorskip("torch", reason="PyTorch is not installed (pip install '.[torch]')")
        (tmp_path / "model.py").write_text(MODEL)
        return tmp_path

    def test_tensors_come_with_the_program(self, folder: Path) -> None:
        spec = read("program: {torch: 'model.py:Net'}\n", folder)
        assert TensorSource("layer_weight", model="model.py:Net") in spec.sources
        workload = load_workload(spec)
        assert workload.tensors["layer_weight"].shape == (3, 4)
        assert {r.source for r in dataset_records(spec, workload)} == {"model.py:Net"}

    def test_tensors_of_the_study_take_their_place(self, folder: Path) -> None:
        given = """
tensors:
  layer_weight: {random: {shape: [3, 4], density: 0.25, seed: 1}, format: csr}
  x: {format: csr}
"""
        workload = load_workload(read("program: {torch: 'model.py:Net'}" + given, folder))
        assert workload.tensors["layer_weight"].nnz == 3
        assert workload.tensors["x"].nnz == 20

    def test_errors_stand_at_the_key(self, folder: Path) -> None:
        with pytest.raises(InputError, match=r"s.yaml:1:18: .*has no 'Bet'. Did you mean 'Net'"):
            read("program: {torch: 'model.py:Bet'}\n", folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "program: {einsum: 'ij,jk', torch: a.py:B}\n",
            "1:10: a program is one of notation, einsum, torch, teaal; got einsum and torch",
        ),
        ("program: {operands: [A]}\n", "1:10: a program is one of notation, einsum, torch, teaal; got none"),
        ("program: {torhc: a.py:B}\n", "1:11: unknown key 'torhc' in program. Did you mean 'torch'?"),
        ("program: {einsum: 'ik,k!->i', operands: [A, B]}\n", "1:24: unexpected '!'"),
        ("program: {einsum: 'ik,k->i', operands: [A]}\n", "1:19: einsum 'ik,k->i' has 2 operands, got 1 names: A"),
        ("program: {einsum: 'ik,k->i', operands: [A, B]}\n", "1:19: tensor 'A' has no data"),
        ("program: {teaal: none.yaml}\n", "1:18: /nowhere/none.yaml: cannot be read"),
        ("program: {teaal: a.yaml, result: Q}\n", "1:26: result belongs to an einsum, the program is given by teaal"),
        ("program: {torch: none.py:Net}\n", "1:18: no file /nowhere/none.py"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        read(text)
    assert f"s.yaml:{message}" in str(raised.value)
