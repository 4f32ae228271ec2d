"""Softmax attention, naive and running: equal results, but one needs FIFOs as deep as a row is long."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from hwsim import simulate, smallest_depth, with_depth

SCRIPT = Path(__file__).parents[2] / "examples" / "attention_fifo.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("attention_fifo", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["attention_fifo"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize(("length", "width"), [(1, 1), (5, 1), (7, 3), (16, 4)])
def test_result(example: ModuleType, length: int, width: int, running: bool) -> None:
    attention = example.random_attention(length, width, seed=length)
    graph = example.attention_graph(attention, running)
    for depth in (None, length + 3):
        profile = simulate(with_depth(graph, depth))
        assert profile.status == "done"
        result = profile.outputs["values"][1].reshape(length, width)
        np.testing.assert_allclose(result, attention.expected(), rtol=1e-12)


def test_large_scores_do_not_overflow(example: ModuleType) -> None:
    attention = example.Attention(np.full((3, 2), 30.0), np.full((3, 2), 30.0), np.arange(6.0).reshape(3, 2))
    assert attention.queries[0] @ attention.keys[0] > 710  # exp of the bare score is infinite
    for running in (False, True):
        values = simulate(example.attention_graph(attention, running)).outputs["values"][1]
        np.testing.assert_allclose(values.reshape(3, 2), [[2.0, 3.0]] * 3)


@pytest.mark.parametrize("length", [4, 8, 16, 40])
def test_naive_depth_grows_with_the_length(example: ModuleType, length: int) -> None:
    found = smallest_depth(example.attention_graph(example.random_attention(length, 3), False))
    assert found.depth == length + 3
    assert found.below is not None and found.below.deadlock is not None
    assert any(wait.context == "repeat row sum" for wait in found.below.deadlock.cycle)


@pytest.mark.parametrize("length", [4, 8, 16, 40])
def test_running_depth_is_constant(example: ModuleType, length: int) -> None:
    graph = example.attention_graph(example.random_attention(length, 3), True)
    assert smallest_depth(graph).depth == 3
    # Constant, too, is the depth at which no channel slows it down.
    assert simulate(with_depth(graph, 32)).cycles == simulate(graph).cycles


def test_script_writes_its_figure(
    example: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "figure.html"
    monkeypatch.setattr(sys, "argv", ["attention_fifo.py", "--length", "8", "--width", "2", "--html", str(page)])
    example.main()
    assert "naive: finishes from FIFO depth 11 on" in capsys.readouterr().out
    text = page.read_text()
    assert "FIFO depth, tokens" in text and "Plotly.newPlot" in text


def test_figure_shows_deadlocks_as_gaps(example: ModuleType) -> None:
    naive, running = example.figure(8, 2).data
    assert [(d, c is None) for d, c in zip(naive.x, naive.y, strict=True)] == [
        (1, True), (2, True), (4, True), (8, True), (11, False), (16, False), (32, False),
    ]  # fmt: skip
    assert [d for d, c in zip(running.x, running.y, strict=True) if c is None] == [1, 2]
