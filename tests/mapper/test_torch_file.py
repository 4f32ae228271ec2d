"""Model files: what they may hold, and every way they can be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from mapper.errors import InputError
from mapper.torch_file import import_file

pytest.importorskip("torch", reason="PyTorch is not installed (pip install '.[torch]')")

MODEL = """\
import torch
from neighbour import WIDTH

class Net(torch.nn.Module):
    def __init__(self, width=WIDTH):
        super().__init__()
        self.layer = torch.nn.Linear(4, width)

    def forward(self, x):
        return torch.relu(self.layer(x))

class Sized(torch.nn.Module):
    def __init__(self, width, *, bias):
        super().__init__()

class Odd(Net):
    @staticmethod
    def example_inputs():
        return torch.ones(7, 4)

class Broken(Net):
    def __init__(self):
        raise RuntimeError("no weights")

def small():
    return Net(2)

def number():
    return 3

ready = Net(3)
WORD = "text"

def example_inputs():
    return (torch.ones(5, 4),)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "neighbour.py").write_text("WIDTH = 6\n")
    return tmp_path


@pytest.mark.parametrize(("name", "shape"), [("Net", (5, 6)), ("small", (5, 2)), ("ready", (5, 3)), ("Odd", (7, 6))])
def test_classes_functions_and_modules(folder: Path, name: str, shape: tuple[int, ...]) -> None:
    found = import_file(f"model.py:{name}", folder)
    assert found.results[0].shape == shape
    assert "model.py:10: return torch.relu(self.layer(x))" in found.origins[0].source


def test_weights_left_to_chance_are_the_same_in_every_run(folder: Path) -> None:
    one, two = (import_file("model.py:Net", folder).tensors["layer_weight"].key for _ in range(2))
    assert one == two


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("model.py", "is given as file.py:Name, got 'model.py'"),
        ("nothing.py:Net", "no file "),
        ("model.py:Nett", "has no 'Nett'. Did you mean 'Net'?"),
        ("model.py:Sized", "Sized needs arguments (width, bias); add a function without arguments"),
        ("model.py:number", "number() must return a torch.nn.Module, got int"),
        ("model.py:WORD", "WORD must be a torch.nn.Module or make one, got str"),
        ("model.py:Broken", "model.py:23: Broken() raised RuntimeError: no weights"),
    ],
)
def test_wrong_names(folder: Path, target: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        import_file(target, folder)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import torch\n1 / 0\n", "bad.py:2: the file raised ZeroDivisionError: division by zero"),
        ("import torch\nclass Net(:\n", "bad.py:2: the file raised SyntaxError"),
        (
            "import torch\nNet = torch.nn.ReLU\n",
            "the inputs of Net are not known; define example_inputs()",
        ),
        (
            "import torch\nNet = torch.nn.ReLU\ndef example_inputs():\n    return x\n",
            "bad.py:4: example_inputs() raised",
        ),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.py").write_text(text)
    with pytest.raises(InputError) as raised:
        import_file("bad.py:Net", tmp_path)
    assert message in str(raised.value)
