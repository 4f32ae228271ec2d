"""Statements that are made by blocks: their walk is that of the grid of blocks, whose entries are blocks that hold any.

Loads and stores are those of the tensors as they are stored, whoever walks them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.accumulators import Reduction
from costmodel.factors import Floats
from costmodel.nest import Model, Nest
from costmodel.statistics import TensorStatistics
from costmodel.work import Tally, Work, effectual_multiplies
from mapper.blocks import BlockPlan, block_plan, in_elements
from mapper.lanes import lane_slices
from mapper.machine import Machine
from mapper.mapping import Mapping
from mapper.program import Program
from mapper.schedule import Region
from mapper.tensor import SparseTensor, distinct_columns
from mapper.workload import Workload


@dataclass(frozen=True, slots=True, eq=False)
class BlockWalk:
    """The walk of a statement over the grid of a plan: its nest, and the machine with blocks for values."""

    nest: Nest
    plan: BlockPlan
    machine: Machine
    area: float  # values of an entry of the result, which at edges are fewer, on average

    def made(self, shape: tuple[int, ...], entries: float) -> TensorStatistics | None:
        """The result, of that shape, if its ``entries`` are all positions of the blocks that blocks with entries
        make."""
        grid, sides = self.nest.target, [self.plan.side(i) for i in self.nest.statement.target.indices]
        if not isinstance(grid, TensorStatistics) or abs(grid.nnz * self.area - entries) > self.area / 2:
            return None

        def tensor() -> SparseTensor:
            coords = in_elements(grid.tensor.coords, sides, shape)
            return SparseTensor(shape, coords, np.ones(coords.shape[1]))

        return self.nest.model.statistics.named(f"{grid.key} by {sides} within {shape}", tensor)


def block_walk(nest: Nest, machine: Machine) -> BlockWalk | None:
    """The walk over blocks, None for a statement that is made element by element."""
    model, number = nest.model, nest.number
    plan = block_plan(model.workload, model.mapping, machine, number)
    if plan is None:
        return None
    key = ("blocks", nest.key, plan, model.mapping.joins, model.mapping.residency, model.mapping.formats, model.level)
    grid = model.statistics.remember(key, lambda: _grid(nest, plan))
    extents = model.workload.extents[number]
    area = math.prod(extents[i] / max(1, plan.extents(extents)[i]) for i in (plan.rows, plan.cols))
    return BlockWalk(grid, plan, plan.machine(machine), area)


def block_work(nest: Nest, walk: BlockWalk, region: Region, reduction: Reduction | None) -> Work:
    """Work of a statement made by blocks; what it makes is counted in elements."""
    return _BlockTally(nest, walk, region, reduction).run()


def _grid(nest: Nest, plan: BlockPlan) -> Nest:
    model, statement = nest.model, nest.statement
    tensors = {
        a.tensor: grid_tensor(model.tensor(a.tensor), [plan.side(i) for i in a.indices]) for a in statement.operands
    }
    own = plan.mapping(model.mapping)
    kept = tuple(pair for pair in own.formats if pair[0] in (*tensors, statement.target.tensor))
    mapping = Mapping((), (own.loops[plan.number],), kept, own.residency, joins=own.joins)
    grid = Model(Workload(Program((statement,)), tensors), mapping, model.level, model.statistics)
    slices = lane_slices(model.workload, model.mapping, (plan.number,))[plan.number]
    return Nest(grid, 0, {}, slices)


def grid_tensor(tensor: SparseTensor, sides: Sequence[int]) -> SparseTensor:
    """A one for every block that holds an entry; ``sides``: extent of a block along every mode."""
    coords = distinct_columns(tensor.coords // np.array(sides)[:, None])[0]
    shape = tuple(-(-extent // side) for extent, side in zip(tensor.shape, sides, strict=True))
    return SparseTensor(shape, np.ascontiguousarray(coords), np.ones(coords.shape[1]))


class _BlockTally(Tally):
    """Units of a statement made by blocks."""

    def __init__(self, nest: Nest, walk: BlockWalk, region: Region, reduction: Reduction | None) -> None:
        super().__init__(walk.nest, region, reduction, walk.machine)
        self._elements, self._plan, self._area, self.label = nest, walk.plan, walk.area, f"S{nest.number}"

    def run(self) -> Work:
        work = super().run()
        return Work(
            work.units, work.multiplies, work.additions, work.comparisons, work.made * self._area, work.spilling,
            work.draining, work.drained, work.pieces, work.lockstep,
        )  # fmt: skip

    def _compute(self) -> None:
        """Blocks are read by the unit that multiplies them."""

    def _reducers(self) -> None:
        multiplies = self._plan.cycles(self.machine)
        for q in range(self.depth, self.nest.value_depth, -1):
            cycles = self.stream(q) + (multiplies - 1) * self.prefixes[q]
            self._unit("block_mac", f"multiply {self.label}", cycles, float(self.stream(q - 1).sum()))

    def _adding(self, values: Floats) -> Floats:
        summed = self.depth > self.nest.value_depth
        cycles = self._plan.adding_cycles(self.machine) if summed else self._plan.cycles(self.machine)
        return (cycles - 1) * values

    def _operations(self, made: float) -> tuple[float, float]:
        pairs, inner = float(self.prefixes[self.depth].sum()), self._plan.side(self._plan.inner)
        return effectual_multiplies(self._elements), max(0.0, pairs * inner - made) * self._plan.area
