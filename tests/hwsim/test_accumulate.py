"""The sparse accumulator: order 1 turn for turn, higher orders, empty scopes, spills."""

from __future__ import annotations

from typing import Any

import pytest
from unit_harness import run_unit

from mapper.errors import GraphError
from mapper.graph import Dram

ORDER_1: dict[str, Any] = {"depth": 2, "levels": (2,), "sizes": (9,)}


def test_order_1_drains_in_one_turn() -> None:
    # Turns: 1: (1, 1.0) at t=1, (2, 2.0) at 2, S0 at 3 pops outer 3, (1, 3.0) at 4, S1 at 5 pops outer 4.
    # t=6: outer S0, and the heads of key and value, Done, are there at 6: the whole drain leaves at 6.
    run = run_unit("accumulate", ["3 4 S0 D", "1 2 S0 1 S1 D", "1.0 2.0 S0 3.0 S1 D"], 2, params=ORDER_1, floats=[1])
    assert run.timed == ("1@7 2@7 S0@7 D@8", "4.0@7 2.0@7 S0@7 D@8")
    assert (run.cycles, run.unit.busy, run.profile.additions) == (7, 6, 1)


def test_drain_waits_for_the_first_tokens_of_the_next_scope() -> None:
    # The second scope's value comes at 21 (pushed at 20); the drain of the first peeks all inputs.
    run = run_unit(
        "accumulate", ["3 S0 4 S1 D", "1 S1 2 S2 D", "1.0 S1 5.0 S2 D"], 2, params=ORDER_1, floats=[1],
        times={2: [0, 1, 20]},
    )  # fmt: skip
    assert run.timed == ("1@22 S0@22 2@25 S1@25 D@26", "1.0@22 S0@22 5.0@25 S1@25 D@26")


def test_drain_of_a_cycle_per_entry() -> None:
    # As above, but entries leave at 6 and 7 and the stops at 8.
    run = run_unit("accumulate", ["3 4 S0 D", "1 2 S0 1 S1 D", "1.0 2.0 S0 3.0 S1 D"], 2,
                   params=ORDER_1 | {"drain_cycles_per_entry": 1}, floats=[1])  # fmt: skip
    assert run.timed == ("1@7 2@8 S0@9 D@10", "4.0@7 2.0@8 S0@9 D@10")


@pytest.mark.parametrize(
    ("outer", "key", "val", "crds", "values"),
    [
        ("S0 D", "S1 D", "S1 D", "S0 D", "S0 D"),  # an empty scope
        ("S1 D", "S2 D", "S2 D", "S1 D", "S1 D"),  # and no scope at all
        ("3 S0 D", "S1 D", "S1 D", "S0 D", "S0 D"),  # a scope with one empty fiber: nothing to tell apart
        ("3 4 S0 D", "S0 S1 D", "S0 S1 D", "S0 D", "S0 D"),
        ("S0 3 S0 S1 D", "S1 1 S1 S2 D", "S1 1.0 S1 S2 D", "S0 1 S0 S1 D", "S0 1.0 S0 S1 D"),
        ("3 4 S0 D", "S0 2 S1 D", "S0 1.0 S1 D", "2 S0 D", "1.0 S0 D"),
        ("3 4 S0 D", "2 S0 S1 D", "1.0 S0 S1 D", "2 S0 D", "1.0 S0 D"),
        ("3 S0 D", "2 5 S1 D", "N 1.0 S1 D", "5 S0 D", "1.0 S0 D"),  # an Empty value makes no entry
        ("D", "D", "D", "D", "D"),
    ],
)
def test_empty_fibers(outer: str, key: str, val: str, crds: str, values: str) -> None:
    run = run_unit("accumulate", [outer, key, val], 2, params=ORDER_1, floats=[1])
    assert run.streams == (crds, values)


# Loops k (outer), i, j below one scope: k=0: i=1: {j=0: 1, j=2: 2}, i=2: {}; k=1: i=0: {j=5: 3}, i=1: {j=2: 4}.
OUTER, ROWS, COLUMNS, V = "0 1 S0 D", "1 2 S0 0 1 S1 D", "0 2 S0 S1 5 S0 2 S2 D", "1.0 2.0 S0 S1 3.0 S0 4.0 S2 D"


def test_two_keys() -> None:
    params: dict[str, Any] = {"depth": 3, "levels": (2, 3), "sizes": (3, 6)}
    run = run_unit("accumulate", [OUTER, ROWS, COLUMNS, V], 3, params=params, floats=[2])
    assert run.streams == ("0 1 S0 D", "5 S0 0 2 S1 D", "3.0 S0 1.0 6.0 S1 D")
    # 9 turns read V (8 tokens) and drain; all of it leaves with one stamp.
    assert run.unit.busy == 9
    assert {token.split("@")[1] for token in run.timed[1].split()[:-1]} == {"10"}
    params |= {"drain_cycles_per_entry": 1}
    slow = run_unit("accumulate", [OUTER, ROWS, COLUMNS, V], 3, params=params, floats=[2])
    assert slow.timed[1] == "5@10 S0@11 0@11 2@12 S1@13 D@14"  # the inner Stop rides with the next entry


