"""Neighbourhood: the mappings one knob away from a mapping, for local search and for advice.

One knob is: two neighbouring loops of a region swapped, or two of its tile loops; a tile one step larger or smaller, a
tile loop made or removed; lanes doubled, halved or moved to another index; how lanes share coordinates; the format of a
tensor; residency; how products meet dense levels; a machine field, one value up or down; an edge cut or fused; another
rewriting of the program.

Each of these can be undone by one of its kind, but for three that lose what was chosen: a tile loop that is removed
forgets where it stood, regions that are joined what they did not share, and a rewriting begins from its default.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mapper.default_mapping import default_mapping
from mapper.dtypes import FP32
from mapper.errors import IllegalMapping
from mapper.fused_region import FusedRegion
from mapper.fusion import fuse
from mapper.linear_orders import PartialOrder
from mapper.loop_choices import RegionChoice
from mapper.mapping import Loops, Mapping
from mapper.program_space import ProgramSpace
from mapper.region_neighbours import region_neighbours
from mapper.region_space import Choice, RegionSpace
from mapper.regions import stored_tensors

if TYPE_CHECKING:
    from mapper.space import MappingSpace


class Neighbourhood:
    """Iterates over the neighbours of ``mapping``, each legal and once, in a fixed order; they are in the space where
    ``mapping`` is. Raises IllegalMapping for a mapping whose cuts or tile loops are illegal."""

    def __init__(self, space: MappingSpace, mapping: Mapping) -> None:
        self.space, self.mapping = space, mapping
        workload = space.workload.variant(mapping.variant)
        own = space.programs.get(mapping.variant)
        self.program = own or ProgramSpace(workload, space.machine, space.limits, mapping.variant)
        self.fusion = fuse(workload.program, mapping.cuts, space.limits.orders)
        self.loops = dict(enumerate(mapping.loops))

    def __iter__(self) -> Iterator[Mapping]:
        seen = {self.mapping}
        within = self._offered(self.mapping)
        for found in itertools.chain(
            self._regions(), self._formats(), self._residencies(), self._machines(), self._cuts(), self._rewritings()
        ):
            if found not in seen:
                seen.add(found)
                if self._offered(found) >= within and not self.space.violations(found):
                    yield found

    def _offered(self, mapping: Mapping) -> bool:
        """Whether the space has the formats of a mapping for the orders in which they are walked."""
        try:
            program = self.space.programs.get(mapping.variant, self.program)
            return bool(program.formats.stored(mapping)) or not mapping.formats
        except IllegalMapping:
            return False

    def _regions(self) -> Iterator[Mapping]:
        for region in self.fusion.regions:
            space = self.program.region_space(region)
            for choice in region_neighbours(space, space.choice(self.loops)):
                loops = self.loops | space.loops(choice)
                yield replace(self.mapping, loops=tuple(loops[n] for n in sorted(loops)))

    def _formats(self) -> Iterator[Mapping]:
        for tensor, kinds in self.mapping.formats:
            for form in self.program.formats.of(tensor).values():
                if (form.kinds, form.dtype) != (kinds, self.mapping.dtype(tensor)):
                    formats = dict(self.mapping.formats) | {tensor: form.kinds}
                    dtypes = dict(self.mapping.dtypes) | {tensor: form.dtype}
                    yield replace(self.mapping, formats=tuple(sorted(formats.items())), dtypes=_narrow(dtypes))

    def _residencies(self) -> Iterator[Mapping]:
        yield from (replace(self.mapping, residency=residency) for residency in self.program.residencies)
        yield from (replace(self.mapping, joins=joins) for joins in self.space.limits.joins)

    def _machines(self) -> Iterator[Mapping]:
        now = dict(self.mapping.machine)
        for name, values in sorted(self.space.limits.machine.items()):
            steps = sorted(values, key=_size)
            below = [v for v in steps if name in now and _size(v) < _size(now[name])]
            above = [v for v in steps if name in now and _size(v) > _size(now[name])]
            for value in (*below[-1:], *above[:1]):
                yield replace(self.mapping, machine=tuple(sorted((now | {name: value}).items())))

    def _cuts(self) -> Iterator[Mapping]:
        """Per edge the first way to flip it that is possible: alone, or with those that must go along."""
        for flipped in map(self._flips, range(len(self.mapping.cuts))):
            for edges in flipped:
                cuts = tuple(cut != (n in edges) for n, cut in enumerate(self.mapping.cuts))
                if (found := self._with_cuts(cuts)) is not None:
                    yield found
                    break

    def _flips(self, number: int) -> list[set[int]]:
        """Sets of edges to flip along with edge ``number``."""
        edges, cuts = self.fusion.program.edges, self.mapping.cuts
        edge = edges[number]
        if cuts[number]:  # all edges between two regions are fused together
            joined = {
                *self.fusion.region_of(edge.producer).statements,
                *self.fusion.region_of(edge.consumer).statements,
            }
            return [{n for n, e in enumerate(edges) if cuts[n] and {e.producer, e.consumer} <= joined}]
        fused = [n for n, cut in enumerate(cuts) if not cut]
        same = {n for n in fused if edges[n].tensor == edge.tensor}
        return [{number}, same, {n for n in fused if edges[n].consumer == edge.consumer}]

    def _with_cuts(self, cuts: tuple[bool, ...]) -> Mapping | None:
        """The mapping with other cuts and as much of the rest as is legal; None if there is none."""
        try:
            fusion = self.program.fusion_of(cuts)
        except IllegalMapping:
            return None
        known = {region.statements for region in self.fusion.regions}
        for tiled, parallel in ((True, True), (True, False), (False, False)):
            loops = dict(self.loops)
            for region in fusion.regions:
                if region.statements not in known:
                    loops |= _kept(self.program.region_space(region), loops, tiled, parallel)
            found = self._stored(replace(self.mapping, cuts=cuts, loops=tuple(loops[n] for n in sorted(loops))))
            if found and not self.space.violations(found):
                return found
        return None

    def _stored(self, mapping: Mapping) -> Mapping | None:
        """With a format for every tensor that is stored now: its own, else the first that suits the orders."""
        orders = {n: loops.order for n, loops in enumerate(mapping.loops)}
        formats, dtypes = dict(mapping.formats), dict(mapping.dtypes)
        tensors = sorted(stored_tensors(self.program.workload.program, mapping.cuts))
        for tensor in tensors:
            if tensor not in formats:
                form = next(iter(self.program.formats.suited(tensor, orders)), None)
                if form is None:
                    return None
                formats[tensor], dtypes[tensor] = form.kinds, form.dtype
        kept = {tensor: dtypes.get(tensor, FP32) for tensor in tensors}
        return replace(mapping, formats=tuple((t, formats[t]) for t in tensors), dtypes=_narrow(kept))

    def _rewritings(self) -> Iterator[Mapping]:
        residency, machine, joins = self.mapping.residency, self.mapping.machine, self.mapping.joins
        for label in self.space.programs:
            if label == self.mapping.variant:
                continue
            start = replace(default_mapping(self.space, label), residency=residency, machine=machine, joins=joins)
            try:
                self.space.params(start)
            except IllegalMapping:
                try:
                    start = replace(self.space.choose(_Plain(label)), residency=residency, machine=machine, joins=joins)
                except IllegalMapping:
                    continue
            yield start


class _Plain:
    """A chooser of the first of everything: all edges cut, nothing tiled, one lane."""

    def __init__(self, label: str) -> None:
        self.label = label

    def categorical(self, name: str, choices: Sequence[Choice]) -> Choice:
        wanted = self.label if name == "rewrite" else "no"
        return next((choice for choice in choices if choice == wanted), choices[0])

    def integer(self, name: str, low: int, high: int) -> int:
        return low


def _kept(space: RegionSpace, loops: dict[int, Loops], tiled: bool, parallel: bool) -> dict[int, Loops]:
    """Loops of a new region that are those of its statements as far as they fit together, earlier statements first."""
    region = space.region
    own = [(n, loops[n]) for n in region.statements]
    order = _merged(region.orders[0], (_names(region, n, known.order) for n, known in own))
    tiles = {region.leaders[n, i]: tile for n, known in reversed(own) for i, tile in known.tiles} if tiled else {}
    tiles = {leader: tile for leader, tile in tiles.items() if tile in space.tiles.get(leader, ())}
    tiles |= {x: choices[0] for x, choices in space.tiles.items() if 0 not in choices and x not in tiles}
    nests = (_names(region, n, [i for i, _ in known.tiles]) for n, known in own)
    by_name = {f"S{n}.{i}": (n, i) for n, i in tiles}
    tile_order = _merged(region.tile_orders(frozenset(tiles))[0], ([n for n in nest if n in by_name] for nest in nests))
    shared = next((known.parallel for _, known in own if known.parallel), ())
    number = next((n for n, known in own if known.parallel), 0)
    counts = {region.leaders[number, i]: lanes for i, lanes, _ in shared if parallel}
    lanes = next((known for known in space.lanes if dict(known) == counts), ())
    partition = shared[0][2] if shared else space.limits.partitions[0]
    tile_loops = tuple((by_name[name], tiles[by_name[name]]) for name in tile_order)
    return space.loops(RegionChoice(region.orders_of(order), tile_loops, lanes, partition))


def _merged(order: PartialOrder, words: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """An order that is admitted and keeps of ``words`` every pair of neighbours that those before it allow."""
    for word in words:
        for pair in itertools.pairwise(word):
            joined = PartialOrder(order.elements, order.before | {pair})
            order = joined if joined.cycle() is None else order
    return order.unrank(0)


def _names(region: FusedRegion, number: int, indices: Iterable[str]) -> list[str]:
    return [region.name(number, i) for i in indices]


def _narrow(dtypes: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((tensor, dtype) for tensor, dtype in sorted(dtypes.items()) if dtype != FP32)


def _size(value: float | None) -> float:
    """Values of a machine field in order; None is no limit."""
    return float("inf") if value is None else value
