"""Which candidates cannot improve the front, and which hardly can."""

from __future__ import annotations

from typing import Any

import numpy as np

from studies.records import TrialRecord
from tuner.dominance import BY_BOUND, CONFIDENTLY, dominance_verdicts, with_intervals

OBJECTIVES = ("latency_cycles", "traffic_bytes")


def estimate(latency: float, traffic: float, share: float = 0.5) -> dict[str, Any]:
    values = {"latency_cycles": latency, "traffic_bytes": traffic, "energy_pj": 1.0}
    bounds = {name: share * value for name, value in values.items()}
    return {**values, "tokens": latency, "multiplies": 10.0, "steps": [{}], "bounds": bounds}


def row(number: int, guess: dict[str, Any], latency: float, traffic: float) -> TrialRecord:
    values = {"latency_cycles": latency, "traffic_bytes": traffic}
    return TrialRecord(number, 0, "simulated", {}, {}, estimate=guess, values=values)


def rules(candidates: list[dict[str, Any]], rows: list[TrialRecord]) -> list[list[str]]:
    return [[v.rule for v in (*safe, *sure)][:1] for safe, sure in dominance_verdicts(candidates, rows, OBJECTIVES)]


def test_bounds_against_the_front() -> None:
    rows = [row(0, estimate(1, 1), 100, 400), row(1, estimate(1, 1), 300, 200), row(2, estimate(1, 1), 500, 500)]
    candidates = [
        estimate(300, 900),  # at least (150, 450): trial 0 is better
        estimate(220, 700),  # at least (110, 350): faster than trial 1, less traffic than trial 0
        estimate(200, 800),  # at least (100, 400): as good as trial 0, which is not worse
        estimate(200, 802),  # at least (100, 401)
        estimate(600, 402),  # at least (300, 201)
    ]
    assert rules(candidates, rows) == [[BY_BOUND], [], [], [BY_BOUND], [BY_BOUND]]
    ((verdict,), _) = dominance_verdicts(candidates, rows, OBJECTIVES)[0]
    assert (verdict.measured, verdict.limit, verdict.where) == ("150, 450", "100, 400", "trial 0")


def test_a_row_over_a_budget_dominates_nothing() -> None:
    rows = [row(0, estimate(1, 1), 100, 10), row(1, estimate(1, 1), 50, 300)]
    candidates = [estimate(150, 150), estimate(150, 650)]  # at least (75, 75) and (75, 325)
    assert rules(candidates, rows) == [[], [BY_BOUND]]
    objectives = ("traffic_bytes",)
    for budgets, expected in (((), [1, 1]), ((("latency_cycles", 99),), [0, 1]), ((("latency_cycles", 49),), [0, 0])):
        found = dominance_verdicts(candidates, rows, objectives, budgets)
        assert [len(safe) for safe, _ in found] == expected


def test_nothing_is_dominated_by_nothing() -> None:
    failed = TrialRecord(0, 0, "failed", {}, {}, estimate=estimate(1, 1), failure="deadlock")
    assert rules([estimate(9, 9)], []) == rules([estimate(9, 9)], [failed]) == [[]]


def test_intervals_speak_where_bounds_do_not() -> None:
    """The model is 3 to 13 % low on 30 rows: with 95 % chance more than 1.03 of the estimate is measured."""
    rng = np.random.default_rng(0)
    guesses = [estimate(*rng.uniform(1000, 9000, 2)) for _ in range(30)]
    factors = [1.03 + n * 0.1 / 29 for n in range(30)]
    rows = [
        row(n, g, g["latency_cycles"] * f, g["traffic_bytes"] * f)
        for n, (g, f) in enumerate(zip(guesses, factors, strict=True))
    ]
    rows.append(row(30, estimate(1000, 1000), 1050, 1050))
    rows.append(row(31, estimate(1000, 1000), 1050, 1050))
    candidates = with_intervals([estimate(1100, 1100), estimate(1010, 1010)], rows, OBJECTIVES)
    (low, high) = candidates[0]["intervals"]["latency_cycles"]
    assert 1.02 * 1100 < low < 1.04 * 1100 < high < 1.14 * 1100
    assert rules(candidates, rows) == [[CONFIDENTLY], []]


def test_few_rows_give_no_intervals() -> None:
    rows = [row(n, estimate(10, 10), 11, 11) for n in range(18)]
    assert "intervals" not in with_intervals([estimate(10, 10)], rows, OBJECTIVES)[0]
    assert with_intervals([], rows, OBJECTIVES) == []
