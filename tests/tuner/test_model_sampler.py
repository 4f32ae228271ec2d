"""The sampler over mapping spaces: repeatable, resumable, nothing twice, failures and budgets heeded."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

from costmodel import estimate
from mapper.errors import InputError
from mapper.machine import load_machine
from mapper.mapping import Mapping
from mapper.notation import parse_program
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.synthetic import power_law
from mapper.workload import Workload
from studies.records import StudyHandle, TrialRecord
from studies.spec import SAMPLERS, load_spec
from studies.store import StudyStore
from tuner.mapping_domain import MappingDomain
from tuner.model_sampler import MAPPING_INGREDIENTS, ModelSampler
from tuner.problem import load_problem
from tuner.proposer import History, propose
from tuner.samplers import TrialChooser, ingredients_of, make_sampler
from tuner.session import open_session, run_session
from tuner.surrogate import Goal, Ingredients

QUICK = Ingredients(candidates=12, startup=3, starts=2, rounds=1)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A study looks at few mappings."""
    monkeypatch.setattr("tuner.model_sampler.MAPPING_INGREDIENTS", QUICK)


@pytest.fixture(scope="module")
def space() -> MappingSpace:
    a, b = (power_law((40, 40), 160, seed) for seed in (1, 2))
    program = parse_program("Z(i,j) = A(i,k) * B(k,j)")
    return MappingSpace(Workload(program, {"A": a, "B": b}), load_machine("rda"), SpaceLimits(max_lanes=4))


def measured(space: MappingSpace, mapping: Mapping) -> tuple[float, float]:
    """The model stands in for the simulator."""
    found = estimate(space.workload, mapping, space.machine_of(mapping))
    return found.latency_cycles, found.traffic_bytes


def studied(space: MappingSpace, sampler: ModelSampler, trials: int, known: Sequence[Any] = ()) -> list[Any]:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(directions=["minimize"] * 2, sampler=sampler)
    study.add_trials(known)

    def objective(trial: optuna.Trial) -> tuple[float, float]:
        mapping = space.choose(TrialChooser(trial))
        assert not space.violations(mapping)
        return measured(space, mapping)

    study.optimize(objective, n_trials=trials)
    return study.trials


def test_new_legal_mappings_that_only_depend_on_what_is_known(space: MappingSpace) -> None:
    objectives = ("latency_cycles", "traffic_bytes")
    whole = studied(space, ModelSampler(space, objectives, seed=5, ingredients=QUICK), 8)
    assert len({str(sorted(t.params.items())) for t in whole}) == 8
    resumed = studied(space, ModelSampler(space, objectives, seed=5, ingredients=QUICK), 4, whole[:4])
    assert [t.params for t in resumed] == [t.params for t in whole]
    assert [t.params for t in studied(space, ModelSampler(space, objectives, seed=6, ingredients=QUICK), 2)] != [
        t.params for t in whole[:2]
    ]


def test_running_trials_are_foreseen_and_failures_are_not_asked_again(space: MappingSpace) -> None:
    study = optuna.create_study(sampler=ModelSampler(space, ("latency_cycles",), seed=1, ingredients=QUICK))
    seen = set()
    for number in range(6):
        trial = study.ask()
        mapping = space.choose(TrialChooser(trial))
        assert mapping not in seen
        seen.add(mapping)
        if number % 2:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        elif number < 4:
            study.tell(trial, measured(space, mapping)[0])


def test_what_the_estimate_forbids_is_never_proposed(space: MappingSpace) -> None:
    def known(mappings: Sequence[Mapping]) -> list[dict[str, float] | None]:
        return [{"latency_cycles": measured(space, m)[0]} if m.loops[0].lanes == 1 else None for m in mappings]

    for ingredients in (QUICK, Ingredients(prior=False, candidates=12, startup=3, starts=2, rounds=1)):
        sampler = ModelSampler(space, ("latency_cycles",), estimate=known, ingredients=ingredients)
        study = optuna.create_study(sampler=sampler)
        for _ in range(5):
            trial = study.ask()
            mapping = space.choose(TrialChooser(trial))
            assert mapping.loops[0].lanes == 1
            study.tell(trial, measured(space, mapping)[0])


def test_fewer_mappings_are_looked_at_while_all_are_forbidden(space: MappingSpace) -> None:
    looked, allowed = [0], [False]

    def known(mappings: Sequence[Mapping]) -> list[dict[str, float] | None]:
        looked[-1] += len(mappings)
        return [{"latency_cycles": measured(space, m)[0]} if allowed[0] else None for m in mappings]

    def asked(trials: Sequence[Any], count: int) -> list[Any]:
        sampler = ModelSampler(space, ("latency_cycles",), estimate=known, ingredients=QUICK)
        study = optuna.create_study(sampler=sampler)
        study.add_trials(trials)
        found = []
        for _ in range(count):
            looked.append(0)
            trial = study.ask()
            space.choose(TrialChooser(trial))
            found.append(trial)
        for trial in found:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        return study.trials

    first = asked([], 3)  # a batch, then another in a study that was rebuilt
    asked(first, 2)
    every, quarter, *rest = looked[1:]
    assert quarter < every / 3
    assert all(n <= 4 * QUICK.candidates for n in rest)
    allowed[0] = True
    assert len(asked(first, 1)) == 4


