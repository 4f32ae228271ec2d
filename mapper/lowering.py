"""Lowering: a region or a conversion of a schedule becomes a dataflow graph. Knows statements, no kernel names.

Each loop of a statement scans the operands that have it, joins them (intersection for products, union for sums)
and repeats the others. Reductions inside the last output loop become scalar reducers; what is left between the
outermost reduced loop and the innermost output loop goes through one sparse accumulator keyed by the output loops
inside that scope (FuseFlow, section 5: factored iteration). A fused edge hands the streams over as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mapper.dtypes import rounded, value_width
from mapper.graph import Graph
from mapper.graph_builder import GraphBuilder, Stream
from mapper.lanes import LaneRange, lane_ranges
from mapper.machine import Machine
from mapper.mapping import Loop, Loops, Mapping
from mapper.operands import Operand, StoredOperand, StreamOperand, Universe, loop_name
from mapper.program import ZERO_PRESERVING, Access, Statement
from mapper.regions import renaming, stream_nest
from mapper.schedule import Conversion, Region
from mapper.storage import Layout, Storage, layout_of
from mapper.tensor import SparseTensor
from mapper.workload import Workload

StorageOf = Callable[[str, Layout], Storage]
"""Gives the stored form of a tensor that exists when the step runs."""


@dataclass(frozen=True, slots=True)
class _Result:
    """Streams of a computed tensor: coordinates per level in stream order, and values."""

    crds: tuple[Stream, ...]
    val: Stream
    may_hold_empty: bool


def lower_region(
    workload: Workload, mapping: Mapping, machine: Machine, region: Region, storage_of: StorageOf
) -> Graph:
    """Graph of a region, all its lanes side by side."""
    build = GraphBuilder(machine)
    for lane, limits in enumerate(lane_ranges(workload, mapping, region.statements)):
        _RegionLowering(workload, mapping, machine, region, storage_of, build, limits, lane).run()
    return build.build()


def lower_lane(workload: Workload, mapping: Mapping, machine: Machine, region: Region) -> Graph:
    """One lane of a region over all coordinates, without data: enough to count units."""
    build = GraphBuilder(machine)
    _RegionLowering(workload, mapping, machine, region, None, build, None, 0).run()
    return build.build()


def lower_conversion(conversion: Conversion, machine: Machine, storage_of: StorageOf) -> Graph:
    """Graph of one context that reads a tensor in one layout and writes it in another."""
    build = GraphBuilder(machine)
    source, result = (storage_of(conversion.tensor, x) for x in (conversion.source, conversion.result))
    params = {
        "tensor": build.account(conversion.tensor),
        "read_value_bytes": source.value_bytes,
        "read_metadata_bytes": source.metadata_bytes,
        "write_value_bytes": result.value_bytes,
        "write_metadata_bytes": result.metadata_bytes,
    }
    if machine.dram_channels is None:
        params |= {name: 0 for name in params if name != "tensor"}
    build.add("convert", f"convert {conversion.tensor}", outputs=0, params=params)
    return build.build()


def collect_output(
    workload: Workload, mapping: Mapping, statement: int, parts: list[tuple[np.ndarray, np.ndarray]]
) -> SparseTensor:
    """The tensor that the ``store`` contexts of a statement's lanes wrote: (coords[levels, n], values[n]) each;
    values are rounded to the type in which the tensor is stored."""
    target = workload.program.statements[statement].target
    loops = mapping.loops[statement]
    shape = workload.shape(target, statement)
    nest, tiles = stream_nest(workload.program, statement, loops), dict(loops.tiles)
    levels = np.concatenate([crds.reshape(len(nest), values.size) for crds, values in parts], axis=1)
    coords = np.zeros((len(shape), levels.shape[1]), np.int64)
    for (index, part), column in zip(nest, levels, strict=True):
        coords[target.indices.index(index)] += column * (tiles[index] if part == "tile" else 1)
    values = rounded(np.concatenate([values for _, values in parts]), mapping.dtype(target.tensor))
    return SparseTensor.from_coo(shape, coords, values)


class _RegionLowering:
    """One lane of one region."""

    def __init__(
        self, workload: Workload, mapping: Mapping, machine: Machine, region: Region,
        storage_of: StorageOf | None, build: GraphBuilder, limits: LaneRange | None, lane: int,
    ) -> None:  # fmt: skip
        self._workload, self._mapping, self._machine, self._region = workload, mapping, machine, region
        self._storage_of, self._build, self._limits = storage_of, build, limits
        self._suffix = f"@{lane}" if limits else ""
        self._results: dict[int, _Result] = {}

    def run(self) -> None:
        stored = dict(self._region.stored)
        for number in self._region.statements:
            statement = self._workload.program.statements[number]
            result = self._statement(number, statement)
            if statement.target.tensor in stored:
                self._store(number, statement.target, stored[statement.target.tensor], result)
            self._results[number] = self._without_empty(statement, result)

    def _statement(self, number: int, statement: Statement) -> _Result:
        loops = self._mapping.loops[number]
        lane = self._lane(loops)
        operands = [self._operand(number, n, access, loops, lane) for n, access in enumerate(statement.operands)]
        everywhere: list[Operand] = [*operands, *self._universes(number, statement, loops, lane)]
        crds = self._iterate(number, statement, loops.nest, everywhere)
        val = self._compute(number, statement, [o.value(self._build) for o in operands])
        return self._reduce(number, statement, loops, crds, val)

    def _lane(self, loops: Loops) -> tuple[Loop, int, int] | None:
        if self._limits is None or loops.parallel is None:
            return None
        index = loops.parallel[0]
        return (index, "tile" if index in dict(loops.tiles) else "inner"), *self._limits

    def _operand(
        self, number: int, n: int, access: Access, loops: Loops, lane: tuple[Loop, int, int] | None
    ) -> StoredOperand | StreamOperand:
        for position in self._region.fused:
            edge = self._workload.program.edges[position]
            if (edge.consumer, edge.operand) == (number, n):
                names = renaming(self._workload.program, edge)
                made = stream_nest(self._workload.program, edge.producer, self._mapping.loops[edge.producer])
                result = self._results[edge.producer]
                return StreamOperand(
                    f"{access.tensor} in S{number}{self._suffix}",
                    tuple((names[i], part) for i, part in made), result.crds, result.val,
                )  # fmt: skip
        kinds, dtype = self._mapping.kinds(access.tensor), self._mapping.dtype(access.tensor)
        layout = layout_of(access, loops, kinds, dtype)
        storage = None if self._storage_of is None else self._storage_of(access.tensor, layout)
        own = tuple(loop for loop in loops.nest if loop[0] in access.indices)
        twin = (
            f".{n}"
            if [a.tensor for a in self._workload.program.statements[number].operands].count(access.tensor) > 1
            else ""
        )
        name = f"{access.tensor}{twin} in S{number}{self._suffix}"
        return StoredOperand(
            self._build, self._machine, name, access.tensor, own, storage, self._mapping.residency, lane
        )

    def _universes(
        self, number: int, statement: Statement, loops: Loops, lane: tuple[Loop, int, int] | None
    ) -> list[Universe]:
        if statement.kind == "add":
            missing = [i for i in statement.indices if any(i not in a.indices for a in statement.operands)]
        elif statement.kind == "map" and statement.function not in ZERO_PRESERVING:
            missing = list(statement.indices)
        else:
            missing = []
        extents, tiles = self._workload.extents[number], dict(loops.tiles)
        return [
            Universe(self._build, f"all {i} in S{number}{self._suffix}", own, extents[i], tiles.get(i, 0), lane)
            for i in missing
            for own in [tuple(loop for loop in loops.nest if loop[0] == i)]
        ]

    def _iterate(
        self, number: int, statement: Statement, nest: tuple[Loop, ...], operands: list[Operand]
    ) -> dict[Loop, Stream]:
        join = "intersect" if statement.kind == "contract" else "union"
        crds = {}
        for loop in nest:
            label = f"S{number}.{loop_name(loop)}{self._suffix}"
            present = [o for o in operands if loop in o.loops]
            joined = len(present) > 1
            scans = [o.scan(self._build, loop, joined) for o in present]
            crd, payloads = scans[0][0], [ref for _, ref in scans]
            if joined:
                reads = [*(c for c, _ in scans), *payloads]
                crd, *payloads = self._build.add(join, f"{join} {label}", reads, len(present) + 1)
            crds[loop] = crd
            for operand, payload in zip(present, payloads, strict=True):
                operand.accept(self._build, loop, payload, joined)
            absent = [o for o in operands if loop not in o.loops and o.needed_after(loop, nest)]
            if absent:
                (signal,) = self._build.add("repeat_signal", f"signal {label}", [payloads[0]])
                for n, operand in enumerate(absent):
                    (operand.ref,) = self._build.add("repeat", f"repeat {label}.{n}", [operand.ref, signal])
        return crds

    def _compute(self, number: int, statement: Statement, values: list[Stream]) -> Stream:
        label = f"S{number}{self._suffix}"
        if statement.kind == "map":
            params = {"op": statement.function, "factor": statement.factor}
            return self._build.add("map", f"{statement.function} {label}", values, 1, params)[0]
        result = values[0]
        signs = statement.signs or (1,) * len(values)
        if signs[0] < 0:
            (result,) = self._build.add("map", f"neg {label}", [result], 1, {"op": "neg"})
        for n, (value, sign) in enumerate(zip(values[1:], signs[1:], strict=True), 1):
            op = "mul" if statement.kind == "contract" else "add" if sign > 0 else "sub"
            (result,) = self._build.add("alu", f"{op} {label}.{n}", [result, value], 1, {"op": op})
        return result

    def _reduce(
        self, number: int, statement: Statement, loops: Loops, crds: dict[Loop, Stream], val: Stream
    ) -> _Result:
        kept = set(statement.target.indices)
        nest, empty = list(loops.nest), False
        while nest and nest[-1][0] not in kept:
            loop, empty = nest.pop(), True
            reads = [val, crds[nest[-1]]] if nest else [val]
            name = f"reduce S{number}.{loop_name(loop)}{self._suffix}"
            (val,) = self._build.add("reduce", name, reads, 1, {"op": "sum", "empty": "empty"})
        scope = next((n for n, loop in enumerate(nest) if loop[0] not in kept), None)
        if scope is None:
            return _Result(tuple(crds[loop] for loop in nest), val, empty)
        keys = [loop for loop in nest[scope:] if loop[0] in kept]
        reads = [crds[nest[scope]], *(crds[k] for k in keys), val]
        params = self._accumulator(number, statement, loops, nest[scope:], keys)
        name = f"accumulate S{number}.{loop_name(nest[scope])}{self._suffix}"
        *drained, val = self._build.add("accumulate", name, reads, len(keys) + 1, params)
        return _Result((*(crds[loop] for loop in nest[:scope]), *drained), val, False)

    def _accumulator(
        self, number: int, statement: Statement, loops: Loops, inside: list[Loop], keys: list[Loop]
    ) -> dict[str, int | tuple[int, ...]]:
        machine, memory = self._machine, self._machine.dram_channels is not None
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

    def _store(self, number: int, target: Access, layout: Layout, result: _Result) -> None:
        machine, memory = self._machine, self._machine.dram_channels is not None
        shape = self._workload.shape(target, number)
        tiles = [(layout.tiles[m] if layout.tiles else 0) or shape[m] for m in range(len(shape))]
        params = {
            "tensor": self._build.account(target.tensor),
            "tile_levels": len(layout.tile_modes),
            "kinds": layout.kinds,
            "dims": tuple(shape[m] for m in layout.modes),
            "tiles": tuple(tiles[m] for m in layout.modes),
            "tile_level_of": tuple(layout.tile_modes.index(m) if m in layout.tile_modes else -1 for m in layout.modes),
            "value_bytes": value_width(layout.dtype, machine.value_bytes) if memory else 0,
            "coordinate_bytes": machine.coordinate_bytes if memory else 0,
            "pointer_bytes": machine.pointer_bytes if memory else 0,
            "descriptor_bytes": machine.descriptor_bytes if memory else 0,
        }
        self._build.add("store", f"store {target.tensor}{self._suffix}", [*result.crds, result.val], 0, params)

    def _without_empty(self, statement: Statement, result: _Result) -> _Result:
        """Fused readers must not see coordinates whose reduction was empty."""
        fused = any(self._workload.program.edges[n].tensor == statement.target.tensor for n in self._region.fused)
        if not (fused and result.may_hold_empty and result.crds):
            return result
        name = f"drop {statement.target.tensor}{self._suffix}"
        crd, val = self._build.add("drop_empty", name, [result.crds[-1], result.val], 2)
        return _Result((*result.crds[:-1], crd), val, False)
