"""``sparseloom import`` shows what a model was read as; the command line starts without PyTorch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mapper.notation import parse_program
from tuner.cli import app

MODELS = Path(__file__).parents[2] / "examples" / "models"


def run(*words: str) -> str:
    pytest.importorskip("torch", reason="PyTorch is not installed (pip install '.[torch]')")
    result = CliRunner().invoke(app, ["import", *words])
    assert result.exit_code == 0, result.output
    return result.output


def test_json() -> None:
    found = json.loads(run(f"{MODELS / 'decoder_block.py'}:Block", "--json"))
    program = parse_program(found["program"])
    assert found["statements"] == len(program.statements)
    assert {t["tensor"] for t in found["tensors"]} == set(program.inputs)
    assert {o["tensor"]: o["shape"] for o in found["outputs"]} == {"add_1": [1, 16, 32]}
    (grow,) = (t for t in found["tensors"] if t["tensor"] == "grow_weight")
    assert (grow["shape"], round(grow["density"], 2)) == ([128, 32], 0.2)
    softmax = next(line for line in found["lines"] if line["operation"] == "aten.softmax.int")
    assert softmax["statement"].startswith("softmax_0(") and "decoder_block.py:" in softmax["source"]
    assert {tuple(i["extent"]) for i in found["indices"]} == {(16,), (32,), (4,), (8,), (128,)}


def test_tables() -> None:
    text = run(f"{MODELS / 'decoder_block.py'}:Block")
    assert "relu_0(i,n) = relu(grow(i,n))" in text
    assert "outputs: add_1 as 1 x 16 x 32" in text


def test_help_loads_no_torch() -> None:
    code = "import sys, tuner.cli; sys.exit('torch' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_torch_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from mapper.errors import InputError
    from mapper.torch_file import import_file

    (tmp_path / "model.py").write_text("")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r'a PyTorch model needs PyTorch: pip install "sparseloom\[torch\]"'):
        import_file("model.py:Net", tmp_path)
