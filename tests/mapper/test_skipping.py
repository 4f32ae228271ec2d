"""Streams whose coordinates find no partner for longer than FIFOs last."""

from __future__ import annotations

import numpy as np
import pytest

from hwsim import Limits
from mapper.legality import violations
from mapper.machine import load_machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.tensor import SparseTensor
from mapper.workload import Workload
from tuner.evaluate import evaluate

RDA = load_machine("rda")


def sparse(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> SparseTensor:
    return SparseTensor.from_dense((rng.random(shape) < density) * rng.integers(1, 9, shape) * 1.0)


def rows(partners: list[int], kinds: tuple[str, ...] = ("compressed",)) -> tuple[Workload, Mapping]:
    """T(i,j) = relu(A(i,j)) of 200 rows of 3, times a vector that has ``partners``."""
    a = SparseTensor.from_dense(np.ones((200, 3)))
    d = SparseTensor.from_dense(np.isin(np.arange(200), partners) * 1.0)
    workload = Workload(parse_program("T(i,j) = relu(A(i,j))\nZ(i,j) = T(i,j) * D(i)"), {"A": a, "D": d})
    formats = (("A", ("compressed",) * 2), ("D", kinds), ("Z", ("compressed",) * 2))
    return workload, Mapping((False,), (Loops(("i", "j")),) * 2, formats)


@pytest.mark.parametrize(
    ("partners", "depth", "longest"),
    [
        (list(range(0, 200, 5)), 8, 0),  # four rows without a partner, half a FIFO
        (list(range(0, 200, 6)), 8, 5),
        ([3, 190], 64, 186),
        ([3, 190], 512, 0),
        (list(range(100)), 64, 100),  # those at the end wait too
    ],
)
def test_rows_without_partners_in_a_row(partners: list[int], depth: int, longest: int) -> None:
    workload, mapping = rows(partners)
    found = violations(workload, mapping, RDA.with_fields(fifo_depth=depth))
    assert [(v.rule, v.measured) for v in found] == (
        [("skipped-fifo", f"{longest} tokens in a row find no partner")] if longest else []
    )
    assert (
        violations(*rows(partners, ("dense",)), RDA.with_fields(fifo_depth=depth)) == ()
    )  # a dense level has them all
    if depth == 64 and len(partners) == 2:
        result = evaluate(workload, mapping, RDA, Limits())
        assert result.failure is not None and "deadlock" in result.failure


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("T(i,j) = relu(A(i,j))\nZ(i,j) = T(i,j) * D(i,j)", {"A": (60, 40), "D": (60, 40)}),
        ("T(i,j) = A(i,k) * B(k,j)\nZ(i,j) = T(i,j) * D(i,j)", {"A": (30, 20), "B": (20, 30), "D": (30, 30)}),
        ("T(i,j,l) = relu(A(i,j,l))\nZ(i,j,l) = T(i,j,l) * D(i,j,l)", {"A": (12, 10, 9), "D": (12, 10, 9)}),
    ],
)
def test_few_deadlocks_are_left_where_many_would_be(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    rng, machine = np.random.default_rng(11), RDA.with_fields(fifo_depth=16)
    workload = Workload(parse_program(text), {name: sparse(rng, shape, 0.1) for name, shape in shapes.items()})
    space = MappingSpace(workload, machine, SpaceLimits(max_lanes=4, rewrites=()))
    fused = [f for f in space.fusions if not all(f.cuts)]
    drawn = [space.sample(rng, fused) for _ in range(100)]
    assert sum(evaluate(workload, mapping, machine, Limits()).failure is not None for mapping in drawn) <= 10
