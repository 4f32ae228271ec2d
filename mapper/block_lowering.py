"""BlockLowering: a statement that is made by blocks, its streams those of the grid of blocks.

Instead of values, references to blocks reach a unit that multiplies them and adds the products up: ``block_mac`` where
the reduced loop is the innermost, ``block_accumulate`` where it stands above loops of the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mapper.blocks import BlockPlan, Grid, grid_storage
from mapper.graph_builder import GraphBuilder, Stream
from mapper.lanes import Slice
from mapper.machine import Machine
from mapper.mapping import Loop, Loops, Mapping
from mapper.operands import StoredOperand, StreamOperand
from mapper.program import Access, Statement
from mapper.region_lowering import RegionLowering, Result, StorageOf
from mapper.schedule import Region
from mapper.storage import Layout, Storage, layout_of
from mapper.workload import Workload

RING_SLACK = 4
"""Blocks that may be in the hands of the units at both ends of a FIFO, beyond those in it."""


class BlockLowering(RegionLowering):
    """The region of one statement that is made by blocks."""

    def __init__(
        self, workload: Workload, mapping: Mapping, machine: Machine, region: Region, storage_of: StorageOf | None,
        build: GraphBuilder, slices: dict[int, tuple[tuple[Slice, ...], ...]], plan: BlockPlan,
    ) -> None:  # fmt: skip
        self._plan, self._elements, self._stored = plan, storage_of, mapping
        self._shape = workload.shape(workload.program.statements[plan.number].target, plan.number)
        grid = None if storage_of is None else self._blocks
        super().__init__(Grid.of(workload, plan), plan.mapping(mapping), machine, region, grid, build, slices)
        self._sums, self._made = plan.machine(machine), dict[Stream, np.ndarray]()

    def _blocks(self, tensor: str, _: Layout) -> Storage:
        """The grid of an operand."""
        assert self._elements is not None
        statement, plan = self._workload.program.statements[self._plan.number], self._plan
        n = [a.tensor for a in statement.operands].index(tensor)
        loops, access = self._stored.loops[plan.number], statement.operands[n]
        layout = layout_of(access, loops, self._stored.kinds(tensor), self._stored.dtype(tensor))
        pair = tuple(i for i in loops.order if i in access.indices)[-2:]
        wanted = (plan.rows, plan.inner) if n == plan.left else (plan.inner, plan.cols)
        sides = plan.side(pair[0]), plan.side(pair[1])
        return grid_storage(self._elements(tensor, layout), sides, pair != wanted)

    def _compute(
        self, number: int, statement: Statement, operands: Sequence[StoredOperand | StreamOperand], suffix: str
    ) -> Stream:
        left, right = operands[self._plan.left], operands[1 - self._plan.left]
        self._right = right.ref
        stored = [o.values for o in (left, right) if isinstance(o, StoredOperand)]
        self._values = dict(zip("ab", stored, strict=True)) if self._elements else {}
        return left.ref

    def _reduce(
        self, number: int, statement: Statement, loops: Loops, crds: dict[Loop, Stream], val: Stream, suffix: str
    ) -> Result:
        plan, machine = self._plan, self._machine
        kept, nest, arrays = set(statement.target.indices), list(loops.nest), dict(self._values)
        params: dict[str, Any] = {
            "rows": plan.side(plan.rows), "cols": plan.side(plan.cols), "inner": plan.side(plan.inner),
            "operations_per_cycle": machine.block_operations_per_cycle,
        }  # fmt: skip
        factors: list[Stream | None] = [val, self._right]
        summed = nest[-1][0] not in kept
        scope = next((n for n, loop in enumerate(nest[: len(nest) - summed]) if loop[0] not in kept), None)
        if summed:
            loop = nest.pop()
            arrays["out"] = self._room(number, statement if scope is None else None)
            name, outer = f"multiply S{number}.{loop[0]}{suffix}", crds[nest[-1]]
            own = params | {"ring": 1}
            (val,) = self._build.add("block_mac", name, [*factors, outer], 1, own, arrays if self._elements else {})
            factors, arrays, params["inner"] = [val, None], {"a": arrays["out"]}, 1
        levels = [crds[loop] for loop in nest]
        if scope is not None:
            keys = [loop for loop in nest[scope:] if loop[0] in kept]
            arrays["out"] = self._room(number, statement)
            params |= self._accumulator(number, statement, loops, nest[scope:], keys)
            reads = [crds[nest[scope]], *(crds[key] for key in keys), *factors]
            name = f"accumulate S{number}.{nest[scope][0]}{suffix}"
            *drained, val = self._build.add(
                "block_accumulate", name, reads, len(keys) + 1, params, arrays if self._elements else {}
            )
            levels = [*levels[:scope], *drained]
        self._made[val] = arrays["a"] if scope is None else arrays["out"]
        return Result(tuple(levels), val, summed and scope is None)

    def _room(self, number: int, made: Statement | None) -> np.ndarray:
        """Space for blocks: for those between two units, or for all of a result."""
        blocks = (self._machine.fifo_depth or 0) + RING_SLACK
        if made is not None:
            blocks = max(1, math.prod(self._workload.shape(made.target, number)))
        return np.empty(blocks * self._plan.area if self._elements else 0)

    def _store(self, number: int, target: Access, layout: Layout, result: Result, suffix: str) -> None:
        plan, params = self._plan, self._store_params(self._shape, target, layout)
        tiles = {"tiles": self._made[result.val]} if self._elements else {}
        sides = {"rows": plan.side(plan.rows), "cols": plan.side(plan.cols)}
        name = f"store {target.tensor}{suffix}"
        self._build.add("block_store", name, [*result.crds, result.val], 0, params | sides, tiles)
