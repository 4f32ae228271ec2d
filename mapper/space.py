"""MappingSpace: the knobs of a workload on a machine, legal by construction where rules have product form.

Given the cuts, loop orders of each region and all other knobs are independent, but for three rules: lanes must not
outnumber loop steps, units must suffice, and a format with a fixed mode order must suit the loop order. So the space is
counted as a sum of products (an upper bound by those three rules) and sampled uniformly: cuts in proportion to their
product, then every knob, then rejection of what the three rules forbid.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np

from mapper.dtypes import FP32
from mapper.errors import EmptySpace, IllegalMapping
from mapper.formats import Format, offered_formats, writable
from mapper.fusion import Fusion, Orders, fuse, order_text
from mapper.legality import stored_tensors, violations
from mapper.machine import Machine
from mapper.mapping import Loops, Mapping
from mapper.regions import region_label
from mapper.space_limits import SpaceLimits, check_names
from mapper.violation import Violation
from mapper.workload import Workload

MOST_TILES = 1024
"""Tile extents that split an index into more tiles than this are not offered."""

Choice = TypeVar("Choice", bound=str | int | float | None)


class Chooser(Protocol):
    """Whoever decides: an Optuna trial, a random generator, a fixed assignment."""

    def categorical(self, name: str, choices: Sequence[Choice]) -> Choice:
        """One of ``choices``."""

    def integer(self, name: str, low: int, high: int) -> int:
        """An integer in [low, high]."""


class MappingSpace:
    """All mappings of ``workload`` on ``machine`` within ``limits``."""

    def __init__(self, workload: Workload, machine: Machine, limits: SpaceLimits | None = None) -> None:
        self.workload, self.machine, self.limits = workload, machine, limits or SpaceLimits()
        check_names(workload, self.limits)
        self._offered: dict[str, tuple[Format, ...]] = {}

    def machine_of(self, mapping: Mapping) -> Machine:
        """The machine with the mapping's values of machine knobs."""
        return self.machine.with_fields(**dict(mapping.machine))

    def violations(self, mapping: Mapping) -> tuple[Violation, ...]:
        """Rules broken on the machine that the mapping asks for."""
        return violations(self.workload, mapping, self.machine_of(mapping))

    @cached_property
    def fusions(self) -> tuple[Fusion, ...]:
        """Every legal choice of cuts. Raises EmptySpace, with the rules to blame, if no mapping is left."""
        found: list[Fusion] = []
        reasons: list[Violation] = []
        for cuts in self._cut_choices():
            try:
                found.append(fuse(self.workload.program, cuts, self.limits.orders))
            except IllegalMapping as error:
                reasons += error.violations
        if not any(self._has_order(fusion, reasons) for fusion in found):
            rules = "; ".join(dict.fromkeys(map(str, reasons)))
            raise EmptySpace(f"the mapping space is empty: {rules or 'no cuts are allowed'}")
        return tuple(found)

    def _has_order(self, fusion: Fusion, reasons: list[Violation]) -> bool:
        """Whether some loop order suits the formats that the user allows; adds the reasons against the others."""
        for chosen in itertools.product(*fusion.orders):
            orders = fusion.spread(chosen)
            misfits = [
                _format_order(tensor, " or ".join(map(str, allowed)), orders)
                for tensor in stored_tensors(self.workload, fusion.cuts)
                for allowed in [self._allowed_formats(tensor)]
                if not any(self._suits(tensor, f, orders) for f in allowed)
            ]
            if not misfits:
                return True
            reasons += misfits
        return False

    def size(self) -> int:
        """Number of mappings: an upper bound, as lanes, units and mode orders of formats may forbid some."""
        return self._running[-1]

    @cached_property
    def _running(self) -> list[int]:
        return self._running_weights(self.fusions)

    def _running_weights(self, fusions: Sequence[Fusion]) -> list[int]:
        return list(itertools.accumulate(map(self._weight, fusions)))

    def _weight(self, fusion: Fusion) -> int:
        return fusion.order_count * math.prod(len(choices) for _, choices in self._knobs(fusion))

    def sample(self, rng: np.random.Generator, fusions: Sequence[Fusion] | None = None, tries: int = 10_000) -> Mapping:
        """A legal mapping, uniformly from the space or from the part that ``fusions`` span.

        Raises EmptySpace naming the rules that forbade all ``tries``.
        """
        among = self.fusions if fusions is None else fusions
        running = self._running if fusions is None else self._running_weights(fusions)
        reasons: dict[str, int] = {}
        for _ in range(tries):
            fusion = among[bisect.bisect_right(running, int(rng.random() * running[-1]))]
            orders = fusion.spread(tuple(options[int(rng.integers(len(options)))] for options in fusion.orders))
            picks = {name: choices[int(rng.integers(len(choices)))] for name, choices in self._knobs(fusion)}
            try:
                mapping = self._assemble(fusion, orders, picks)
                broken = self.violations(mapping)
            except IllegalMapping as error:
                broken = error.violations
            if not broken:
                return mapping
            for violation in broken:
                reasons[violation.rule] = reasons.get(violation.rule, 0) + 1
        text = ", ".join(f"{rule} ({n} times)" for rule, n in sorted(reasons.items(), key=lambda r: -r[1]))
        raise EmptySpace(f"no legal mapping among {tries} uniform draws: forbidden by {text}")

    def choose(self, chooser: Chooser) -> Mapping:
        """The mapping that ``chooser`` makes, one named knob at a time; knobs without a choice are not asked, and a
        knob of one name always has the same choices.

        Raises IllegalMapping for cuts that no order serves and formats that do not suit orders.
        """
        cuts = tuple(self._choose_cut(chooser, n) for n in range(len(self.workload.program.edges)))
        fusion = fuse(self.workload.program, cuts, self.limits.orders)
        chosen = []
        for region, options in zip(fusion.regions, fusion.orders, strict=True):
            texts = [order_text(o) for o in options]
            chosen.append(options[texts.index(_pick(chooser, f"order.{region_label(region)}", texts))])
        picks: dict[str, Any] = {}
        for knob, choices in self._knobs(fusion):
            if knob.startswith("tile."):
                picks[knob] = _pick_tile(chooser, knob, choices)
            elif knob.startswith("lanes."):
                labels = [f"{index} x{lanes}" if lanes > 1 else "none" for index, lanes in choices]
                picks[knob] = choices[labels.index(_pick(chooser, knob, labels))]
            else:
                picks[knob] = _pick(chooser, knob, list(choices))
        return self._assemble(fusion, fusion.spread(tuple(chosen)), picks)

    def _allowed_formats(self, tensor: str) -> tuple[Format, ...]:
        if tensor in self.limits.formats:
            return self.limits.formats[tensor]
        if tensor not in self._offered:
            offered = offered_formats(self.workload.tensor(tensor))
            computed = tensor in self.workload.program.producers
            self._offered[tensor] = tuple(f for f in offered if writable(f.kinds) or not computed)
        return self._offered[tensor]

    def _cut_choices(self) -> Iterator[tuple[bool, ...]]:
        fuse = self.limits.fuse
        per_edge = [(not fuse[e.tensor],) if e.tensor in fuse else (True, False) for e in self.workload.program.edges]
        return itertools.product(*per_edge)

    def _choose_cut(self, chooser: Chooser, position: int) -> bool:
        edge = self.workload.program.edges[position]
        if edge.tensor in self.limits.fuse:
            return not self.limits.fuse[edge.tensor]
        return chooser.categorical(f"cut.{edge.name}", ["cut", "fused"]) == "cut"

    def _suits(self, tensor: str, form: Format, orders: Orders) -> bool:
        """Whether every access of ``tensor`` walks the modes in the order that the format fixes, if it fixes one."""
        return form.mode_order is None or all(
            tuple(access.indices.index(i) for i in orders[number] if i in access.indices) == form.mode_order
            for number, statement in enumerate(self.workload.program.statements)
            for access in (statement.target, *statement.operands)
            if access.tensor == tensor
        )

    def _knobs(self, fusion: Fusion) -> list[tuple[str, tuple[Any, ...]]]:
        """(name, choices) of the knobs that are independent once cuts and orders are chosen, in a fixed order."""
        limits = self.limits
        knobs: list[tuple[str, tuple[Any, ...]]] = [
            (f"tile.S{number}.{index}", self._tile_choices(number, index)) for number, index in fusion.tileable()
        ]
        knobs += [(f"lanes.{region_label(region)}", self._lane_choices(fusion, region)) for region in fusion.regions]
        for tensor in stored_tensors(self.workload, fusion.cuts):
            knobs.append((f"format.{tensor}", tuple(map(str, self._allowed_formats(tensor)))))
        knobs.append(("residency", limits.residency if self.machine.dram_channels is not None else ("none",)))
        knobs += [(f"machine.{name}", values) for name, values in sorted(limits.machine.items())]
        return knobs

    def _lane_choices(self, fusion: Fusion, region: tuple[int, ...]) -> tuple[tuple[str, int], ...]:
        """(index, lanes): one lane, then powers of two over each index that may be parallel."""
        allowed, extents = self.limits.parallel_indices, self.workload.extents[region[0]]
        choices = [("", 1)]
        for index in fusion.parallel_indices(region):
            most = min(self.limits.max_lanes, extents[index]) if allowed is None or index in allowed else 1
            choices += [(index, 2**n) for n in range(1, most.bit_length())]
        return tuple(choices)

    def _tile_choices(self, number: int, index: str) -> tuple[int, ...]:
        """Tile extents, smallest first, 0 (not tiled) last."""
        extent = self.workload.extents[number][index]
        if index in self.limits.tiles:
            return tuple(dict.fromkeys(t if t < extent else 0 for t in self.limits.tiles[index])) or (0,)
        smallest = max(4, 2 ** math.ceil(math.log2(max(extent, 1) / MOST_TILES)) if extent else 4)
        powers = []
        while smallest < extent:
            powers.append(smallest)
            smallest *= 2
        return (*powers, 0)

    def _assemble(self, fusion: Fusion, orders: Orders, picks: dict[str, Any]) -> Mapping:
        loops = []
        for number, order in enumerate(orders):
            leaders = {i: fusion.leader(number, i) for i in order}
            tiles = {i: picks.get(f"tile.S{leader}.{name}", 0) for i, (leader, name) in leaders.items()}
            index, lanes = picks[f"lanes.{region_label(fusion.region_of(number))}"]
            parallel = (fusion.alias(number, index), lanes) if lanes > 1 else None
            loops.append(Loops(order, tuple(sorted((i, t) for i, t in tiles.items() if t)), parallel))
        formats, dtypes = [], []
        for tensor in sorted(stored_tensors(self.workload, fusion.cuts)):
            form = next(f for f in self._allowed_formats(tensor) if str(f) == picks[f"format.{tensor}"])
            if not self._suits(tensor, form, orders):
                raise IllegalMapping([_format_order(tensor, str(form), orders)])
            formats.append((tensor, form.kinds))
            dtypes += [(tensor, form.dtype)] * (form.dtype != FP32)
        machine = tuple((k.removeprefix("machine."), v) for k, v in sorted(picks.items()) if k.startswith("machine."))
        return Mapping(fusion.cuts, tuple(loops), tuple(formats), picks["residency"], machine, tuple(dtypes))


def _format_order(tensor: str, formats: str, orders: Orders) -> Violation:
    return Violation("format-order", f"order {order_text(orders)}", f"one that walks {formats}", tensor)


def _pick(chooser: Chooser, name: str, choices: Sequence[Choice]) -> Choice:
    return choices[0] if len(choices) == 1 else chooser.categorical(name, choices)


def _pick_tile(chooser: Chooser, name: str, choices: Sequence[int]) -> int:
    """Whether to tile is one knob, the extent another: not to tile drops a loop, it is no mere large extent."""
    extents = [tile for tile in choices if tile]
    if not extents:
        return 0
    if len(extents) < len(choices) and chooser.categorical(name.replace("tile.", "tiled."), ["yes", "no"]) == "no":
        return 0
    return extents[0] if len(extents) == 1 else extents[chooser.integer(name, 0, len(extents) - 1)]
