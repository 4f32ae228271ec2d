"""What the search learns of rows: over a budget is worse than any that is within."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import optuna
import pytest

from mapper.canonical import plain
from mapper.space import MappingSpace
from studies.records import TrialRecord
from studies.spec import SearchSettings, load_spec
from tuner.problem import load_problem
from tuner.search import Search

SPEC = """
program: Z(i,j) = A(i,k) * B(k,j)
tensors:
  A: {random: {shape: [40, 40], density: 0.1, seed: 1}}
  B: {random: {shape: [40, 40], density: 0.1, seed: 2}}
search: {sampler: tpe, descents: 8, workers: 1}
"""
VALUES = ((10.0, 900.0), (500.0, 400.0), (600.0, 300.0))
"""Latency and traffic: the first is the fastest, and over a limit of 500 on traffic."""


@pytest.fixture
def space(tmp_path: Path) -> MappingSpace:
    (tmp_path / "small.yaml").write_text(SPEC)
    return load_problem(load_spec(tmp_path / "small.yaml")).space


def told(space: MappingSpace, limit: float, state: str = "simulated") -> tuple[Search, list[TrialRecord]]:
    """A search for speed that knows three mappings, and their rows."""
    settings = SearchSettings("tpe", 60, 0, 8, 5, 8, 0.1, 1, "mean")
    search = Search(space, settings, ("latency_cycles",), (("traffic_bytes", limit),))
    rng, rows = np.random.default_rng(0), []
    for number, (latency, traffic) in enumerate(VALUES):
        mapping = space.sample(rng)
        params = space.params(mapping)
        texts = {
            name: optuna.distributions.distribution_to_json(optuna.distributions.CategoricalDistribution((value,)))
            for name, value in params.items()
        }
        values = {"latency_cycles": latency, "traffic_bytes": traffic, "energy_pj": 1.0}
        known = {"values": values} if state == "simulated" else {"estimate": values}
        row = TrialRecord(number, 0, state, params, texts, plain(mapping), mapping.key, **known)  # type: ignore[arg-type]
        search.tell(row)
        rows.append(row)
    return search, rows


@pytest.mark.parametrize("state", ["simulated", "screened"])
def test_samplers_are_told_what_is_over_a_budget(space: MappingSpace, state: str) -> None:
    search, _ = told(space, 500, state)
    excesses = [trial.constraints["traffic_bytes"] for trial in search._finished]
    assert excesses == pytest.approx([0.8, -0.2, -0.4])
    assert [trial.constraints["legal"] for trial in search._finished] == [-1, -1, -1]


@pytest.mark.parametrize(("limit", "start"), [(1000, 0), (500, 1), (300, 2), (10, 0)])
def test_descents_start_within_budgets(space: MappingSpace, limit: float, start: int) -> None:
    """While nothing is within them, the best of all is better than nothing."""
    search, rows = told(space, limit)
    starts = [descent.starts for descent in search.descents(1)]
    assert starts == [(rows[start].params,), ()] * 4


def test_failures_exceed_no_budget(space: MappingSpace) -> None:
    search, rows = told(space, 500)
    search.tell(TrialRecord(3, 0, "failed", rows[0].params, rows[0].distributions, failure="deadlock"))
    assert search._finished[-1].constraints == {"legal": 1.0, "traffic_bytes": 0.0}
