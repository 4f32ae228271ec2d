"""Search: proposes mappings by Optuna. The truth is the list of finished rows; nothing else is remembered."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mapper.default_mapping import default_mapping
from mapper.errors import EmptySpace, IllegalMapping
from mapper.mapping import Mapping
from mapper.space import MappingSpace
from mapper.violation import Violation
from studies.pareto import pareto_front
from studies.records import Budgets, TransferRecord, TrialRecord
from studies.spec import OBJECTIVES, SearchSettings
from tuner.descent import Descent
from tuner.dominance import IN_SIMULATION
from tuner.mapping_domain import Estimate
from tuner.samplers import (
    GENERATION,
    MEASURED,
    POPULATION,
    UNSIMULATED,
    TrialChooser,
    batch_seed,
    ingredients_of,
    make_sampler,
)

if TYPE_CHECKING:
    import optuna

    from tuner.model_sampler import ModelSampler


@dataclass(frozen=True, slots=True)
class Proposal:
    """A trial asked: the mapping, or the rules that its choices break. ``gain``: what the sampler's model expects of
    it; ``origin``: where it was taken from."""

    mapping: Mapping | None
    violations: tuple[Violation, ...]
    params: dict[str, Any]
    distributions: dict[str, str]
    gain: float | None = None
    origin: str | None = None


class Search:
    """Asks a batch at a time from an in-memory Optuna study rebuilt from the rows told so far, with a sampler seeded
    for that batch: a resumed study asks exactly what an undisturbed one would, whoever finished first.

    ``estimate`` is for the model sampler, which chooses by itself what is worth a simulation (``chooses``); of what
    others propose the caller selects. To all of them, what is over one of ``budgets`` breaks a constraint.
    ``transfers`` are proposed before all else.
    """

    def __init__(
        self,
        space: MappingSpace,
        settings: SearchSettings,
        objectives: Sequence[str],
        budgets: Budgets = (),
        estimate: Estimate | None = None,
        transfers: Sequence[TransferRecord] = (),
    ) -> None:
        self._space, self._settings, self._objectives = space, settings, tuple(objectives)
        self._finished: list[optuna.trial.FrozenTrial] = []
        self._model: ModelSampler | None = None
        self._ingredients = ingredients_of(settings.sampler)
        self._budgets, self._estimate = tuple(budgets), estimate
        self._completed = 0
        self._transfers = list(transfers)

    @property
    def chooses(self) -> bool:
        """Whether every proposal is meant to be simulated."""
        return self._ingredients is not None

    def _sampler(self, batch: int, hints: Sequence[dict[str, Any]]) -> optuna.samplers.BaseSampler:
        if self._ingredients is None:
            return make_sampler(self._settings.sampler, batch_seed(self._settings.seed, batch))
        if self._model is None:  # it keeps estimates, not results
            from tuner.model_sampler import ModelSampler

            self._model = ModelSampler(
                self._space, self._objectives, seed=self._settings.seed, budgets=self._budgets,
                estimate=self._estimate, ingredients=self._ingredients,
            )  # fmt: skip
        self._model.hint(hints)
        return self._model

    def descents(self, batch: int) -> list[Descent]:
        """Local searches for batch number ``batch``: half from the best rows so far, within budgets if any are (in the
        beginning from what everybody would write, of every rewriting), half from anywhere."""
        settings = self._settings
        rng = np.random.default_rng(batch_seed(settings.seed, batch, "descents"))
        complete = [t for t in self._finished if t.values]
        known = [t for t in complete if all(excess <= 0 for excess in t.constraints.values())] or complete
        front = [known[n] for n in pareto_front([t.values for t in known])] if known else []
        found = []
        for n in range(settings.descents if settings.sampler != "random" else 0):
            starts: tuple[dict[str, Any], ...] = ()
            if n % 2 == 0:
                starts = (dict(front[int(rng.integers(len(front)))].params),) if front else self._defaults()
            weights = tuple(rng.dirichlet(np.ones(len(self._objectives))).tolist())
            found.append(Descent(starts, weights, int(rng.integers(2**32))))
        return found

    def _defaults(self) -> tuple[dict[str, Any], ...]:
        """Parameters of the default mappings that the space has."""
        found = []
        for label in self._space.programs:
            with contextlib.suppress(IllegalMapping):
                found.append(self._space.params(default_mapping(self._space, label)))
        return tuple(found)

    def ask(self, batch: int, count: int, hints: Sequence[dict[str, Any]] = ()) -> list[Proposal]:
        """``count`` proposals of batch number ``batch``, the ``hints`` (parameters) first; to the model sampler these
        are candidates among others. The rest of the first batch is uniform, as nothing is known to learn from."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(
            directions=["minimize"] * len(self._objectives), sampler=self._sampler(batch, hints)
        )
        study.add_trials(self._finished)
        first = self._transfers[:count]
        known = [self._space.params(Mapping.from_json(each.mapping)) for each in first]
        if not self.chooses:
            known += hints[: count - len(known)]
            known += self._draws(batch, count - len(known))
        for params in known:
            study.enqueue_trial(params)
        origins = [each.origin for each in first] + [None] * (count - len(first))
        return [self._propose(study.ask(), origin) for origin in origins]

    def _draws(self, batch: int, count: int) -> list[dict[str, Any]]:
        """Uniform legal draws for the first batch; the random sampler draws by itself, knob by knob."""
        if batch or self._settings.sampler == "random":
            return []
        rng = np.random.default_rng(batch_seed(self._settings.seed, batch, "draws"))
        try:
            return [self._space.params(self._space.sample(rng)) for _ in range(count)]
        except EmptySpace:  # too few are legal to be drawn: the sampler may still find one
            return []

    def tell(self, row: TrialRecord) -> None:
        """Adds a finished row. What was screened but not simulated enters with its estimate, so that the sampler learns
        from the model too; rows with neither count as pruned, and rejected and failed ones violate a constraint, as do
        those over a budget, by the share that is too much."""
        import optuna

        known = None if row.failure else row.values or _told(row)
        measured = {o: known[o] for o in OBJECTIVES if o in known} if known and row.ran else None
        trial = optuna.trial.create_trial(
            state=optuna.trial.TrialState.COMPLETE if known else optuna.trial.TrialState.PRUNED,
            values=[known[o] for o in self._objectives] if known else None,
            params=dict(row.params),
            distributions={n: optuna.distributions.json_to_distribution(d) for n, d in row.distributions.items()},
            constraints={"legal": -1.0 if known else 1.0, **self._excesses(known)},
            user_attrs={UNSIMULATED: not row.ran, MEASURED: measured},
            system_attrs={GENERATION: self._completed // POPULATION} if known else {},
        )
        self._completed += known is not None
        self._transfers = [each for each in self._transfers if each.origin != row.origin]
        self._finished.append(trial)

    def _excesses(self, known: dict[str, Any] | None) -> dict[str, float]:
        """How far each budget is exceeded (0 where nothing is known, below where it is met), by name."""
        return {name: (known[name] - limit) / limit if known else 0.0 for name, limit in self._budgets}

    def _propose(self, trial: optuna.Trial, origin: str | None) -> Proposal:
        import optuna

        mapping: Mapping | None = None
        broken: tuple[Violation, ...] = ()
        try:
            mapping = self._space.choose(TrialChooser(trial))
        except IllegalMapping as error:
            broken = error.violations
        texts = {n: optuna.distributions.distribution_to_json(d) for n, d in trial.distributions.items()}
        gain = self._model.gains.get(trial.number) if self._model and not origin else None
        return Proposal(mapping, broken, dict(trial.params), texts, gain, origin)


def _told(row: TrialRecord) -> dict[str, Any] | None:
    """What a sampler learns of a row without values: its estimate. Of one whose simulation was cut short no less than
    what was reached and what is certain, so that it stands behind the front there, too."""
    if row.estimate is None or row.fidelity != "partial":
        return row.estimate
    cycles = next(v.measured for v in row.verdicts if v.rule == IN_SIMULATION)
    reached = {**row.estimate["bounds"], "latency_cycles": cycles}
    return {**row.estimate, **{o: max(row.estimate[o], least) for o, least in reached.items()}}
