"""Exact traffic of a mapping, counted by walking its tiles: the slow oracle beside ``predict_traffic``.

Independent of the predicting code: stored levels are walked (``costmodel.walk``), visits run through a buffer and
products through an accumulator one by one. The token simulator counts the same bytes (``docs/simulator.md``); this
takes a small part of its time. Walks stop where nothing more is to be counted: below the last tile load where results
are known (no operand padded) and no accumulator can overflow.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from costmodel.exact_buffer import fetched_bytes
from costmodel.traffic import TensorTraffic, summed
from costmodel.walk import Ints, Level, Nest, Products, Side, levels_of, stream_levels, walk
from mapper.blocks import block_plan, grid_storage, in_elements
from mapper.formats import COMPRESSED
from mapper.lanes import Slice, lane_slices
from mapper.machine import Machine
from mapper.mapping import Loop, Mapping
from mapper.residency import OVERBOOKED
from mapper.schedule import Conversion, Region, schedule
from mapper.storage import Layout, Storage, layout_of, store_tensor
from mapper.tensor import SparseTensor
from mapper.windows import in_place
from mapper.workload import Workload

Stored = Callable[[SparseTensor, Layout], Storage]
"""Gives a stored form of a tensor; callers that count many mappings remember them."""

Part = tuple[Slice, ...]
"""What a lane holds of a result: its slices of the parallel indices that the result has."""

Passed = dict[tuple[str, Part], list[Ints]]
"""Prefixes of results that are read as streams, part by part: a reader's lane sees those of its own part alone."""


def count_traffic(
    workload: Workload, mapping: Mapping, machine: Machine, stored: Stored | None = None
) -> tuple[TensorTraffic, ...]:
    """Traffic of a legal mapping, summed per (tensor, purpose, direction); nothing on a machine without DRAM."""
    if machine.dram_channels is None:
        return ()
    workload = workload.variant(mapping.variant)
    store = stored or (lambda tensor, layout: store_tensor(tensor, layout, machine))
    patterns: dict[str, SparseTensor] = {}  # of results with more entries than the oracle's
    passed = Passed()
    views: dict[str, Conversion] = {}  # windows that are read in place
    found: list[TensorTraffic] = []
    for step in schedule(workload.program, mapping).steps:
        if isinstance(step, Region):
            for number in step.statements:
                found += _Statement(workload, mapping, machine, step, number, store, patterns, passed, views).run()
        elif step.in_place:
            views[step.made] = step
        else:
            for way, name, layout in (("read", step.tensor, step.source), ("write", step.made, step.result)):
                tensor = patterns.get(name, workload.tensor(name))
                found.append(_moved(name, "convert", way, store(tensor, layout)))
    return summed(found)


def _moved(tensor: str, purpose: str, way: str, storage: Storage) -> TensorTraffic:
    return TensorTraffic(tensor, purpose, way, float(storage.value_bytes), float(storage.metadata_bytes))


