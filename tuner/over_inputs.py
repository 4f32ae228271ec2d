"""Several inputs judged as one: what estimates or simulations of the same mapping say together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from studies.spec import OBJECTIVES


def joined(values: Sequence[float], how: str) -> float:
    """``mean`` or ``worst`` (largest) of one measure over all inputs."""
    return max(values) if how == "worst" else math.fsum(values) / len(values)


def combined(found: Mapping[str, dict[str, Any]], how: str) -> dict[str, Any]:
    """One record for the estimates or profiles of all inputs, by name; that of the only one as it is.

    Objectives are ``joined``, tokens the most of any input, as limits hold for one simulation; all else is that of the
    input with the highest latency, ``slowest_input``. ``inputs`` has the measures of each.
    """
    if len(found) == 1:
        return next(iter(found.values()))
    slowest = max(found, key=lambda name: found[name]["latency_cycles"])
    measures = {m: joined([record[m] for record in found.values()], how) for m in OBJECTIVES}
    return {
        **found[slowest],
        **measures,
        "tokens": max(record["tokens"] for record in found.values()),
        "slowest_input": slowest,
        "inputs": {name: {m: record[m] for m in (*OBJECTIVES, "tokens")} for name, record in found.items()},
    }
