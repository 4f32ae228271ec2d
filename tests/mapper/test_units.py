"""What a region takes at most is never less than what it takes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from mapper.errors import EmptySpace
from mapper.machine import load_machine
from mapper.notation import parse_program
from mapper.regions import regions_of
from mapper.space import MappingSpace
from mapper.synthetic import uniform
from mapper.units import PORTED, lacking_units, most_units, unit_violations, units_used
from mapper.workload import Workload

MACHINE = dataclasses.replace(load_machine("rda"), units=None)
A, B, C = uniform((9, 8), 0.4, 1), uniform((8, 7), 0.4, 2), uniform((9, 7), 0.5, 3)

PROGRAMS = {
    "product": "Z(i,j) = A(i,k) * B(k,j)",
    "sums of broadcasts": "T(i,j) = A(i,k) * B(k,j)\nU(i) = sum(j, T(i,j))\nZ(i,j) = C(i,j) - U(i)",
    "sums that meet in more than one join": "Z(i,j,k) = A(i,j) + C(i,k) - A(i,j) + C(i,k) - A(i,j)",
    "negative first": "Z(i,j) = -C(i,j) + A(i,k) * B(k,j)",
    "mean": "T(i,j) = A(i,k) * B(k,j)\nZ(i) = mean(j, T(i,j))",
    "softmax under a mask": "S(i,j) = A(i,k) * B(k,j) * pattern(C(i,j))\nZ(i,j) = softmax(j, S(i,j))",
    "dense map": "T(i,j) = A(i,k) * B(k,j)\nZ(i,j) = exp(T(i,j))",
    "vector": "Z(i) = A(i,k) * B(k,j)",
}


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_units_are_within_the_bound(text: str) -> None:
    program = parse_program(text)
    workload = Workload(program, {n: {"A": A, "B": B, "C": C}[n] for n in program.inputs})
    space, rng, tight = MappingSpace(workload, MACHINE), np.random.default_rng(1), set[str]()
    for _ in range(150):
        mapping = space.sample(rng)
        own = workload.variant(mapping.variant).program
        for statements in regions_of(own, mapping.cuts):
            lanes = max(mapping.loops[n].lanes for n in statements)
            bound = dict(zip(PORTED, (lanes * most_units(own, statements, mapping.joins)).tolist(), strict=True))
            used = units_used(workload, mapping, MACHINE, statements)
            assert all(used[kind] <= bound[kind] for kind in PORTED), (mapping, used, bound)
            lacking = lacking_units(own, dataclasses.replace(MACHINE, units=used))
            assert not {v.where for v in lacking} & {f"S{n}" for n in statements}, (mapping, used, lacking)
            tight |= {kind for kind in PORTED if used[kind] == bound[kind] > 0}
    assert {"array", "scan"} <= tight  # no mere large numbers


def test_units_beyond_the_budget_are_counted() -> None:
    """Where the bound is beyond the budget, what is used decides."""
    program = parse_program(PROGRAMS["product"])
    workload = Workload(program, {"A": A, "B": B})
    mapping = MappingSpace(workload, MACHINE).sample(np.random.default_rng(0))
    used = units_used(workload, mapping, MACHINE, (0,))
    assert not unit_violations(workload, mapping, dataclasses.replace(MACHINE, units=used), [(0,)])
    poor = dataclasses.replace(MACHINE, units={**used, "scan": used["scan"] - 1})
    (violation,) = unit_violations(workload, mapping, poor, [(0,)])
    assert violation.measured == f"{used['scan']} scan"


@pytest.mark.parametrize(
    ("name", "kind", "where"),
    [("dense map", "map", "S1"), ("mean", "map", "S1"), ("negative first", "map", "S1"),
     ("sums of broadcasts", "union", "S2"), ("sums that meet in more than one join", "union", "S0")],
)  # fmt: skip
def test_a_unit_that_nothing_avoids_empties_the_space_at_once(name: str, kind: str, where: str) -> None:
    program, units = parse_program(PROGRAMS[name]), dict.fromkeys(PORTED, 100)
    workload = Workload(program, {n: {"A": A, "B": B, "C": C}[n] for n in program.inputs})
    assert MappingSpace(workload, dataclasses.replace(MACHINE, units=units)).size()
    poor = dataclasses.replace(MACHINE, units={**units, kind: 0})
    with pytest.raises(EmptySpace, match=f"units at {where}: 1 {kind} .must be at most 0"):
        MappingSpace(workload, poor).sample(np.random.default_rng(0))
