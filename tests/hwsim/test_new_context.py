"""The example of docs/new_context.md runs and gives what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[2] / "docs" / "new_context.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, flags=re.DOTALL)


def test_the_python_example() -> None:
    (code,) = blocks("python")
    names: dict[str, object] = {}
    exec(code, names)
    profile = names["profile"]
    tokens = [(token[-1], time) for token, time in profile.sinks["sink"]]  # type: ignore[attr-defined]
    assert tokens == [(1.0, 2), (3.0, 3), (3.0, 4), (0, 5), ("done", 6)]


@pytest.mark.parametrize("language", ["python", "cpp"])
def test_examples_are_short(language: str) -> None:
    (code,) = blocks(language)
    assert code.count("\n") <= 40
