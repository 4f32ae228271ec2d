"""Search: proposes mappings by Optuna. The truth is the list of finished rows; nothing else is remembered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mapper.errors import IllegalMapping
from mapper.mapping import Mapping
from mapper.regions import Violation
from mapper.space import MappingSpace
from studies.records import TrialRecord
from tuner.samplers import TrialChooser, batch_seed, make_sampler

if TYPE_CHECKING:
    import optuna


@dataclass(frozen=True, slots=True)
class Proposal:
    """A trial asked: the mapping, or the rules that its choices break."""

    mapping: Mapping | None
    violations: tuple[Violation, ...]
    params: dict[str, Any]
    distributions: dict[str, str]


class Search:
    """Asks a batch at a time from an in-memory Optuna study rebuilt from the rows told so far, with a sampler seeded
    for that batch: a resumed study asks exactly what an undisturbed one would, whoever finished first."""

    def __init__(self, space: MappingSpace, sampler: str, seed: int, objectives: Sequence[str]) -> None:
        self._space, self._sampler, self._seed, self._objectives = space, sampler, seed, tuple(objectives)
        self._finished: list[optuna.trial.FrozenTrial] = []

    def ask(self, batch: int, count: int) -> list[Proposal]:
        """``count`` proposals of batch number ``batch``."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(
            directions=["minimize"] * len(self._objectives),
            sampler=make_sampler(self._sampler, batch_seed(self._seed, batch)),
        )
        study.add_trials(self._finished)
        return [self._propose(study.ask()) for _ in range(count)]

    def tell(self, row: TrialRecord) -> None:
        """Adds a finished row. What was screened but not simulated enters with its estimate, so that the sampler learns
        from the model too; rows with neither count as pruned, and rejected and failed ones violate a constraint."""
        import optuna

        known = row.values if row.values is not None else row.estimate if row.state != "failed" else None
        trial = optuna.trial.create_trial(
            state=optuna.trial.TrialState.COMPLETE if known else optuna.trial.TrialState.PRUNED,
            values=[known[o] for o in self._objectives] if known else None,
            params=dict(row.params),
            distributions={n: optuna.distributions.json_to_distribution(d) for n, d in row.distributions.items()},
            constraints={"legal": -1.0 if known else 1.0},
        )
        self._finished.append(trial)

    def _propose(self, trial: optuna.Trial) -> Proposal:
        import optuna

        mapping: Mapping | None = None
        broken: tuple[Violation, ...] = ()
        try:
            mapping = self._space.choose(TrialChooser(trial))
        except IllegalMapping as error:
            broken = error.args[1]
        texts = {n: optuna.distributions.distribution_to_json(d) for n, d in trial.distributions.items()}
        return Proposal(mapping, broken, dict(trial.params), texts)
