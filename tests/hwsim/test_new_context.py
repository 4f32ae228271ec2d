"""docs/new_context.md shows two files as they are, each short; they are one unit, cycle for cycle."""

from __future__ import annotations

import random
import re
import runpy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from unit_harness import done, run_unit

from hwsim.parameters import ARRAYS, KINDS, PARAMETERS
from mapper.errors import GraphError
from mapper.graph import CONTEXT_KINDS

ROOT = Path(__file__).parents[2]
FILES = {"python": ROOT / "examples" / "prune_context.py", "cpp": ROOT / "hwsim" / "core" / "contexts" / "prune.cpp"}


@pytest.mark.parametrize("language", FILES)
def test_the_page_shows_a_short_file(language: str) -> None:
    page = (ROOT / "docs" / "new_context.md").read_text(encoding="utf-8")
    (shown,) = re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)
    assert shown == FILES[language].read_text(encoding="utf-8")
    assert shown.count("\n") <= 40


def test_the_file_is_all_there_is_of_it() -> None:
    files = [p for folder in ("mapper", "hwsim") for p in (ROOT / folder).rglob("*")]
    sources = [p for p in files if p.suffix in (".py", ".hpp", ".cpp")]
    naming = [p for p in sources if '"prune"' in p.read_text(encoding="utf-8")]
    assert naming == [FILES["cpp"]] and "prune" not in CONTEXT_KINDS
    assert KINDS["prune"] == (("crd", "val"), ("crd", "val"))
    assert PARAMETERS["prune"] == (("least",), ()) and ARRAYS["prune"] == ((), ())


def test_the_python_example(capsys: pytest.CaptureFixture[str]) -> None:
    names = runpy.run_path(str(FILES["python"]))
    assert [(token[-1], time) for token, time in names["profile"].sinks["kept vals"]] == [
        (0.5, 2), (-2.0, 4), (0, 5), ("done", 6),
    ]  # fmt: skip
    assert capsys.readouterr().out == "2 val 0.5\n4 val -2.0\n5 stop 0\n6 done\n"


def test_a_declared_context() -> None:
    # One pair per cycle: 0.5 at t=1, 0.01 goes at 2, Empty at 3, -2 at 4, its Stop at 5.
    run = run_unit("prune", ["0 4 5 7 S0 D", "0.5 0.01 N -2.0 S0 D"], 2, params={"least": 0.1}, floats=[1])
    assert run.timed == ("0@2 7@5 S0@6 D@7", "0.5@2 -2.0@5 S0@6 D@7")
    assert (run.unit.busy, run.unit.starved) == (5, 1)


@pytest.mark.parametrize("depth", [None, 1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_both_are_one_unit(seed: int, depth: int | None) -> None:
    pick = random.Random(seed)
    crds = [[pick.randrange(9) for _ in range(pick.randrange(6))] for _ in range(5)]
    vals = [[pick.choice([None, 0.0, 0.5, -1.0, 2.0]) for _ in fiber] for fiber in crds]
    python = runpy.run_path(str(FILES["python"]))["prune"]
    options: dict[str, Any] = {"depth": depth, "floats": [1], "sink_times": {0: [pick.randrange(30)]}}
    streams = [done(crds, 2), done(vals, 2)]
    native = run_unit("prune", streams, 2, params={"least": 1.0}, **options)
    other = run_unit("python", streams, 2, params={"generator": partial(python, 1.0)}, **options)
    assert native.timed == other.timed
    for field in ("busy", "starved", "blocked", "finished", "firings"):
        assert getattr(native.unit, field) == getattr(other.unit, field), field


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "parameter 'least' is missing; it needs least"),
        ({"lest": 1.0}, r"unknown parameter 'lest'\. Did you mean 'least'"),
        ({"least": "a"}, "parameter 'least' is missing or of the wrong type"),
        ({"least": -1.0}, "'least' must be 0 or more, got -1"),
    ],
)
def test_a_declared_context_is_checked(params: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=rf"'unit' \(prune\).*{message}"):
        run_unit("prune", ["1 D", "1.5 D"], 2, params=params)
    with pytest.raises(GraphError, match="input port val takes val, but channel 'in 1' carries int"):
        run_unit("prune", ["1 D", "1 D"], 2, params={"least": 1.0})
