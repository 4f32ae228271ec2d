"""What loops keep when statements are fused or parted."""

from __future__ import annotations

import numpy as np
import pytest

from mapper.machine import load_machine
from mapper.notation import parse_program
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.synthetic import generate
from mapper.workload import Workload
from tuner import descent
from tuner.descent import Recorder
from tuner.inheritance import inherited

FUSED = {
    "cut.T>S1.0": "fused", "order.S0+S1": "k,j,i | i,j", "lanes.S0+S1": "i x2", "partition.S0+S1": "cyclic",
    "tiled.S0.i": "yes", "tile.S0.i": 3, "residency": "lru",
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "choices", "expected"),
    [
        ("order.S0", ["i,j,k", "k,j,i"], "k,j,i"),
        ("order.S1", ["j,i", "i,j"], "i,j"),
        ("sparse T: order.S1", ["j,i", "i,j"], "i,j"),
        ("order.S1", ["j,i"], None),
        ("order.S1", range(1000), None),
        ("order.S0+S1+S2", ["i,j,k | i,j | i,j", "k,j,i | j,i | j,i"], "k,j,i | j,i | j,i"),
        ("lanes.S1", ["none", "i x2", "j x2"], "i x2"),
        ("lanes.S1", ["none", "j x2"], None),
        ("partition.S1", ["balanced", "cyclic"], "cyclic"),
        ("tiled.S1.i", ["yes", "no"], "yes"),
        ("tile.S1.i", range(5), 3),
        ("tile.S1.i", range(2), None),
        ("tile.S1.j", range(5), None),
        ("tileorder.S1", ["S1.i,S1.j"], None),
        ("format.T", ["csf", "csr"], None),
    ],
)
def test_what_was_there_is_taken_over(name: str, choices: list[str], expected: str | None) -> None:
    assert inherited(name, choices, FUSED) == expected


def test_regions_that_join_have_the_orders_that_each_had() -> None:
    parted = {"order.S0": "k,j,i", "order.S1": "i,j"}
    assert inherited("order.S0+S1", ["k,j,i | j,i", "k,j,i | i,j"], parted) == "k,j,i | i,j"


@pytest.mark.parametrize(("share", "least", "most"), [(1.0, 15, 20), (0.0, 0, 5)])
def test_loops_outlast_a_cut(share: float, least: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20 fused mappings that are parted most keep their loops, drawn anew hardly any does."""
    tensors = {n: generate("uniform", shape=(40, 40), density=0.1, seed=s) for s, n in enumerate("AXW")}
    workload = Workload(parse_program("T(i,j) = A(i,k) * X(k,j)\nZ(i,l) = T(i,j) * W(j,l)"), tensors)
    space = MappingSpace(workload, load_machine("rda"), SpaceLimits(rewrites=(), residency=("none",)))
    rng, kept = np.random.default_rng(1), 0
    monkeypatch.setattr(descent, "INHERITED", share)
    for _ in range(20):
        together = Recorder({"cut.T>S1.0": "fused"}, rng)
        fused = space.choose(together)
        parted = space.choose(Recorder({**together.chosen, "cut.T>S1.0": "cut"}, rng))
        assert (fused.cuts, parted.cuts) == ((False,), (True,))
        kept += [o.order for o in parted.loops] == [o.order for o in fused.loops]
    assert least <= kept <= most
