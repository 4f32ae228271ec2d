"""DOT text: every context and channel, colours and labels of a run worked by hand."""

from __future__ import annotations

import dataclasses
import re

import pytest
from golden_graphs import golden_graph
from unit_harness import unit_graph

from hwsim import simulate, to_dot
from hwsim.dot import utilisation_colour
from mapper.errors import InputError
from mapper.graph import Graph


def pipeline(depth: int | None) -> Graph:
    return unit_graph("map", ["1.0 2.0 3.0 S0 D"], params={"op": "neg"}, depth=depth)


def test_plain_graph() -> None:
    assert to_dot(pipeline(7)) == (
        'digraph {\n  rankdir=TB;\n  node [shape=box, style=filled, fillcolor="#ffffff", fontname=Helvetica];\n'
        '  c0 [label="source 0"];\n  c1 [label="unit\\nmap"];\n  c2 [label="sink 0"];\n'
        '  c0 -> c1 [label="7"];\n  c1 -> c2 [label="7"];\n}\n'
    )


def test_utilisation() -> None:
    graph = pipeline(None)  # 6 cycles: the source works 4, the map 5, the sink never
    text = to_dot(graph, simulate(graph))
    assert f'c0 [label="source 0\\n67% busy", fillcolor="{utilisation_colour(4 / 6)}"];' in text
    assert f'c1 [label="unit\\nmap\\n83% busy", fillcolor="{utilisation_colour(5 / 6)}"];' in text
    assert 'c2 [label="sink 0\\n0% busy", fillcolor="#ffffff"];' in text
    assert 'c0 -> c1 [label="5"];' in text


def test_colours() -> None:
    assert (utilisation_colour(0.0), utilisation_colour(1.0)) == ("#ffffff", "#f06543")
    assert utilisation_colour(0.5) == "#f8b2a1"


def test_full_channels_are_red() -> None:
    graph, _ = golden_graph("ikj", "s20x30x25", 8)
    profile = simulate(graph)
    edges = re.findall(r"c\d+ -> c\d+ \[label=\"(\d+) (\d+)/8\"(.*)\];", to_dot(graph, profile))
    assert [(int(t), int(f)) for t, f, _ in edges] == [(c.tokens, c.max_fill) for c in profile.channels]
    assert all(("color=" in rest) == (fill == "8") for _, fill, rest in edges)
    assert {fill == "8" for _, fill, _ in edges} == {True, False}


def test_every_context_and_channel_once() -> None:
    graph, _ = golden_graph("ijk", "s10")
    text = to_dot(graph)
    assert len(re.findall(r"^  c\d+ \[", text, re.M)) == len(graph.contexts)
    arrows = {(int(a), int(b)) for a, b in re.findall(r"c(\d+) -> c(\d+)", text)}
    assert len(arrows) <= text.count("->") == len(graph.channels)
    for a, b in arrows:
        assert set(graph.contexts[a].outputs) & set(graph.contexts[b].inputs)


def test_names_are_quoted() -> None:
    graph = pipeline(1)
    odd = dataclasses.replace(graph.contexts[0], name='a "b" \\ c')
    text = to_dot(dataclasses.replace(graph, contexts=(odd, *graph.contexts[1:])))
    assert r'c0 [label="a \"b\" \\ c\nsource"];' in text


def test_empty_graph_and_other_run() -> None:
    empty = Graph((), ())
    assert to_dot(empty, simulate(empty)).startswith("digraph {")
    with pytest.raises(InputError, match="must be a run of this graph"):
        to_dot(empty, simulate(pipeline(1)))
