"""Gaussian process over mixed features: Matern-5/2, a length scale per group of features, priors, a prior mean.

    y(x) = b0 + b1 m(x) + g(x) + noise,   k(x, x') = s^2 M52(r),   r^2 = sum over groups |x_g - x'_g|^2 / l_g^2

m is a prior estimate of y (none: b1 = 0). b0 ~ N(0, 1) and b1 ~ N(1, 1/4) are integrated out exactly (Rasmussen and
Williams, 2006, section 2.7): an estimate that does not follow the data loses its weight. Everything is in units of the
standard deviation of y; length scales, s and noise maximise their posterior (densities over logarithms).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from tuner.permutation_features import FloatArray

ROOT5 = math.sqrt(5.0)

TREND_MEAN, TREND_VARIANCE = np.array([0.0, 1.0]), np.array([1.0, 0.25])
"""Of b0 and b1."""

MOST_FITTED = 150
"""Hyperparameters are fitted to at most so many observations, the best half of them and others drawn from the rest."""

STARTS, POLISHED, STEPS = 16, 2, 40
"""Random starts of a fit, how many of the best are optimised, and the steps of each."""

SMALLEST_NOISE = 1e-4
REACH = 5.0
"""Bounds of log hyperparameters around the middle of their prior; noise also has ``SMALLEST_NOISE``."""


@dataclass(frozen=True, slots=True)
class LogNormal:
    """log x ~ N(middle, spread^2)."""

    middle: float
    spread: float

    def log_density(self, log_x: FloatArray) -> FloatArray:
        """Up to a constant."""
        return -(((log_x - self.middle) / self.spread) ** 2) / 2

    def slope(self, log_x: FloatArray) -> FloatArray:
        """Derivative of ``log_density``."""
        return -(log_x - self.middle) / self.spread**2


@dataclass(frozen=True, slots=True)
class Gamma:
    """x ~ Gamma(shape, rate), its density taken over log x."""

    shape: float
    rate: float

    @property
    def middle(self) -> float:
        """The mode of log x."""
        return math.log(self.shape / self.rate)

    @property
    def spread(self) -> float:
        """Standard deviation of log x near the mode."""
        return 1 / math.sqrt(self.shape)

    def log_density(self, log_x: FloatArray) -> FloatArray:
        """Up to a constant."""
        return self.shape * log_x - self.rate * np.exp(log_x)

    def slope(self, log_x: FloatArray) -> FloatArray:
        """Derivative of ``log_density``."""
        return self.shape - self.rate * np.exp(log_x)


Prior = LogNormal | Gamma


@dataclass(frozen=True, slots=True)
class Priors:
    """Of the length scales (None: log-normal, growing with the root of the number of groups, as distances do), of the
    amplitude s and of the noise, all in units of the standard deviation of y."""

    length: Prior | None = None
    amplitude: Prior = field(default_factory=lambda: LogNormal(0.0, 1.0))
    noise: Prior = field(default_factory=lambda: LogNormal(math.log(1e-2), 1.0))

    def of(self, groups: int) -> list[Prior]:
        """One per hyperparameter: length scales, amplitude, noise."""
        length = self.length or LogNormal(math.log(0.5 * math.sqrt(groups)), 1.0)
        return [length] * groups + [self.amplitude, self.noise]


def matern52(squared: FloatArray) -> FloatArray:
    """Matern-5/2 correlation of squared scaled distances."""
    r = ROOT5 * np.sqrt(squared)
    return (1 + r + r * r / 3) * np.exp(-r)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The log posterior of hyperparameters given observations, with its gradient.

    ``squared``: float64[groups, n, n], squared distances per group; ``residual``: float64[n], y less the mean of the
    trend; ``trend``: float64[n, n], the covariance of the trend.
    """

    squared: FloatArray
    residual: FloatArray
    trend: FloatArray
    priors: Sequence[Prior]

    def negative(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """-log posterior up to a constant and its gradient, at log (length scales, amplitude, noise)."""
        groups = len(self.squared)
        scales = np.exp(-2 * theta[:groups])
        amplitude, noise = np.exp(2 * theta[groups]), np.exp(2 * theta[groups + 1])
        distance = np.tensordot(scales, self.squared, 1)
        r = ROOT5 * np.sqrt(distance)
        decay = np.exp(-r)
        kernel = amplitude * (1 + r + r * r / 3) * decay
        try:
            lower = cholesky(kernel + self.trend + noise * np.eye(len(r)), lower=True)
        except LinAlgError:
            return 1e25, np.zeros_like(theta)
        alpha = cho_solve((lower, True), self.residual)
        inner = cho_solve((lower, True), np.eye(len(r))) - np.outer(alpha, alpha)  # d value / d K = inner / 2
        value = 0.5 * float(self.residual @ alpha) + float(np.log(np.diag(lower)).sum())
        gradient = np.empty_like(theta)
        weight = inner * (amplitude * (5 / 3) * (1 + r) * decay)  # d K / d log l_g = ... * squared_g / l_g^2
        gradient[:groups] = 0.5 * scales * np.tensordot(self.squared, weight, 2)
        gradient[groups] = float((inner * kernel).sum())
        gradient[groups + 1] = noise * float(np.trace(inner))
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
        few = features[chosen]
        squared = np.stack([cdist(few[:, groups == g], few[:, groups == g], "sqeuclidean") for g in range(count)])
        basis = units.basis(prior, len(values))[chosen]
        residual = units.scaled(values)[chosen] - basis @ TREND_MEAN
        own = (priors or Priors()).of(count)
        evidence = Evidence(squared, residual, (basis * TREND_VARIANCE) @ basis.T, own)
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
        """The posterior at given log (length scales, amplitude, noise), in units of the standard deviation of y."""
        units = _Units.of(values, prior)
        inputs, basis = features * np.exp(-theta[groups]), units.basis(prior, len(values))
        covariance = _covariance(theta, inputs, inputs, basis, basis)
        covariance[np.diag_indices(len(values))] += np.exp(2 * theta[-1])
        factor = cholesky(covariance, lower=True)
        solved = solve_triangular(factor, units.scaled(values) - basis @ TREND_MEAN, lower=True)
        return cls(theta, groups, inputs, basis, factor, solved, units.middle, units.unit, units.prior_middle)

    def predict(self, features: FloatArray, prior: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of y without noise, float64[m] each."""
        inputs, basis = self._scaled(features, prior)
        cross = solve_triangular(
            self.factor, _covariance(self.theta, self.inputs, inputs, self.basis, basis), lower=True, check_finite=False
        )
        mean = basis @ TREND_MEAN + cross.T @ self.solved
        own = np.exp(2 * self.theta[-2]) + (basis**2) @ TREND_VARIANCE
        deviation = np.sqrt(np.maximum(own - np.einsum("ij,ij->j", cross, cross), 1e-12))
        return self.middle + self.unit * mean, self.unit * deviation

    def condition(
        self, features: FloatArray, prior: FloatArray | None = None, value: float | None = None
    ) -> GaussianProcess:
        """The posterior after one more observation at ``features`` (float64[1, features]): a row is added to the
        Cholesky factor, O(n^2). Without a ``value`` its expectation is taken (a fantasy)."""
        inputs, basis = self._scaled(features, prior)
        row = solve_triangular(
            self.factor, _covariance(self.theta, self.inputs, inputs, self.basis, basis), lower=True
        )[:, 0]
        own = float(_covariance(self.theta, inputs, inputs, basis, basis)[0, 0] + np.exp(2 * self.theta[-1]))
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


def _covariance(
    theta: FloatArray, left: FloatArray, right: FloatArray, left_basis: FloatArray, right_basis: FloatArray
) -> FloatArray:
    kernel = np.exp(2 * theta[-2]) * matern52(cdist(left, right, "sqeuclidean"))
    return np.asarray(kernel + (left_basis * TREND_VARIANCE) @ right_basis.T, np.float64)


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
