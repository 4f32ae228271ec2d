"""Tables of a study, checked against the records they come from."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from sample_study import VERSIONS, contents

from mapper.errors import InputError
from mapper.mapping import Mapping
from studies.audits import audits
from studies.frames import (
    Versions,
    best,
    current_versions,
    eligible,
    failures_frame,
    front,
    model_errors,
    simulated,
    trials_frame,
    verdicts_frame,
    why_no_winner,
    winners_frame,
)
from studies.records import StudyContents, TrialRecord, VerdictRecord
from studies.summary import funnel, summarize, winner_words

OTHER = Versions("m2", "s1")


def study_of(trials: list[TrialRecord]) -> StudyContents:
    return dataclasses.replace(contents(0), trials=tuple(trials))


def limited(study: StudyContents, **budgets: float) -> StudyContents:
    """The study with constraints."""
    identity = {**study.handle.identity, "constraints": budgets}
    return dataclasses.replace(study, handle=dataclasses.replace(study.handle, identity=identity))


def measured(number: int, estimate: float, value: float) -> TrialRecord:
    return TrialRecord(
        number, 0, "simulated", {}, {}, estimate={"latency_cycles": estimate}, values={"latency_cycles": value}
    )


class TestTrials:
    def test_one_row_per_trial_in_order(self) -> None:
        study = contents()
        frame = trials_frame(study, VERSIONS)
        assert frame["number"].tolist() == [t.number for t in study.trials]
        assert frame["state"].tolist() == [t.state for t in study.trials]

    def test_choices_are_those_of_the_mapping(self) -> None:
        study = contents(1)
        frame = trials_frame(study, VERSIONS)
        for row, trial in zip(frame.to_dict("records"), study.trials, strict=True):
            if trial.mapping is None:
                assert row["mapping"] is None or row["mapping"] != row["mapping"]
                continue
            mapping = Mapping.from_json(trial.mapping)
            assert row["order_S0"].split(",") == list(mapping.loops[0].order)
            assert row["tile_S0_i"] == dict(mapping.loops[0].tiles).get("i", 0)
            assert row["lanes_S1"] == mapping.loops[1].lanes
            assert (row["cut_T_S1"] == "cut") == mapping.cuts[0]
            assert row["fifo_depth"] == dict(mapping.machine)["fifo_depth"]
            assert row["residency"] == mapping.residency
            assert ("fused" in row["mapping"]) == (not mapping.cuts[0])

    def test_rows_of_other_versions_are_stale(self) -> None:
        assert not trials_frame(contents(1), VERSIONS)["stale"].any()
        frame = trials_frame(contents(1), OTHER)
        assert frame["stale"].all()
        assert not frame["front"].any()
        assert not trials_frame(contents(1))["stale"].any()

    def test_an_empty_study_has_the_columns(self) -> None:
        frame = trials_frame(contents(0), VERSIONS)
        assert len(frame) == 0
        assert {"number", "state", "latency_cycles", "model_energy_pj", "mapping"} <= set(frame.columns)

    def test_installed_versions_are_text(self) -> None:
        assert all(isinstance(v, str) and v for v in (current_versions().model, current_versions().simulator))


class TestFront:
    def test_nothing_on_the_front_is_dominated(self) -> None:
        study = contents()
        points = {t.number: [t.values[o] for o in study.objectives] for t in simulated(study) if t.values}
        kept = [t.number for t in front(study, VERSIONS)]
        for number, point in points.items():
            beaten = any(np.all(np.array(p) <= point) and p != point for p in points.values())
            assert (number in kept) == (not beaten)
        assert [points[n][0] for n in kept] == sorted(points[n][0] for n in kept)

    def test_only_simulated_trials_count(self) -> None:
        assert {t.state for t in front(contents())} == {"simulated"}

    def test_winner_is_the_smallest_and_the_first(self) -> None:
        study = study_of([measured(0, 1, 5), measured(1, 1, 3), measured(2, 1, 3)])
        found = best(study, "latency_cycles")
        assert found is not None
        assert found.number == 1
        assert best(contents(0), "latency_cycles") is None

    def test_an_unknown_objective_is_hinted(self) -> None:
        with pytest.raises(InputError, match=r"unknown objective 'latency'\. Did you mean 'latency_cycles'\?"):
            best(contents(0), "latency")


class TestConstraints:
    """The objectives are latency and traffic."""

    def study(self, limit: float) -> StudyContents:
        values = [(5, 50), (9, 20), (7, 30), (3, 90)]
        trials = [
            TrialRecord(n, 0, "simulated", {}, {}, values={"latency_cycles": cycles, "traffic_bytes": traffic})
            for n, (cycles, traffic) in enumerate(values)
        ]
        return limited(study_of(trials), latency_cycles=limit)

    def test_only_rows_within_them_win(self) -> None:
        study = self.study(7)
        assert [t.number for t in eligible(study)] == [0, 2, 3]
        assert [t.number for t in front(study)] == [3, 0, 2]
        assert winners_frame(study)["trial"].tolist()[1:] == [3, 2]
        assert why_no_winner(study) == ""
        assert ("within the constraints", 3) in funnel(study)

    def test_the_others_stay_visible(self) -> None:
        study = self.study(7)
        assert [t.number for t in simulated(study)] == [0, 1, 2, 3]
        assert trials_frame(study)["over_budget"].tolist() == [False, True, False, False]
        assert not trials_frame(contents())["over_budget"].any()

    def test_what_is_not_an_objective_may_be_limited(self) -> None:
        study = contents(objectives=("latency_cycles",))
        free = best(study, "latency_cycles")
        assert free is not None and free.values is not None
        found = best(limited(study, traffic_bytes=free.values["traffic_bytes"] - 1), "latency_cycles")
        assert found is not None and found.values is not None
        assert found.values["traffic_bytes"] < free.values["traffic_bytes"]

    def test_nothing_within_them_is_said(self) -> None:
        study = self.study(2)
        assert front(study) == []
        assert list(winners_frame(study)["mapping"]) == ["default"]
        text = "no simulated mapping meets the constraints: latency_cycles <= 2"
        assert why_no_winner(study) == summarize(study).no_winner == text
        assert why_no_winner(contents(0)) == "no mapping was simulated to its end"
        assert "by the installed versions" in why_no_winner(contents(), OTHER)

    def test_an_audit_is_no_gain_over_them(self) -> None:
        """Trial 1 was simulated although a rule spoke against it; its small traffic breaks the constraint."""
        study = self.study(7)
        verdict = VerdictRecord("ranked-below", "4 candidates", "3 simulated", "", "model")
        trials = [dataclasses.replace(t, verdicts=(verdict,)) if t.number == 1 else t for t in study.trials]
        (audit,) = audits(dataclasses.replace(study, trials=tuple(trials)))
        assert (audit.audited, audit.on_front, audit.regret) == (1, 0, 1)


def test_winners_against_the_default() -> None:
    study = contents()
    frame = winners_frame(study, VERSIONS).set_index("mapping")
    assert list(frame.index) == ["default", "best latency_cycles", "best traffic_bytes"]
    fastest = min(t.values["latency_cycles"] for t in study.trials if t.values)
    assert frame.loc["best latency_cycles", "latency_cycles_gain"] == pytest.approx(2e6 / fastest)
    assert frame.loc["default", "traffic_bytes_gain"] == 1
    assert math.isnan(frame.loc["default", "trial"])


def test_winners_without_a_default() -> None:
    study = dataclasses.replace(contents(), baseline=None)
    frame = winners_frame(study, VERSIONS)
    assert len(frame) == 2
    assert frame["latency_cycles_gain"].isna().all()


def test_verdicts_count_trials_per_rule() -> None:
    study = contents()
    frame = verdicts_frame(study.trials).set_index("rule")
    for rule in frame.index:
        count = sum(any(v.rule == rule for v in t.verdicts) for t in study.trials if t.state != "duplicate")
        assert frame.loc[rule, "trials"] == count
    assert frame["trials"].is_monotonic_decreasing
    assert list(verdicts_frame([]).columns) == ["rule", "trials", "example", "measured", "limit", "unit", "where"]


def test_failures_count_trials_per_reason() -> None:
    failed = [TrialRecord(n, 0, "failed", {}, {}, failure=text) for n, text in enumerate(["late", "stuck", "stuck"])]
    study = study_of([*failed, TrialRecord(3, 0, "duplicate", {}, {}, failure="stuck", duplicate_of=1)])
    frame = failures_frame(study.trials)
    assert frame.to_dict("split", index=False)["data"] == [["stuck", 2, 1], ["late", 1, 0]]
    assert why_no_winner(study) == "all simulations failed, 2 of them by: stuck"
    assert summarize(study).failures.equals(frame)
    assert list(failures_frame([]).columns) == ["failure", "trials", "example"]


class TestModelErrors:
    def test_a_constant_factor(self) -> None:
        (error,) = model_errors([measured(n, 2.0 * (n + 1), n + 1) for n in range(5)])
        assert (error.measure, error.trials) == ("latency_cycles", 5)
        assert error.ratio == pytest.approx(2)
        assert error.spread == pytest.approx(1)
        assert error.rank_correlation == pytest.approx(1)

    def test_a_reversed_order(self) -> None:
        (error,) = model_errors([measured(n, 10.0 - n, n + 1) for n in range(5)])
        assert error.rank_correlation == pytest.approx(-1)

    def test_ratio_is_a_geometric_mean(self) -> None:
        (error,) = model_errors([measured(0, 4, 1), measured(1, 1, 4)])
        assert error.ratio == pytest.approx(1)
        assert error.spread == pytest.approx(4)

    def test_rank_is_undefined_for_equal_values(self) -> None:
        (error,) = model_errors([measured(0, 4, 1), measured(1, 5, 1)])
        assert error.rank_correlation is None

    def test_zero_and_missing_values_are_left_out(self) -> None:
        assert model_errors([measured(0, 0, 1), measured(1, 1, 0)]) == []


class TestSummary:
    def test_funnel_narrows_and_adds_up(self) -> None:
        study = contents()
        stages = dict(funnel(study, VERSIONS))
        counts = list(stages.values())
        assert counts == sorted(counts, reverse=True)
        states = [t.state for t in study.trials]
        assert stages["asked"] == len(states)
        assert stages["distinct"] == len(states) - states.count("duplicate")
        assert stages["simulated"] == states.count("simulated") + states.count("failed")
        assert stages["completed"] == states.count("simulated")
        assert stages["within capacity"] == stages["distinct"] - states.count("rejected")
        oversized = [t for t in study.trials if any(v.rule == "tile-over-capacity" for v in t.verdicts)]
        assert stages["legal"] == stages["within capacity"] + len(oversized)

    def test_stale_rows_are_told(self) -> None:
        assert "stale" not in summarize(contents(), VERSIONS).facts
        summary = summarize(contents(), OTHER)
        assert summary.facts["stale"].startswith("60 trials of other model or simulator versions")
        assert summary.model_errors == []

    def test_facts_name_inputs_and_knobs(self) -> None:
        facts = summarize(contents(), VERSIONS).facts
        assert "A: a.mtx, 64 x 64, 410 stored (2 duplicate entries were summed)" in facts["inputs"]
        assert facts["machine"] == "rda, fifo_depth in [16, 64]"

    def test_winner_in_words(self) -> None:
        assert "T(i,j) = A(i,k) * B(k,j)" in winner_words(contents(), VERSIONS)
        assert winner_words(contents(0), VERSIONS) == ""
