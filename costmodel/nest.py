"""A statement under its loops: which prefixes are effectual at every depth, in every lane.

Depth q of a nest means its first q loops. The joined stream at depth q carries the coordinates for which every
operand (product) or some operand (sum) has a node at each of its levels among those loops: an operand of a sum counts
at all coordinates of an index that it lacks. A dense map runs over all coordinates.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from costmodel.counting import AnyStatistics, Counter, Lanes, Leaf
from costmodel.factors import Floats
from costmodel.operand import Operand
from costmodel.padding import with_zeros
from costmodel.passed import passed
from costmodel.slots import in_slots
from costmodel.statistics import MODEL_LEVELS, Statistics, TensorStatistics
from costmodel.uniform import UniformStatistics, expected_entries
from costmodel.widened import Widened
from mapper.dtypes import FP32
from mapper.errors import InputError, nearest
from mapper.formats import COMPRESSED
from mapper.lanes import Slice, common_levels, lane_slices
from mapper.locating import located
from mapper.mapping import Mapping
from mapper.program import IN_PLACE, Access, Edge
from mapper.regions import renaming
from mapper.residency import OVERBOOKED
from mapper.schedule import Conversion, Region, schedule
from mapper.storage import layout_of
from mapper.tensor import SparseTensor
from mapper.workload import Workload


class Model:
    """What all predictions for a mapping share: data, level and statistics; ``widened``, by tensor, are results of the
    steps so far that were stored with more entries than the oracle's."""

    def __init__(self, workload: Workload, mapping: Mapping, level: str, statistics: Statistics) -> None:
        if level not in MODEL_LEVELS:
            raise InputError(f"unknown model level {level!r}.{nearest(level, MODEL_LEVELS)}")
        self.workload, self.mapping, self.level, self.statistics = workload, mapping, level, statistics
        self._entries = expected_entries(workload) if level == "L0" else {}
        self.widened = dict[str, Widened]()

    @cached_property
    def in_place(self) -> dict[str, Conversion]:
        """The views whose windows are read in place, by result."""
        if not any(s.function == IN_PLACE for s in self.workload.program.statements):
            return {}
        steps = schedule(self.workload.program, self.mapping).steps
        return {step.made: step for step in steps if isinstance(step, Conversion) and step.in_place}

    def stats(self, tensor: str, shape: tuple[int, ...]) -> AnyStatistics:
        """Statistics of an input or computed tensor at the model's level."""
        if self.level == "L0":
            return UniformStatistics(shape, self._entries[tensor])
        if own := self.widened.get(tensor):
            return self.statistics.named(own.key, own.make)
        return self.statistics.of(self.workload.tensor(tensor))

    def tensor(self, name: str) -> SparseTensor:
        """An input, or a computed tensor as it is stored."""
        own = self.widened.get(name)
        return self.statistics.named(own.key, own.make).tensor if own else self.workload.tensor(name)

    def nests(self, region: Region) -> tuple[Nest, ...]:
        """One nest per statement of a region; what is known of their results is noted, as readers find it."""
        slices = lane_slices(self.workload, self.mapping, region.statements)
        found = dict[int, Nest]()
        for number in region.statements:
            read = [e for e in region.fused if e.consumer == number]
            streams = {e.operand: Stream(found[e.producer], self._agreed(region, e)) for e in read}
            found[number] = Nest(self, number, streams, slices[number])
            self.widened |= with_zeros(found[number])
        return tuple(found.values())

    def _agreed(self, region: Region, edge: Edge) -> dict[str, int]:
        """Outer levels of a stream that are the same in all lanes of a parallel index of its reader."""
        program, loops = self.workload.program, self.mapping.loops
        names = {read: made for made, read in renaming(program, edge).items()}
        return {
            index: common_levels(program, loops, region.fused, edge.producer, {names[index]})
            for index, _, _ in loops[edge.consumer].parallel
        }


@dataclass(frozen=True, slots=True)
class Stream:
    """An operand that a statement of the region makes: its ``maker``, and how many outer levels are ``agreed``, alike
    in all lanes of a parallel index."""

    maker: Nest
    agreed: dict[str, int]


