"""The drawing of a mapping: well-formed, with every statement, stream and step."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np

from mapper.machine import load_machine
from mapper.notation import parse_program
from mapper.schedule import Conversion, schedule
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.synthetic import uniform
from mapper.workload import Workload
from studies.drawing import draw_mapping

PROGRAM = parse_program("T(i,k) = A(i,j) * X(j,k)\nZ(i,m) = T(i,k) * W(k,m)")
DATA = {"A": uniform((9, 8), 0.4, 1), "X": uniform((8, 7), 0.4, 2), "W": uniform((7, 5), 1.0, 3)}


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_every_statement_and_stream_is_drawn() -> None:
    workload = Workload(PROGRAM, DATA)
    space = MappingSpace(workload, load_machine("rda"))
    rng = np.random.default_rng(0)
    for _ in range(30):
        mapping = space.sample(rng)
        own = workload.variant(mapping.variant).program
        found = texts(draw_mapping(PROGRAM, mapping, {}))
        assert all(str(statement) in found for statement in own.statements)
        for edge, cut in zip(own.edges, mapping.cuts, strict=True):
            assert (edge.tensor in found) == (not cut)
        conversions = [s for s in schedule(own, mapping).steps if isinstance(s, Conversion)]
        assert sum(text.startswith("convert ") for text in found) == len(conversions)


def test_steps_say_their_share_of_the_time() -> None:
    space = MappingSpace(Workload(PROGRAM, DATA), load_machine("rda"), SpaceLimits(variants=("",), fuse={"T": True}))
    drawn = texts(draw_mapping(PROGRAM, space.sample(np.random.default_rng(1)), {"S0+S1": 300, "convert A": 100}))
    assert "S0+S1 · 300 cycles, 75% of the time" in drawn
