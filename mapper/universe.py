"""Universes: all coordinates of an index that no operand gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mapper.blocks import Grid
from mapper.graph_builder import GraphBuilder, Stream
from mapper.mapping import Loop, Loops
from mapper.operands import LaneSlices, StoredOperand, StreamOperand, lane_params, loop_name
from mapper.workload import Workload


class Universe:
    """All coordinates of one index: makes a sum or a dense map iterate over the full extent.

    ``under`` is an operand of a sum that lacks the index: it counts at all coordinates, but only where it stores
    something. At the loops that it walks above them the universe goes along with it: its reference, repeated over the
    coordinates that the operand has, takes part in the join and is Empty wherever the operand is. None: everywhere.
    """

    def __init__(
        self, build: GraphBuilder, name: str, index: str, nest: tuple[Loop, ...], extent: int, tile: int,
        slices: LaneSlices, under: StoredOperand | StreamOperand | None = None,
    ) -> None:  # fmt: skip
        self.name, self._index, self._slices, self._under = name, index, slices, under
        above = nest[: nest.index((index, "inner"))]
        self.loops = tuple(x for x in nest if x[0] == index or (under and x in above and x in under.loops))
        tiles = -(-extent // tile) if tile else 1
        inner = np.minimum(tile, extent - np.arange(tiles) * tile) if tile else np.array([extent])
        outer = {"tile": np.array([0, tiles], np.int64)} if tile else {}
        self._pos = {**outer, "inner": np.concatenate([[0], np.cumsum(inner)]).astype(np.int64)}
        (self.ref,) = build.add("root", f"root {name}")

    def follows(self, loop: Loop) -> bool:
        """Whether it goes along with its operand there; scanned after that one."""
        return loop[0] != self._index

    def scan(self, build: GraphBuilder, loop: Loop, joined: bool) -> tuple[Stream, Stream]:
        where = f"{self.name}.{loop_name(loop)}"
        if self.follows(loop):
            assert self._under is not None and self._under.crd is not None
            (signal,) = build.add("repeat_signal", f"signal {where}", [self._under.crd])
            return self._under.crd, build.add("repeat", f"repeat {where}", [self.ref, signal])[0]
        limits = lane_params(self._slices, loop)
        crd, ref = build.add("scan", f"scan {where}", [self.ref], 2, limits, {"pos": self._pos[loop[1]]})
        return crd, ref

    def accept(self, build: GraphBuilder, loop: Loop, payload: Stream, joined: bool) -> None:
        self.ref = payload

    def needed_after(self, loop: Loop, nest: tuple[Loop, ...]) -> bool:
        return any(later in self.loops for later in nest[nest.index(loop) + 1 :])


def universes(
    build: GraphBuilder, workload: Workload | Grid, number: int, operands: Sequence[StoredOperand | StreamOperand],
    loops: Loops, slices: LaneSlices, suffix: str,
) -> list[Universe]:  # fmt: skip
    """What makes a statement run over the full extent of indices: everywhere, or under each operand of a sum that lacks
    one. Where all of a sum is stored, there is nothing to be told apart."""
    statement, found = workload.program.statements[number], list[Universe]()
    if not statement.universal:
        return found
    assert isinstance(workload, Workload)  # grids of blocks have products alone
    apart = len(operands) > 1 and workload.tensor(statement.target.tensor).density < 1.0
    for index in statement.universal:
        lacking = [n for n, access in enumerate(statement.operands) if index not in access.indices]
        for n in lacking if apart else [None]:
            name = f"all {index}{'' if n is None else f'.{n}'} in S{number}{suffix}"
            extent, tile = workload.extents[number][index], dict(loops.tiles).get(index, 0)
            under = None if n is None else operands[n]
            found.append(Universe(build, name, index, loops.nest, extent, tile, slices, under))
    return found