def test_inner_key_only() -> None:
    # Both k and i are reduced: no stream for i.
    run = run_unit("accumulate", [OUTER, COLUMNS, V], 2, params={"depth": 3, "levels": (3,), "sizes": (6,)}, floats=[1])
    assert run.streams == ("0 2 5 S0 D", "1.0 6.0 3.0 S0 D")


def test_two_keys_empty_scopes() -> None:
    params = {"depth": 3, "levels": (2, 3), "sizes": (3, 6)}
    run = run_unit("accumulate", ["S0 0 S0 S1 D", "S1 1 S1 S2 D", "S2 S2 S3 D", "S2 S2 S3 D"], 3, params=params)
    assert run.streams == ("S0 S0 S1 D", "S1 S1 S2 D", "S1 S1 S2 D")


def test_large_key_spaces_use_the_table() -> None:
    # Extents beyond a dense array; 300 keys make the table grow.
    keys = [(k * 7919 % 1000) * 1000 for k in range(300)]
    fiber = [("val", k) for k in sorted(keys)]
    crd = [*fiber, ("stop", 0), *fiber, ("stop", 1), ("done",)]
    val = [("val", 1.0) if t[0] == "val" else t for t in crd]
    run = run_unit("accumulate", ["0 1 S0 D", crd, val], 2,
                   params={"depth": 2, "levels": (2,), "sizes": (10**12,)}, floats=[1])  # fmt: skip
    assert run.streams[0] == " ".join(map(str, sorted(keys))) + " S0 D"
    assert run.streams[1] == "2.0 " * 300 + "S0 D"


def test_spill() -> None:
    # Two entries fit. Keys 1 2 | 1 3: key 3 does not fit: the run {1, 2} is written (16 bytes at t=5: one burst of 8
    # cycles on one channel: 13). At the drain it is read back: t=15 + 8 + latency 10.
    memory = {"capacity_entries": 2, "entry_value_bytes": 4, "entry_metadata_bytes": 4, "tensor": 0}
    run = run_unit(
        "accumulate", ["0 1 S0 D", "1 2 S0 1 3 S1 D", "1.0 2.0 S0 3.0 4.0 S1 D"], 2, params=ORDER_1 | memory,
        floats=[1], tensors=("T",), dram=Dram(1, 8, 64, 10),
    )  # fmt: skip
    assert run.streams == ("1 2 3 S0 D", "4.0 2.0 4.0 S0 D")
    # 1@1 2@2 S0@3 1@4; 3@5: written at 13, turn ends at 14; S1@14; drain at 15: read until 33, pushed at 33.
    assert run.timed[0].startswith("1@34")
    assert (run.unit.memory, run.profile.spilled_entries) == (8 + 18, 2)
    rows = {row.direction: row for row in run.profile.traffic}
    assert (rows["write"].values_bytes, rows["write"].metadata_bytes, rows["write"].requests) == (8, 8, 1)
    assert (rows["read"].values_bytes, rows["read"].metadata_bytes, rows["read"].requests) == (8, 8, 1)


def test_no_spill_while_keys_repeat() -> None:
    memory = {"capacity_entries": 2, "entry_value_bytes": 4, "entry_metadata_bytes": 4, "tensor": 0}
    run = run_unit("accumulate", ["0 1 S0 D", "1 2 S0 1 2 S1 D", "1.0 2.0 S0 3.0 4.0 S1 D"], 2,
                   params=ORDER_1 | memory, tensors=("T",))  # fmt: skip
    assert (run.profile.spilled_entries, run.profile.traffic) == (0, ())


@pytest.mark.parametrize(
    ("outer", "key", "val", "message"),
    [
        ("3 S0 D", "9 S1 D", "1.0 S1 D", "port crd_1 has coordinate 9, its extent is 9"),
        ("3 S0 D", "1 S1 D", "1.0 S0 D", "misaligned streams: port crd_1 has Stop 1, port val has Stop 0"),
        ("S0 D", "1 S1 D", "1.0 S1 D", "misaligned"),
        ("3 S1 D", "1 S1 D", "1.0 S1 D", "port outer has Stop 1, port val has Stop 1"),
        ("3 4 S0 D", "1 S1 D", "1.0 S1 D", "misaligned"),
    ],
)
def test_misaligned(outer: str, key: str, val: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        run_unit("accumulate", [outer, key, val], 2, params=ORDER_1)


def test_bad_plans() -> None:
    plans: list[tuple[dict[str, Any], str]] = [
        ({"sizes": (2**32,) * 2, "levels": (2, 3), "depth": 3}, "63 bits"),
        ({"levels": (1,)}, "levels increasing from 2"),
        ({"depth": 3}, "levels increasing from 2"),
    ]
    for changed, message in plans:
        crds = ["S0 D"] * (2 if "sizes" in changed else 1)
        with pytest.raises(GraphError, match=message):
            run_unit("accumulate", ["S0 D", *crds, "S0 D"], 1 + len(crds), params=ORDER_1 | changed)
