"""A stream_scan pops a coordinate before it waits for the payload, as ports are touched one after another."""

import pytest
from plain_simulator import simulate_plainly
from unit_harness import tokens

from hwsim import simulate
from mapper.graph import Channel, Context, Graph


@pytest.mark.parametrize("depth", [1, 2])
def test_stream_scan_frees_the_slot_of_a_coordinate_before_its_payload_is_there(depth: int) -> None:
    # The sum of fiber 5 leaves once `outer` has shown its Stop, which the fork can only send when 5 has been taken.
    def source(name: str, text: str, out: int) -> Context:
        return Context(name, "source", (), (out,), {"tokens": tokens(text)})

    contexts = (
        source("ref", "0 D", 0), source("parent", "0 D", 1), source("crd", "5 S0 D", 2), source("val", "1.0 S1 D", 3),
        Context("fork", "fork", (2,), (4, 5)),
        Context("sum", "reduce", (3, 5), (6,), {"op": "sum", "empty": "zero"}),
        Context("again", "stream_scan", (0, 4, 6, 1), (7, 8)),
        Context("crds", "sink", (7,)), Context("sums", "sink", (8,), (), {"dtype": "float"}),
    )  # fmt: skip
    graph = Graph(contexts, tuple(Channel(f"c{n}", depth if n == 4 else None) for n in range(9)))
    profile, plain = simulate(graph), simulate_plainly(graph)
    assert (profile.status, profile.cycles) == (plain.status, plain.cycles) == ("done", {1: 8, 2: 7}[depth])
