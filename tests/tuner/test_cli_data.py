"""``sparseloom data``: what is found and what is measured."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from mapper.errors import InputError
from tuner.cli_data import app


def run(*words: str) -> str:
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with blocks in an archive of two arrays, and a file with a duplicate."""
    (tmp_path / "set").mkdir()
    np.savez(tmp_path / "set" / "w.npz", blocks=np.kron(np.eye(16), np.ones((4, 4))), other=np.eye(2))
    (tmp_path / "v.tns").write_text("1 1 1\n1 1 2\n3 3 1\n")
    (tmp_path / "notes.txt").write_text("no data")
    monkeypatch.setenv("SPARSELOOM_DATA", str(tmp_path))
    return tmp_path


def test_list(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = json.loads(run("list", "--json"))
    assert [row["file"] for row in rows] == ["set/w.npz", "v.tns"]
    assert rows[1]["file_bytes"] == 18 and "v.tns" in run("list")
    monkeypatch.setenv("SPARSELOOM_DATA", str(folder / "absent"))
    with pytest.raises(InputError, match="SPARSELOOM_DATA must name a folder"):
        run("list")


def test_analyse(folder: Path) -> None:
    data = json.loads(run("analyse", "w.npz", "--member", "blocks", "--json"))
    assert (data["kind"], data["recommendation"], data["shape"]) == ("block", "bcsr(4x4)", [64, 64])
    assert data["sizes_bytes"]["bcsr(4x4)"] == 4 * 17 + 16 * (4 + 64)
    assert data["blocks"] == {"rows": 4, "columns": 4, "count": 16, "fill": 1.0}
    text = run("analyse", "w.npz", "--member", "blocks")
    assert "64 x 64, 256 entries, block" in text and "bcsr(4x4)" in text
    assert "store as 4x4 blocks: 100 % of each touched block is filled" in text
    assert "note: 1 duplicate entries were summed" in run("analyse", "v.tns")
    narrow = json.loads(run("analyse", "w.npz", "--member", "blocks", "--value-bytes", "1", "--json"))
    assert narrow["sizes_bytes"]["dense"] == 64 * 64
    with pytest.raises(InputError, match="name one of them as 'member'"):
        run("analyse", "w.npz")


def test_stats(folder: Path) -> None:
    data = json.loads(run("stats", "w.npz", "--member", "blocks", "--tile", "4", "--json"))
    assert (data["shape"], data["nnz"]) == ([64, 64], 256)
    assert [(o["tile"], o["nonempty"], o["most"]) for o in data["pyramid"][:3]] == [(2, 64, 4), (4, 16, 16), (8, 8, 32)]
    assert [f["tile_nodes"] for f in data["fibers"]] == [16, 16]
    chart = folder / "chart.html"
    text = run("stats", "w.npz", "--member", "blocks", "--plot", str(chart))
    assert "64 x 64, 256 entries" in text and "tile occupancy" in text
    assert "<html>" in chart.read_text()[:200]
