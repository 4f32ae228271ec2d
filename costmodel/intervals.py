"""Intervals around estimates, calibrated on simulated rows: conformal prediction of the log residual.

The residual ln(measured / estimated) of a mapping is predicted by a random forest from its features; what is left is
scaled by a second forest's prediction of its size. Both are seen out of bag only, each row by the trees that did not
learn it, so that the scores of the known rows rank with that of a new one: the interval between their quantiles holds
it with the stated chance if rows are exchangeable (Vovk et al. 2005; locally weighted as in Lei et al., JASA 113(523),
2018; out of bag as in Johansson et al., Machine Learning 97, 2014). Few rows have plain quantiles, and fewer than a
quantile needs have no interval. An end below a proven bound moves up to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestRegressor

Floats = npt.NDArray[np.float64]

NOMINAL = 0.9
"""Share of measured values that intervals are meant to hold."""

FOREST_ROWS = 40
"""Rows from which on residuals are predicted at all."""

TREES = 100

LEAST_SCALE = 0.25
"""Of the mean residual: no row counts as better known than this."""


def features(estimate: Mapping[str, Any]) -> tuple[float, ...]:
    """What a residual may depend on, from an estimate as a JSON object with its ``bounds``."""
    cycles, moved, tokens = (max(1.0, float(estimate[m])) for m in ("latency_cycles", "traffic_bytes", "tokens"))
    least = estimate["bounds"]
    tight = (max(1e-3, least[m] / max(1.0, estimate[m])) for m in ("latency_cycles", "traffic_bytes", "energy_pj"))
    ratios = (cycles, moved / cycles, tokens / cycles, max(1.0, float(estimate["multiplies"])) / cycles, *tight)
    return (*map(math.log, ratios), float(len(estimate["steps"])))


class Intervals:
    """Intervals for one measure.

    ``rows``: features of the known rows (float64[n, k]); ``estimated`` and ``measured``: their values, above 0.
    ``coverage``: share of new rows that shall lie inside. The same arguments give the same intervals.
    """

    def __init__(self, rows: Sequence[Sequence[float]], estimated: Sequence[float], measured: Sequence[float],
                 coverage: float = NOMINAL) -> None:  # fmt: skip
        residuals = np.log(np.asarray(measured, float) / np.asarray(estimated, float))
        self._center: RandomForestRegressor | None = None
        self._scale: RandomForestRegressor | None = None
        self._least, scores = 1.0, residuals
        if residuals.size >= FOREST_ROWS:
            self._center, expected = _forest(np.asarray(rows), residuals, 0)
            left = residuals - expected
            self._least = max(1e-9, LEAST_SCALE * float(np.abs(left).mean()))
            self._scale, size = _forest(np.asarray(rows), np.abs(left), 1)
            scores = left / np.maximum(size, self._least)
        self._low, self._high = _quantiles(np.sort(scores), coverage)

    def around(self, rows: Sequence[Sequence[float]], estimated: Sequence[float], least: Sequence[float]) -> Floats:
        """(low, high) per new row, float64[n, 2]; ``least``: proven lower bounds."""
        values, known = np.asarray(estimated, float), np.asarray(least, float)
        center, scale = np.zeros(values.size), np.ones(values.size)
        if self._center is not None and self._scale is not None and values.size:
            center = self._center.predict(np.asarray(rows))
            scale = np.maximum(self._scale.predict(np.asarray(rows)), self._least)
        low, high = (values * np.exp(center + scale * end) for end in (self._low, self._high))
        return np.stack([np.maximum(low, known), np.maximum(high, known)], axis=1)


def _forest(rows: Floats, values: Floats, seed: int) -> tuple[RandomForestRegressor, Floats]:
    """A forest fitted to the rows, and for each row what the trees say that have not seen it."""
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(TREES, min_samples_leaf=3, oob_score=True, random_state=seed, n_jobs=1)
    forest.fit(rows, values)
    return forest, np.asarray(forest.oob_prediction_, float)


def _quantiles(scores: Floats, coverage: float) -> tuple[float, float]:
    """The ends between which a further score lies with chance ``coverage``, equal chances on either side: on a straight
    line between two of the sorted scores."""
    tail = (scores.size + 1) * (1 - coverage) / 2 - 1
    if tail < -1e-9:
        return -math.inf, math.inf
    places = np.arange(scores.size)
    return float(np.interp(tail, places, scores)), float(np.interp(scores.size - 1 - tail, places, scores))
