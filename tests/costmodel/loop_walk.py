"""The slow oracle: walks a statement's loops coordinate by coordinate, as its dataflow graph would, and notes what the
cost model predicts: prefixes, scanned elements, tile visits, accumulated keys."""

from __future__ import annotations

import itertools
from collections import Counter, OrderedDict
from dataclasses import dataclass, field

import numpy as np

from mapper.formats import DENSE
from mapper.lanes import Slice, lane_slices
from mapper.machine import Machine
from mapper.mapping import Loop, Mapping
from mapper.program import ZERO_PRESERVING, Access
from mapper.residency import streaming_bytes
from mapper.storage import layout_of, store_tensor
from mapper.workload import Workload

Prefix = tuple[int, ...]


@dataclass
class Walked:
    """Counts of one lane: prefixes per depth, elements scanned per (operand, depth), tiles visited in order per
    operand, and the output keys (one coordinate per loop of the result) of every product in order."""

    prefixes: Counter[int] = field(default_factory=Counter)
    scanned: Counter[tuple[int, int]] = field(default_factory=Counter)
    visits: dict[int, list[Prefix]] = field(default_factory=dict)
    products: list[Prefix] = field(default_factory=list)


class StoredOperand:
    """Node sets of an operand: ``children[prefix of its own levels]`` are the coordinates stored below."""

    def __init__(self, workload: Workload, mapping: Mapping, number: int, access: Access) -> None:
        loops, tensor = mapping.loops[number], workload.tensor(access.tensor)
        self.levels = tuple(loop for loop in loops.nest if loop[0] in access.indices)
        tiled, mode = dict(loops.tiles), {i: m for m, i in enumerate(access.indices)}
        inner = [i for i, part in self.levels if part == "inner"]
        kinds = dict(zip(inner, mapping.kinds(access.tensor), strict=True))
        columns = []
        for index, part in self.levels:
            crd = tensor.coords[mode[index]]
            size = tiled.get(index, 0)
            columns.append(crd // size if part == "tile" else crd % size if size else crd)
        rows = list(zip(*(c.tolist() for c in columns), strict=True)) if columns else [()]
        self.children: dict[Prefix, list[int]] = {}
        nodes: set[Prefix] = {()}
        for depth, (index, part) in enumerate(self.levels):
            found: set[Prefix] = set()
            if part == "inner" and kinds[index] == DENSE:
                for node in nodes:
                    extent = tensor.shape[mode[index]]
                    if index in tiled:
                        at = node[self.levels.index((index, "tile"))] * tiled[index]
                        extent = min(tiled[index], extent - at)
                    found |= {(*node, c) for c in range(extent)}
            else:
                found = {row[: depth + 1] for row in rows}
            for node in sorted(found):
                self.children.setdefault(node[:-1], []).append(node[-1])
            nodes = found


Lane = dict[Loop, Slice]
"""The loops that a lane restricts."""


def walk(workload: Workload, mapping: Mapping, number: int, lane: Lane | None = None) -> Walked:
    """Walks statement ``number``, all of whose operands are stored, in one lane."""
    return _Walk(workload, mapping, number, lane).run()


def walk_lanes(workload: Workload, mapping: Mapping, number: int) -> list[Walked]:
    """One walk per lane."""
    loops = mapping.loops[number]
    tiled = dict(loops.tiles)
    outermost = [(i, "tile" if i in tiled else "inner") for i, _, _ in loops.parallel]
    slices = lane_slices(workload, mapping, (number,))[number]
    lanes = (dict(zip(outermost, chosen, strict=True)) for chosen in itertools.product(*slices))
    return [walk(workload, mapping, number, lane) for lane in lanes]


class _Walk:
    def __init__(self, workload: Workload, mapping: Mapping, number: int, lane: Lane | None) -> None:
        self.statement, self.plan = workload.program.statements[number], mapping.loops[number]
        self.nest, self.extents, self.lane = self.plan.nest, workload.extents[number], lane
        self.operands = [StoredOperand(workload, mapping, number, a) for a in self.statement.operands]
        self.late = mapping.residency == "overbooked"  # a visit is the begin of a walk, not the arrival at a tile
        self.found = Walked(visits={n: [] for n in range(len(self.operands))})
        held = [a.indices for a in self.statement.operands]
        if self.statement.kind == "add":
            self.universal = {i for i in self.statement.indices if not all(i in h for h in held)}
        else:
            dense = self.statement.kind == "map" and self.statement.function not in ZERO_PRESERVING
            self.universal = set(self.statement.indices) if dense else set()

    def run(self) -> Walked:
        for n, operand in enumerate(self.operands):
            if not operand.levels or (not self.late and not any(part == "tile" for _, part in operand.levels)):
                self.found.visits[n].append(())
        self._descend(0, {}, [() for _ in self.operands])
        return self.found

    def _descend(self, depth: int, at: dict[Loop, int], nodes: list[Prefix | None]) -> None:
        if depth == len(self.nest):
            kept = self.statement.target.indices
            self.found.products.append(tuple(at[loop] for loop in self.nest if loop[0] in kept))
            return
        loop = self.nest[depth]
        sides: dict[int, set[int]] = {}
        for n, operand in enumerate(self.operands):
            if loop in operand.levels:
                node = nodes[n]
                first = next(x for x in operand.levels if x[1] == "inner")
                if self.late and loop == first and node is not None:
                    self.found.visits[n].append(node)
                below = operand.children.get(node, []) if node is not None else []
                sides[n] = {c for c in below if self._in_lane(loop, c)}
                self.found.scanned[n, depth + 1] += len(sides[n])
        if self.statement.kind == "contract":
            joined = set.intersection(*sides.values())
        else:
            joined = set().union(*sides.values())
            lacking = [n for n, o in enumerate(self.operands) if all(i != loop[0] for i, _ in o.levels)]
            if loop[0] in self.universal and (not lacking or any(nodes[n] is not None for n in lacking)):
                joined |= {c for c in range(self._extent(loop, at)) if self._in_lane(loop, c)}
        for c in sorted(joined):
            self.found.prefixes[depth + 1] += 1
            fresh = list(nodes)
            for n, side in sides.items():
                fresh[n] = (*nodes[n], c) if c in side else None  # type: ignore[misc]
                tiles = [x for x in self.operands[n].levels if x[1] == "tile"]
                if c in side and tiles and loop == tiles[-1] and not self.late:
                    self.found.visits[n].append(fresh[n] or ())
            self._descend(depth + 1, {**at, loop: c}, fresh)

    def _in_lane(self, loop: Loop, c: int) -> bool:
        own = (self.lane or {}).get(loop)
        return own is None or (own.lo <= c < own.hi and c % own.step == own.phase)

    def _extent(self, loop: Loop, at: dict[Loop, int]) -> int:
        extent, tile = self.extents[loop[0]], dict(self.plan.tiles).get(loop[0], 0)
        if not tile:
            return extent
        return -(-extent // tile) if loop[1] == "tile" else min(tile, extent - at[loop[0], "tile"] * tile)


def tile_bytes(
    workload: Workload, mapping: Mapping, number: int, n: int, machine: Machine
) -> dict[Prefix, tuple[int, int]]:
    """(value bytes, metadata bytes) of every tile of operand ``n``, by tile coordinates in loop order."""
    access = workload.program.statements[number].operands[n]
    layout = layout_of(access, mapping.loops[number], mapping.kinds(access.tensor), mapping.dtype(access.tensor))
    tensor = workload.tensor(access.tensor)
    storage = store_tensor(tensor, layout, machine)
    coords = [tensor.coords[m] // layout.tiles[m] for m in layout.tile_modes]
    tiles = sorted(set(zip(*(c.tolist() for c in coords), strict=True))) if coords else [()]
    sizes = zip(storage.tile_value_bytes.tolist(), storage.tile_metadata_bytes.tolist(), strict=True)
    return dict(zip(tiles, sizes, strict=True))


def fetched(
    visits: list[Prefix], sizes: dict[Prefix, tuple[int, int]], mapping: Mapping, machine: Machine
) -> np.ndarray:
    """(value bytes, metadata bytes) that a lane's tile buffer loads for a sequence of visits."""
    total, policy = np.zeros(2), mapping.residency
    room = np.inf if machine.buffer_bytes is None else machine.buffer_bytes
    held: OrderedDict[Prefix, float] = OrderedDict()
    for tile in visits:
        values, metadata = sizes[tile]
        size, larger = values + metadata, values + metadata > room
        if tile in held and policy == "overbooked" and larger:
            tail = size - (room - streaming_bytes(machine))
            total += min(values, tail), tail - min(values, tail)
        elif tile not in held:
            total += values, metadata
        if policy == "keep" and tile not in held and sum(held.values()) + size <= room:
            held[tile] = size
        if policy in ("lru", "overbooked"):
            held[tile] = room if policy == "overbooked" and larger else size
            held.move_to_end(tile)
            while sum(held.values()) > room:
                held.popitem(last=False)
    return total


def spilled(walked: Walked, workload: Workload, mapping: Mapping, number: int, capacity: int) -> int:
    """Entries that the accumulator of a statement writes in full runs, in one lane."""
    kept, nest = workload.program.statements[number].target.indices, mapping.loops[number].nest
    depth = max(q for q, (i, _) in enumerate(nest, 1) if i in kept)
    scope = next(q for q, (i, _) in enumerate(nest, 1) if i not in kept)
    assert scope < depth
    outside = sum(i in kept for i, _ in nest[: scope - 1])
    total, run, previous = 0, set(), None
    for key in walked.products:
        if previous is not None and key[:outside] != previous[:outside]:
            run = set()
        if key not in run:
            if len(run) == capacity:
                total, run = total + capacity, set()
            run.add(key)
        previous = key
    return total