def test_a_perfect_prior_is_followed(space: MappingSpace) -> None:
    from mapper.features import FeatureMap

    def known(mappings: Sequence[Mapping]) -> list[dict[str, float]]:
        return [{"latency_cycles": measured(space, m)[0]} for m in mappings]

    domain = MappingDomain(space, ("latency_cycles",), FeatureMap(space), known)
    points = domain.sample(np.random.default_rng(0), 8)
    history = History(points, np.array([[measured(space, p)[0]] for p in points]))
    ingredients = Ingredients(candidates=40, startup=2, starts=2, rounds=2)
    (found,) = propose(domain, history, Goal(1), ingredients, 1, np.random.default_rng(1))
    drawn = [measured(space, p)[0] for p in domain.sample(np.random.default_rng(2), 40)]
    assert measured(space, found.point)[0] <= np.quantile(drawn, 0.05)


def test_every_rewriting_is_tried_where_no_estimate_says_what_to_expect() -> None:
    from mapper.features import FeatureMap

    program = parse_program("T(i,k) = A(i,j) * B(j,k)\nZ(i,l) = T(i,k) * C(k,l)")
    tensors = {name: power_law((20, 20), 60, seed) for seed, name in enumerate("ABC")}
    chain = MappingSpace(Workload(program, tensors), load_machine("gamma"), SpaceLimits(max_lanes=1))
    assert len(chain.programs) == 3
    rng = np.random.default_rng(0)
    known = [chain.programs[""].draw(rng) for _ in range(6)]
    outcomes = np.arange(1.0, 7.0)[:, None]

    def rewriting_of_next(points: list[Mapping], estimated: bool) -> str:
        def guess(mappings: Sequence[Mapping]) -> list[dict[str, float]]:
            return [{"latency_cycles": 1.0 + len(m.variant)} for m in mappings]

        domain = MappingDomain(chain, ("latency_cycles",), FeatureMap(chain), guess if estimated else None)
        history = History(points, outcomes[: len(points)])
        (found,) = propose(domain, history, Goal(1), MAPPING_INGREDIENTS, 1, np.random.default_rng(1))
        return found.point.variant

    known = list(dict.fromkeys(known))
    even = known[: len(known) // 2 * 2]
    assert rewriting_of_next(even, estimated=False) != ""
    assert rewriting_of_next(even, estimated=True) == ""  # which the estimate prefers


def test_features_differ_by_one_at_most_per_knob(space: MappingSpace) -> None:
    from mapper.features import FeatureMap

    domain = MappingDomain(space, ("latency_cycles",), FeatureMap(space), None)
    rows = domain.features(domain.sample(np.random.default_rng(3), 60))
    assert rows.shape[1] == len(domain.groups)
    for group in range(domain.groups.max() + 1):
        own = rows[:, domain.groups == group]
        distance = np.sqrt(((own[:, None] - own[None]) ** 2).sum(axis=2))
        assert distance.max() < 1.6  # 1 over the sample that fixed the scale


def test_samplers_by_name() -> None:
    assert ingredients_of("sparseloom") == MAPPING_INGREDIENTS
    for name in SAMPLERS:
        own = ingredients_of(name)
        if own is None:
            if name != "gp" or importlib.util.find_spec("torch"):
                make_sampler(name, seed=0)
        elif name != "sparseloom":
            switch = name.removeprefix("sparseloom-no-").replace("-", "_")
            assert not getattr(own, switch)
            assert getattr(MAPPING_INGREDIENTS, switch)
    with pytest.raises(InputError, match="Did you mean 'nsga2'"):
        make_sampler("nsga", seed=0)


SPEC = """
program: Z(i,j) = A(i,k) * B(k,j)
tensors:
  A: {{random: {{kind: power_law, shape: [40, 40], nnz: 160, seed: 1}}}}
  B: {{random: {{kind: power_law, shape: [40, 40], nnz: 160, seed: 2}}}}
machine: {{preset: rda, fifo_depth: [1, 4, 64]}}
constraints: {{energy_pj: 1.0e+9}}
search: {{sampler: {sampler}, simulations: {simulations}, batch: 3, seed: 3, descents: 1}}
storage: sqlite:///study.db
"""


def rows(folder: Path, sampler: str, workers: int, interrupted: bool = False) -> list[TrialRecord]:
    folder.mkdir()
    path = folder / "small.yaml"
    path.write_text(SPEC.format(sampler=sampler, simulations=6))
    session = open_session(load_problem(load_spec(path)))
    if interrupted:
        commit = session.store.commit_batch

        def stop_after_one(study: StudyHandle, batch: int, made: list[TrialRecord]) -> None:
            commit(study, batch, made)
            raise KeyboardInterrupt

        session.store.commit_batch = stop_after_one  # type: ignore[method-assign,assignment]
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                run_session(session, workers, show=False)
        session.store.close()
        session = open_session(load_problem(load_spec(path)))
    assert run_session(session, workers, show=False) == "simulation budget used"
    session.store.close()
    store = StudyStore(load_spec(path).storage)
    contents = store.load("small")
    store.close()
    return list(contents.trials)


@pytest.mark.usefixtures("few")
def test_rows_depend_neither_on_workers_nor_on_interruptions(tmp_path: Path) -> None:
    one = rows(tmp_path / "one", "sparseloom", 1)
    assert [r.state for r in one].count("simulated") + [r.state for r in one].count("failed") == 6
    assert len({r.mapping_key for r in one}) == len(one) == 6  # nothing is simulated twice, nothing asked in vain
    assert rows(tmp_path / "two", "sparseloom", 2) == one
    assert rows(tmp_path / "interrupted", "sparseloom", 1, interrupted=True) == one


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("sampler", ["sparseloom-no-prior", "nsga2"])
def test_other_samplers_run(tmp_path: Path, sampler: str) -> None:
    found = rows(tmp_path / "study", sampler, 1)
    assert sum(r.state in ("simulated", "failed") for r in found) == 6
