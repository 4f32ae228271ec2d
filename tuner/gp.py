"""Gaussian process over mixed features: Matern-5/2, a length scale per group of features, priors, a prior mean.

    y(x) = b0 + b1 m(x) + g(x) + noise,   k(x, x') = s^2 M52(r) + a^2 mean over n groups of M52(n^(1/2) r_g),
    r_g = |x_g - x'_g| / l_g,   r^2 = sum over groups of r_g^2

The additive part (Duvenaud et al., 2011) learns what a knob does from points that differ in all others, which a handful
of observations always do; the joint part learns the rest. Length scales grow with the root of the number of groups, as
distances over all of them do, which n^(1/2) undoes for one.

m is a prior estimate of y (none: b1 = 0). b0 ~ N(0, 1) and b1 ~ N(1, 1/4) are integrated out exactly (Rasmussen and
Williams, 2006, section 2.7): an estimate that does not follow the data loses its weight. Everything is in units of the
standard deviation of y; length scales, s, a and noise maximise their posterior (densities over logarithms).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from tuner.hyperpriors import Prior, Priors
from tuner.permutation_features import FloatArray

ROOT5 = math.sqrt(5.0)

TREND_MEAN, TREND_VARIANCE = np.array([0.0, 1.0]), np.array([1.0, 0.25])
"""Of b0 and b1."""

MOST_FITTED = 120
"""Hyperparameters are fitted to at most so many observations, the best half of them and others drawn from the rest."""

STARTS, POLISHED, STEPS = 16, 2, 40
"""Random starts of a fit, how many of the best are optimised, and the steps of each."""

SMALLEST_NOISE = 1e-4
REACH = 5.0
"""Bounds of log hyperparameters around the middle of their prior; noise also has ``SMALLEST_NOISE``."""


def matern52(squared: FloatArray) -> FloatArray:
    """Matern-5/2 correlation of squared scaled distances."""
    return _matern52(squared)[0]


def _matern52(squared: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The correlation, and what squared distances are multiplied by for its derivative by a log length scale."""
    r = ROOT5 * np.sqrt(squared)
    decay = np.exp(-r)
    return (1 + r + r * r / 3) * decay, (5 / 3) * (1 + r) * decay


