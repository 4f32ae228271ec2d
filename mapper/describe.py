"""A mapping in words, for reports and terminals."""

from __future__ import annotations

from mapper.formats import Format
from mapper.mapping import Loops, Mapping
from mapper.operands import loop_name
from mapper.program import Program
from mapper.regions import lanes_text, region_label
from mapper.residency import RESIDENCIES
from mapper.rewrites import rewriting
from mapper.schedule import Conversion, schedule
from mapper.storage import Layout


def describe_mapping(program: Program, mapping: Mapping) -> str:
    """One line per step and statement: what is fused, loops outer to inner, tiles, lanes, formats, conversions."""
    lines = [f"rewritten: {mapping.variant}"] if mapping.variant else []
    program = rewriting(program, mapping.variant)
    plan = schedule(program, mapping)
    for step in plan.steps:
        if isinstance(step, Conversion):
            moved = "read in place, from" if step.in_place else "from"
            lines.append(f"{step.name} {moved} {_layout(step.source)} to {_layout(step.result)}")
            if step.statement is not None:
                lines.append(f"  {program.statements[step.statement]}")
            continue
        fused = [edge.tensor for edge in step.fused]
        streams = f", {' and '.join(dict.fromkeys(fused))} streamed, never stored" if fused else ""
        lines.append(f"region {region_label(step.statements)}{streams}")
        for number in step.statements:
            lines.append(f"  {program.statements[number]}")
            lines.append(f"    loops {loops_text(mapping.loops[number])}")
        lines += [f"    writes {tensor} as {_layout(layout)}" for tensor, layout in step.stored]
    formats = ", ".join(f"{t} {form}" for t, form in mapping.stored_formats() if form.kinds)
    knobs = "".join(f"; {name} = {value}" for name, value in mapping.machine)
    return "\n".join([*lines, f"formats: {formats or 'scalars'}; {RESIDENCIES[mapping.residency]}{knobs}"])


def loops_text(loops: Loops) -> str:
    """``i.tile (by 64) > i > k, 4 lanes over i (block)``."""
    tiled = dict(loops.tiles)
    nest = " > ".join(
        f"{loop_name(loop)} (by {tiled[loop[0]]})" if loop[1] == "tile" else loop[0] for loop in loops.nest
    )
    lanes = f", {lanes_text(loops.parallel)}" if loops.parallel else ""
    return (nest or "none (scalar)") + lanes


def _layout(layout: Layout) -> str:
    modes = ",".join(map(str, layout.modes))
    tiles = "x".join(str(t) if t else "all" for t in layout.tiles)
    form = Format(layout.kinds, None, layout.dtype)
    return f"{form} (modes {modes}{f', tiles {tiles}' if layout.tile_modes else ''})"
