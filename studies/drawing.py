"""A mapping as a drawing: its steps from top to bottom, what streams inside them and what goes through memory."""

from __future__ import annotations

import html
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field

from mapper.describe import loops_text
from mapper.mapping import Mapping
from mapper.program import Program
from mapper.regions import region_label
from mapper.rewrites import rewriting
from mapper.schedule import Conversion, Region, schedule
from studies.units import shown

WIDTH, LINE, PAD, GAP, BULGE = 940, 20, 14, 26, 60
INK, SOFT, ACCENT, FAINT = "#1b2733", "#5b6b7a", "#0b6bcb", "#eef3f8"


def draw_mapping(program: Program, mapping: Mapping, cycles: MappingABC[str, int]) -> str:
    """SVG text. ``program`` is the program as written; ``cycles``: how long each step took, by its name."""
    rewritten = rewriting(program, mapping.variant)
    canvas, total = _Canvas(), max(1, sum(cycles.values()))
    for step in schedule(rewritten, mapping).steps:
        name = step.name if isinstance(step, Conversion) else region_label(step.statements)
        spent = cycles.get(name)
        time = "" if spent is None else f" · {shown('latency_cycles', spent)}, {spent / total:.0%} of the time"
        if isinstance(step, Conversion):
            canvas.box([(f"{name}{time}", SOFT)], FAINT)
        else:
            _draw_region(canvas, rewritten, mapping, step, f"{name}{time}")
    return canvas.svg()


def _draw_region(canvas: _Canvas, program: Program, mapping: Mapping, region: Region, title: str) -> None:
    top = canvas.y
    canvas.y += LINE + PAD
    middles: dict[int, float] = {}
    stored = dict(region.stored)
    streamed = {edge.consumer: set[str]() for edge in region.fused}
    for edge in region.fused:
        streamed[edge.consumer].add(edge.tensor)
    for number in region.statements:
        statement = program.statements[number]
        read = [a.tensor for a in statement.operands if a.tensor not in streamed.get(number, set())]
        lines = [(str(statement), INK), (f"loops {loops_text(mapping.loops[number])}", SOFT)]
        if read:
            lines.append((f"from memory: {', '.join(dict.fromkeys(read))}", SOFT))
        if statement.target.tensor in stored:
            lines.append((f"to memory: {statement.target.tensor}", SOFT))
        start = canvas.y
        canvas.box(lines, "#fff", inset=PAD)
        middles[number] = (start + canvas.y - GAP / 2) / 2
    for edge in region.fused:
        canvas.stream(middles[edge.producer], middles[edge.consumer], edge.tensor)
    canvas.frame(top, title)


@dataclass(slots=True)
class _Canvas:
    y: float = 4.0
    back: list[str] = field(default_factory=list)
    front: list[str] = field(default_factory=list)

    def box(self, lines: list[tuple[str, str]], fill: str, inset: float = 0.0) -> None:
        height = LINE * len(lines) + PAD
        right = WIDTH - 2 * inset - (BULGE + 70 if inset else 0)
        self.front.append(
            f'<rect x="{4 + inset}" y="{self.y}" width="{right}" height="{height}" rx="6" fill="{fill}" '
            f'stroke="#c9d5e0"/>'
        )
        for n, (text, color) in enumerate(lines):
            weight = ' font-weight="600"' if n == 0 and inset else ""
            self.front.append(
                f'<text x="{14 + inset}" y="{self.y + PAD / 2 + LINE * (n + 0.75)}" fill="{color}"{weight}>'
                f"{html.escape(text)}</text>"
            )
        self.y += height + GAP / 2

    def stream(self, start: float, end: float, tensor: str) -> None:
        """A stream from one statement to a later one, along the right side."""
        x, middle = WIDTH - 2 * PAD - BULGE - 62, (start + end) / 2
        self.front.append(
            f'<path d="M{x} {start + 6} C{x + BULGE} {start + 6} {x + BULGE} {end - 6} {x + 4} {end - 6}" fill="none" '
            f'stroke="{ACCENT}" stroke-width="2" marker-end="url(#head)"/>'
            f'<text x="{x + BULGE - 10}" y="{middle + 4}" fill="{ACCENT}">{html.escape(tensor)}</text>'
        )

    def frame(self, top: float, title: str) -> None:
        """The box of a region, from ``top`` to here."""
        self.back.append(
            f'<rect x="4" y="{top}" width="{WIDTH}" height="{self.y - top}" rx="10" fill="{FAINT}" stroke="#c9d5e0"/>'
        )
        self.front.append(f'<text x="16" y="{top + LINE}" fill="{SOFT}">{html.escape(title)}</text>')
        self.y += GAP / 2

    def svg(self) -> str:
        arrow = (
            f'<defs><marker id="head" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="{ACCENT}"/></marker></defs>'
        )
        return (
            f'<svg viewBox="0 0 {WIDTH + 8} {self.y}" width="100%" style="max-width:{WIDTH + 8}px" '
            f'xmlns="http://www.w3.org/2000/svg" font-size="13" role="img" aria-label="the winning mapping">'
            f"{arrow}{''.join(self.back)}{''.join(self.front)}</svg>"
        )
