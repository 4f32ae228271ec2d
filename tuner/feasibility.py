"""Feasibility: the probability that an evaluation will not fail, learned from failures told as such."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tuner.permutation_features import FloatArray

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestClassifier

TREES = 50

THRESHOLDS = (0.75, 0.95)
"""A point less likely to succeed than a threshold is not proposed. The threshold is drawn between these for every
suggestion: a classifier that is somewhat wrong about a region cannot keep the search out of it for ever."""


@dataclass(frozen=True, slots=True)
class Feasibility:
    """A forest (None: nothing has failed yet, all is feasible) and the threshold of this suggestion."""

    forest: RandomForestClassifier | None
    threshold: float

    @classmethod
    def fit(cls, features: FloatArray, failed: npt.NDArray[np.bool_], rng: np.random.Generator) -> Feasibility:
        """``features``: float64[n, features] of everything evaluated, ``failed``: bool[n]."""
        threshold, seed = float(rng.uniform(*THRESHOLDS)), int(rng.integers(2**31))
        if not failed.any():
            return cls(None, threshold)
        from sklearn.ensemble import RandomForestClassifier

        forest = RandomForestClassifier(
            TREES, max_features=0.75, bootstrap=True, min_samples_leaf=1, random_state=seed, n_jobs=1
        )
        return cls(forest.fit(features, ~failed), threshold)

    def redrawn(self, rng: np.random.Generator) -> Feasibility:
        """With a new threshold."""
        return replace(self, threshold=float(rng.uniform(*THRESHOLDS)))

    def probability(self, features: FloatArray) -> FloatArray:
        """float64[points]: probability of success."""
        if self.forest is None:
            return np.ones(len(features))
        classes = list(self.forest.classes_)
        if True not in classes:
            return np.zeros(len(features))
        rows = np.ascontiguousarray(features, np.float32)  # as the trees store them; a call per tree, no thread pool
        votes = sum(tree.tree_.predict(rows) for tree in self.forest.estimators_)
        return np.asarray(votes[:, classes.index(True)] / votes.sum(axis=1), np.float64)

    def log_weight(self, features: FloatArray) -> FloatArray:
        """Log probability of success, -inf below the threshold."""
        probability = self.probability(features)
        with np.errstate(divide="ignore"):
            return np.where(probability >= self.threshold, np.log(probability), -np.inf)
