"""RegionLowering: the contexts of a region, statement by statement, lane by lane.

Each loop of a statement scans the operands that have it, joins them (intersection for products, union for sums)
and repeats the others. Reductions inside the last output loop become scalar reducers; what is left between the
outermost reduced loop and the innermost output loop goes through one sparse accumulator keyed by the output loops
inside that scope (FuseFlow, section 5: factored iteration). A fused edge hands the streams over as they are. Lanes are
copies of all this, each over its slice of the coordinates; where they share a reduction, their results are added.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mapper.blocks import Grid
from mapper.dtypes import value_width
from mapper.formats import BITMASK, COMPRESSED
from mapper.graph_builder import GraphBuilder, Stream
from mapper.lanes import Slice, common_levels
from mapper.locating import located
from mapper.machine import Machine
from mapper.mapping import Loop, Loops, Mapping
from mapper.operands import LaneSlices, Operand, StoredOperand, StreamOperand, loop_name
from mapper.program import MOST_JOINED, Access, Statement
from mapper.regions import renaming, stream_nest
from mapper.schedule import Region
from mapper.storage import Layout, Storage, layout_of
from mapper.universe import Universe, universes
from mapper.workload import Workload

StorageOf = Callable[[str, Layout], Storage]
"""Gives the stored form of a tensor that exists when the step runs."""


@dataclass(frozen=True, slots=True)
class Result:
    """Streams of a computed tensor: coordinates per level in stream order, and values."""

    crds: tuple[Stream, ...]
    val: Stream
    may_hold_empty: bool


Lanes = tuple[int, ...]
"""Number of the lane along each parallel index."""


class RegionLowering:
    """All lanes of one region."""

    def __init__(
        self, workload: Workload | Grid, mapping: Mapping, machine: Machine, region: Region,
        storage_of: StorageOf | None, build: GraphBuilder, slices: dict[int, tuple[tuple[Slice, ...], ...]],
    ) -> None:  # fmt: skip
        self._workload, self._mapping, self._machine, self._region = workload, mapping, machine, region
        self._storage_of, self._build, self._slices, self._sums = storage_of, build, slices, machine
        self._results: dict[tuple[int, Lanes], Result] = {}

    def run(self) -> None:
        stored = dict(self._region.stored)
        for number in self._region.statements:
            statement = self._workload.program.statements[number]
            loops = self._mapping.loops[number]
            kept = [n for n, (index, _, _) in enumerate(loops.parallel) if index in statement.target.indices]
            parts: dict[Lanes, list[Result]] = {}
            for lanes in itertools.product(*(range(count) for _, count, _ in loops.parallel)):
                result = self._statement(number, statement, lanes)
                parts.setdefault(tuple(lanes[n] for n in kept), []).append(result)
            for lanes, results in parts.items():
                suffix = _suffix(lanes, [loops.parallel[n][1] for n in kept])
                result = results[0] if len(results) == 1 else self._added(number, statement, loops, results, suffix)
                if statement.target.tensor in stored:
                    self._store(number, statement.target, stored[statement.target.tensor], result, suffix)
                self._results[number, lanes] = self._without_empty(statement, result, suffix)

    def lane_units(self, number: int) -> Counter[str]:
        """Contexts of one lane of a statement, its streams from nowhere."""
        lanes = (0,) * len(self._mapping.loops[number].parallel)
        for edge in self._region.fused:
            if edge.consumer == number:
                self._results[edge.producer, lanes] = self._nowhere(edge.producer)
        self._statement(number, self._workload.program.statements[number], lanes)
        return self._build.kinds()

    def sum_units(self, number: int, parts: int) -> Counter[str]:
        """Contexts that add so many partial results of a statement."""
        statement, loops = self._workload.program.statements[number], self._mapping.loops[number]
        self._added(number, statement, loops, [self._nowhere(number)] * parts, "")
        return self._build.kinds()

    def _nowhere(self, number: int) -> Result:
        """The result of a statement, as streams of a unit that counts for nothing."""
        nest = stream_nest(self._workload.program, number, self._mapping.loops[number])
        *crds, val = self._build.add("source", "nowhere", outputs=len(nest) + 1)
        return Result(tuple(crds), val, False)

    def _statement(self, number: int, statement: Statement, lanes: Lanes) -> Result:
        loops = self._mapping.loops[number]
        suffix = _suffix(lanes, [count for _, count, _ in loops.parallel])
        slices = self._lane_slices(number, loops, lanes)
        operands = [
            self._operand(number, n, access, loops, lanes, slices, suffix)
            for n, access in enumerate(statement.operands)
        ]
        every = universes(self._build, self._workload, number, operands, loops, slices, suffix)
        join = "intersect" if statement.kind == "contract" else "union"
        found = self._located(number, operands)
        crds = self._iterate(f"S{number}", join, loops.nest, [*operands, *every], suffix, found)
        val = self._compute(number, statement, operands, suffix)
        return self._reduce(number, statement, loops, crds, val, suffix)

    def _located(
        self, number: int, operands: Sequence[StoredOperand | StreamOperand]
    ) -> dict[Loop, list[StoredOperand]]:
        """The operands whose dense level is located, per loop."""
        if self._mapping.joins != "locate":
            return {}
        statement, loops = self._workload.program.statements[number], self._mapping.loops[number]
        stored = zip(operands, statement.operands, strict=True)
        kinds = [self._mapping.kinds(a.tensor) if isinstance(o, StoredOperand) else None for o, a in stored]
        return {
            loop: [o for n, o in enumerate(operands) if n in found and isinstance(o, StoredOperand)]
            for loop in loops.nest
            for found in [located(statement, loops, kinds, loop)]
        }

    def _lane_slices(self, number: int, loops: Loops, lanes: Lanes) -> LaneSlices:
        """The slice of each loop that this lane restricts."""
        if number not in self._slices:
            return {}
        tiled = dict(loops.tiles)
        return {
            (index, "tile" if index in tiled else "inner"): slices[lane]
            for (index, _, _), slices, lane in zip(loops.parallel, self._slices[number], lanes, strict=True)
        }

    def _operand(
        self, number: int, n: int, access: Access, loops: Loops, lanes: Lanes, slices: LaneSlices, suffix: str
    ) -> StoredOperand | StreamOperand:
        program = self._workload.program
        for edge in self._region.fused:
            if (edge.consumer, edge.operand) == (number, n):
                names = renaming(program, edge)
                made = stream_nest(program, edge.producer, self._mapping.loops[edge.producer])
                result, name = self._results[edge.producer, lanes], f"{access.tensor} in S{number}{suffix}"
                val = result.val
                if access.pattern and n in program.statements[number].valued:  # a union would add what is not stored
                    (val,) = self._build.add("map", f"ones {name}", [val], 1, {"op": "one"})
                return StreamOperand(name, tuple((names[i], part) for i, part in made), result.crds, val)
        kinds, dtype = self._mapping.kinds(access.tensor), self._mapping.dtype(access.tensor)
        layout = layout_of(access, loops, kinds, dtype)
        storage = None if self._storage_of is None else self._storage_of(access.tensor, layout)
        own = tuple(loop for loop in loops.nest if loop[0] in access.indices)
        twins = [a.tensor for a in program.statements[number].operands].count(access.tensor) > 1
        name = f"{access.tensor}{f'.{n}' if twins else ''} in S{number}{suffix}"
        return StoredOperand(
            self._build, self._machine, name, program.stored_as(access.tensor), own, storage,
            self._mapping.residency, slices, access.pattern,
        )  # fmt: skip

    def _added(self, number: int, statement: Statement, loops: Loops, results: list[Result], suffix: str) -> Result:
        """The sum of the partial results of lanes that share a reduction. What all have in common is taken from the
        first, so that only the levels below, empty where a lane has nothing, wait for each other."""
        nest = stream_nest(self._workload.program, number, loops)
        common = common_levels(self._workload.program, self._mapping.loops, self._region.fused, number)
        parts = [self._without_empty(statement, r, f"{suffix}.{n}", fused=True) for n, r in enumerate(results)]
        operands = [
            StreamOperand(f"{statement.target.tensor} part {n}{suffix}", nest, part.crds, part.val)
            for n, part in enumerate(parts)
        ]
        crds = self._iterate(f"sum S{number}", "union", nest[common:], operands, suffix)
        val = operands[0].value(self._build)
        for n, operand in enumerate(operands[1:], 1):
            name = f"sum S{number}{suffix}.{n}"
            (val,) = self._build.add("alu", name, [val, operand.value(self._build)], 1, {"op": "add"})
        levels = (*parts[0].crds[:common], *(crds[loop] for loop in nest[common:]))
        return Result(levels, val, False)

    def _iterate(
        self, name: str, join: str, nest: tuple[Loop, ...], operands: Sequence[Operand], suffix: str,
        located: dict[Loop, list[StoredOperand]] | None = None,
    ) -> dict[Loop, Stream]:  # fmt: skip
        crds = {}
        for loop in nest:
            label = f"{name}.{loop_name(loop)}{suffix}"
            found = (located or {}).get(loop, [])
            present = [o for o in operands if loop in o.loops and o not in found]
            behind = [o for o in present if isinstance(o, Universe) and o.follows(loop)]
            present = [*(o for o in present if o not in behind), *behind]
            joined = len(present) > 1
            scans = [o.scan(self._build, loop, joined) for o in present]
            crd, payloads = scans[0][0], [ref for _, ref in scans]
            if joined:
                crd, payloads = self._join(join, label, scans)
            crds[loop] = crd
            for operand, payload in zip(present, payloads, strict=True):
                operand.accept(self._build, loop, payload, joined)
            absent = [o for o in operands if loop not in o.loops and o.needed_after(loop, nest)]
            if absent or found:
                (signal,) = self._build.add("repeat_signal", f"signal {label}", [payloads[0]])
                for n, operand in enumerate([*absent, *found]):
                    if operand in found:
                        operand.open(self._build, loop)
                    (operand.ref,) = self._build.add("repeat", f"repeat {label}.{n}", [operand.ref, signal])
            for operand in found:
                operand.locate(self._build, loop, crd)
        return crds

    def _join(self, join: str, label: str, scans: list[tuple[Stream, Stream]]) -> tuple[Stream, list[Stream]]:
        """Coordinates and payloads of a join. Universes that follow operands come last and add no coordinates: those
        for which it has no side left meet what comes out of it, one by one."""
        first, others = scans[:MOST_JOINED], scans[MOST_JOINED:]
        reads = [*(crd for crd, _ in first), *(ref for _, ref in first)]
        crd, *payloads = self._build.add(join, f"{join} {label}", reads, len(first) + 1)
        for n, (own, ref) in enumerate(others):
            reads = [crd, own, payloads[0], ref]
            payloads.append(self._build.add("union", f"union {label}.{n}", reads, 3)[2])
        return crd, payloads

    def _compute(
        self, number: int, statement: Statement, operands: Sequence[StoredOperand | StreamOperand], suffix: str
    ) -> Stream:
        label = f"S{number}{suffix}"
        if statement.kind == "map":
            op = {"stored_exp": "exp"}.get(statement.function, statement.function)
            params = {"op": op, "factor": statement.factor}
            reads = [operands[0].value(self._build)]
            return self._build.add("map", f"{statement.function} {label}", reads, 1, params)[0]
        values = [operands[n].value(self._build) for n in statement.valued]
        result = values[0]
        signs = statement.signs or (1,) * len(values)
        if signs[0] < 0:
            (result,) = self._build.add("map", f"neg {label}", [result], 1, {"op": "neg"})
        for n, (value, sign) in enumerate(zip(values[1:], signs[1 : len(values)], strict=True), 1):
            op = statement.combine if statement.kind == "contract" else "add" if sign > 0 else "sub"
            (result,) = self._build.add("alu", f"{op} {label}.{n}", [result, value], 1, {"op": op})
        return result

    def _reduce(
        self, number: int, statement: Statement, loops: Loops, crds: dict[Loop, Stream], val: Stream, suffix: str
    ) -> Result:
        kept = set(statement.target.indices)
        op = "max" if statement.reduction == "max" else "sum"
        nest, empty = list(loops.nest), statement.function == "sparse_relu"
        while nest and nest[-1][0] not in kept:
            loop, empty = nest.pop(), True
            reads = [val, crds[nest[-1]]] if nest else [val]
            name = f"reduce S{number}.{loop_name(loop)}{suffix}"
            (val,) = self._build.add("reduce", name, reads, 1, {"op": op, "empty": "empty"})
        scope = next((n for n, loop in enumerate(nest) if loop[0] not in kept), None)
        levels = [crds[loop] for loop in nest]
        if scope is not None:
            keys = [loop for loop in nest[scope:] if loop[0] in kept]
            reads = [crds[nest[scope]], *(crds[k] for k in keys), val]
            params = self._accumulator(number, statement, loops, nest[scope:], keys) | {"op": op}
            name = f"accumulate S{number}.{loop_name(nest[scope])}{suffix}"
            *drained, val = self._build.add("accumulate", name, reads, len(keys) + 1, params)
            levels, empty = [*levels[:scope], *drained], False
        if statement.reduction == "mean":
            extents = self._workload.extents[number]
            params = {"op": "scale", "factor": 1.0 / math.prod(extents[i] for i in statement.reduced)}
            if empty and levels:
                result = self._without_empty(statement, Result(tuple(levels), val, True), f"{suffix}.mean", fused=True)
                levels, val, empty = list(result.crds), result.val, False
            (val,) = self._build.add("map", f"mean S{number}{suffix}", [val], 1, params)
        return Result(tuple(levels), val, empty)

    def _accumulator(
        self, number: int, statement: Statement, loops: Loops, inside: list[Loop], keys: list[Loop]
    ) -> dict[str, Any]:
        machine, memory = self._sums, self._machine.dram_channels is not None
        metadata = machine.coordinate_bytes * len({index for index, _ in keys})  # tile and inner make one coordinate
        capacity = (machine.accumulator_bytes or 0) // (machine.value_bytes + metadata) if memory else 0
        return {
            "depth": len(inside),
            "levels": tuple(n for n, loop in enumerate(inside, 1) if loop in keys),
            "sizes": tuple(self._loop_extent(number, loops, key) for key in keys),
            "drain_cycles_per_entry": machine.drain_cycles_per_entry,
            "capacity_entries": capacity,
            "entry_value_bytes": machine.value_bytes,
            "entry_metadata_bytes": metadata,
            "tensor": self._build.account(statement.target.tensor),
        }

    def _loop_extent(self, number: int, loops: Loops, loop: Loop) -> int:
        extent, tile = self._workload.extents[number][loop[0]], dict(loops.tiles).get(loop[0], 0)
        if not tile:
            return extent
        return -(-extent // tile) if loop[1] == "tile" else tile

    def _store(self, number: int, target: Access, layout: Layout, result: Result, suffix: str) -> None:
        params = self._store_params(self._workload.shape(target, number), target, layout)
        self._build.add("store", f"store {target.tensor}{suffix}", [*result.crds, result.val], 0, params)

    def _store_params(self, shape: tuple[int, ...], target: Access, layout: Layout) -> dict[str, Any]:
        """Parameters of what stores a result of this shape."""
        machine, memory = self._machine, self._machine.dram_channels is not None
        tiles = [(layout.tiles[m] if layout.tiles else 0) or shape[m] for m in range(len(shape))]
        return {
            "tensor": self._build.account(target.tensor),
            "tile_levels": len(layout.tile_modes),
            # Without memory nothing has bytes; the bits of a mask have no width that says so.
            "kinds": tuple(COMPRESSED if k == BITMASK and not memory else k for k in layout.kinds),
            "dims": tuple(shape[m] for m in layout.modes),
            "tiles": tuple(tiles[m] for m in layout.modes),
            "tile_level_of": tuple(layout.tile_modes.index(m) if m in layout.tile_modes else -1 for m in layout.modes),
            "value_bytes": value_width(layout.dtype, machine.value_bytes) if memory else 0,
            "coordinate_bytes": machine.coordinate_bytes if memory else 0,
            "pointer_bytes": machine.pointer_bytes if memory else 0,
            "descriptor_bytes": machine.descriptor_bytes if memory else 0,
        }

    def _without_empty(self, statement: Statement, result: Result, suffix: str, fused: bool | None = None) -> Result:
        """Readers of a stream must not see coordinates whose reduction was empty."""
        if fused is None:
            fused = any(edge.tensor == statement.target.tensor for edge in self._region.fused)
        if not (fused and result.may_hold_empty and result.crds):
            return result
        name = f"drop {statement.target.tensor}{suffix}"
        crd, val = self._build.add("drop_empty", name, [result.crds[-1], result.val], 2)
        return Result((*result.crds[:-1], crd), val, False)


def _suffix(lanes: Lanes, counts: Sequence[int]) -> str:
    """``@n``: which copy of a unit a lane has."""
    number = 0
    for lane, count in zip(lanes, counts, strict=True):
        number = number * count + lane
    return f"@{number}" if lanes else ""
