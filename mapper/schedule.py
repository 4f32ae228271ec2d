"""Schedule: the steps a mapping makes of a program, each region after the conversions its operands need.

A view writes its windows in the layout of their first reader. It reads its operand as that is stored; an input that
nothing was read of before is stored as its own first reader wants it, row by row if there are views alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from mapper.mapping import Mapping
from mapper.program import IN_PLACE, Edge, Program
from mapper.regions import fused_edges, regions_of, stored_tensors
from mapper.storage import Layout, layout_of


@dataclass(frozen=True, slots=True)
class Conversion:
    """A stored ``tensor``, read once in ``source``, becomes ``made``, written once in ``result``: the same tensor in
    another layout, or what view ``statement`` makes of it. Nothing is moved for windows that are read ``in_place``."""

    tensor: str
    source: Layout
    made: str
    result: Layout
    statement: int | None = None
    in_place: bool = False

    @property
    def name(self) -> str:
        """``convert A``, or ``windows T of A``."""
        return f"convert {self.tensor}" if self.statement is None else f"windows {self.made} of {self.tensor}"


@dataclass(frozen=True, slots=True)
class Region:
    """One dataflow graph. ``fused``: the edges that are streams inside it. ``stored``: computed tensors that it
    writes, with their layout."""

    statements: tuple[int, ...]
    fused: tuple[Edge, ...]
    stored: tuple[tuple[str, Layout], ...]


@dataclass(frozen=True, slots=True)
class Schedule:
    """Steps in execution order."""

    steps: tuple[Conversion | Region, ...]

    @property
    def regions(self) -> tuple[Region, ...]:
        """The regions alone."""
        return tuple(s for s in self.steps if isinstance(s, Region))


def schedule(program: Program, mapping: Mapping) -> Schedule:
    """Steps of a legal mapping. The first layout in which an input is read is the one it is stored in, free of
    charge; every other layout of a stored tensor costs one conversion, made before its first use."""
    steps: list[Conversion | Region] = []
    layouts: dict[str, list[Layout]] = {}
    for statements in regions_of(program, mapping.cuts):
        if program.statements[statements[0]].kind == "view":
            step = _view(program, mapping, statements[0], layouts)
            layouts[step.tensor], layouts[step.made] = layouts.get(step.tensor, [step.source]), [step.result]
            steps.append(step)
            continue
        for statement in statements:
            for access, layout in stored_operands(program, mapping, statement):
                known = layouts.setdefault(access, [])
                if known and layout not in known and program.stored_as(access) == access:
                    steps.append(Conversion(access, known[0], access, layout))
                if layout not in known:
                    known.append(layout)
        region = _region(program, mapping, statements)
        layouts.update({tensor: [layout] for tensor, layout in region.stored})
        steps.append(region)
    return Schedule(tuple(steps))


def stored_operands(program: Program, mapping: Mapping, statement: int) -> tuple[tuple[str, Layout], ...]:
    """(tensor, layout) of the operands that a statement reads from memory, in operand order; a view would like what
    other readers want."""
    if program.statements[statement].kind == "view":
        tensor = program.statements[statement].operands[0].tensor
        return ((tensor, read_layout(program, mapping, tensor)),)
    streamed = {
        e.operand for e, cut in zip(program.edges, mapping.cuts, strict=True) if not cut and e.consumer == statement
    }
    loops = mapping.loops[statement]
    return tuple(
        (access.tensor, layout_of(access, loops, mapping.kinds(access.tensor), mapping.dtype(access.tensor)))
        for n, access in enumerate(program.statements[statement].operands)
        if n not in streamed
    )


def read_layout(program: Program, mapping: Mapping, tensor: str) -> Layout:
    """The layout in which the first statement that is no view reads a stored tensor, else row by row."""
    for number, statement in enumerate(program.statements):
        if statement.kind != "view":
            for name, layout in stored_operands(program, mapping, number):
                if name == tensor:
                    return layout
    kinds = mapping.kinds(tensor)
    return Layout(tuple(range(len(kinds))), kinds, (), (0,) * len(kinds), mapping.dtype(tensor))


def _view(program: Program, mapping: Mapping, number: int, layouts: dict[str, list[Layout]]) -> Conversion:
    statement = program.statements[number]
    ((tensor, wanted),) = stored_operands(program, mapping, number)
    made = statement.target.tensor
    source, result = layouts.get(tensor, [wanted])[0], read_layout(program, mapping, made)
    return Conversion(tensor, source, made, result, number, statement.function == IN_PLACE)


def _region(program: Program, mapping: Mapping, statements: tuple[int, ...]) -> Region:
    stored, kept = [], stored_tensors(program, mapping.cuts)
    for statement in statements:
        target = program.statements[statement].target
        if target.tensor in kept:
            loops = mapping.loops[statement]
            kinds, dtype = mapping.kinds(target.tensor), mapping.dtype(target.tensor)
            stored.append((target.tensor, layout_of(target, loops, kinds, dtype)))
    return Region(statements, fused_edges(program, statements), tuple(stored))
