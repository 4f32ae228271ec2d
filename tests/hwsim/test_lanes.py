"""scatter, gather and combine: cycles worked by hand, and gather after scatter as the identity."""

from __future__ import annotations

import random

import pytest
from unit_harness import done, run_unit, tokens

from hwsim import simulate
from mapper.errors import GraphError
from mapper.graph import Channel, Context, Graph


def test_scatter_by_element() -> None:
    run = run_unit("scatter", ["1 2 3 S0 4 S0 D"], 2, params={"by": "element"})
    assert run.timed == ("1@2 3@4 S0@5 S0@7 D@8", "2@3 S0@5 4@6 S0@7 D@8")
    assert run.unit.busy == 6


def test_scatter_by_fiber() -> None:
    run = run_unit("scatter", ["1 2 S0 3 S1 4 S1 D"], 2, params={"by": "fiber"})
    assert run.timed == ("1@2 2@3 S0@4 4@7 S1@8 D@9", "3@5 S1@6 D@9")


def test_scatter_waits_for_the_lane_whose_turn_it_is() -> None:
    # Depth 1 everywhere: inputs come at 1, 3, 5. Lane 0 is first read at 20: 1 leaves at 1; 2 goes to lane 1 at 3; 3
    # needs the slot that is free at 21, is there at 22; S0 goes to all at 23 (3 popped at 22).
    run = run_unit("scatter", ["1 2 3 S0 D"], 2, params={"by": "element"}, depth=1, sink_times={0: [20]})
    assert run.timed == ("1@20 3@22 S0@24 D@26", "2@4 S0@24 D@26")


def test_gather() -> None:
    # t=4: S0 from both lanes; t=5: 4 from lane 1; t=6: S0; t=7: Done.
    run = run_unit("gather", ["1 3 S0 S0 D", "2 S0 4 S0 D"], params={"by": "element"})
    assert run.timed == ("1@2 2@3 3@4 S0@5 4@6 S0@7 D@8",)
    run = run_unit("gather", ["1 2 S0 4 S1 D", "3 S1 D"], params={"by": "fiber"})
    assert run.timed == ("1@2 2@3 S0@4 3@5 S1@6 4@7 S1@8 D@9",)


def test_gather_misaligned() -> None:
    with pytest.raises(GraphError, match="port in_2 has Stop 0, port in_1 has Val 3"):
        run_unit("gather", ["1 3 S0 D", "S0 D"], params={"by": "element"})
    with pytest.raises(GraphError, match="unknown by 'row'"):
        run_unit("gather", ["D", "D"], params={"by": "row"})
    with pytest.raises(GraphError, match="at least one lane"):
        run_unit("gather", [], params={"by": "fiber"})


def test_combine() -> None:
    run = run_unit("combine", ["1.0 N 5.0 S0 D", "2.5 N N S0 D", "N N 1.0 S0 D"], floats=[0])
    assert run.timed == ("3.5@2 N@3 6.0@4 S0@5 D@6",)
    assert (run.profile.additions, run.unit.busy) == (2, 5)  # Done costs its cycle, as in an alu
    with pytest.raises(GraphError, match=r"port val_1 has Val 1\.5, port val_2 has Stop 0"):
        run_unit("combine", ["1.5 S0 D", "S0 D"])


@pytest.mark.parametrize("by", ["element", "fiber"])
@pytest.mark.parametrize("lanes", [1, 2, 3])
@pytest.mark.parametrize("depth", [1, None])
def test_gather_undoes_scatter(by: str, lanes: int, depth: int | None) -> None:
    pick = random.Random(lanes)
    nest = [[[pick.randrange(9) for _ in range(pick.randrange(4))] for _ in range(pick.randrange(4))] for _ in "abcde"]
    stream = done(nest, 3)
    channels = tuple(Channel(f"c{k}", depth) for k in range(lanes + 2))
    inner = tuple(range(2, lanes + 2))
    graph = Graph(
        (
            Context("source", "source", (), (0,), {"tokens": stream}),
            Context("scatter", "scatter", (0,), inner, {"by": by}),
            Context("gather", "gather", inner, (1,), {"by": by}),
            Context("sink", "sink", (1,)),
        ),
        channels,
    )
    profile = simulate(graph)
    assert profile.status == "done"
    assert [token for token, _ in profile.sinks["sink"]] == stream
    assert profile == simulate(graph, shuffle_seed=3)


def test_lanes_multiply_throughput() -> None:
    # A dot product on two lanes: elements in turn, reduced per lane, combined.
    values = tokens("1.0 2.0 3.0 4.0 5.0 S0 D")
    channels = tuple(Channel(f"c{k}", 4) for k in range(6))
    reduce = {"op": "sum", "empty": "zero"}
    graph = Graph(
        (
            Context("source", "source", (), (0,), {"tokens": values}),
            Context("scatter", "scatter", (0,), (1, 2), {"by": "element"}),
            Context("left", "reduce", (1,), (3,), reduce),
            Context("right", "reduce", (2,), (4,), reduce),
            Context("combine", "combine", (3, 4), (5,)),
            Context("sink", "sink", (5,), (), {"dtype": "float"}),
        ),
        channels,
    )
    assert [token for token, _ in simulate(graph).sinks["sink"]] == [("val", 15.0), ("done",)]
