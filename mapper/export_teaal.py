"""A mapping as a TeAAL specification (MICRO 2023): the blocks ``einsum`` and ``mapping``.

Ranks are the indices in upper case. A tiled rank K is partitioned by ``uniform_shape`` into K1, the tile loop, and K0;
lanes are one partition more, whose rank is in ``space``: of equal ranges it is the outermost loop, of coordinates dealt
out in turn it stands below the loop that is dealt out. What TeAAL has no word for stands in comments on top.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import yaml

from mapper.errors import InputError
from mapper.mapping import Loops, Mapping
from mapper.program import Access, Program, Statement
from mapper.workload import Workload


def teaal_export(workload: Workload, mapping: Mapping) -> str:
    """The YAML text of a legal mapping of ``workload``, the program as written.

    Raises InputError, with statement or tensor, for what an Einsum of TeAAL cannot say: functions, differences,
    quotients, maxima and means, a product with several patterns, a tensor read in two orders of its ranks.
    """
    workload = workload.variant(mapping.variant)
    program = workload.program
    nests = {
        statement.target.tensor: _Nest(loops, workload.extents[number])
        for number, (statement, loops) in enumerate(zip(program.statements, mapping.loops, strict=True))
    }
    spec: dict[str, Any] = {
        "einsum": {
            "declaration": _declaration(program),
            "expressions": [_expression(number, s) for number, s in enumerate(program.statements)],
        },
        "mapping": {
            "rank-order": _rank_orders(program, mapping),
            "partitioning": {target: nest.partitioning for target, nest in nests.items() if nest.partitioning},
            "loop-order": {target: nest.order for target, nest in nests.items()},
            "spacetime": {
                target: {"space": nest.space, "time": [r for r in nest.order if r not in nest.space]}
                for target, nest in nests.items()
            },
        },
    }
    if not spec["mapping"]["partitioning"]:
        del spec["mapping"]["partitioning"]
    notes = "".join(f"# {note}\n" for note in _notes(program, mapping))
    return notes + yaml.dump(spec, Dumper=_Dumper, sort_keys=False, width=1000)


class _Dumper(yaml.SafeDumper):
    """Lists of ranks in one line, all else in blocks."""

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> yaml.SequenceNode:
        return super().represent_sequence(tag, sequence, flow_style=not any(" = " in item for item in sequence))


class _Nest:
    """Ranks of a statement: how its indices are partitioned, their order, and which of them are space."""

    def __init__(self, loops: Loops, extents: dict[str, int]) -> None:
        tiles = dict(loops.tiles)
        lanes = {index: (count, partition == "cyclic") for index, count, partition in loops.parallel}
        self.partitioning: dict[str, list[str]] = {}
        self.space: list[str] = []
        outer: list[str] = []
        names: dict[tuple[str, str], list[str]] = {}
        for index in loops.order:
            tile = tiles.get(index, 1)
            sizes = [tile] if index in tiles else []
            if index in lanes:
                count, cyclic = lanes[index]
                steps = loops.steps(index, extents[index])
                sizes.insert(0, count * tile if cyclic else math.ceil(steps / count) * tile)
            rank, depth = index.upper(), len(sizes)
            ranks = [f"{rank}{n}" for n in range(depth, -1, -1)] if sizes else [rank]
            if sizes:
                self.partitioning[rank] = [f"uniform_shape({size})" for size in sizes]
            if index in lanes:
                self.space.append(ranks[1 if lanes[index][1] else 0])
                if not lanes[index][1]:
                    outer.append(ranks.pop(0))
            below = [ranks.pop()] if index in tiles else []
            names[index, "tile" if index in tiles else "inner"] = ranks
            if below:
                names[index, "inner"] = below
        self.order = [*outer, *(rank for loop in loops.nest for rank in names[loop])]
        if twice := {rank for rank in self.order if self.order.count(rank) > 1}:
            raise InputError(f"two indices would have the TeAAL rank {', '.join(sorted(twice))}: rename one of them")


def _declaration(program: Program) -> dict[str, list[str]]:
    """Ranks of every tensor, named by its first access. Another access may have other names, which count by position,
    but none of the same at another position."""
    declared: dict[str, list[str]] = {}
    for statement in program.statements:
        for access in (*statement.operands, statement.target):
            ranks = [index.upper() for index in access.indices]
            known = declared.setdefault(access.tensor, ranks)
            if any(rank in known and known.index(rank) != n for n, rank in enumerate(ranks)):
                text = f"{access}, declared with ranks {', '.join(known)}: rename the indices of one statement"
                raise InputError(f"TeAAL finds ranks by name, so it cannot read {text}")
    return declared


def _expression(number: int, statement: Statement) -> str:
    where = f"S{number}: {statement}"
    if statement.kind == "map":
        raise InputError(f"TeAAL has sums and products alone, not {statement.function} ({where})")
    if statement.kind == "add":
        if any(sign < 0 for sign in statement.signs):
            raise InputError(f"TeAAL has no differences ({where})")
        return f"{_access(statement.target)} = {' + '.join(map(_access, statement.operands))}"
    if statement.combine != "mul" or statement.reduction != "sum":
        got = statement.reduction if statement.combine == "mul" else statement.combine
        raise InputError(f"TeAAL has products and sums over indices alone, not {got} ({where})")
    operands = [_access(operand) for operand in statement.operands]
    values = [n for n, operand in enumerate(statement.operands) if not operand.pattern]
    if len(values) == len(operands):
        return f"{_access(statement.target)} = {' * '.join(operands)}"
    if len(values) > 1:
        raise InputError(f"TeAAL keeps one operand of a take, so patterns cannot stand beside a product ({where})")
    return f"{_access(statement.target)} = take({', '.join(operands)}, {values[0] if values else 0})"


def _access(access: Access) -> str:
    return f"{access.tensor}[{', '.join(index.lower() for index in access.indices)}]"


def _rank_orders(program: Program, mapping: Mapping) -> dict[str, list[str]]:
    """Per tensor its ranks in the order in which the first statement that has it walks them."""
    found: dict[str, list[str]] = {}
    declared = _declaration(program)
    for number, statement in enumerate(program.statements):
        order = mapping.loops[number].order
        for access in (*statement.operands, statement.target):
            modes = [access.indices.index(index) for index in order if index in access.indices]
            found.setdefault(access.tensor, [declared[access.tensor][mode] for mode in modes])
    return {tensor: found[tensor] for tensor in declared}


def _notes(program: Program, mapping: Mapping) -> Iterator[str]:
    """What the specification leaves out."""
    for edge, cut in zip(program.edges, mapping.cuts, strict=True):
        if not cut:
            yield f"{edge.tensor} streams from S{edge.producer} to S{edge.consumer} and is never stored"
    if any(share == "balanced" for loops in mapping.loops for *_, share in loops.parallel):
        yield "lanes balanced by stored entries are written as equal ranges"
    yield f"formats: {', '.join(f'{t} {form}' for t, form in mapping.stored_formats() if form.kinds) or 'scalars'}"
    yield f"residency of tiles: {mapping.residency}"
    yield from (f"machine {name} = {'null' if value is None else value}" for name, value in mapping.machine)