class Nest:
    """Statement ``number``; the operands at the positions of ``streams`` come from fused producers. ``slices``: those
    of its parallel indices.

    Lanes of several indices are numbered together, those of the first varying slowest. What a lane gets from an
    accumulator has only what the lane has, also at levels above the loop that is dealt to lanes.
    """

    def __init__(
        self, model: Model, number: int, streams: MappingABC[int, Stream], slices: tuple[tuple[Slice, ...], ...]
    ) -> None:
        workload, mapping = model.workload, model.mapping
        self.model, self.number = model, number
        self.statement, self.plan = workload.program.statements[number], mapping.loops[number]
        self.loops, self.extents = self.plan.nest, workload.extents[number]
        self.splits = tuple(self._lanes(n, own) for n, own in enumerate(slices))
        self.counter = Counter(model.statistics, model.level, self.extents, self.splits)
        self._streams = streams
        self.operands = tuple(
            self._operand(access, n not in streams) for n, access in enumerate(self.statement.operands)
        )

    def _lanes(self, n: int, slices: tuple[Slice, ...]) -> Lanes:
        index, _, partition = self.plan.parallel[n]
        ends = tuple(own.hi for own in slices)
        return Lanes(index, dict(self.plan.tiles).get(index, 1), ends, partition == "cyclic")

    def _operand(self, access: Access, stored: bool) -> Operand:
        mapping = self.model.mapping
        kinds = mapping.kinds(access.tensor) if stored else (COMPRESSED,) * len(access.indices)
        dtype = mapping.dtype(access.tensor) if stored else FP32
        loops = tuple(loop for loop in self.loops if loop[0] in access.indices)
        stats = self.model.stats(access.tensor, self.model.workload.shape(access, self.number))
        layout = layout_of(access, self.plan, kinds, dtype)
        if stored and self.model.level == "L2" and isinstance(stats, TensorStatistics):
            stats = in_slots(self.model.statistics, stats, layout)
        return Operand(access, layout, loops, stats, stored)

    @property
    def key(self) -> tuple[Hashable, ...]:
        """What prefixes, scopes and visits depend on: statement, data, loops, lanes, formats, operands and who makes
        them."""
        kinds = tuple((o.stats.key, o.layout, o.stored) for o in self.operands)
        streams = tuple((tuple(own.agreed.items()), own.maker.digest) for own in self._streams.values())
        return str(self.statement), tuple(sorted(self.extents.items())), self.plan, self.splits, kinds, streams

    @cached_property
    def digest(self) -> str:
        """A short text for the key."""
        return hashlib.sha256(repr(self.key).encode()).hexdigest()

    @property
    def makers(self) -> tuple[Nest, ...]:
        """The statements whose results it reads as streams."""
        return tuple(own.maker for own in self._streams.values())

    @property
    def lanes(self) -> int:
        """Parallel copies."""
        return self.plan.lanes

    def lanes_at(self, depth: int) -> int:
        """Lanes among which the loop at ``depth`` is dealt."""
        return next((own.count for own in self.splits if self.depth_of(own) == depth), 1)

    def depth_of(self, lanes: Lanes) -> int:
        """Depth of the loop that is dealt to lanes."""
        tiled = lanes.index in dict(self.plan.tiles)
        return self.loops.index((lanes.index, "tile" if tiled else "inner")) + 1

    def fixed(self, depth: int) -> tuple[Lanes, ...]:
        """The lanes that see different prefixes at ``depth``."""
        early = {own for n in self._streams for own in self._early(n, depth)}
        return tuple(own for own in self.splits if self.depth_of(own) <= depth or own in early)

    def _early(self, n: int, depth: int) -> tuple[Lanes, ...]:
        """Lanes that stream ``n`` tells apart within ``depth`` loops, above the loop that is dealt to them. Below level
        L2, where nodes are independent, none."""
        if n not in self._streams or self.model.level != "L2":
            return ()
        agreed, levels = self._streams[n].agreed, self._levels(n, depth)
        return tuple(own for own in self.splits if levels > agreed[own.index] and self.depth_of(own) > depth)

    def _levels(self, n: int, depth: int) -> int:
        """Levels of operand ``n`` within the first ``depth`` loops."""
        return sum(loop in self.operands[n].loops for loop in self.loops[:depth])

    def leaf(self, n: int, depth: int, valued: bool = False) -> Leaf:
        """Nodes of operand ``n`` within the first ``depth`` loops (``Operand.leaf``), per lane that it tells apart; of
        a stream all that it carries."""
        operand = self.operands[n]
        leaf, early = operand.leaf(self.loops, depth, valued), self._early(n, depth)
        if n in self._streams and not early and not valued and self.model.level == "L2":
            carried = passed(self._streams[n].maker, self._levels(n, depth), leaf.view)
            return leaf if carried is None else replace(leaf, stats=carried)
        for own in early:
            assert isinstance(leaf.stats, TensorStatistics)
            leaf = own.dealt(leaf.stats, leaf.indices, leaf.view, self.model.statistics)
        return leaf

    def leaves(self, depth: int, valued: bool = False) -> list[Leaf]:
        """Those of all operands."""
        return [self.leaf(n, depth, valued) for n in range(len(self.operands))]

    def over_lanes(self, amounts: Floats, fixed: tuple[Lanes, ...]) -> Floats:
        """Amounts per combination of the lanes in ``fixed``, for every lane."""
        shape = [own.count if own in fixed else 1 for own in self.splits]
        whole = [own.count for own in self.splits]
        return np.broadcast_to(amounts.reshape(shape), whole).reshape(-1).copy()

    def copies(self, indices: tuple[str, ...]) -> int:
        """Lanes that differ in no index among ``indices``: each has all that these fix."""
        return math.prod(n for i, n, _ in self.plan.parallel if i not in indices)

    @property
    def partial(self) -> bool:
        """Whether lanes share a reduction, so that each has a part of the result."""
        return self.copies(self.statement.target.indices) > 1

    @cached_property
    def value_depth(self) -> int:
        """Depth of the innermost loop over an index of the result: loops below it have scalar reducers."""
        return max((q for q, (i, _) in enumerate(self.loops, 1) if i in self.statement.target.indices), default=0)

    @property
    def target(self) -> AnyStatistics:
        """Statistics of the result."""
        target = self.statement.target
        return self.model.stats(target.tensor, self.model.workload.shape(target, self.number))

    def variables(self, depth: int) -> dict[str, int]:
        """Resolution of every index that the first ``depth`` loops fix."""
        tiled = dict(self.plan.tiles)
        return {i: tiled[i] if part == "tile" else 1 for i, part in self.loops[:depth]}

    def joined(self, depth: int, valued: bool = False) -> Floats:
        """Effectual prefixes at ``depth``, per lane; of a product with ``valued`` only those at which every operand
        has a stored value below."""
        if valued:
            return self._per_lane([(1, self.leaves(depth, valued))], depth)
        return self._per_lane(self._groups(depth), depth)

    def scanned(self, n: int, depth: int) -> Floats:
        """Elements that operand ``n`` scans at its level of loop ``depth``, under the prefixes that reach it."""
        own = self.leaf(n, depth)
        if self.statement.kind == "contract":
            others = [leaf for m, leaf in enumerate(self.leaves(depth - 1)) if m != n]
            return self._per_lane([(1, [own, *others])], depth)
        return self._per_lane([(1, [own])], depth)

    def located(self, depth: int) -> tuple[int, ...]:
        """Operands whose dense level at loop ``depth`` is located, not scanned."""
        if self.model.mapping.joins != "locate":
            return ()
        kinds = [o.layout.kinds if o.stored else None for o in self.operands]
        return located(self.statement, self.plan, kinds, self.loops[depth - 1])

    def tile_depth(self, n: int) -> int:
        """Depth of the innermost tile loop of operand ``n``, 0 where it has none."""
        own = self.operands[n].loops
        return max((q for q, loop in enumerate(self.loops, 1) if loop in own and loop[1] == "tile"), default=0)

    def load_depth(self, n: int) -> int:
        """Depth below which operand ``n`` has its tile load: overbooked, where a walk of the tile begins."""
        inner = [q for q, loop in enumerate(self.loops) if loop in self.operands[n].loops and loop[1] == "inner"]
        return inner[0] if self.model.mapping.residency == OVERBOOKED and inner else self.tile_depth(n)

    def walked_at_once(self, n: int) -> bool:
        """Whether no loop over another index stands between the inner loops of operand ``n``."""
        inner = [q for q, loop in enumerate(self.loops) if loop in self.operands[n].loops and loop[1] == "inner"]
        return not inner or inner[-1] - inner[0] == len(inner) - 1

    def visiting(self, n: int, depth: int) -> list[Leaf]:
        """Leaves whose join is where operand ``n`` is reached at ``depth``."""
        if self.statement.kind == "contract":
            return self.leaves(depth)
        return [self.leaf(n, depth)]

    def reached(self, n: int, depth: int) -> Floats:
        """Prefixes at ``depth`` under which operand ``n`` has a node, per lane."""
        return self._per_lane([(1, self.visiting(n, depth))], depth)

    def _groups(self, depth: int) -> list[tuple[int, list[Leaf]]]:
        if self.statement.kind == "contract" or (self.statement.kind == "map" and not self.statement.universal):
            return [(1, self.leaves(depth))]
        if self.statement.kind == "map":
            return [(1, [])]
        return self.counter.union(self.leaves(depth))

    def _per_lane(self, groups: list[tuple[int, list[Leaf]]], depth: int) -> Floats:
        variables, fixed = self.variables(depth), self.fixed(depth)
        apart = math.prod(own.count for own in fixed)
        found = np.zeros(apart)
        for sign, leaves in groups:
            if fixed and self.model.level == "L2":
                found += sign * self.counter.by(leaves, variables, (), fixed).dense(apart)
            else:
                found += sign * self.counter.total(leaves, variables) / apart
        return self.over_lanes(found, fixed)
