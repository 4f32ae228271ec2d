"""Reasons: sentences made from two profiles."""

from __future__ import annotations

from typing import Any

from mapper.canonical import plain
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from studies.reasons import reasons
from studies.records import TrialRecord

PROGRAM = parse_program("T(i,k) = A(i,j) * X(j,k)\nZ(i,m) = T(i,k) * W(k,m)")
LOOPS = (Loops(("i", "j", "k")), Loops(("i", "k", "m"), (), (("i", 4, "block"),)))


def profile(cycles: int, traffic: dict[tuple[str, str], int], multiplies: int) -> dict[str, Any]:
    rows = [
        {"tensor": tensor, "direction": way, "values_bytes": size, "metadata_bytes": 0}
        for (tensor, way), size in traffic.items()
    ]
    contexts = [{"name": "scan A", "busy": cycles // 2}, {"name": "alu", "busy": cycles // 4}]
    steps = [{"name": "S0", "cycles": cycles, "contexts": contexts}]
    return {"latency_cycles": cycles, "traffic": rows, "steps": steps, "effectual_multiplies": multiplies}


def trial(number: int, mapping: Mapping, found: dict[str, Any] | None) -> TrialRecord:
    return TrialRecord(
        number, 0, "simulated", {}, {}, plain(mapping), mapping.key, profile=found, values={"latency_cycles": 1.0}
    )  # fmt: skip


DEFAULT = trial(
    -1,
    Mapping((True,), LOOPS, ()),
    profile(1000, {("T", "write"): 400, ("T", "read"): 600, ("A", "read"): 5000, ("W", "read"): 10}, 90),
)


def test_what_a_fused_mapping_saves() -> None:
    found = profile(100, {("A", "read"): 2000, ("W", "read"): 10}, 90)
    told = reasons(PROGRAM, trial(3, Mapping((False,), LOOPS, ()), found), DEFAULT)
    assert told == (
        "T is streamed and never stored, which saves the 1 kB that they move otherwise.",
        "A: 2 kB read instead of 5 kB.",
        "It spends most of its time in S0 (100%, where scan A works 50% of the time); the other in S0 (100%, where "
        "scan A works 50% of the time).",
        "Up to 4 lanes work side by side.",
    )


def test_what_a_rewriting_saves() -> None:
    loops = (Loops(("k", "m", "j")), Loops(("i", "j", "m")))
    found = profile(100, {("A", "read"): 5000, ("W", "read"): 10}, 30)
    told = reasons(PROGRAM, trial(3, Mapping((True,), loops, (), variant="A*(X*W)"), found), DEFAULT)
    assert told[0] == "It computes A*(X*W): 30 multiplications instead of 90."


def test_without_profiles_there_are_no_reasons() -> None:
    assert reasons(PROGRAM, trial(3, Mapping((False,), LOOPS, ()), None), DEFAULT) == ()