@dataclass(frozen=True, slots=True)
class Evidence:
    """The log posterior of hyperparameters given observations, with its gradient.

    ``levels``: per group float64[n, values], 1 for the value that an observation has of those that occur, which are
    few; ``squared``: per group float64[values, values], their squared distances; ``residual``: float64[n], y less the
    mean of the trend; ``trend``: float64[n, n], the covariance of the trend.
    """

    levels: Sequence[FloatArray]
    squared: Sequence[FloatArray]
    residual: FloatArray
    trend: FloatArray
    priors: Sequence[Prior]

    def negative(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """-log posterior up to a constant and its gradient, at log (length scales, amplitudes, noise)."""
        groups, count = len(self.squared), len(self.residual)
        joint, additive, noise = np.exp(2 * theta[groups:])
        apart = [scale * own for scale, own in zip(np.exp(-2 * theta[:groups]), self.squared, strict=True)]
        alone = [_matern52(groups * own) for own in apart]
        shared, shared_slope = _matern52(sum(b @ own @ b.T for b, own in zip(self.levels, apart, strict=True)))
        added = sum(b @ own @ b.T for b, (own, _) in zip(self.levels, alone, strict=True)) / groups
        kernel = joint * shared + additive * added
        try:
            lower = cholesky(kernel + self.trend + noise * np.eye(count), lower=True)
        except LinAlgError:
            return 1e25, np.zeros_like(theta)
        alpha = cho_solve((lower, True), self.residual)
        inner = cho_solve((lower, True), np.eye(count)) - np.outer(alpha, alpha)  # d value / d K = inner / 2
        value = 0.5 * float(self.residual @ alpha) + float(np.log(np.diag(lower)).sum())
        gradient = np.empty_like(theta)
        weight = joint * shared_slope * inner  # d K / d log l_g = r_g^2 (joint slope + additive slope)
        for g, (b, own, (_, slope)) in enumerate(zip(self.levels, apart, alone, strict=True)):
            gradient[g] = 0.5 * float((own * (b.T @ weight @ b + additive * slope * (b.T @ inner @ b))).sum())
        gradient[groups] = joint * float((inner * shared).sum())
        gradient[groups + 1] = additive * float((inner * added).sum())
        gradient[groups + 2] = noise * float(np.trace(inner))
        value -= sum(float(p.log_density(t)) for p, t in zip(self.priors, theta, strict=True))
        gradient -= np.array([float(p.slope(t)) for p, t in zip(self.priors, theta, strict=True)])
        return value, gradient


@dataclass(frozen=True, slots=True)
class GaussianProcess:
    """A posterior. ``inputs``: scaled features; ``basis``: float64[n, 2], what b0 and b1 multiply; ``factor``: lower
    Cholesky factor of the covariance of the observations; ``solved``: factor^-1 times the residuals."""

    theta: FloatArray
    groups: npt.NDArray[np.int64]
    inputs: FloatArray
    basis: FloatArray
    factor: FloatArray
    solved: FloatArray
    middle: float
    unit: float
    prior_middle: float

    @classmethod
    def fit(
        cls,
        features: FloatArray,
        groups: npt.NDArray[np.int64],
        values: FloatArray,
        rng: np.random.Generator,
        prior: FloatArray | None = None,
        priors: Priors | None = None,
    ) -> GaussianProcess:
        """The posterior of ``values`` (float64[n]) at ``features`` (float64[n, features]) with the most probable
        hyperparameters found. ``groups``: int[features], from 0; ``prior``: float64[n], the estimate m."""
        count = int(groups.max()) + 1
        units = _Units.of(values, prior)
        chosen = _subset(values, rng)
        known = [_values(features[chosen][:, groups == g]) for g in range(count)]
        levels = [np.eye(len(values))[index] for values, index in known]
        squared = [cdist(values, values, "sqeuclidean") for values, _ in known]
        basis = units.basis(prior, len(values))[chosen]
        residual = units.scaled(values)[chosen] - basis @ TREND_MEAN
        own = (priors or Priors()).of(count)
        evidence = Evidence(levels, squared, residual, (basis * TREND_VARIANCE) @ basis.T, own)
        return cls.at(_most_probable(evidence, own, rng), features, groups, values, prior)

    @classmethod
    def at(
        cls,
        theta: FloatArray,
        features: FloatArray,
        groups: npt.NDArray[np.int64],
        values: FloatArray,
        prior: FloatArray | None = None,
    ) -> GaussianProcess:
        """The posterior at given log (length scales, amplitudes, noise), in units of the standard deviation of y."""
        units = _Units.of(values, prior)
        inputs, basis = features * np.exp(-theta[groups]), units.basis(prior, len(values))
        noisy = covariance(theta, groups, (inputs, basis), (inputs, basis))
        noisy[np.diag_indices(len(values))] += np.exp(2 * theta[-1])
        factor = cholesky(noisy, lower=True)
        solved = solve_triangular(factor, units.scaled(values) - basis @ TREND_MEAN, lower=True)
        return cls(theta, groups, inputs, basis, factor, solved, units.middle, units.unit, units.prior_middle)

    def predict(self, features: FloatArray, prior: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of y without noise, float64[m] each."""
        inputs, basis = self._scaled(features, prior)
        shared = covariance(self.theta, self.groups, (self.inputs, self.basis), (inputs, basis))
        cross = solve_triangular(self.factor, shared, lower=True, check_finite=False)
        mean = basis @ TREND_MEAN + cross.T @ self.solved
        own = np.exp(2 * self.theta[-3:-1]).sum() + (basis**2) @ TREND_VARIANCE
        deviation = np.sqrt(np.maximum(own - np.einsum("ij,ij->j", cross, cross), 1e-12))
        return self.middle + self.unit * mean, self.unit * deviation

    def condition(
        self, features: FloatArray, prior: FloatArray | None = None, value: float | None = None
    ) -> GaussianProcess:
        """The posterior after one more observation at ``features`` (float64[1, features]): a row is added to the
        Cholesky factor, O(n^2). Without a ``value`` its expectation is taken (a fantasy)."""
        inputs, basis = self._scaled(features, prior)
        shared = covariance(self.theta, self.groups, (self.inputs, self.basis), (inputs, basis))
        row = solve_triangular(self.factor, shared, lower=True)[:, 0]
        own = float(np.exp(2 * self.theta[-3:]).sum() + (basis[0] ** 2) @ TREND_VARIANCE)
        corner = math.sqrt(max(own - float(row @ row), SMALLEST_NOISE**2))
        count = len(row)
        factor = np.zeros((count + 1, count + 1))
        factor[:count, :count], factor[count, :count], factor[count, count] = self.factor, row, corner
        innovation = 0.0
        if value is not None:
            expected = float(basis[0] @ TREND_MEAN + row @ self.solved)
            innovation = ((value - self.middle) / self.unit - expected) / corner
        return replace(
            self, inputs=np.concatenate([self.inputs, inputs]), basis=np.concatenate([self.basis, basis]),
            factor=factor, solved=np.append(self.solved, innovation),
        )  # fmt: skip

    @property
    def prior_slope(self) -> float:
        """Posterior mean of b1: the weight that the prior estimate has kept."""
        weights = solve_triangular(self.factor, self.basis[:, 1], lower=True)
        return float(TREND_MEAN[1] + TREND_VARIANCE[1] * (weights @ self.solved))

    def _scaled(self, features: FloatArray, prior: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        units = _Units(self.middle, self.unit, self.prior_middle)
        return features * np.exp(-self.theta[self.groups]), units.basis(prior, len(features))


@dataclass(frozen=True, slots=True)
class _Units:
    """Values and prior estimates share a unit: b1 = 1 takes the estimate at its word, but for a constant."""

    middle: float
    unit: float
    prior_middle: float

    @classmethod
    def of(cls, values: FloatArray, prior: FloatArray | None) -> _Units:
        unit = float(np.std(values)) if len(values) > 1 else 1.0
        middle = 0.0 if prior is None else float(np.mean(prior))
        return cls(float(np.mean(values)), unit if unit > 1e-12 else 1.0, middle)

    def scaled(self, values: FloatArray) -> FloatArray:
        return (values - self.middle) / self.unit

    def basis(self, prior: FloatArray | None, count: int) -> FloatArray:
        second = np.zeros(count) if prior is None else (prior - self.prior_middle) / self.unit
        return np.column_stack([np.ones(count), second])


def covariance(
    theta: FloatArray,
    groups: npt.NDArray[np.int64],
    left: tuple[FloatArray, FloatArray],
    right: tuple[FloatArray, FloatArray],
) -> FloatArray:
    """float64[left, right]: of points given by inputs divided by length scales, and basis."""
    joint, additive = np.exp(2 * theta[-3:-1])
    kernel = joint * matern52(cdist(left[0], right[0], "sqeuclidean"))
    count = len(theta) - 3
    for group in range(count):
        (a, rows), (b, columns) = (_values(inputs[:, groups == group]) for inputs, _ in (left, right))
        kernel += (additive / count) * matern52(count * cdist(a, b, "sqeuclidean"))[rows][:, columns]
    return np.asarray(kernel + (left[1] * TREND_VARIANCE) @ right[1].T, np.float64)


def _values(rows: FloatArray) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """The rows that occur, and for every row which of them it is. A projection tells rows apart; where rounding tells
    apart equal ones, some occur twice, which does no harm."""
    _, first, index = np.unique(rows @ np.cos(np.arange(1, rows.shape[1] + 1)), return_index=True, return_inverse=True)
    return rows[first], index


def _subset(values: FloatArray, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    if len(values) <= MOST_FITTED:
        return np.arange(len(values))
    ranked = np.argsort(values, kind="stable")
    best, rest = ranked[: MOST_FITTED // 2], ranked[MOST_FITTED // 2 :]
    return np.sort(np.concatenate([best, rng.choice(rest, MOST_FITTED - len(best), replace=False)]))


def _most_probable(evidence: Evidence, priors: Sequence[Prior], rng: np.random.Generator) -> FloatArray:
    """The best of several ascents: from the middle of the priors and from draws around it."""
    middle, spread = np.array([p.middle for p in priors]), np.array([p.spread for p in priors])
    low, high = middle - REACH, middle + REACH
    low[-1] = max(low[-1], math.log(SMALLEST_NOISE))
    starts = np.clip(middle + spread * rng.standard_normal((STARTS, len(middle))), low, high)
    starts[0] = np.clip(middle, low, high)
    order = np.argsort([evidence.negative(start)[0] for start in starts], kind="stable")
    bounds = list(zip(low, high, strict=True))
    found = [
        minimize(evidence.negative, starts[n], jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": STEPS})
        for n in order[:POLISHED]
    ]
    return np.asarray(min(found, key=lambda result: float(result.fun)).x, np.float64)
