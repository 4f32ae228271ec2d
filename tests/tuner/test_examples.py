"""The examples that plug something in are short, and run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tuner

ROOT = Path(tuner.__file__).parents[1]
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "says"),
    [("plugin_sampler.py", "FrozenTrial(number="), ("outside_evaluator.py", "budget of 30 evaluations used")],
)
def test_short_and_runs(name: str, says: str) -> None:
    if name == "outside_evaluator.py" and shutil.which("gcc") is None:
        pytest.skip("the example tunes gcc, which is not installed")
    script = EXAMPLES / name
    assert len(script.read_text().splitlines()) <= 40
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, check=False)
    assert ran.returncode == 0, ran.stderr
    assert says in ran.stdout
