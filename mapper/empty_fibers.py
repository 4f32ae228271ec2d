"""Streams with fibers that hold no entry, but whose stops take their places in FIFOs all the same."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from mapper.formats import DENSE
from mapper.mapping import Loops, Mapping
from mapper.program import Program
from mapper.regions import fused_edges
from mapper.workload import Workload

Kinds = tuple[str, ...] | frozenset[str]
"""Level kinds of a stored operand; of others the modes of which they have all coordinates."""


class Hollow(NamedTuple):
    """A result that may have fibers without entries: of indices ``dense`` it has all coordinates; ``unmet``: products
    of stored operands may find no partner below the outermost loop."""

    dense: frozenset[str] = frozenset()
    unmet: bool = False


def hollow_statements(workload: Workload, mapping: Mapping, region: tuple[int, ...]) -> dict[int, Hollow]:
    """Statements of a region whose results may have fibers without entries: below dense levels, which have all
    coordinates, and where a product finds no partner in what is stored. Streams that meet each other are taken to have
    the same fibers, as a reduction and what it is made of do."""
    program, found, kinds = workload.program, dict[int, Hollow](), dict(mapping.formats)
    fused = {(edge.consumer, edge.operand): edge.producer for edge in fused_edges(program, region)}
    for number in region:
        statement = program.statements[number]
        operands = list[Kinds]()
        for n, access in enumerate(statement.operands):
            if (number, n) in fused:
                producer = fused[number, n]
                names = zip(program.statements[producer].target.indices, access.indices, strict=True)
                operands.append(frozenset(read for made, read in names if made in found.get(producer, Hollow()).dense))
            elif workload.tensor(access.tensor).density == 1.0:
                operands.append(frozenset(access.indices))
            else:
                operands.append(kinds[access.tensor])
        stored = any((number, n) not in fused for n in range(len(statement.operands)))
        below = [found[fused[number, n]] for n in range(len(operands)) if fused.get((number, n)) in found]
        dense, unmet = _hollow(program, number, mapping.loops[number], tuple(operands), stored)
        unmet = unmet or any(own.unmet for own in below)
        if dense or unmet:
            found[number] = Hollow(dense, unmet)
    return found


@lru_cache(maxsize=65536)
def _hollow(program: Program, number: int, loops: Loops, operands: tuple[Kinds, ...], stored: bool) -> Hollow:
    """Of one statement by itself; ``stored``: it reads something that is stored."""
    statement = program.statements[number]
    outer = frozenset([i for i, _ in loops.nest if i in statement.target.indices][:-1])
    everywhere = list[frozenset[str]]()  # indices of which an operand has all coordinates
    for access, kinds in zip(statement.operands, operands, strict=True):
        if isinstance(kinds, frozenset):
            everywhere.append(kinds)
        else:
            order = [i for i in loops.order if i in access.indices]
            everywhere.append(frozenset(i for i, kind in zip(order, kinds, strict=True) if kind == DENSE))
    if statement.kind != "contract":
        return Hollow(outer & frozenset(statement.universal).union(*everywhere))
    has = list(zip([set(a.indices) for a in statement.operands], everywhere, strict=True))
    unmet = stored and any(sum(i in own - dense for own, dense in has) > 1 for i, _ in loops.nest[1:])
    return Hollow(frozenset(i for i in outer if all(i in dense or i not in own for own, dense in has)), unmet)
