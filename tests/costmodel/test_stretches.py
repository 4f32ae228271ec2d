from __future__ import annotations

import numpy as np
import pytest
from random_mappings import random_tensor

from costmodel import Statistics
from costmodel.nest import Model
from costmodel.stretches import stretches, within
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.schedule import schedule
from mapper.workload import Workload

KINDS = tuple((t, ("compressed", "compressed")) for t in "ABZ")


def prefixes(order: tuple[str, ...]) -> tuple[Model, list[tuple[int, ...]]]:
    """A model of a tiled product and the tile prefixes of its walk in loop order, listed one by one."""
    rng = np.random.default_rng(3)
    tensors = {"A": random_tensor(rng, (40, 36), 0.1), "B": random_tensor(rng, (36, 50), 0.1)}
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), tensors)
    mapping = Mapping((), (Loops(("i", "k", "j"), tuple((i, 3) for i in order)),), KINDS)
    a = {(i // 3, k // 3) for i, k in tensors["A"].coords.T.tolist()}
    b = {(k // 3, j // 3) for k, j in tensors["B"].coords.T.tolist()}
    found = [{"i": i, "k": k, "j": j} for i, k in a for other, j in b if k == other]
    return Model(workload, mapping, "L2", Statistics()), sorted(tuple(p[i] for i in order) for p in found)


@pytest.mark.parametrize("order", [("i", "j", "k"), ("k", "i", "j"), ("j", "k", "i")])
@pytest.mark.parametrize("length", [5, 50, 200])
def test_stretches_are_consecutive_parts_of_the_walk(order: tuple[str, ...], length: int) -> None:
    """Some begin in the same iterations of the outer loops, and come together; where they are as long as the walk they
    would overlap."""
    model, expected = prefixes(order)
    nest = model.nests(schedule(model.workload.program, model.mapping).regions[0])[0]
    columns = tuple((i, 3) for i in order)
    starts, together = [], set()
    for some in stretches(nest, nest.visiting(0, 3), 3, 4, length):
        found = nest.counter.by(some.leaves, nest.variables(3), columns)
        points, which = np.array([found.column(*c) for c in columns]).T, some.of(found)
        together.add(some.count)
        for n in range(some.count):
            part = sorted(map(tuple, points[which == n].tolist()))
            at = expected.index(part[0])
            assert part == expected[at : at + len(part)]
            assert 1 <= len(part) <= 2 * length
            starts.append(at / len(expected))
    if length == 5:
        assert together == {1}
    if length == 50:
        assert max(abs(s - (2 * n + 1) / 8) for n, s in enumerate(sorted(starts))) < 0.1
    if length == 200:
        assert max(together) > 1


def test_no_range_is_everything() -> None:
    model, expected = prefixes(("i", "j", "k"))
    nest = model.nests(schedule(model.workload.program, model.mapping).regions[0])[0]
    assert nest.counter.total(within(nest.visiting(0, 3), ()), nest.variables(3)) == len(expected)
