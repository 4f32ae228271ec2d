"""The search loop: ask, screen, simulate, tell, commit. One transaction per batch; whole batches or nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hwsim import Limits
from mapper.default_mapping import default_mapping
from mapper.errors import EmptySpace
from mapper.mapping import Mapping
from studies.records import StudyHandle, TrialRecord, VerdictRecord
from studies.store import StudyStore
from tuner.crew import Crew
from tuner.dominance import Floats, dominance_verdicts, stop_of, with_intervals
from tuner.problem import Problem
from tuner.rows import baseline_draft, draft, repeated, screened, simulated
from tuner.samplers import batch_seed
from tuner.search import Proposal, Search
from tuner.selection import confident_verdicts, select
from tuner.stopping import Stopping
from tuner.sub_problem import corrected
from tuner.work import DescentSettings, Screening, Stop

SAMPLED = 3
"""Drafts simulated in part for each that is simulated whole."""

Report = Callable[["Progress"], None]


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a running study stands."""

    asked: int
    screened: int
    simulated: int
    failed: int
    budget: int


def run_study(
    problem: Problem, store: StudyStore, study: StudyHandle, workers: int, report: Report, scheduler: str | None = None
) -> str:
    """Runs or resumes a study to its end; returns why it ended. Rows depend on the specification alone."""
    for workload in problem.space.inputs.values():
        workload.computed  # noqa: B018 - once here, so that every worker receives it
    problem.space.fusions  # noqa: B018 - an empty space is reported before any process starts
    search, seconds = problem.spec.search, problem.spec.limits.seconds
    with Crew(problem.space, search.over_inputs, workers=workers, scheduler=scheduler, seconds=seconds) as crew:
        return _Loop(problem, store, study, crew, report).run()


