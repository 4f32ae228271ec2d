"""When a study ends: each rule alone, and that the database keeps the reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mapper.errors import InputError
from studies.records import TrialRecord, VerdictRecord
from studies.spec import SearchSettings, load_spec
from studies.store import StudyStore
from tuner.problem import load_problem
from tuner.session import open_session, run_session
from tuner.stopping import BARREN_BATCHES, IDLE_BATCHES, Stopping
from tuner.surrogate import Ingredients

SPEC = """
program: Z(i,j) = A(i,k) * B(k,j)
tensors:
  A: {random: {kind: uniform, shape: [30, 30], density: 0.1, seed: 1}}
  B: {random: {kind: uniform, shape: [30, 30], density: 0.1, seed: 2}}
mapping: {parallel: {max: 2}}
objectives: [latency_cycles]
search: {sampler: sparseloom, simulations: 30, batch: 2, descents: 0, workers: 1, regret: 100}
storage: sqlite:///study.db
"""


def settings(simulations: int = 100, minutes: float | None = None, regret: float | None = None) -> SearchSettings:
    return SearchSettings("sparseloom", simulations, 0, 2, 1, 0, 0.0, 1, "mean", minutes, regret)


def row(number: int, gain: float | None = None, state: str = "simulated", fidelity: str = "full") -> TrialRecord:
    values = {"latency_cycles": 1.0} if state == "simulated" else None
    return TrialRecord(number, 0, state, {}, {}, values=values, fidelity=fidelity, gain=gain)


def test_the_budget_counts_what_was_begun() -> None:
    stopping = Stopping(settings(simulations=3))
    stopping.learn([row(0), row(1, state="failed"), row(2, state="screened"), row(3, state="rejected")])
    assert (stopping.left, stopping.reason()) == (1, None)
    stopping.learn([row(4, state="screened", fidelity="partial"), row(5, state="duplicate")])
    assert stopping.reason() == "simulation budget used"


def test_batches_that_lead_nowhere() -> None:
    stopping = Stopping(settings())
    bounded = TrialRecord(0, 0, "screened", {}, {}, verdicts=(VerdictRecord("dominated-by-bound", 1, 1, "", ""),))
    for _ in range(IDLE_BATCHES):
        assert stopping.reason() is None
        stopping.learn([row(0, state="duplicate"), row(1, state="rejected"), bounded])
    assert stopping.reason() == "space exhausted"
    stopping.learn([row(2)])
    assert stopping.reason() is None


def test_budgets_that_nothing_meets(written: Callable[[str], Path]) -> None:
    """The model finds every mapping over the budget: the study ends all the same, and says which rule it was."""
    path = written("sampler: tpe, simulations: 30, candidates: 1")
    path.write_text(path.read_text().replace(", regret: 100", "") + "constraints: {latency_cycles: 1}\n")
    reason, trials = run_to_the_end(path)
    assert reason == f"nothing within budgets and limits in {BARREN_BATCHES} batches in a row"
    assert trials[-1].batch == BARREN_BATCHES - 1
    assert {v.rule for t in trials if t.state == "screened" for v in t.verdicts} == {"budget"}


def test_the_regret_must_stay_low() -> None:
    """The best of a batch counts; batches drawn at the start say nothing; one gain above begins anew."""
    stopping = Stopping(settings(regret=0.1))
    for gains in ([None, None], [0.05, 0.01], [0.01, 0.05], [0.2, 0.01], [0.09, 0.0], [None, None], [0.02, 0.03]):
        stopping.learn([row(0, gain) for gain in gains])
        assert stopping.reason() is None
    stopping.learn([row(0, 0.01), row(1, 0.004)])
    assert stopping.reason() == "expected gain 0.01 below 0.1 in 3 batches in a row"
    assert Stopping(settings()).reason() is None


def test_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("tuner.stopping.time.monotonic", lambda: now[0])
    stopping = Stopping(settings(minutes=0.5))
    now[0] += 29
    assert stopping.reason() is None
    now[0] += 1
    assert stopping.reason() == "0.5 minutes used"


def run_to_the_end(spec: Path, minutes: float | None = None) -> tuple[str, list[TrialRecord]]:
    session = open_session(load_problem(load_spec(spec)))
    reason = run_session(session, 1, show=False)
    trials = session.store.trials(session.study.id)
    session.store.close()
    assert StudyStore(load_spec(spec).storage).find("small").finished == reason
    return reason, trials


def test_a_study_keeps_the_reason_and_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the clock first, then, resumed, by the regret: the rows are those of a study that nothing cut."""
    from studies.report import render_report
    from tuner.cli_study import show_study

    monkeypatch.setattr(
        "tuner.model_sampler.MAPPING_INGREDIENTS", Ingredients(candidates=8, startup=2, starts=1, rounds=1)
    )
    cut, whole = tmp_path / "cut" / "small.yaml", tmp_path / "whole" / "small.yaml"
    for path in (cut, whole):
        path.parent.mkdir()
        path.write_text(SPEC)
    cut.write_text(SPEC.replace("regret: 100", "regret: 100, minutes: 1.0e-9"))
    assert run_to_the_end(cut) == ("1e-09 minutes used", [])
    cut.write_text(SPEC)
    reason, trials = run_to_the_end(cut)
    assert reason.endswith("below 100 in 3 batches in a row")
    assert 6 <= len(trials) < 30
    assert all(t.gain is None or t.gain < 100 for t in trials[-6:])
    assert run_to_the_end(cut) == (reason, trials)  # nothing is left to do
    assert run_to_the_end(whole) == (reason, trials)
    monkeypatch.chdir(tmp_path / "cut")
    show_study("small", "sqlite:///study.db", as_json=True)
    assert json.loads(capsys.readouterr().out)["status"] == reason
    store = StudyStore(load_spec(cut).storage)
    assert reason in render_report(store.load("small"))
    store.close()


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], Path]:
    def write(search: str) -> Path:
        path = tmp_path / "small.yaml"
        path.write_text(SPEC.replace("sampler: sparseloom, simulations: 30", search))
        return path

    return write


def test_regret_needs_a_model(written: Callable[[str], Path]) -> None:
    with pytest.raises(InputError, match=r"small\.yaml:8:\d+: regret is what the model of sampler sparseloom expects"):
        load_spec(written("sampler: tpe"))


def test_old_studies_stay_what_they_are(written: Callable[[str], Path]) -> None:
    """Settings that are not used are no part of the identity; the clock never is."""
    path = written("sampler: sparseloom")
    path.write_text(path.read_text().replace(", regret: 100", ", minutes: 3"))
    identity = load_spec(path).identity()
    assert set(identity["search"]) == {"sampler", "simulations", "seed", "batch", "candidates", "descents", "audit"}
    assert set(identity["limits"]) == {"cycles", "tokens"}
