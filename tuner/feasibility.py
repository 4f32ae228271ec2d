"""Feasibility: the probability that an evaluation will not fail, learned from failures told as such.

The mean of two classifiers that err differently. A forest finds the few choices that decide, but is as sure far from
everything evaluated as it is near, and the best of many candidates lies where a model is too hopeful. A Gaussian
process is unsure there, but spreads what it learns over all choices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.special import expit

from tuner.gp import covariance
from tuner.permutation_features import FloatArray

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestClassifier

TREES = 20

MEAN, LENGTH, JOINT, ADDITIVE = 2.0, 0.5, 1.5, 3.0
"""Of the latent process: its mean, its length scales over the root of the number of groups, the amplitudes of its
joint and of its additive part."""

STEPS, SETTLED = 30, 1e-6
"""Newton steps to the mode, and the gain below which there are no more."""

LENIENT, STRICT, LEARNING = 0.5, (0.85, 0.9), 15
"""A point less likely to succeed than a threshold is not proposed. The threshold is drawn anew for every suggestion,
so that a classifier that is somewhat wrong about a region cannot keep the search out of it for ever: between
``LENIENT`` and the end of ``STRICT`` up to ``LEARNING`` evaluations, when a failure teaches most; then the lower end
rises to the beginning of ``STRICT``, by ``LEARNING`` / evaluations."""

Flags = npt.NDArray[np.bool_]


class Classifier(Protocol):
    """Says how likely points are to succeed."""

    def probability(self, features: FloatArray) -> FloatArray:
        """float64[points]."""


@dataclass(frozen=True, slots=True)
class Forest:
    """A random forest."""

    fitted: RandomForestClassifier

    @classmethod
    def fit(cls, features: FloatArray, failed: Flags, seed: int) -> Forest:
        """``features``: float64[n, features]; ``failed``: bool[n]."""
        from sklearn.ensemble import RandomForestClassifier

        return cls(RandomForestClassifier(TREES, max_features=0.75, random_state=seed).fit(features, ~failed))

    def probability(self, features: FloatArray) -> FloatArray:
        """float64[points]."""
        classes = list(self.fitted.classes_)
        if True not in classes:
            return np.zeros(len(features))
        rows = np.ascontiguousarray(features, np.float32)  # as the trees store them; a call per tree, no thread pool
        votes = sum(tree.tree_.predict(rows) for tree in self.fitted.estimators_)
        return np.asarray(votes[:, classes.index(True)] / votes.sum(axis=1), np.float64)


@dataclass(frozen=True, slots=True)
class LatentProcess:
    """A point succeeds with probability 1 / (1 + exp(-f)), f a Gaussian process with the kernel of ``gp``; its
    posterior by Laplace's method (Rasmussen and Williams, 2006, section 3.4).

    ``inputs``: float64[n, features], scaled; ``slope``: float64[n], of the log likelihood at the mode; ``weight``:
    float64[n], the root of its negative curvature; ``factor``: lower Cholesky factor of 1 + weight K weight.
    """

    groups: npt.NDArray[np.int64]
    inputs: FloatArray
    slope: FloatArray
    weight: FloatArray
    factor: FloatArray

    @classmethod
    def fit(cls, features: FloatArray, groups: npt.NDArray[np.int64], failed: Flags) -> LatentProcess:
        """``features``: float64[n, features], ``groups``: int64[features], ``failed``: bool[n]."""
        inputs = features / _length(groups)
        kernel, sign = _kernel(groups, inputs, inputs), np.where(failed, -1.0, 1.0)

        def gain(pulled: FloatArray) -> float:
            centred = kernel @ pulled
            return float(-0.5 * pulled @ centred - np.logaddexp(0, -sign * (MEAN + centred)).sum())

        pulled = np.zeros(len(failed))  # K^-1 (f - MEAN)
        for _ in range(STEPS):
            slope, weight, factor = _curved(kernel, pulled, failed)
            pull = weight**2 * (kernel @ pulled) + slope
            step = pull - weight * cho_solve((factor, True), weight * (kernel @ pull)) - pulled
            before, size = gain(pulled), 1.0
            while (now := gain(pulled + size * step)) < before and size > SETTLED:  # a full step may go too far
                size /= 2
            pulled = pulled + size * step
            if now - before < SETTLED:
                break
        return cls(groups, inputs, *_curved(kernel, pulled, failed))

    def probability(self, features: FloatArray) -> FloatArray:
        """float64[points]: the mean over f, with the variance in the argument (MacKay, 1992)."""
        cross = _kernel(self.groups, self.inputs, features / _length(self.groups))
        known = solve_triangular(self.factor, self.weight[:, None] * cross, lower=True)
        variance = np.maximum(1 + JOINT**2 + ADDITIVE**2 - np.einsum("ij,ij->j", known, known), 0)
        return np.asarray(expit((MEAN + cross.T @ self.slope) / np.sqrt(1 + math.pi / 8 * variance)), np.float64)


def _curved(kernel: FloatArray, pulled: FloatArray, failed: Flags) -> tuple[FloatArray, FloatArray, FloatArray]:
    """``slope``, ``weight`` and ``factor`` of ``LatentProcess`` where f = MEAN + kernel @ pulled."""
    chance = expit(MEAN + kernel @ pulled)
    weight = np.sqrt(chance * (1 - chance))
    factor = cholesky(np.eye(len(failed)) + weight[:, None] * kernel * weight, lower=True)
    return ~failed - chance, weight, factor


def _length(groups: npt.NDArray[np.int64]) -> float:
    return LENGTH * math.sqrt(int(groups.max()) + 1)


def _kernel(groups: npt.NDArray[np.int64], left: FloatArray, right: FloatArray) -> FloatArray:
    theta = np.zeros(int(groups.max()) + 4)
    theta[-3:-1] = math.log(JOINT), math.log(ADDITIVE)
    constant = ((inputs, np.tile([1.0, 0.0], (len(inputs), 1))) for inputs in (left, right))
    return covariance(theta, groups, *constant)


@dataclass(frozen=True, slots=True)
class Feasibility:
    """The ``classifiers`` (none: nothing has failed yet, all is feasible), from how many evaluations, and the threshold
    of this suggestion."""

    classifiers: Sequence[Classifier]
    evaluated: int
    threshold: float

    @classmethod
    def fit(
        cls, features: FloatArray, groups: npt.NDArray[np.int64], failed: Flags, rng: np.random.Generator
    ) -> Feasibility:
        """``features``: float64[n, features] of everything evaluated, ``groups``: which of them belong together (as in
        ``gp``), ``failed``: bool[n]."""
        found, seed = cls((), len(failed), 0.0).redrawn(rng), int(rng.integers(2**31))
        if not failed.any():
            return found
        return replace(
            found, classifiers=(Forest.fit(features, failed, seed), LatentProcess.fit(features, groups, failed))
        )

    def redrawn(self, rng: np.random.Generator) -> Feasibility:
        """With a new threshold."""
        low = min(STRICT[0], 1 - (1 - LENIENT) * min(1.0, LEARNING / max(1, self.evaluated)))
        return replace(self, threshold=float(rng.uniform(low, STRICT[1])))

    def probability(self, features: FloatArray) -> FloatArray:
        """float64[points]: probability of success."""
        if not self.classifiers:
            return np.ones(len(features))
        return np.asarray(np.mean([c.probability(features) for c in self.classifiers], axis=0), np.float64)

    def log_weight(self, features: FloatArray) -> FloatArray:
        """Log probability of success, -inf below the threshold."""
        probability = self.probability(features)
        with np.errstate(divide="ignore"):
            return np.where(probability >= self.threshold, np.log(probability), -np.inf)
