"""Stopping: when a study ends, and why. All rules but that of the clock follow from the rows alone."""

from __future__ import annotations

import time
from collections.abc import Sequence

from studies.records import TrialRecord
from studies.spec import SearchSettings
from tuner.dominance import BY_BOUND, CONFIDENTLY
from tuner.optimizer import PATIENCE

IDLE_BATCHES = 5
"""Batches in a row without a new mapping that may improve the front, after which the space counts as exhausted."""

BARREN_BATCHES = 25
"""Batches in a row of which nothing was worth a simulation, as the model sees all over budgets and limits."""


class Stopping:
    """The rules of one run; it is told every batch, those of earlier runs included."""

    def __init__(self, search: SearchSettings) -> None:
        self._search, self._started = search, time.monotonic()
        self._simulations, self._idle, self._barren, self._calm, self._gain = 0, 0, 0, 0, 0.0

    @property
    def left(self) -> int:
        """Simulations that the budget still allows."""
        return self._search.simulations - self._simulations

    def learn(self, rows: Sequence[TrialRecord]) -> None:
        """Takes note of a batch."""
        self._simulations += sum(row.ran for row in rows)
        self._idle = self._idle + 1 if all(map(_leads_nowhere, rows)) else 0
        self._barren = 0 if any(row.ran for row in rows) else self._barren + 1
        gains = [row.gain for row in rows if row.gain is not None]
        if gains and self._search.regret is not None:
            self._gain = max(gains)
            self._calm = self._calm + 1 if self._gain < self._search.regret else 0

    def reason(self) -> str | None:
        """Why the study ends now; None: it goes on."""
        search = self._search
        if self.left <= 0:
            return "simulation budget used"
        if self._idle >= IDLE_BATCHES:
            return "space exhausted"
        if self._barren >= BARREN_BATCHES:
            return f"nothing within budgets and limits in {BARREN_BATCHES} batches in a row"
        if self._calm >= PATIENCE:
            return f"expected gain {self._gain:.3g} below {search.regret:g} in {PATIENCE} batches in a row"
        if search.minutes is not None and time.monotonic() - self._started >= 60 * search.minutes:
            return f"{search.minutes:g} minutes used"
        return None


def _leads_nowhere(row: TrialRecord) -> bool:
    """Whether a row is no step ahead: nothing new, illegal, or not worth a simulation."""
    return row.state in ("duplicate", "rejected") or (
        row.state == "screened" and any(v.rule in (BY_BOUND, CONFIDENTLY) for v in row.verdicts)
    )
