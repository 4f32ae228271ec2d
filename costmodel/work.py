"""Work of every unit of a statement: the cycles it is busy and the tokens it pushes.

Units do about one token per cycle. A stream at depth q carries one token per joined prefix and one stop per fiber; a
two-finger intersection turns once per scanned element, matches counted once; an accumulator takes one turn per
value and ``drain_cycles_per_entry`` per entry. A stream with several readers is copied once for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.accumulators import Reduction, made
from costmodel.counting import Leaf
from costmodel.factors import Floats
from costmodel.lockstep import lockstep
from costmodel.nest import Nest
from costmodel.scans import idle_cycles
from mapper.lanes import common_levels
from mapper.machine import Machine
from mapper.mapping import Loop
from mapper.schedule import Region

SLACK_CHANNELS = 2
"""FIFOs in a row that fill while an accumulator drains."""

ROUND_TRIP_HOPS = 6
"""Channels from the fork of a coordinate stream through repeat and array to where two operands meet."""


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One context per lane: busy ``cycles`` per lane, ``tokens`` pushed in all lanes, copies included."""

    name: str
    kind: str
    cycles: Floats
    tokens: float


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A statement's units and operation counts over all lanes, and how its accumulator holds them up.

    ``made``: entries of its result per lane; ``spilling``: cycles per lane in which it writes runs; ``draining``:
    those in which it drains (runs read back included) and the units above stand still, as the FIFOs between are full;
    ``drained``: share of its drain that this is; ``pieces``: how many times per lane a part of the result is complete;
    ``lockstep``: how much longer lanes that wait for each other take than the busiest.
    """

    units: tuple[Unit, ...]
    multiplies: float
    additions: float
    comparisons: float
    made: Floats
    spilling: Floats
    draining: Floats
    drained: float
    pieces: float
    lockstep: float

    @property
    def slowest(self) -> tuple[float, str]:
        """(cycles, name) of the unit that takes longest in any lane, drains apart."""
        return max((float((u.cycles + self.spilling).max(initial=0.0)) * self.lockstep, u.name) for u in self.units)

    @property
    def tokens(self) -> float:
        """Tokens pushed by all units."""
        return sum(u.tokens for u in self.units)


def work_of(nest: Nest, region: Region, reduction: Reduction | None, machine: Machine) -> Work:
    """Work of one statement of a region."""
    return Tally(nest, region, reduction, machine).run()


class Tally:
    """Walks the nest as lowering does and notes every unit."""

    def __init__(self, nest: Nest, region: Region, reduction: Reduction | None, machine: Machine) -> None:
        self.nest, self.reduction, self.machine = nest, reduction, machine
        self.label, self.depth = f"S{nest.number}", len(nest.loops)
        self.stored = nest.statement.target.tensor in dict(region.stored)
        program, loops = nest.model.workload.program, nest.model.mapping.loops
        self.readers = self.stored + sum(edge.producer == nest.number for edge in region.fused)
        self.common = common_levels(program, loops, region.fused, nest.number) if nest.partial else 0
        depths = range(1, self.depth + 1)
        self.prefixes = [np.ones(nest.lanes), *(nest.joined(q) for q in depths)]
        self.stops = [np.zeros(nest.lanes)]
        for q in depths:  # a stop per fiber, empty ones included
            self.stops.append(np.maximum(self.prefixes[q - 1], self.stops[q - 1]))
        self.unread = set(range(len(nest.operands))).difference(nest.statement.valued)
        self.units: list[Unit] = []
        self.comparisons = 0.0

    def run(self) -> Work:
        roots = sum(o.stored for o in self.nest.operands) + len(self.nest.statement.universal)
        self._unit("root", f"root {self.label}", np.full(self.nest.lanes, 2.0), 2.0 * roots * self.nest.lanes)
        for q in range(1, self.depth + 1):
            self._level(q)
        self._compute()
        self._reducers()
        spilling, draining, drained, pieces = self._accumulator()
        entries = self._added(made(self.nest, self.reduction))
        if self.stored:
            self._unit("store", f"store {self.nest.statement.target.tensor}", entries, 0.0)
        counts = (*self._operations(float(entries.sum())), self.comparisons)
        step = lockstep(self.nest, self.machine)
        return Work(tuple(self.units), *counts, entries, spilling, draining, drained, max(1.0, pieces), step)

    def stream(self, depth: int) -> Floats:
        """Tokens of a joined stream, per lane, its end included."""
        return self.prefixes[depth] + self.stops[depth] + 1.0

    def _unit(self, kind: str, name: str, cycles: Floats, tokens: float) -> None:
        self.units.append(Unit(name, kind, cycles, tokens))

    def _level(self, q: int) -> None:
        """Scanners, join, repeats and tile loads of one loop."""
        nest, loop = self.nest, self.nest.loops[q - 1]
        name, full = f"{self.label}.{_text(loop)}", self.stream(q)
        found = nest.located(q)
        present = [n for n, o in enumerate(nest.operands) if loop in o.loops and n not in found]
        unread = self.unread if q == self.depth else set[int]()  # references that go nowhere
        later = {i for i, _ in nest.loops[q:]}
        absent = len(nest.operands) - len(present) + sum(i in later and i != loop[0] for i in nest.statement.universal)
        scans = [nest.scanned(n, q) for n, o in enumerate(nest.operands) if loop in o.loops and n not in found]
        scans += [self.prefixes[q]] * (loop[0] in nest.statement.universal)
        coordinates = _copies(self._crd_readers(q) + len(found))
        payload = _copies((absent > 0) + (not unread.intersection(present[:1])))
        joined = len(scans) > 1
        for n, elements in enumerate(scans):
            operand = nest.operands[present[n]] if n < len(present) else None
            who = operand.access.tensor if operand else "all"
            tokens = elements + self.stops[q] + 1.0
            pushes = 2 if joined else coordinates + payload
            idle = idle_cycles(operand, loop, elements, self.stops[q]) if operand else 0.0
            self._unit("scan", f"scan {who} {name}", tokens + idle, pushes * float(tokens.sum()))
        if joined:
            turns = self._turns(scans, q)
            self.comparisons += float(turns.sum())
            kind = "intersect" if nest.statement.kind == "contract" else "union"
            # Nobody reads the last reference to everything.
            spent = int(loop[0] in nest.statement.universal and loop[0] not in later)
            spent += len(unread.intersection(present[1:]))
            pushes = coordinates + payload + len(scans) - 1 - spent
            self._unit(kind, f"{kind} {name}", turns, pushes * float(full.sum()))
        if absent:
            pushes = _copies(absent) + absent - len(unread.difference(present, found))
            self._unit("repeat", f"repeat {name}", full * self._round_trips(), pushes * float(full.sum()))
        for n in found:
            pushed = float(full.sum()) * (n not in unread)
            self._unit("locate", f"locate {nest.operands[n].access.tensor} {name}", full, pushed)
        for n, operand in enumerate(nest.operands):
            if operand.stored and nest.load_depth(n) == q and self.machine.dram_channels is not None:
                pushed = float(full.sum()) * (n not in unread)
                self._unit("tile_load", f"load {operand.access.tensor} {self.label}", full, pushed)

    def _round_trips(self) -> float:
        """Cycles per token where a stream is repeated over another and meets it again: a FIFO between must hold what
        is on the longer way, a hop or two for every further operand, and a credit must come back."""
        machine, hops = self.machine, ROUND_TRIP_HOPS + 2 * max(0, len(self.nest.operands) - 2)
        trip = hops * machine.channel_latency_cycles + machine.response_latency_cycles
        return 1.0 if machine.fifo_depth is None else max(1.0, trip / machine.fifo_depth)

    def _crd_readers(self, q: int) -> int:
        """Units that read the coordinates of the loop at depth ``q``."""
        scope = self.reduction.shape.scope if self.reduction else self.nest.value_depth + 1
        readers = int(self.nest.value_depth < q + 1 <= self.depth)  # the reducer below counts fibers by it
        if q > self.nest.value_depth:
            return readers
        if q >= scope:
            return readers + (q == scope) + (self.nest.loops[q - 1][0] in self.nest.statement.target.indices)
        return readers + self.readers * (q > self.common)  # of what lanes have in common one lane's are read

    def _turns(self, scans: Sequence[Floats], q: int) -> Floats:
        if self.nest.statement.kind != "contract":
            return self.stream(q)
        elements = np.array(scans)
        steps = elements.sum(axis=0) - (len(scans) - 1) * self.prefixes[q]
        turns: Floats = np.maximum(steps, elements.max(axis=0)) + self.stops[q] + 1.0
        return turns

    def _compute(self) -> None:
        full, statement = self.stream(self.depth), self.nest.statement
        tokens = float(full.sum())
        conflicts = max(0.0, self.machine.bank_read_cycles / self.machine.buffer_banks - 1.0)  # if banks take turns
        read = [self.nest.operands[n] for n in statement.valued]
        for operand in read:
            if operand.stored:
                own = max((q for q, loop in enumerate(self.nest.loops, 1) if loop in operand.loops), default=0)
                bank_waits = np.maximum(0.0, (1.0 + conflicts) * self.prefixes[own] - full)  # repeats are free
                self._unit("array", f"array {operand.access.tensor} {self.label}", full + bank_waits, tokens)
        if statement.kind == "map":
            self._unit("map", f"{statement.function} {self.label}", full, tokens)
        elif len(read) > 1:
            self._unit("alu", f"alu {self.label}", full, (len(read) - 1) * tokens)

    def _reducers(self) -> None:
        for q in range(self.depth, self.nest.value_depth, -1):
            out = float(self.stream(q - 1).sum())
            self._unit("reduce", f"reduce {self.label}.{_text(self.nest.loops[q - 1])}", self.stream(q), out)

    def _accumulator(self) -> tuple[Floats, Floats, float, float]:
        """(spilling, draining, drained, pieces) as in ``Work``."""
        reduction, lanes = self.reduction, self.nest.lanes
        if reduction is None:
            still = np.zeros(lanes)
            return still, still, 0.0, float(self.prefixes[min(1, self.depth)].max())
        scopes, shape = reduction.scopes, reduction.shape
        written, drain, excess = _drains(reduction, self.machine)
        draining, whole = scopes.per_lane(excess, lanes), scopes.per_lane(drain, lanes)
        cycles = self.stream(shape.depth) + self._adding(self.prefixes[shape.depth]) + whole - draining
        self._unit("accumulate", f"accumulate {self.label}", cycles, _copies(self.readers) * self._drained_tokens())
        pieces = float(self.prefixes[shape.scope - 1].max())
        return scopes.per_lane(written, lanes), draining, float(draining.sum() / max(1.0, whole.sum())), pieces

    def _adding(self, values: Floats) -> Floats:
        """Cycles that an accumulator takes for values, beyond one each."""
        return np.zeros_like(values)

    def _drained_tokens(self) -> float:
        """Tokens of the key and value streams that leave the accumulator."""
        nest, target = self.nest, self.nest.statement.target
        assert self.reduction is not None
        granules = {i: g for i, g in nest.variables(self.reduction.shape.scope - 1).items() if i in target.indices}
        nodes, counts = float(self.prefixes[self.reduction.shape.scope - 1].sum()), [0.0]
        for index, part in nest.loops[self.reduction.shape.scope - 1 : self.reduction.shape.depth]:
            if index in target.indices:
                granules[index] = dict(nest.plan.tiles)[index] if part == "tile" else 1
                view = tuple(sorted((target.indices.index(i), g) for i, g in granules.items()))
                counts.append(nest.target.count(view) + nodes)
                nodes = nest.target.count(view)
        return sum(counts) + counts[-1]

    def _added(self, parts: Floats) -> Floats:
        """Entries of the result per lane, where lanes share a reduction once their parts are added."""
        nest, target = self.nest, self.nest.statement.target
        if not nest.partial:
            return parts
        entries = np.full(nest.lanes, nest.target.nnz / nest.lanes)
        added = nest.copies(target.indices)
        levels = sum(i in target.indices for i, _ in nest.loops) - self.common
        selected = 2.0 * float(parts.sum()) if levels > 1 else 0.0  # fibers picked by the level above
        ends = self.prefixes[self.common] / added if levels else 0.0  # of what is joined, empty groups included
        tokens = entries + ends
        streams = (1 + added) * (levels > 0) + added - 1  # coordinates and parts out of the union, sums
        self._unit("union", f"sum {self.label}", tokens * added + 1.0, selected + streams * float(tokens.sum()))
        return entries

    def _operations(self, made: float) -> tuple[float, float]:
        """(effectual multiplies, additions) over all lanes: every product but the first of a result is added."""
        nest, statement = self.nest, self.nest.statement
        operators, reached = len(nest.operands) - 1, float(self.prefixes[self.depth].sum())
        if statement.kind != "contract":
            return 0.0, operators * reached if statement.kind == "add" else 0.0
        if statement.combine != "mul":
            added = 0.0 if statement.combine == "div" else reached
            return 0.0, added + max(0.0, reached - made)
        return effectual_multiplies(self.nest), max(0.0, reached - made)


def effectual_multiplies(nest: Nest) -> float:
    """Multiplications of a product whose operands are all stored and not zero, over all lanes."""
    operators = max(0, sum(not a.pattern for a in nest.statement.operands) - 1)
    entries = [
        Leaf(o.stats if o.access.pattern else o.stats.effectual, o.access.indices, o.full_view) for o in nest.operands
    ]
    return operators * nest.counter.total(entries, dict.fromkeys(nest.extents, 1)) if operators else 0.0


def _drains(reduction: Reduction, machine: Machine) -> tuple[Floats, Floats, Floats]:
    """Cycles per scope: to write runs; to drain, runs read back; to drain beyond what the FIFOs above take in."""
    entry = machine.value_bytes + reduction.shape.keys * machine.coordinate_bytes
    moving, back = (
        reduction.spilled * (entry / min(machine.streaming_bytes_per_cycle, machine.port_bytes_per_cycle(direction)))
        for direction in ("write", "read")
    )
    latency = np.where(reduction.spilled > 0, float(machine.dram_latency_cycles), 0.0)
    drain = reduction.scopes.entries * machine.drain_cycles_per_entry + back + latency + 1.0
    slack = np.inf if machine.fifo_depth is None else float(machine.fifo_depth * SLACK_CHANNELS)
    return moving, drain, np.maximum(0.0, drain - slack)


def _copies(readers: int) -> int:
    """Pushes per token of a stream: straight to one reader, through a fork to several."""
    return readers if readers < 2 else readers + 1


def _text(loop: Loop) -> str:
    return loop[0] if loop[1] == "inner" else f"{loop[0]}.tile"
