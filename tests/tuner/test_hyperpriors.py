"""Priors: their slopes against finite differences, their middles where the slope is zero."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.hyperpriors import Gamma, LogNormal, Priors


@pytest.mark.parametrize("prior", [LogNormal(-0.4, 0.8), Gamma(1.3, 0.1)])
def test_priors(prior: LogNormal | Gamma) -> None:
    at = np.linspace(-2, 3, 7)
    slope = (prior.log_density(at + 1e-6) - prior.log_density(at - 1e-6)) / 2e-6
    assert prior.slope(at) == pytest.approx(slope, abs=1e-6)
    assert prior.slope(np.array(prior.middle)) == pytest.approx(0.0, abs=1e-12)


def test_one_prior_per_hyperparameter() -> None:
    own = Priors().of(9)
    assert len(own) == 9 + 3
    assert own[0].middle == pytest.approx(np.log(0.5 * 3))
    assert Priors(length=Gamma(1.3, 0.1)).of(2)[1] == Gamma(1.3, 0.1)
