"""A tuned study in a folder of its own, and the command line run there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.cli import main


@pytest.fixture(scope="module")
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the specification ``SPEC`` of the test module and its finished study."""
    folder = tmp_path_factory.mktemp("tuned")
    (folder / "small.yaml").write_text(request.module.SPEC)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["sparseloom", "tune", "small.yaml", "--quiet"])
        with pytest.raises(SystemExit) as done:
            main()
    assert done.value.code == 0
    return folder


@pytest.fixture
def run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs ``sparseloom WORDS`` in the folder: exit code, standard output, standard error."""
    monkeypatch.chdir(folder)

    def command(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sparseloom", *words])
        with pytest.raises(SystemExit) as done:
            main()
        out, err = capsys.readouterr()
        return int(done.value.code or 0), out, err

    return command
