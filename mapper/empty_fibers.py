"""Streams with fibers that hold no entry, but whose stops take their places in FIFOs all the same."""

from __future__ import annotations

from functools import lru_cache

from mapper.formats import DENSE
from mapper.mapping import Loops, Mapping
from mapper.program import Statement
from mapper.workload import Workload

Kinds = tuple[str, ...] | bool
"""Level kinds of a stored operand that leaves something out; of others whether they have all coordinates."""


def hollow_statements(workload: Workload, mapping: Mapping) -> set[int]:
    """Statements whose results may have fibers without entries: below dense levels, which have all coordinates, and
    where a product finds no partner in what is stored. Streams that meet each other are taken to have the same fibers,
    as a reduction and what it is made of do."""
    program, found, kinds = workload.program, set[int](), dict(mapping.formats)
    fused = {(e.consumer, e.operand): e.producer for e, cut in zip(program.edges, mapping.cuts, strict=True) if not cut}
    for number, statement in enumerate(program.statements):
        operands = list[Kinds]()
        for n, access in enumerate(statement.operands):
            if (number, n) in fused:
                operands.append(fused[number, n] in found)
            else:
                operands.append(workload.tensor(access.tensor).density == 1.0 or kinds[access.tensor])
        stored = any((number, n) not in fused for n in range(len(statement.operands)))
        if _hollow(statement, mapping.loops[number], tuple(operands), stored):
            found.add(number)
    return found


@lru_cache(maxsize=65536)
def _hollow(statement: Statement, loops: Loops, operands: tuple[Kinds, ...], stored: bool) -> bool:
    """Whether a statement may make fibers without entries; ``stored``: from something that is stored."""
    everywhere = list[set[str]]()  # indices of which an operand has all coordinates
    for access, kinds in zip(statement.operands, operands, strict=True):
        order = [i for i in loops.order if i in access.indices]
        if isinstance(kinds, bool):
            everywhere.append(set(order if kinds else ()))
        else:
            everywhere.append({i for i, kind in zip(order, kinds, strict=True) if kind == DENSE})
    outer = [i for i, _ in loops.nest if i in statement.target.indices][:-1]
    has = list(zip([set(a.indices) for a in statement.operands], everywhere, strict=True))
    if statement.kind == "contract":
        walked = {i for i in statement.indices if all(i in dense or i not in own for own, dense in has)}
        if stored and outer and any(sum(i in own - dense for own, dense in has) > 1 for i, _ in loops.nest[1:]):
            return True
    else:
        walked = set(statement.universal).union(*everywhere)
    return not walked.isdisjoint(outer)
