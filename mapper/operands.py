"""Operands of a statement while it is lowered: what each yields when a loop scans it.

An operand takes part in some loops of the nest. ``scan`` gives its coordinates and payload at a loop, ``accept``
takes back the payload that survived the join; in other loops its reference is repeated by the caller.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mapper.graph_builder import GraphBuilder, Stream
from mapper.lanes import Slice
from mapper.machine import Machine
from mapper.mapping import Loop
from mapper.residency import OVERBOOKED, streaming_bytes
from mapper.storage import Storage

LaneSlices = dict[Loop, Slice]
"""The loops that a lane restricts, and to which coordinates."""


class Operand(Protocol):
    """What lowering needs of an operand."""

    loops: tuple[Loop, ...]
    ref: Stream

    def scan(self, build: GraphBuilder, loop: Loop, joined: bool) -> tuple[Stream, Stream]:
        """(coordinates, payload) at ``loop``; ``joined``: other operands meet it there."""

    def accept(self, build: GraphBuilder, loop: Loop, payload: Stream, joined: bool) -> None:
        """Takes the payload that came out of the join."""

    def needed_after(self, loop: Loop, nest: tuple[Loop, ...]) -> bool:
        """Whether its reference must be repeated over ``loop``."""


class StoredOperand:
    """A tensor read from memory: root, scanners over its levels, a tile load below its last tile level; with
    ``pattern`` its stored entries count as 1.

    Overbooked tiles are loaded below all loops above their first inner level instead: each walk of a tile is a visit,
    as the tail of a tile larger than its buffer must stream anew.
    """

    def __init__(
        self, build: GraphBuilder, machine: Machine, name: str, tensor: str, loops: tuple[Loop, ...],
        storage: Storage | None, residency: str, slices: LaneSlices, pattern: bool,
    ) -> None:  # fmt: skip
        self.name, self.tensor, self.loops, self.pattern = name, tensor, loops, pattern
        self._storage, self._residency, self._slices, self._machine = storage, residency, slices, machine
        (self.ref,) = build.add("root", f"root {name}")
        self.crd: Stream | None = None  # of the last scan
        tiles = sum(part == "tile" for _, part in loops)
        self._load_before = loops[tiles] if residency == OVERBOOKED and loops else None
        self._load_after = loops[tiles - 1] if tiles and not self._load_before else None
        if not self._load_before and not self._load_after:
            self._load(build)

    def open(self, build: GraphBuilder, loop: Loop) -> None:
        """Called before the level at ``loop`` is walked."""
        if loop == self._load_before:
            self._load(build)

    def locate(self, build: GraphBuilder, loop: Loop, crd: Stream) -> None:
        """Goes to the coordinates ``crd`` of the dense level at ``loop``; the reference was repeated over them."""
        arrays = {} if self._storage is None else self._storage.levels[self.loops.index(loop)].scan_arrays
        name = f"locate {self.name}.{loop_name(loop)}"
        (found,) = build.add("locate", name, [crd, self.ref], 1, {}, arrays)
        self.accept(build, loop, found, False)

    def scan(self, build: GraphBuilder, loop: Loop, joined: bool) -> tuple[Stream, Stream]:
        self.open(build, loop)
        params: dict[str, Any] = {**lane_params(self._slices, loop)}
        arrays: dict[str, Any] = {}
        if self._storage is not None:
            level = self._storage.levels[self.loops.index(loop)]
            params |= level.params
            arrays = level.scan_arrays
        self.crd, ref = build.add("scan", f"scan {self.name}.{loop_name(loop)}", [self.ref], 2, params, arrays)
        return self.crd, ref

    def accept(self, build: GraphBuilder, loop: Loop, payload: Stream, joined: bool) -> None:
        self.ref = payload
        if loop == self._load_after:
            self._load(build)

    def needed_after(self, loop: Loop, nest: tuple[Loop, ...]) -> bool:
        return True

    def value(self, build: GraphBuilder) -> Stream:
        """Stream of the values at the references reached."""
        arrays: dict[str, Any] = {}
        if self._storage is not None:
            values = self.values
            arrays = {"values": np.ones_like(values) if self.pattern else values}
        machine, params = self._machine, dict[str, Any]()
        if (rate := machine.buffer_bytes_per_cycle) is not None:
            params = {
                "banks": machine.buffer_banks, "bank_bytes_per_cycle": rate, "value_bytes": machine.value_bytes,
            }  # fmt: skip
        return build.add("array", f"array {self.name}", [self.ref], 1, params, arrays)[0]

    @property
    def values(self) -> npt.NDArray[np.float64]:
        """What is stored at each reference; nothing where no data are at hand."""
        return np.zeros(0) if self._storage is None else self._storage.values

    def _load(self, build: GraphBuilder) -> None:
        if self._machine.dram_channels is None:
            return
        arrays: dict[str, Any] = {}
        if self._storage is not None:
            arrays = {
                "value_bytes": self._storage.tile_value_bytes,
                "metadata_bytes": self._storage.tile_metadata_bytes,
                "address": self._storage.tile_address,
            }
        params = {
            "tensor": build.account(self.tensor),
            "residency": self._residency,
            "capacity_bytes": self._machine.buffer_bytes or 0,
        }
        if self._machine.buffer_bytes_per_cycle is not None:
            params["fill_bytes_per_cycle"] = self._machine.buffer_fill_bytes_per_cycle
        if self._residency == OVERBOOKED:
            params["streaming_bytes"] = streaming_bytes(self._machine)
        (self.ref,) = build.add("tile_load", f"load {self.name}", [self.ref], 1, params, arrays)


class StreamOperand:
    """A fused tensor: coordinate streams of its producer, one per level, and its values.

    While no join has dropped or added coordinates it is passed on untouched; from then on each deeper level
    selects the fibers that survived (``stream_scan``). Above the first join groups still end where they do in the
    stream as it came (``aligned``).
    """

    def __init__(self, name: str, loops: tuple[Loop, ...], crds: tuple[Stream, ...], val: Stream) -> None:
        self.name, self.loops, self._crds, self._val = name, loops, crds, val
        self.ref = val
        self.crd: Stream | None = None  # of the last scan
        self._joined: int | None = None  # depth of the first join

    def scan(self, build: GraphBuilder, loop: Loop, joined: bool) -> tuple[Stream, Stream]:
        depth = self.loops.index(loop)
        last = depth == len(self.loops) - 1
        raw = self._crds[depth]
        if self._joined is not None:
            reads = [self.ref, raw, self._val if last else None, self._crds[depth - 1]]
            params = {"aligned": depth - 1 - self._joined}
            self.crd, ref = build.add("stream_scan", f"select {self.name}.{loop_name(loop)}", reads, 2, params)
            return self.crd, ref
        self.crd = raw
        if last:
            return raw, self._val
        if joined:
            return raw, build.add("number", f"number {self.name}.{loop_name(loop)}", [raw])[0]
        return raw, raw

    def accept(self, build: GraphBuilder, loop: Loop, payload: Stream, joined: bool) -> None:
        if joined and self._joined is None:
            self._joined = self.loops.index(loop)
        self.ref = payload

    def needed_after(self, loop: Loop, nest: tuple[Loop, ...]) -> bool:
        return True

    def value(self, build: GraphBuilder) -> Stream:
        """The values that arrived, repeated over the loops below."""
        return self.ref


def loop_name(loop: Loop) -> str:
    """``i`` for an inner loop, ``i.tile`` for a tile loop."""
    return loop[0] if loop[1] == "inner" else f"{loop[0]}.tile"


def lane_params(slices: LaneSlices, loop: Loop) -> dict[str, int]:
    """Parameters of the scanners of a loop that restrict them to the coordinates of a lane."""
    return slices[loop].params if loop in slices else {}
