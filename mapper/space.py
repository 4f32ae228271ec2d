"""MappingSpace: the knobs of a workload on a machine, legal by construction where rules have product form.

A *structure* fixes the cuts and the loop orders; given a structure every other knob is independent, except that
lanes must not outnumber loop steps and units must suffice. So the space is counted as a sum of products (an upper
bound by those two rules) and sampled uniformly: a structure in proportion to its product, then every knob, then
rejection of what the two rules forbid.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np

from mapper.errors import EmptySpace, IllegalMapping
from mapper.formats import Format, default_formats
from mapper.legality import stored_tensors, violations
from mapper.machine import Machine
from mapper.mapping import Loops, Mapping
from mapper.regions import Violation, cut_violations, regions_of
from mapper.space_limits import SpaceLimits, check_names
from mapper.structure import Structure, order_text, region_orders
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

    def machine_of(self, mapping: Mapping) -> Machine:
        """The machine with the mapping's values of machine knobs."""
        return self.machine.with_fields(**dict(mapping.machine))

    def violations(self, mapping: Mapping) -> tuple[Violation, ...]:
        """Rules broken on the machine that the mapping asks for."""
        return violations(self.workload, mapping, self.machine_of(mapping))

    @cached_property
    def structures(self) -> tuple[Structure, ...]:
        """Every legal choice of cuts and orders. Raises EmptySpace if there is none, with the rule to blame."""
        found: list[Structure] = []
        reasons: list[Violation] = []
        for cuts in self._cut_choices():
            try:
                found += self._structures_of(cuts)
            except IllegalMapping as error:
                reasons += error.args[1]
        if not found:
            rules = "; ".join(dict.fromkeys(map(str, reasons)))
            raise EmptySpace(f"the mapping space is empty: {rules or 'no cuts are allowed'}")
        return tuple(found)

    def size(self) -> int:
        """Number of mappings: an upper bound, as lanes and units may forbid some."""
        return sum(self._weight(s) for s in self.structures)

    def _weight(self, structure: Structure) -> int:
        return math.prod(len(choices) for _, choices in self._knobs(structure))

    def sample(
        self, rng: np.random.Generator, structures: Sequence[Structure] | None = None, tries: int = 10_000
    ) -> Mapping:
        """A legal mapping, uniformly from the space or from the part that ``structures`` span.

        Raises EmptySpace naming the rules that forbade all ``tries``."""
        among = self.structures if structures is None else structures
        running = list(itertools.accumulate(self._weight(s) for s in among))
        reasons: dict[str, int] = {}
        for _ in range(tries):
            ticket = int(rng.random() * running[-1])
            structure = among[bisect.bisect_right(running, ticket)]
            picks = {name: choices[int(rng.integers(len(choices)))] for name, choices in self._knobs(structure)}
            mapping = self._assemble(structure, picks)
            broken = self.violations(mapping)
            if not broken:
                return mapping
            for violation in broken:
                reasons[violation.rule] = reasons.get(violation.rule, 0) + 1
        text = ", ".join(f"{rule} ({n} times)" for rule, n in sorted(reasons.items(), key=lambda r: -r[1]))
        raise EmptySpace(f"no legal mapping among {tries} uniform draws: forbidden by {text}")

    def choose(self, chooser: Chooser) -> Mapping:
        """The mapping that ``chooser`` makes, one named knob at a time; knobs without a choice are not asked.

        Raises IllegalMapping (message, violations) where cuts were chosen that no order serves."""
        cuts = tuple(self._choose_cut(chooser, n) for n in range(len(self.workload.program.edges)))
        regions = self._checked_regions(cuts)
        orders: dict[int, tuple[str, ...]] = {}
        for statements, options in regions:
            texts = [order_text(o) for o in options]
            name = "+".join(f"S{n}" for n in statements)
            pick = texts.index(_pick(chooser, f"order.{name}", texts))
            orders.update(zip(statements, options[pick], strict=True))
        structure = self._structure(cuts, tuple(s for s, _ in regions), orders)
        if isinstance(structure, Violation):
            raise IllegalMapping(str(structure), (structure,))
        picks: dict[str, Any] = {}
        for knob, choices in self._knobs(structure):
            if knob.startswith("tile."):
                picks[knob] = _pick_tile(chooser, knob, choices)
            elif knob.startswith("lanes."):
                label = [f"{index} x{lanes}" if lanes > 1 else "none" for index, lanes in choices]
                picks[knob] = choices[label.index(_pick(chooser, knob, label))]
            elif knob.startswith("format."):
                tensor = knob.removeprefix("format.")
                picks[knob] = _pick(chooser, knob, [str(f) for f in self._allowed_formats(tensor)])
                if picks[knob] not in choices:  # the list asked from is the same for every order: knobs are static
                    reason = _format_order(tensor, picks[knob], structure.orders)
                    raise IllegalMapping(str(reason), (reason,))
            else:
                picks[knob] = _pick(chooser, knob, list(choices))
        return self._assemble(structure, picks)

    def _allowed_formats(self, tensor: str) -> tuple[Format, ...]:
        data = self.workload.tensor(tensor)
        return self.limits.formats.get(tensor) or default_formats(data.ndim, data.density)

    def _cut_choices(self) -> Iterator[tuple[bool, ...]]:
        fuse = self.limits.fuse
        per_edge = [(not fuse[e.tensor],) if e.tensor in fuse else (True, False) for e in self.workload.program.edges]
        return itertools.product(*per_edge)

    def _choose_cut(self, chooser: Chooser, position: int) -> bool:
        edge = self.workload.program.edges[position]
        if edge.tensor in self.limits.fuse:
            return not self.limits.fuse[edge.tensor]
        return chooser.categorical(f"cut.{edge.name}", ["cut", "fused"]) == "cut"

    def _checked_regions(
        self, cuts: tuple[bool, ...]
    ) -> list[tuple[tuple[int, ...], list[tuple[tuple[str, ...], ...]]]]:
        """Regions with the orders that serve them; raises IllegalMapping where there is none."""
        broken = cut_violations(self.workload.program, cuts)
        if broken:
            raise IllegalMapping(str(broken[0]), broken)
        regions = []
        for statements in regions_of(self.workload.program, cuts):
            options = region_orders(self.workload.program, cuts, statements, self.limits.orders)
            if not options:
                name = "+".join(f"S{n}" for n in statements)
                reason = Violation("no-common-order", "no loop order", "one outer order for all fused statements", name)
                raise IllegalMapping(str(reason), (reason,))
            regions.append((statements, options))
        return regions

    def _structures_of(self, cuts: tuple[bool, ...]) -> list[Structure]:
        regions = self._checked_regions(cuts)
        found: list[Structure] = []
        reasons: list[Violation] = []
        for combination in itertools.product(*(options for _, options in regions)):
            orders = {
                n: order
                for (s, _), chosen in zip(regions, combination, strict=True)
                for n, order in zip(s, chosen, strict=True)
            }
            structure = self._structure(cuts, tuple(s for s, _ in regions), orders)
            if isinstance(structure, Violation):
                reasons.append(structure)
            else:
                found.append(structure)
        if not found:
            raise IllegalMapping(str(reasons[0]), tuple(dict.fromkeys(reasons)))
        return found

    def _structure(
        self, cuts: tuple[bool, ...], regions: tuple[tuple[int, ...], ...], orders: dict[int, tuple[str, ...]]
    ) -> Structure | Violation:
        formats = {}
        for tensor in stored_tensors(self.workload, cuts):
            allowed = self._allowed_formats(tensor)
            fitting = [f for f in allowed if f.mode_order is None or self._walks(tensor, f.mode_order, orders)]
            if not fitting:
                return _format_order(tensor, " or ".join(map(str, allowed)), tuple(orders.values()))
            formats[tensor] = tuple(fitting)
        return Structure(cuts, regions, tuple(orders[n] for n in sorted(orders)), tuple(formats.items()))

    def _walks(self, tensor: str, mode_order: tuple[int, ...], orders: dict[int, tuple[str, ...]]) -> bool:
        for number, statement in enumerate(self.workload.program.statements):
            for access in (statement.target, *statement.operands):
                if access.tensor == tensor:
                    walked = tuple(access.indices.index(i) for i in orders[number] if i in access.indices)
                    if walked != mode_order:
                        return False
        return True

    def _knobs(self, structure: Structure) -> list[tuple[str, tuple]]:  # type: ignore[type-arg]
        """(name, choices) of the independent knobs of a structure, in a fixed order."""
        program, limits = self.workload.program, self.limits
        knobs: list[tuple[str, tuple]] = []  # type: ignore[type-arg]
        for number, index in structure.tileable(program):
            knobs.append((f"tile.S{number}.{index}", self._tile_choices(number, index)))
        for statements in structure.regions:
            options = [("", 1)]
            for index in structure.parallel_indices(program, statements):
                if limits.parallel_indices is None or index in limits.parallel_indices:
                    lanes = 2
                    while lanes <= min(limits.max_lanes, self.workload.extents[statements[0]][index]):
                        options.append((index, lanes))
                        lanes *= 2
            knobs.append(("lanes." + "+".join(f"S{n}" for n in statements), tuple(options)))
        knobs += [(f"format.{tensor}", tuple(map(str, formats))) for tensor, formats in structure.formats]
        knobs.append(("residency", limits.residency if self.machine.dram_channels is not None else ("none",)))
        knobs += [(f"machine.{name}", values) for name, values in sorted(limits.machine.items())]
        return knobs

    def _tile_choices(self, number: int, index: str) -> tuple[int, ...]:
        """Tile extents, smallest first, 0 (not tiled) last."""
        extent = self.workload.extents[number][index]
        if index in self.limits.tiles:
            return tuple(t if t < extent else 0 for t in self.limits.tiles[index]) or (0,)
        smallest = max(4, 2 ** math.ceil(math.log2(max(extent, 1) / MOST_TILES)) if extent else 4)
        powers = []
        while smallest < extent:
            powers.append(smallest)
            smallest *= 2
        return (*powers, 0)

    def _assemble(self, structure: Structure, picks: dict) -> Mapping:  # type: ignore[type-arg]
        program = self.workload.program
        tiles = {tuple(k.split(".")[1:]): v for k, v in picks.items() if k.startswith("tile.")}
        loops = []
        for number, order in enumerate(structure.orders):
            extent = [
                (i, tiles.get((f"S{leader}", name), 0))
                for i in order
                for leader, name in [structure.leader(program, number, i)]
            ]
            lanes = picks["lanes." + "+".join(f"S{n}" for n in structure.region_of(number))]
            parallel = (structure.alias(program, number, lanes[0]), lanes[1]) if lanes[1] > 1 else None
            loops.append(Loops(order, tuple(sorted((i, t) for i, t in extent if t)), parallel))
        formats = tuple(
            sorted(
                (t, next(f.kinds for f in options if str(f) == picks[f"format.{t}"]))
                for t, options in structure.formats
            )
        )
        machine = tuple((k.removeprefix("machine."), v) for k, v in sorted(picks.items()) if k.startswith("machine."))
        return Mapping(structure.cuts, tuple(loops), formats, picks["residency"], machine)


def _format_order(tensor: str, formats: str, orders: tuple[tuple[str, ...], ...]) -> Violation:
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