class _Statement:
    """Counts one statement of a region."""

    def __init__(
        self, workload: Workload, mapping: Mapping, machine: Machine, region: Region, number: int, store: Stored,
        patterns: dict[str, SparseTensor], passed: Passed, views: dict[str, Conversion],
    ) -> None:  # fmt: skip
        self.workload, self.mapping, self.machine, self.region = workload, mapping, machine, region
        self.number, self.store, self.patterns, self.passed, self.views = number, store, patterns, passed, views
        self.statement, self.plan = workload.program.statements[number], mapping.loops[number]
        self.loops, self.kept, self.tiles = self.plan.nest, self.statement.target.indices, dict(self.plan.tiles)
        self.blocks = block_plan(workload, mapping, machine, number)
        self.walked, self.extents, self.sums = self.plan, workload.extents[number], machine
        if self.blocks is not None:  # walked block by block, its sums are of blocks
            self.walked, self.sums = self.blocks.loops(self.plan), self.blocks.machine(machine)
            self.extents = self.blocks.extents(self.extents)
        self.streamed = {e.operand for e in region.fused if e.consumer == number}
        self.read_as_stream = any(e.producer == number for e in region.fused)
        self.storages = [self._storage(n) for n in range(len(self.statement.operands))]
        self.value_depth = max((q for q, (i, _) in enumerate(self.loops, 1) if i in self.kept), default=0)
        outside = (q for q, (i, _) in enumerate(self.loops[: self.value_depth], 1) if i not in self.kept)
        self.scope = next(outside, None)

    def run(self) -> list[TensorTraffic]:
        """Loads, spills and stores of all lanes."""
        found, runs, results = list[TensorTraffic](), 0, list[Ints]()
        capacity = self._capacity()
        padded = self._padded()
        traced = padded or self._may_be_nothing()
        whole = traced or self._may_overflow(capacity)
        sides = [self._side(n) for n in range(len(self.statement.operands))]
        depth = len(self.loops) if whole else max((s.load_depth or 0 for s in sides), default=0)
        streamed = min(self.scope or self.value_depth, self.value_depth) - 1 if self.read_as_stream else 0
        depth = max(depth, streamed)
        for lane in self._lanes():
            passes = self._passes(lane, streamed) if streamed > 0 else None
            sink = _Accumulator(self, capacity if self.scope else 0, traced) if whole else None
            for n in self.streamed if lane else ():
                sides[n] = self._side(n, lane)
            visits = walk(self._nest(lane), sides, depth, sink.take if sink else None, passes)
            for n, side in enumerate(sides):
                if side.load_depth is not None:
                    values, metadata = fetched_bytes(visits[n], self.storages[n], self.mapping.residency, self.machine)
                    name = self.workload.program.stored_as(self.statement.operands[n].tensor)
                    found.append(TensorTraffic(name, "load", "read", values, metadata))
            if sink is not None:
                runs += sink.finish()
                results += [sink.results] if traced else []
        found += self._spills(runs * capacity)
        made = self._made(results)
        layout = dict(self.region.stored).get(self.statement.target.tensor)
        return found + (self._stores(made, layout) if layout is not None else [])

    def _passes(self, lane: dict[Loop, Slice], levels: int) -> Products:
        """Notes the prefixes of so many outer levels that a lane passes on."""
        prefixes = self.passed.setdefault((self.statement.target.tensor, self._part(lane)), [])

        def note(crds: dict[Loop, Ints]) -> None:
            if 0 < len(crds) <= levels:
                prefixes.append(np.stack(list(crds.values())))

        return note

    def _part(self, lane: dict[Loop, Slice]) -> Part:
        return tuple(own for (index, _), own in lane.items() if index in self.kept)

    def _storage(self, n: int) -> Storage:
        access = self.statement.operands[n]
        tensor = self.patterns.get(access.tensor, self.workload.tensor(access.tensor))
        kinds = self.mapping.kinds(access.tensor) if n not in self.streamed else (COMPRESSED,) * tensor.ndim
        dtype = self.mapping.dtype(access.tensor) if n not in self.streamed else "fp32"
        stored, view = self.store(tensor, layout_of(access, self.plan, kinds, dtype)), self.views.get(access.tensor)
        return stored if view is None else in_place(self.workload, view, tensor, stored, self.store)

    def _side(self, n: int, lane: dict[Loop, Slice] | None = None) -> Side:
        own = tuple(loop for loop in self.loops if loop[0] in self.statement.operands[n].indices)
        tiles = [q for q, loop in enumerate(self.loops, 1) if loop in own and loop[1] == "tile"]
        inner = [q for q, loop in enumerate(self.loops) if loop in own and loop[1] == "inner"]
        depth = inner[0] if self.mapping.residency == OVERBOOKED and inner else max(tiles, default=0)
        levels = self._stream(n, own, lane or {}) if n in self.streamed else levels_of(self._walked_storage(n))
        return Side(dict(zip(own, levels, strict=True)), None if n in self.streamed else depth)

    def _stream(self, n: int, own: tuple[Loop, ...], lane: dict[Loop, Slice]) -> tuple[Level, ...]:
        """Levels of an operand that a statement of the region makes, as a lane gets them: its entries, and the empty
        fibers that the makers of its part passed."""
        access = self.statement.operands[n]
        tensor = self.patterns.get(access.tensor, self.workload.tensor(access.tensor))
        if not own:
            return ()
        at = np.stack([self._coordinate(tensor.coords[access.indices.index(loop[0])], loop) for loop in own])
        alive = np.ones(tensor.nnz, bool)
        for loop, dealt in lane.items():
            alive &= dealt.has(at[own.index(loop)])
        return stream_levels(at[:, alive], self.passed.get((access.tensor, tuple(lane.values())), []))

    def _walked_storage(self, n: int) -> Storage:
        if self.blocks is None:
            return self.storages[n]
        rows, cols = [i for i in self.plan.order if i in self.statement.operands[n].indices][-2:]
        return grid_storage(self.storages[n], (self.blocks.side(rows), self.blocks.side(cols)), False)

    def _lanes(self) -> list[dict[Loop, Slice]]:
        slices = lane_slices(self.workload, self.mapping, self.region.statements)[self.number]
        tiled = dict(self.plan.tiles)
        loops = [(i, "tile" if i in tiled else "inner") for i, _, _ in self.plan.parallel]
        return [dict(zip(loops, chosen, strict=True)) for chosen in itertools.product(*slices)]

    def _nest(self, lane: dict[Loop, Slice]) -> Nest:
        product, tiles = self.statement.kind == "contract", dict(self.walked.tiles)
        return Nest(self.loops, self.extents, tiles, product, frozenset(self.statement.universal), lane)

    def _padded(self) -> bool:
        """Whether results may have entries that the oracle's have not: some operand stores more positions than
        entries, or a sum runs over coordinates of a dense level that hold nothing."""
        if self.statement.kind != "contract":
            return True
        tensors = [self.patterns.get(a.tensor, self.workload.tensor(a.tensor)) for a in self.statement.operands]
        more = any(s.values.size > t.nnz for s, t in zip(self.storages, tensors, strict=True))
        return more or any(a.tensor in self.patterns for a in self.statement.operands)

    def _may_be_nothing(self) -> bool:
        """Whether the result is a scalar perhaps without products: the oracle knows it as 0, no machine makes it."""
        return not self.kept and not self.workload.tensor(self.statement.target.tensor).values.any()

    def _capacity(self) -> int:
        entry = self.sums.value_bytes + self._keys() * self.machine.coordinate_bytes
        return (self.machine.accumulator_bytes or 0) // entry

    def _keys(self) -> int:
        """Coordinates of an entry of the accumulator: both loops of a tiled index make one."""
        return len({i for i, _ in self.loops[(self.scope or 1) - 1 : self.value_depth] if i in self.kept})

    def _may_overflow(self, capacity: int) -> bool:
        """Whether some scope of the known result has more entries than the accumulator."""
        if not self.scope or not capacity:
            return False
        made = self.workload.tensor(self.statement.target.tensor)
        at = [self._coordinate(made.coords[self.kept.index(i)], (i, part)) for i, part in self.loops[: self.scope - 1]]
        if not at:
            return made.nnz > capacity
        count = np.unique(np.stack(at), axis=1, return_counts=True)[1]
        return bool(count.max(initial=0) > capacity)

    def _coordinate(self, crd: Ints, loop: Loop) -> Ints:
        tile = self.tiles.get(loop[0], 0)
        return np.asarray(crd // tile if loop[1] == "tile" else crd % tile if tile else crd)

    def _spills(self, entries: int) -> list[TensorTraffic]:
        values = float(entries * self.sums.value_bytes)
        metadata = float(entries * self.machine.coordinate_bytes * self._keys())
        target = self.statement.target.tensor
        return [TensorTraffic(target, "spill", way, values, metadata) for way in ("write", "read")] if entries else []

    def _made(self, results: list[Ints]) -> SparseTensor:
        """The result with the pattern that the walk left."""
        target = self.statement.target
        known = self.workload.tensor(target.tensor)
        if not results or self.statement.function == "sparse_relu":  # what a value test leaves is the oracle's
            return known
        keys = np.unique(np.concatenate(results))
        if not self.kept and self.plan.parallel:  # what lanes give is added, so that nothing at all is a zero
            keys = np.zeros(1, np.int64)
        grid = [self.extents[i] for i in self.kept]
        coords = np.stack(np.unravel_index(keys, grid)) if known.ndim else np.zeros((0, keys.size), np.int64)
        if self.blocks is not None:  # every position of a block is an entry
            coords = in_elements(coords, [self.blocks.side(i) for i in self.kept], known.shape)
        if coords.shape[1] == known.nnz:
            return known
        made = SparseTensor(known.shape, coords, np.ones(coords.shape[1]))
        self.patterns[target.tensor] = made
        return made

    def _stores(self, made: SparseTensor, layout: Layout) -> list[TensorTraffic]:
        """Every lane that holds a part of the result writes its tiles."""
        target, found = self.statement.target, []
        for lane in self._lanes_of_result():
            alive = np.ones(made.nnz, bool)
            for loop, own in lane.items():
                crd = self._coordinate(made.coords[target.indices.index(loop[0])], loop)
                alive &= own.has(crd)
            if alive.any():
                part = made if alive.all() else SparseTensor(made.shape, made.coords[:, alive], made.values[alive])
                found.append(_moved(target.tensor, "store", "write", self.store(part, layout)))
        return found

    def _lanes_of_result(self) -> list[dict[Loop, Slice]]:
        lanes = ({x: s for x, s in lane.items() if x[0] in self.kept} for lane in self._lanes())
        return list({tuple(lane.items()): lane for lane in lanes}.values())


class _Accumulator:
    """Takes the products of a lane in order; ``collects``: keeps the distinct positions, packed row by row."""

    def __init__(self, own: _Statement, capacity: int, collects: bool) -> None:
        self._own, self._capacity, self._collects, self._runs = own, capacity, collects, 0
        self._shape, self._tiles = [own.extents[i] for i in own.kept], dict(own.walked.tiles)
        self._found: list[Ints] = []
        self._scope, self._held = -1, np.zeros(0, np.int64)

    def take(self, crds: dict[Loop, Ints]) -> None:
        """A block of products."""
        key = np.zeros(next(iter(crds.values())).size, np.int64) if crds else np.zeros(1, np.int64)
        for index, extent in zip(self._own.kept, self._shape, strict=True):
            inner = crds[index, "inner"]
            tile = self._tiles.get(index, 0)
            key = key * extent + (crds[index, "tile"] * tile + inner if tile else inner)
        fresh = np.ones(key.size, bool)
        fresh[1:] = key[1:] != key[:-1]
        key = key[fresh]
        self._found += [np.unique(key)] if self._collects else []
        if len(self._found) > 16:
            self._found = [self.results]
        if self._capacity:
            scope = np.zeros(key.size, np.int64)
            for loop in self._own.loops[: (self._own.scope or 1) - 1]:
                tile, extent = self._tiles.get(loop[0], 0), self._own.extents[loop[0]]
                scope = scope * (-(-extent // tile) if loop[1] == "tile" else tile or extent) + crds[loop][fresh]
            starts = np.flatnonzero(np.concatenate([[True], scope[1:] != scope[:-1]]))
            for start, stop in itertools.pairwise([*starts.tolist(), key.size]):
                if scope[start] != self._scope:
                    self._scope, self._held = int(scope[start]), np.zeros(0, np.int64)
                self._run(key[start:stop])

    @property
    def results(self) -> Ints:
        """Distinct positions of all products so far."""
        return np.unique(np.concatenate(self._found)) if self._found else np.zeros(0, np.int64)

    def finish(self) -> int:
        """Full runs written."""
        return self._runs

    def _run(self, keys: Ints) -> None:
        """Adds keys of one scope; a run that is full when a new key comes is written."""
        at, stride = 0, 2 * self._capacity + 64
        while at < keys.size:
            new, first = np.unique(keys[at : at + stride], return_index=True)
            fresh = ~np.isin(new, self._held, assume_unique=True)
            room = self._capacity - self._held.size
            places = np.sort(first[fresh])
            if places.size <= room:
                self._held = np.union1d(self._held, new[fresh])
                at += stride
                continue
            at += int(places[room])  # this key opens the next run
            self._runs, self._held = self._runs + 1, np.zeros(0, np.int64)
