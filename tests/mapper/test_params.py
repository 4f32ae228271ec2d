"""Parameters of a mapping: the inverse of choosing."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from small_spaces import PROGRAMS, RDA, space, workload

from mapper.default_mapping import default_mapping
from mapper.errors import IllegalMapping
from mapper.formats import parse_format
from mapper.mapping import Mapping
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits


class Table:
    """Answers from a table, which must hold every knob asked and no other."""

    def __init__(self, known: dict[str, Any]) -> None:
        self.known, self.asked = known, set[str]()

    def categorical(self, name: str, choices: Sequence[Any]) -> Any:
        self.asked.add(name)
        assert self.known[name] in choices
        return self.known[name]

    def integer(self, name: str, low: int, high: int) -> int:
        self.asked.add(name)
        assert low <= self.known[name] <= high
        return int(self.known[name])


class Drawn:
    """Draws every knob: other answers to the same mapping than the first are met too."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def categorical(self, name: str, choices: Sequence[Any]) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def integer(self, name: str, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))


def check(found: MappingSpace, mapping: Mapping) -> None:
    params = found.params(mapping)
    table = Table(params)
    assert found.choose(table) == mapping
    assert table.asked == set(params)


@pytest.mark.parametrize("name", PROGRAMS)
def test_samples_are_chosen_again(name: str) -> None:
    found = space(name)
    rng = np.random.default_rng(7)
    for _ in range(50):
        check(found, found.sample(rng))
    chosen = 0
    while chosen < 30:
        try:
            mapping = found.choose(Drawn(rng))
        except IllegalMapping:
            continue
        check(found, mapping)
        chosen += 1


def test_pinned_orders_and_a_fixed_mode_order() -> None:
    limits = SpaceLimits(
        orders={"Z": (("i", "k", "j"), ("j", "k", "i"))},
        formats={"A": (parse_format("csr", 2), parse_format("dense,compressed", 2))},
        tiles={"i": (8, 16, 0), "k": (4,)},
    )
    found = MappingSpace(workload("product"), RDA, limits)
    rng = np.random.default_rng(3)
    mappings = [found.sample(rng) for _ in range(60)]
    assert {m.loops[0].order for m in mappings} == {("i", "k", "j"), ("j", "k", "i")}
    for mapping in mappings:
        check(found, mapping)


def test_mappings_outside_name_the_knob() -> None:
    limits = SpaceLimits(tiles={"i": (8, 16), "j": (0,), "k": (0,)}, residency=("lru",), max_lanes=1)
    found = MappingSpace(workload("product"), RDA, limits)
    inside = found.sample(np.random.default_rng(0))
    found.params(inside)
    loops = inside.loops[0]
    wrong = [
        (dataclasses.replace(inside, residency="none"), "none"),
        (dataclasses.replace(inside, variant="B*A"), "rewrite"),
        (dataclasses.replace(inside, loops=(dataclasses.replace(loops, tiles=(("i", 4),)),)), "tile.S0.i"),
        (dataclasses.replace(inside, loops=(dataclasses.replace(loops, tiles=()),)), "tile"),
        (dataclasses.replace(inside, loops=(dataclasses.replace(loops, parallel=(("i", 2, "block"),)),)), "lanes"),
        (dataclasses.replace(inside, formats=(("A", ("rle", "rle")), *inside.formats[1:])), "format"),
        (dataclasses.replace(inside, machine=(("fifo_depth", 3),)), "machine fifo_depth: none -> 3"),
    ]
    for mapping, told in wrong:
        with pytest.raises(IllegalMapping, match=told):
            found.params(mapping)


def test_the_default_is_in_an_open_space() -> None:
    found = MappingSpace(workload("product"), RDA)
    assert found.params(default_mapping(found))["lanes.S0"] == "none"
