"""Selection: which of the screened candidates of a batch are worth a simulation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from studies.records import VerdictRecord


def confident_verdicts(
    estimate: dict[str, Any], budgets: Sequence[tuple[str, float]], max_tokens: int | None
) -> tuple[VerdictRecord, ...]:
    """Estimates that speak against simulating: more tokens than the limit allows, or over a budget."""
    found = []
    if max_tokens is not None and estimate["tokens"] > max_tokens:
        found.append(VerdictRecord("token-limit", estimate["tokens"], max_tokens, "tokens", "estimate"))
    for objective, limit in budgets:
        if estimate[objective] > limit:
            found.append(VerdictRecord("budget", estimate[objective], limit, objective, "estimate"))
    return tuple(found)


def select(
    estimates: npt.NDArray[np.float64],
    passed: npt.NDArray[np.bool_],
    count: int,
    audit: float,
    seed: int,
    explore: bool,
) -> tuple[list[int], list[int]]:
    """Positions of the candidates to simulate, ``count`` at most: the best, and those that are drawn.

    ``estimates``: float64[candidates, objectives], smaller is better; ``passed``: which of them no rule speaks
    against. The model's best of these go first: by Pareto layer, then by the sum of log objectives. A share ``audit``
    of the places (all of them with ``explore``) goes to candidates drawn at random from all others, so that model and
    rules are also tested where they see nothing to gain.
    """
    if passed.all() and passed.size <= count:
        return list(range(passed.size)), []
    rng = np.random.default_rng(seed)
    drawn = count if explore else min(count, math.ceil(audit * count))
    able = np.flatnonzero(passed)
    logs = np.log(np.maximum(estimates[able], 1e-12))
    ranked = able[np.lexsort([able, logs.sum(axis=1), pareto_layers(estimates[able])])]
    best, rest = ranked[: count - drawn], np.concatenate([ranked[count - drawn :], np.flatnonzero(~passed)])
    audited = rng.choice(rest, min(drawn, rest.size), replace=False)
    return sorted(best.tolist()), sorted(audited.tolist())


def pareto_layers(points: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Layer of every point: 0 on the front, 1 on the front of the others, and so on."""
    no_worse = (points[:, None, :] <= points[None, :, :]).all(axis=2)
    dominates = no_worse & ~no_worse.T
    layer = np.full(len(points), -1, np.int64)
    current = 0
    while (layer < 0).any():
        left = layer < 0
        front = left & ~(dominates & left[:, None]).any(axis=0)
        layer[front] = current
        current += 1
    return layer
