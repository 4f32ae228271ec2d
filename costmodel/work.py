"""Work of every unit of a region: the cycles it is busy and the tokens it pushes, per lane.

Units do about one token per cycle. A stream at depth q carries one token per joined prefix and one stop per fiber; a
two-finger intersection turns once per scanned element, matches counted once; an accumulator takes one turn per
value and ``drain_cycles_per_entry`` per entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.accumulators import Reduction
from costmodel.factors import Floats
from costmodel.nest import Nest
from mapper.machine import Machine
from mapper.mapping import Loop
from mapper.schedule import Region


SLACK_CHANNELS = 2
"""FIFOs in a row that fill while an accumulator drains."""


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One context per lane: busy ``cycles`` per lane, ``tokens`` pushed in all lanes."""

    name: str
    kind: str
    cycles: Floats
    tokens: float


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A statement's units and operation counts over all lanes, and how its accumulator holds them up.

    ``spilling``: cycles per lane in which it writes runs; ``draining``: those in which it drains (runs read back
    included) and the units above stand still, as the FIFOs between are full; ``drained``: share of its drain that
    this is; ``pieces``: how many times per lane a part of the result is complete.
    """

    units: tuple[Unit, ...]
    multiplies: float
    additions: float
    comparisons: float
    spilling: Floats
    draining: Floats
    drained: float
    pieces: float

    @property
    def slowest(self) -> tuple[float, str]:
        """(cycles, name) of the unit that takes longest in any lane, drains apart."""
        return max((float((u.cycles + self.spilling).max(initial=0.0)), u.name) for u in self.units)

    @property
    def tokens(self) -> float:
        """Tokens pushed by all units."""
        return sum(u.tokens for u in self.units)


def work_of(nest: Nest, region: Region, reduction: Reduction | None, machine: Machine) -> Work:
    """Work of one statement of a region."""
    return _Tally(nest, region, machine).run(reduction)


class _Tally:
    def __init__(self, nest: Nest, region: Region, machine: Machine) -> None:
        self.nest, self.machine = nest, machine
        self.stored = nest.statement.target.tensor in dict(region.stored)
        self.label = f"S{nest.number}"
        depths = range(1, len(nest.loops) + 1)
        self.prefixes = [np.ones(nest.lanes), *(nest.joined(q) for q in depths)]
        self.stops = [np.zeros(nest.lanes)]
        for q in depths:  # a stop per fiber, empty ones included
            self.stops.append(np.maximum(self.prefixes[q - 1], self.stops[q - 1]))
        self.units: list[Unit] = []
        self.comparisons = 0.0

    def run(self, reduction: Reduction | None) -> Work:
        nest = self.nest
        for q in range(1, len(nest.loops) + 1):
            self._level(q)
        products, additions = self._compute()
        reduced = self._reducers()
        entries = reduced
        spilling = draining = np.zeros(nest.lanes)
        pieces, drained = float(self.prefixes[min(1, len(nest.loops))].max()), 0.0
        if reduction is not None:
            scopes = reduction.scopes
            entries = scopes.per_lane(scopes.entries, nest.lanes)
            additions += float((scopes.per_lane(scopes.values, nest.lanes) - entries).sum())
            written, drain, excess = self._drains(reduction)
            spilling, draining = scopes.per_lane(written, nest.lanes), scopes.per_lane(excess, nest.lanes)
            drained = float(draining.sum() / max(1.0, scopes.per_lane(drain, nest.lanes).sum()))
            pieces = float(self.prefixes[reduction.shape.scope - 1].max())
            cycles = self.stream(reduction.shape.depth) + scopes.per_lane(drain - excess, nest.lanes)
            self._unit("accumulate", f"accumulate {self.label}", cycles, (reduction.shape.keys + 1) * float(entries.sum()))
        if self.stored:
            self._unit("store", f"store {nest.statement.target.tensor}", entries, 0.0)
        additions += max(0.0, float((self.prefixes[-1] - reduced).sum()))
        counts = (products, additions, self.comparisons)
        return Work(tuple(self.units), *counts, spilling, draining, drained, max(1.0, pieces))

    def _drains(self, reduction: Reduction) -> tuple[Floats, Floats, Floats]:
        """Cycles per scope: to write runs; to drain, runs read back; to drain beyond what the FIFOs above take in."""
        machine = self.machine
        entry = machine.value_bytes + reduction.shape.keys * machine.coordinate_bytes
        moving = reduction.spilled * (entry / machine.bytes_per_cycle)
        latency = np.where(reduction.spilled > 0, float(machine.dram_latency_cycles), 0.0)
        drain = reduction.scopes.entries * machine.drain_cycles_per_entry + moving + latency
        slack = np.inf if machine.fifo_depth is None else float(machine.fifo_depth * SLACK_CHANNELS)
        return moving, drain, np.maximum(0.0, drain - slack)

    def stream(self, depth: int) -> Floats:
        """Tokens of a joined stream."""
        return self.prefixes[depth] + self.stops[depth]

    def _unit(self, kind: str, name: str, cycles: Floats, tokens: float) -> None:
        self.units.append(Unit(name, kind, cycles, tokens))

    def _level(self, q: int) -> None:
        nest, loop = self.nest, self.nest.loops[q - 1]
        name, full = f"{self.label}.{_text(loop)}", self.stream(q)
        present = [n for n, o in enumerate(nest.operands) if loop in o.loops]
        universe = loop[0] in nest.universal
        scans = [self._scan(n, q, loop) for n in present]
        if universe:
            self._unit("scan", f"scan all {name}", full, 2 * float(full.sum()))
            scans.append(self.prefixes[q])
        if len(scans) > 1:
            turns = self._turns(scans, q)
            self.comparisons += float(turns.sum())
            kind = "intersect" if nest.statement.kind == "contract" else "union"
            self._unit(kind, f"{kind} {name}", turns, (1 + len(scans)) * float(full.sum()))
        absent = len(nest.operands) - len(present) + self._universes_absent(q)
        if absent:
            self._unit("repeat", f"repeat {name}", full, (3 + absent) * float(full.sum()))
        for n in present:
            operand = nest.operands[n]
            last = loop[1] == "tile" and loop == [x for x in operand.loops if x[1] == "tile"][-1]
            if last and operand.stored and self.machine.dram_channels is not None:
                self._unit("tile_load", f"load {operand.access.tensor} of {self.label}", full, float(full.sum()))

    def _universes_absent(self, q: int) -> int:
        later = {i for i, _ in self.nest.loops[q:]}
        return sum(i in later and i != self.nest.loops[q - 1][0] for i in self.nest.universal)

    def _scan(self, n: int, q: int, loop: Loop) -> Floats:
        operand, elements = self.nest.operands[n], self.nest.scanned(n, q)
        tokens = elements + self.stops[q]
        kind = "scan" if operand.stored else "stream_scan"
        self._unit(kind, f"scan {operand.access.tensor} {self.label}.{_text(loop)}", tokens, 2 * float(tokens.sum()))
        return elements

    def _turns(self, scans: Sequence[Floats], q: int) -> Floats:
        if self.nest.statement.kind != "contract":
            return self.stream(q)
        return np.maximum(sum(scans) - (len(scans) - 1) * self.prefixes[q], np.max(scans, axis=0)) + self.stops[q]

    def _compute(self) -> tuple[float, float]:
        nest, depth = self.nest, len(self.nest.loops)
        full, values = self.stream(depth), float(self.prefixes[depth].sum())
        for operand in nest.operands:
            if operand.stored:
                self._unit("array", f"array {operand.access.tensor} of {self.label}", full, float(full.sum()))
        operations = len(nest.operands) - 1
        if nest.statement.kind == "map":
            self._unit("map", f"{nest.statement.function} {self.label}", full, float(full.sum()))
            return 0.0, 0.0
        if operations:
            self._unit("alu", f"alu {self.label}", full, operations * float(full.sum()))
        return (operations * values, 0.0) if nest.statement.kind == "contract" else (0.0, operations * values)

    def _reducers(self) -> Floats:
        """Values left per lane after the scalar reducers of the innermost reduced loops."""
        kept, depth = self.nest.statement.target.indices, len(self.nest.loops)
        while depth and self.nest.loops[depth - 1][0] not in kept:
            out = self.stream(depth - 1)
            self._unit("reduce", f"reduce {self.label}.{_text(self.nest.loops[depth - 1])}", self.stream(depth), float(out.sum()))
            depth -= 1
        return np.minimum(self.prefixes[depth], self.prefixes[-1])


def _text(loop: Loop) -> str:
    return loop[0] if loop[1] == "inner" else f"{loop[0]}.tile"
