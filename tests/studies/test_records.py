"""Trial records refuse what no study can hold."""

from __future__ import annotations

import dataclasses
import math

import pytest
from sample_study import baseline

from mapper.errors import StudyError
from studies.records import TrialRecord


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"state": "simulatd"}, "unknown state 'simulatd'. Did you mean 'simulated'?"),
        ({"values": None}, "a simulated trial needs values"),
        ({"values": {}}, "a simulated trial needs values"),
        ({"values": {"latency_cycles": math.nan}}, "value of latency_cycles must be finite, got nan"),
        ({"values": {"latency_cycles": math.inf}}, "must be finite, got inf; store it as a failed trial"),
        ({"mapping": None}, "mapping and mapping_key must be given together"),
        ({"mapping_key": None}, "mapping and mapping_key must be given together"),
    ],
)
def test_impossible_records_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(StudyError) as caught:
        dataclasses.replace(baseline(), **changes)
    assert message in str(caught.value)


def test_host_time_is_no_part_of_equality() -> None:
    assert dataclasses.replace(baseline(), seconds=99.0) == baseline()
    assert dataclasses.replace(baseline(), simulator_version="s2") != baseline()


def test_a_failed_trial_needs_no_values() -> None:
    assert TrialRecord(0, 0, "failed", {}, {}, failure="deadlock").values is None
