"""Proposer: the points to evaluate next, from everything evaluated so far, over any domain.

Candidates are drawn uniformly from the legal points and improved by local search along neighbours; nothing that was
evaluated or is being evaluated is proposed again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from studies.pareto import pareto_front
from tuner.permutation_features import FloatArray
from tuner.surrogate import NEVER, Goal, Ingredients, Surrogate, measured, scaled

INCUMBENTS = 3
"""Best evaluated points whose neighbours are candidates."""

SPREAD = 128
"""Draws of which a startup point is the one farthest from what is known."""

REDRAWS = 50
"""Rounds of draws in search of a point that is allowed and has not been evaluated; after each search that found none a
quarter of them, at least one."""

P = TypeVar("P", bound=Hashable)


class Domain(Protocol[P]):
    """What is searched: legal points with features."""

    @property
    def groups(self) -> npt.NDArray[np.int64]:
        """int64[features]: which features share a length scale."""

    def sample(self, rng: np.random.Generator, count: int) -> Sequence[P]:
        """Legal points, independent and uniform."""

    def neighbours(self, point: P, rng: np.random.Generator) -> Sequence[P]:
        """Legal points that differ little."""

    def kind(self, point: P) -> Hashable:
        """What decides which other choices a point has: points of different kinds have little in common."""

    def few(self) -> Sequence[P] | None:
        """All points, if they are few enough to be listed."""

    def features(self, points: Sequence[P]) -> FloatArray:
        """float64[points, features], of order one."""

    def estimates(self, points: Sequence[P]) -> FloatArray | None:
        """float64[points, quantities], a prior estimate of each (None: there is none); a row of NaN forbids a point."""


@dataclass(frozen=True, eq=False)
class History(Generic[P]):
    """``points`` with ``outcomes`` (float64[points, quantities], a row of NaN is a failure); ``pending``: points that
    are being evaluated; ``hints``: points that others think good; ``barren``: searches in a row, up to now, that found
    no allowed point."""

    points: Sequence[P]
    outcomes: FloatArray
    pending: Sequence[P] = ()
    hints: Sequence[P] = ()
    barren: int = 0


@dataclass(frozen=True, slots=True)
class Suggestion(Generic[P]):
    """A point to evaluate; ``gain``: what is expected of it (``Surrogate.gain``), None for one drawn at the start."""

    point: P
    gain: float | None


def propose(
    domain: Domain[P],
    history: History[P],
    goal: Goal,
    ingredients: Ingredients,
    count: int,
    rng: np.random.Generator,
) -> list[Suggestion[P]]:
    """Up to ``count`` new points, fewer only if no more can be found. One thread: sums, and so suggestions, do not
    depend on how many cores there are."""
    with threadpool_limits(1, user_api="blas"):
        return _Round(domain, history, goal, ingredients, rng).suggestions(count)


class _Round(Generic[P]):
    """One call of ``propose``."""

    def __init__(
        self, domain: Domain[P], history: History[P], goal: Goal, ingredients: Ingredients, rng: np.random.Generator
    ) -> None:
        self._domain, self._history, self._goal, self._ingredients, self._rng = domain, history, goal, ingredients, rng
        self._seen = {*history.points, *history.pending}
        self._features: dict[P, FloatArray] = {}
        self._barren = False

    def suggestions(self, count: int) -> list[Suggestion[P]]:
        """See ``propose``."""
        found: list[Suggestion[P]] = []
        known = len(self._seen)
        points, outcomes, prior = self._known()
        succeeded = measured(outcomes).any()
        starting = count if not succeeded else min(count, max(0, self._ingredients.startup - known))
        for number in range(starting):
            point = self._startup_point(known + number)
            if point is None:
                return found
            found.append(Suggestion(point, None))
            self._seen.add(point)
        if len(found) == count:
            return found
        surrogate = Surrogate.fit(
            self._matrix(points), self._domain.groups, outcomes, prior, self._goal, self._ingredients, self._rng
        )
        pending = [p for p in (*self._history.pending, *(s.point for s in found)) if self._foreseeable(p)]
        if self._ingredients.fantasies and pending:
            for point in pending:
                surrogate = surrogate.foreseeing(self._matrix([point]), self._estimated([point]))
        pool = self._pool()
        for _ in range(count - len(found)):
            pool = [p for p in pool if p not in self._seen] or self._drawn(1)
            if not pool:
                break
            point = self._untried(surrogate, pool) or self._best(surrogate, pool)
            gain = surrogate.gain(self._matrix([point]), self._estimated([point]))
            found.append(Suggestion(point, float(gain[0])))
            self._seen.add(point)
            surrogate = surrogate.redrawn(self._rng)
            if self._ingredients.fantasies:
                surrogate = surrogate.foreseeing(self._matrix([point]), self._estimated([point]))
        return found

    def _startup_point(self, number: int) -> P | None:
        """In turn the best of the candidates by estimate, where there is one, and the one farthest from all known."""
        allowed = [*self._allowed(self._history.hints), *self._drawn(min(SPREAD, self._ingredients.candidates))]
        if not allowed:
            return None
        estimates = self._estimated(allowed)
        if estimates is not None and number % 2 == 0:
            own = estimates[:, : self._goal.objectives]
            weights = self._rng.dirichlet(np.ones(self._goal.objectives))
            return allowed[int(np.argmin(scaled(own, bool((own > 0).all())) @ weights))]
        if not self._seen:
            return allowed[int(self._rng.integers(len(allowed)))]
        known = self._matrix([*self._history.points, *(p for p in self._seen if p not in set(self._history.points))])
        features = self._matrix(allowed)
        distance = np.min(((features[:, None, :] - known[None, :, :]) ** 2).sum(axis=2), axis=1)
        return allowed[int(np.argmax(distance))]

    def _known(self) -> tuple[Sequence[P], FloatArray, FloatArray | None]:
        """Points, outcomes and estimates of what was evaluated and is not forbidden now: that has nothing to say."""
        points, outcomes = self._history.points, self._history.outcomes
        prior = self._estimated(points) if points else None
        if prior is not None:
            kept = measured(prior)
            points, outcomes, prior = [p for p, k in zip(points, kept, strict=True) if k], outcomes[kept], prior[kept]
        return points, outcomes, prior

    def _foreseeable(self, point: P) -> bool:
        """Whether an outcome can be expected: not of what others have proposed though it is forbidden."""
        estimates = self._estimated([point])
        return estimates is None or bool(measured(estimates)[0])

    def _pool(self) -> list[P]:
        """Candidates: hints, neighbours of the best known, and draws or all points of a small space."""
        near: Iterable[P] = ()
        if self._ingredients.local_search:
            near = (n for p in self._incumbents() for n in self._domain.neighbours(p, self._rng))
        drawn = self._drawn(self._ingredients.candidates)
        return list(dict.fromkeys([*self._allowed([*self._history.hints, *near]), *drawn]))

    def _drawn(self, count: int) -> list[P]:
        """Up to ``count`` allowed points; none if none was found in ``REDRAWS`` rounds, now or earlier in this round:
        every draw may cost an estimate, and where all are forbidden it is in vain."""
        listed = self._domain.few()
        if listed is not None and len(left := self._allowed(listed)) <= max(count, self._ingredients.candidates):
            return left
        for _ in range(0 if self._barren else max(1, REDRAWS >> 2 * self._history.barren)):
            if found := self._allowed(self._domain.sample(self._rng, count)):
                return found
        self._barren = True
        return []

    def _allowed(self, points: Iterable[P]) -> list[P]:
        """Those that were not evaluated and that no estimate forbids, each once."""
        fresh = [p for p in dict.fromkeys(points) if p not in self._seen]
        estimates = self._domain.estimates(fresh) if fresh else None
        if estimates is None:
            return fresh
        return [p for p, allowed in zip(fresh, measured(estimates), strict=True) if allowed]

    def _incumbents(self) -> list[P]:
        """The best points known: the front, by the sum of their logarithms or values where it is long."""
        met = np.flatnonzero(self._goal.met(self._history.outcomes))
        values = self._history.outcomes[met][:, : self._goal.objectives]
        front = met[pareto_front(values)]
        order = self._rng.permutation(len(front)) if self._goal.objectives > 1 else np.arange(len(front))
        return [self._history.points[n] for n in front[order][:INCUMBENTS]]

    def _untried(self, surrogate: Surrogate, pool: list[P]) -> P | None:
        """By turns, where no estimate says what to expect: the best candidate of a kind that was never tried."""
        if len(self._seen) % 2 or self._estimated(pool) is not None:
            return None
        tried = {self._domain.kind(p) for p in self._seen}
        others = [p for p in pool if self._domain.kind(p) not in tried]
        return others[int(np.argmax(self._scored(surrogate, others)))] if others else None

    def _best(self, surrogate: Surrogate, pool: list[P]) -> P:
        """The point of highest acquisition that the pool and local search lead to."""
        scores = dict(zip(pool, self._scored(surrogate, pool), strict=True))
        if max(scores.values()) <= NEVER:  # all too likely to fail: the likeliest to succeed
            chances = surrogate.feasibility.probability(self._matrix(pool))
            return pool[int(np.argmax(chances))]
        best = sorted(pool, key=lambda p: -scores[p])[: self._ingredients.starts]
        current = best if self._ingredients.local_search else []
        for _ in range(self._ingredients.rounds):
            around = [[n for n in self._domain.neighbours(p, self._rng) if n not in self._seen] for p in current]
            fresh = [n for n in dict.fromkeys(n for near in around for n in near) if n not in scores]
            fresh = self._allowed(fresh)
            scores.update(zip(fresh, self._scored(surrogate, fresh), strict=True))
            moved = [
                step
                for p, near in zip(current, around, strict=True)
                for step in [max((n for n in near if n in scores), key=lambda n: scores[n], default=p)]
                if scores[step] > scores[p]
            ]
            current = list(dict.fromkeys(moved))
            if not current:
                break
        return max(scores, key=lambda p: scores[p])

    def _scored(self, surrogate: Surrogate, points: list[P]) -> list[float]:
        if not points:
            return []
        found: list[float] = surrogate.score(self._matrix(points), self._estimated(points)).tolist()
        return found

    def _estimated(self, points: Sequence[P]) -> FloatArray | None:
        return self._domain.estimates(points) if self._ingredients.prior else None

    def _matrix(self, points: Sequence[P]) -> FloatArray:
        """Features, each point's worked out once per round."""
        fresh = [p for p in dict.fromkeys(points) if p not in self._features]
        if fresh:
            self._features.update(zip(fresh, self._domain.features(fresh), strict=True))
        return np.array([self._features[p] for p in points])