class _Loop:
    def __init__(self, problem: Problem, store: StudyStore, study: StudyHandle, crew: Crew, report: Report) -> None:
        self._problem, self._store, self._study, self._crew, self._report = problem, store, study, crew, report
        spec = problem.spec
        self._settings = DescentSettings(spec.objectives, spec.budgets, spec.limits.tokens)
        self._limits = Limits(max_cycles=spec.limits.cycles, max_tokens=spec.limits.tokens)
        self._search = Search(
            problem.space, spec.search, spec.objectives, spec.budgets, self._estimate, study.transfers or ()
        )
        self._stopping = Stopping(spec.search)
        self._rows: list[TrialRecord] = []
        self._first: dict[str, TrialRecord] = {}

    def run(self) -> str:
        rows = self._store.trials(self._study.id)
        for batch in range(max((r.batch for r in rows), default=-1) + 1):
            self._learn([r for r in rows if r.batch == batch])
        if self._store.baseline(self._study.id) is None:
            self._store.set_baseline(self._study, self._baseline())
        batch = rows[-1].batch + 1 if rows else 0
        while not (reason := self._stopping.reason()):
            self._show()
            made = self._batch(batch)
            self._store.commit_batch(self._study, batch, made)
            self._learn(made)
            batch += 1
        self._show()
        self._store.finish(self._study, reason)
        if self._rows and not any(r.estimate for r in self._rows):
            raise EmptySpace(f"no mapping of the space may be simulated: {self._blame()}")
        return reason

    def _blame(self) -> str:
        """The rules that rejected everything, the commonest first, each with an example."""
        found: dict[str, list[VerdictRecord]] = {}
        for row in self._rows:
            for verdict in row.verdicts:
                found.setdefault(verdict.rule, []).append(verdict)
        ordered = sorted(found.items(), key=lambda item: -len(item[1]))
        return "; ".join(
            f"{rule} ({len(cases)} times, e.g. at {cases[0].where}: {cases[0].measured} {cases[0].unit}".rstrip()
            + f", must be {cases[0].limit})"
            for rule, cases in ordered
        )

    def _learn(self, rows: list[TrialRecord]) -> None:
        self._stopping.learn(rows)
        for row in rows:
            self._rows.append(row)
            self._search.tell(row)
            if row.mapping_key and row.state != "duplicate":
                self._first.setdefault(row.mapping_key, row)

    def _show(self) -> None:
        states = [r.state for r in self._rows]
        screened = sum(r.estimate is not None for r in self._rows)
        budget = self._problem.spec.search.simulations
        self._report(Progress(len(states), screened, budget - self._stopping.left, states.count("failed"), budget))

    def _batch(self, batch: int) -> list[TrialRecord]:
        search = self._problem.spec.search
        hints = self._crew.descend(self._search.descents(batch), self._settings)
        count = min(search.batch, self._stopping.left)
        proposals = self._search.ask(batch, count if self._search.chooses else search.batch * search.candidates, hints)
        drafts = [draft(len(self._rows) + n, batch, p) for n, p in enumerate(proposals)]
        fresh: dict[str, int] = {}
        for n, row in enumerate(drafts):
            if row.mapping_key and row.mapping_key not in self._first:
                fresh.setdefault(row.mapping_key, n)
        new = sorted(fresh.values())
        mappings = [p.mapping for p in (proposals[n] for n in new) if p.mapping is not None]
        for n, screening in zip(new, self._crew.screen(mappings), strict=True):
            drafts[n] = self._screened(drafts[n], screening)
        self._judge(drafts, new)
        self._sample(drafts, new, proposals)
        chosen = self._select(batch, drafts, new)
        running = [m for n in chosen if (m := proposals[n].mapping)]
        results = self._crew.simulate(running, self._limits, [self._stop(drafts[n]) for n in chosen])
        for n, result in zip(chosen, results, strict=True):
            drafts[n] = simulated(drafts[n], result)
        known = {**self._first, **{key: drafts[n] for key, n in fresh.items()}}
        return [row if n in set(new) else repeated(row, known) for n, row in enumerate(drafts)]

    def _estimate(self, mappings: Sequence[Mapping]) -> list[dict[str, Any] | None]:
        """Estimates; None for mappings that will not be simulated."""
        spec, found = self._problem.spec, []
        for screening in self._crew.screen(mappings):
            estimate = screening.estimate
            forbidden = estimate is None or confident_verdicts(estimate, spec.budgets, spec.limits.tokens)
            found.append(None if forbidden else estimate)
        return found

    def _screened(self, row: TrialRecord, screening: Screening) -> TrialRecord:
        found, spec = screened(row, screening), self._problem.spec
        if found.estimate is None:
            return found
        return dataclasses.replace(found, verdicts=confident_verdicts(found.estimate, spec.budgets, spec.limits.tokens))

    def _judge(self, drafts: list[TrialRecord], new: list[int]) -> None:
        """Gives drafts their intervals, and the verdict that they cannot improve the front."""
        objectives, budgets = self._problem.spec.objectives, self._problem.spec.budgets
        guessed = [n for n in new if drafts[n].estimate]
        estimates = with_intervals([drafts[n].estimate or {} for n in guessed], self._rows, objectives)
        found = dominance_verdicts(estimates, self._rows, objectives, budgets)
        for n, estimate, (safe, sure) in zip(guessed, estimates, found, strict=True):
            verdicts = (*safe, *drafts[n].verdicts)  # what is proven comes first
            drafts[n] = dataclasses.replace(drafts[n], estimate=estimate, verdicts=verdicts or sure)

    def _sample(self, drafts: list[TrialRecord], new: list[int], proposals: Sequence[Proposal]) -> None:
        """Simulates a part of the problem for the best ``SAMPLED`` times as many drafts as will be simulated whole."""
        search, objectives = self._problem.spec.search, self._problem.spec.objectives
        able = [n for n in new if drafts[n].estimate and not drafts[n].verdicts]
        count = SAMPLED * min(search.batch, self._stopping.left)
        if search.sample is None or not able:
            return
        points = self._points([drafts[n] for n in able])
        best, _ = select(points, np.ones(len(able), bool), count, 0.0, 0, explore=False)
        mappings = [m for k in best if (m := proposals[able[k]].mapping)]
        for k, pairs in zip(best, self._crew.sample(mappings, self._limits, search.sample), strict=True):
            if pairs is not None:
                estimate = {**(drafts[able[k]].estimate or {}), "sample": pairs}
                (estimate,) = corrected([estimate], self._rows, objectives)
                drafts[able[k]] = dataclasses.replace(drafts[able[k]], estimate=estimate, fidelity="sample")

    def _points(self, rows: Sequence[TrialRecord]) -> Floats:
        """float64[rows, objectives]: what is known of rows before they are simulated."""
        known = [{**(row.estimate or {}), **(row.estimate or {}).get("corrected", {})} for row in rows]
        return np.array([[own[o] for o in self._problem.spec.objectives] for own in known])

    def _select(self, batch: int, drafts: list[TrialRecord], new: list[int]) -> list[int]:
        """Numbers of the drafts to simulate; the others get the verdict that says why not, and so do those that are
        simulated all the same, to audit it."""
        search, limits = self._problem.spec.search, ("token-limit", "budget")
        open_ = [n for n in new if drafts[n].estimate and not any(v.rule in limits for v in drafts[n].verdicts)]
        if not open_:
            return []
        count = min(search.batch, self._stopping.left)
        points = self._points([drafts[n] for n in open_])
        passed = np.array([not drafts[n].verdicts for n in open_])
        first = [k for k, n in enumerate(open_) if drafts[n].origin and passed[k]][:count]
        others = [k for k in range(len(open_)) if k not in first]
        seed = batch_seed(search.seed, batch, "selection")
        ranks = select(points[others], passed[others], count - len(first), search.audit, seed, explore=batch == 0)
        best, drawn = ([others[k] for k in rank] for rank in ranks)
        best = first + best
        below = VerdictRecord("ranked-below", f"{len(open_)} candidates", f"{count} simulated", "", "model")
        for k, n in enumerate(open_):
            if not (drafts[n].verdicts or k in best or (batch == 0 and k in drawn)):
                drafts[n] = dataclasses.replace(drafts[n], verdicts=(below,))
        return sorted(open_[k] for k in (*best, *drawn))

    def _stop(self, row: TrialRecord) -> Stop | None:
        spec = self._problem.spec
        if not spec.search.early_stop:
            return None
        return stop_of(row.estimate or {}, self._rows, spec.objectives, spec.budgets)

    def _baseline(self) -> TrialRecord:
        mapping = default_mapping(self._problem.space)
        (screening,) = self._crew.screen([mapping])
        (result,) = self._crew.simulate([mapping], Limits())  # what everything is compared with is never cut short
        return simulated(screened(baseline_draft(mapping), screening), result)
