"""The default mapping: what everybody would write before tuning. Studies compare their winners with it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from mapper.formats import default_formats
from mapper.machine import Machine
from mapper.mapping import Loops, Mapping
from mapper.program import Statement
from mapper.regions import stored_tensors
from mapper.space import MappingSpace


def default_mapping(space: MappingSpace, variant: str = "") -> Mapping:
    """Of the program as written, or of a rewriting of it: nothing fused, row-major loops (Gustavson for a matrix
    product), row-dense compressed formats with dense levels located, one lane, no reuse between tiles, and the largest
    square power-of-two tile whose dense footprint fits the buffer. Machine knobs keep the machine's own value where
    they offer it. Other limits of the space do not apply. Of several inputs the one with the smallest extents, or the
    least dense tensor, decides.
    """
    inputs = tuple(w.variant(variant) for w in space.inputs.values())
    program = inputs[0].program
    cuts = (True,) * len(program.edges)
    loops = tuple(
        _default_loops(statement, [w.extents[number] for w in inputs], space.machine)
        for number, statement in enumerate(program.statements)
    )
    tensors = ((name, [w.tensor(name) for w in inputs]) for name in stored_tensors(inputs[0].program, cuts))
    formats = tuple(
        sorted((name, default_formats(t[0].ndim, min(x.density for x in t))[0].kinds) for name, t in tensors)
    )
    own = {name: getattr(space.machine, name) for name in space.limits.machine}
    knobs = sorted(space.limits.machine.items())
    machine = tuple((name, own[name] if own[name] in values else values[0]) for name, values in knobs)
    return Mapping(cuts, loops, formats, "none", machine, variant, joins=space.limits.joins[0])


def _default_loops(statement: Statement, extents: Sequence[dict[str, int]], machine: Machine) -> Loops:
    order = row_major_order(statement)
    if machine.buffer_bytes is None or statement.kind == "view":
        return Loops(order)
    modes = max(1, *(len(a.indices) for a in (statement.target, *statement.operands)))
    tile = 1
    while (2 * tile) ** modes * machine.value_bytes <= machine.buffer_bytes:
        tile *= 2
    return Loops(order, tuple((i, tile) for i in order if tile < min(e[i] for e in extents)))


def row_major_order(statement: Statement) -> tuple[str, ...]:
    """An order that walks every operand row by row where one exists, else the order of appearance; for a view, which
    has one order alone, that of its target."""
    if statement.kind == "view":
        return statement.indices
    after: dict[str, set[str]] = {i: set() for i in statement.indices}
    for access in statement.operands:
        for outer, inner in itertools.pairwise(access.indices):
            after[inner].add(outer)
    order: list[str] = []
    while len(order) < len(after):
        free = [i for i in statement.indices if i not in order and after[i] <= set(order)]
        if not free:
            return statement.indices
        order.append(free[0])
    return tuple(order)
