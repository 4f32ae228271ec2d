"""Measures as people read them."""

from __future__ import annotations

import math

LABELS = {"latency_cycles": "latency (cycles)", "traffic_bytes": "traffic (bytes)", "energy_pj": "energy (pJ)"}

_PREFIXES = {-12: "p", -9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T"}


def shown(measure: str, value: float) -> str:
    """``value`` of a measure with three significant digits and its unit: ``1.25 M cycles``, ``4.2 MB``, ``37.1 µJ``."""
    if measure == "energy_pj":
        return f"{_scaled(value * 1e-12)}J"
    if measure == "traffic_bytes":
        return f"{_scaled(value)}B"
    return f"{_scaled(value).rstrip()} cycles"


def _scaled(value: float) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:g} "
    power = min(12, max(-12, 3 * math.floor(math.log10(abs(value)) / 3)))
    digits = f"{value / 10**power:.3g}"
    if digits in ("1e+03", "-1e+03") and power < 12:
        power, digits = power + 3, digits[:-4]
    return f"{digits} {_PREFIXES[power]}"
