"""Fusion: cutting the statement DAG into regions, and what fused statements must agree on.

A region is a connected set of statements joined by uncut edges; it becomes one dataflow graph. A fused tensor is
a stream: its consumer sees the coordinates in the producer's loop order, once, so the consumer's loops must start
with exactly the producer's loops over the tensor's indices (no replay of a stream under a foreign loop).
"""

from __future__ import annotations

import graphlib
from functools import lru_cache

from mapper.mapping import Lane, Loop, Loops
from mapper.program import Edge, Program
from mapper.violation import Violation

LogicalIndex = tuple[int, str]
"""An index that fused statements share: the first statement that has it, and its name there."""


@lru_cache(maxsize=65536)
def regions_of(program: Program, cuts: tuple[bool, ...]) -> tuple[tuple[int, ...], ...]:
    """Statements of every region, regions in execution order. Call only with cuts that ``cut_violations`` passes."""
    region = _region_numbers(program, cuts)
    members: dict[int, list[int]] = {}
    for statement, number in enumerate(region):
        members.setdefault(number, []).append(statement)
    order = graphlib.TopologicalSorter(_region_graph(program, cuts, region)).static_order()
    return tuple(tuple(members[number]) for number in order)


@lru_cache(maxsize=65536)
def fused_edges(program: Program, statements: tuple[int, ...]) -> tuple[Edge, ...]:
    """The fused edges of a region, given by its statements: all between them, as no edge inside a region is cut."""
    return tuple(e for e in program.edges if e.producer in statements and e.consumer in statements)


@lru_cache(maxsize=65536)
def stored_tensors(program: Program, cuts: tuple[bool, ...]) -> tuple[str, ...]:
    """Inputs, outputs and every computed tensor that some cut materialises."""
    kept = {e.tensor for e, c in zip(program.edges, cuts, strict=True) if c}.union(program.outputs)
    return (*program.inputs, *[t for t in program.producers if t in kept])


def region_label(statements: tuple[int, ...]) -> str:
    """``S0+S1``: the name of a region."""
    return "+".join(f"S{n}" for n in statements)


@lru_cache(maxsize=65536)
def cut_violations(program: Program, cuts: tuple[bool, ...]) -> tuple[Violation, ...]:
    """Rules that the cuts alone break: no cut inside a region, no cycle among regions."""
    region = _region_numbers(program, cuts)
    found = [
        Violation("cut-inside-region", "edge is cut", "fused, as other edges join its statements", edge.name)
        for edge, cut in zip(program.edges, cuts, strict=True)
        if cut and region[edge.producer] == region[edge.consumer]
    ]
    found += [
        Violation("view-stored", "edge is fused", "cut: windows are read from memory and written to it", edge.name)
        for edge, cut, viewed in zip(program.edges, cuts, program.viewed, strict=True)
        if viewed and not cut
    ]
    if not found:
        try:
            tuple(graphlib.TopologicalSorter(_region_graph(program, cuts, region)).static_order())
        except graphlib.CycleError as error:
            cycle = ", ".join(f"S{n}" for n in error.args[1])
            found.append(Violation("region-cycle", f"regions {cycle} wait for each other", "acyclic", "cuts"))
    return tuple(found)


def stream_nest(program: Program, statement: int, loops: Loops) -> tuple[Loop, ...]:
    """Loops over the target's indices in the order in which the statement emits its result."""
    kept = program.statements[statement].target.indices
    return tuple(loop for loop in loops.nest if loop[0] in kept)


def renaming(program: Program, edge: Edge) -> dict[str, str]:
    """Index names of the edge's producer -> names of the same modes in its consumer."""
    made = program.statements[edge.producer].target.indices
    read = program.statements[edge.consumer].operands[edge.operand].indices
    return dict(zip(made, read, strict=True))


@lru_cache(maxsize=4096)
def logical_indices(program: Program, cuts: tuple[bool, ...]) -> dict[tuple[int, str], LogicalIndex]:
    """The logical index of every (statement, index)."""
    leader = {(n, i): (n, i) for n, s in enumerate(program.statements) for i in s.indices}
    for edge, cut in zip(program.edges, cuts, strict=True):  # by consumer, so producers are settled
        if not cut:
            for made, read in renaming(program, edge).items():
                old, new = sorted([leader[edge.consumer, read], leader[edge.producer, made]], reverse=True)
                leader = {k: new if v == old else v for k, v in leader.items()}
    return leader


def edge_violations(program: Program, edge: Edge, producer: Loops, consumer: Loops) -> tuple[Violation, ...]:
    """Rules that a fused edge breaks: same tiles, consumer loops start with the stream, the lanes that the producer has
    left after its reductions."""
    names = renaming(program, edge)
    stream = tuple((names[i], part) for i, part in stream_nest(program, edge.producer, producer))
    found = []
    made = {names[i]: t for i, t in producer.tiles if i in names}
    read = {i: t for i, t in consumer.tiles if i in names.values()}
    if made != read:
        found.append(Violation("fused-tiles-differ", f"{read}", f"{made}", edge.name))
    elif consumer.nest[: len(stream)] != stream:
        got, want = _nest_text(consumer.nest[: len(stream)]), _nest_text(stream)
        found.append(Violation("stream-not-outermost", got, want, edge.name))
    lanes = tuple((names[i], count, partition) for i, count, partition in producer.parallel if i in names)
    if lanes != consumer.parallel:
        found.append(Violation("fused-lanes-differ", lanes_text(consumer.parallel), lanes_text(lanes), edge.name))
    return tuple(found)


def lanes_text(parallel: tuple[Lane, ...]) -> str:
    """``4 lanes over i (cyclic)``: parallel indices in words."""
    return " and ".join(f"{lanes} lanes over {i} ({partition})" for i, lanes, partition in parallel) or "one lane"


def _nest_text(nest: tuple[Loop, ...]) -> str:
    return " > ".join(i if part == "inner" else f"{i}.tile" for i, part in nest) or "no loop"


def _region_numbers(program: Program, cuts: tuple[bool, ...]) -> list[int]:
    region = list(range(len(program.statements)))
    for edge, cut in zip(program.edges, cuts, strict=True):
        if not cut:
            old, new = region[edge.consumer], region[edge.producer]
            region = [new if r == old else r for r in region]
    return region


def _region_graph(program: Program, cuts: tuple[bool, ...], region: list[int]) -> dict[int, set[int]]:
    before: dict[int, set[int]] = {number: set() for number in region}
    for edge, cut in zip(program.edges, cuts, strict=True):
        if cut and region[edge.producer] != region[edge.consumer]:
            before[region[edge.consumer]].add(region[edge.producer])
    return before
