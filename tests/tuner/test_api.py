"""The Python door: tensors in memory, a study out."""

from __future__ import annotations

from pathlib import Path

import pytest
import scipy.sparse as sp

from mapper.errors import InputError
from tuner import tune


def test_tune_on_scipy_matrices(tmp_path: Path) -> None:
    a = sp.random_array((60, 50), density=0.08, rng=1, format="csr")
    b = sp.random_array((50, 40), density=0.08, rng=2, format="coo")
    study = tune(
        "Z(i,j) = A(i,k) * B(k,j)", {"A": a, "B": b}, objectives=["latency_cycles", "energy_pj"], simulations=6,
        search={"batch": 3, "candidates": 2}, storage=f"sqlite:///{tmp_path / 'study.db'}",
    )  # fmt: skip
    assert study.reason == "simulation budget used"
    front = study.front()
    assert len(front) >= 1
    assert (front["latency_cycles"].diff().dropna() >= 0).all()
    winner = study.best("energy_pj")
    values = winner.trial.values or {}
    assert values["energy_pj"] == min((t.values or {})["energy_pj"] for t in study.contents.trials if t.values)
    assert "Z(i,j) = A(i,k) * B(k,j)" in winner.explain()
    assert study.winners()["mapping"].tolist() == ["default", "best latency_cycles", "best energy_pj"]


def test_a_tensor_of_the_wrong_name_is_refused(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 's.db'}"
    with pytest.raises(InputError, match="Did you mean 'A'"):
        tune("y(i) = A(i,j) * x(j)", {"a": sp.eye_array(3), "x": [1.0, 2.0, 3.0]}, storage=storage)
