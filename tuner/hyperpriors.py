"""Priors of the hyperparameters of a Gaussian process."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from tuner.permutation_features import FloatArray


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
    amplitudes and of the noise, all in units of the standard deviation of y."""

    length: Prior | None = None
    amplitude: Prior = field(default_factory=lambda: LogNormal(0.0, 1.0))
    additive: Prior = field(default_factory=lambda: LogNormal(0.0, 1.0))
    noise: Prior = field(default_factory=lambda: LogNormal(math.log(1e-2), 1.0))

    def of(self, groups: int) -> list[Prior]:
        """One per hyperparameter: length scales, amplitudes of the joint and of the additive part, noise."""
        length = self.length or LogNormal(math.log(0.5 * math.sqrt(groups)), 1.0)
        return [length] * groups + [self.amplitude, self.additive, self.noise]
