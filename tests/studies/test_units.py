"""Measures as people read them."""

from __future__ import annotations

import pytest

from studies.units import shown


@pytest.mark.parametrize(
    ("measure", "value", "text"),
    [
        ("latency_cycles", 1_254_000, "1.25 M cycles"),
        ("latency_cycles", 87, "87 cycles"),
        ("latency_cycles", 0, "0 cycles"),
        ("latency_cycles", 999_999, "1 M cycles"),
        ("latency_cycles", 3e15, "3e+03 T cycles"),
        ("traffic_bytes", 4_200, "4.2 kB"),
        ("traffic_bytes", 12, "12 B"),
        ("energy_pj", 37_140_000, "37.1 µJ"),
        ("energy_pj", 0.5, "0.5 pJ"),
    ],
)
def test_three_digits_and_a_prefix(measure: str, value: float, text: str) -> None:
    assert shown(measure, value) == text
