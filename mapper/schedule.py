"""Schedule: the steps a mapping makes of a program, each region after the conversions its operands need."""

from __future__ import annotations

from dataclasses import dataclass

from mapper.mapping import Mapping
from mapper.program import Program
from mapper.regions import regions_of
from mapper.storage import Layout, layout_of


@dataclass(frozen=True, slots=True)
class Conversion:
    """Re-layout of a stored tensor: read once in ``source``, written once in ``result``."""

    tensor: str
    source: Layout
    result: Layout


@dataclass(frozen=True, slots=True)
class Region:
    """One dataflow graph. ``fused``: positions in ``Program.edges`` that are streams inside it.
    ``stored``: computed tensors that it writes, with their layout."""

    statements: tuple[int, ...]
    fused: tuple[int, ...]
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
        for statement in statements:
            for access, layout in stored_operands(program, mapping, statement):
                known = layouts.setdefault(access, [])
                if known and layout not in known:
                    steps.append(Conversion(access, known[0], layout))
                if layout not in known:
                    known.append(layout)
        region = _region(program, mapping, statements)
        layouts.update({tensor: [layout] for tensor, layout in region.stored})
        steps.append(region)
    return Schedule(tuple(steps))


def stored_operands(program: Program, mapping: Mapping, statement: int) -> tuple[tuple[str, Layout], ...]:
    """(tensor, layout) of the operands that a statement reads from memory, in operand order."""
    streamed = {
        e.operand for e, cut in zip(program.edges, mapping.cuts, strict=True) if not cut and e.consumer == statement
    }
    loops = mapping.loops[statement]
    return tuple(
        (access.tensor, layout_of(access, loops, mapping.kinds(access.tensor), mapping.dtype(access.tensor)))
        for n, access in enumerate(program.statements[statement].operands)
        if n not in streamed
    )


def _region(program: Program, mapping: Mapping, statements: tuple[int, ...]) -> Region:
    fused, stored = [], []
    for n, edge in enumerate(program.edges):
        if edge.producer in statements and not mapping.cuts[n]:
            fused.append(n)
    for statement in statements:
        target = program.statements[statement].target
        readers = [cut for e, cut in zip(program.edges, mapping.cuts, strict=True) if e.tensor == target.tensor]
        if not readers or any(readers):
            loops = mapping.loops[statement]
            kinds, dtype = mapping.kinds(target.tensor), mapping.dtype(target.tensor)
            stored.append((target.tensor, layout_of(target, loops, kinds, dtype)))
    return Region(statements, tuple(fused), tuple(stored))
