"""Reconvergence: where part of a stream must wait in a FIFO for something that comes later.

A statement that reads a stream and a reduction of that stream (a softmax subtracts the maximum of a row from its
entries) can go on only when the reduction is done; until then the entries wait in the FIFO between, and if it holds
fewer than one such group the graph deadlocks (DAM, attention study). A group has a Stop for every fiber, the one that
ends it included: the reduction waits for that one too.

An accumulator drains all levels of its result from one unit: the next outer coordinate leaves it only when the inner
ones have left. A join of outer coordinates that needs the next one therefore needs room for the inner ones.

How many entries and fibers a group has is known from the data, so that such mappings are never proposed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from mapper.empty_fibers import Hollow
from mapper.mapping import Loop, Loops
from mapper.program import Edge, Program
from mapper.regions import fused_edges, region_label, renaming
from mapper.tensor import Coords, distinct_columns
from mapper.violation import Violation
from mapper.workload import Workload

LoopsOf = Mapping[int, Loops] | Sequence[Loops]
"""The loops of every statement of a region, by its number."""

MOST_CELLS = 2**22
"""Groups that are counted in an array; where there could be more, coordinates are sorted."""

TOKENS_PER_ENTRY = 2
"""Most tokens of a stream per entry, as each may be followed by a stop."""


class Drained(NamedTuple):
    """A statement that reduces, the indices of its result, and those of them in which readers join it with other
    operands."""

    statement: int
    kept: frozenset[str]
    met: frozenset[str]


@dataclass(frozen=True, slots=True)
class Meetings:
    """Where streams of a region meet, whatever its loops. ``joined``: (reader, source, other source) of the statements
    that read several streams."""

    statements: tuple[int, ...]
    fused: tuple[Edge, ...]
    drained: tuple[Drained, ...]
    joined: tuple[tuple[int, int, int], ...]


@lru_cache(maxsize=65536)
def meetings(program: Program, statements: tuple[int, ...]) -> Meetings:
    """The meetings of a region, given by its statements."""
    fused = fused_edges(program, statements)
    drained, joined = [], []
    for number in statements:
        statement = program.statements[number]
        if statement.reduced:
            met = frozenset(i for edge in fused if edge.producer == number for i in _met(program, edge))
            drained.append(Drained(number, frozenset(statement.target.indices), met))
        made = sorted({edge.producer for edge in fused if edge.consumer == number}) if len(fused) > 1 else []
        joined += [(number, source, other) for source, other in itertools.permutations(made, 2)]
    return Meetings(statements, fused, tuple(drained), tuple(joined))


def _met(program: Program, edge: Edge) -> list[str]:
    """Indices of a stream that other operands of its reader have, as its producer calls them."""
    operands = program.statements[edge.consumer].operands
    others = {i for n, access in enumerate(operands) if n != edge.operand for i in access.indices}
    return [made for made, read in renaming(program, edge).items() if read in others]


class Wait(NamedTuple):
    """So many ``tokens`` of statement ``source``, or more, wait in a FIFO: entries for those of an accumulator, or
    entries and stops until ``reader`` has its other stream."""

    tokens: int
    source: int
    reader: int | None = None

    def violation(self, region: Meetings, program: Program, depth: int) -> Violation:
        """As a broken rule, behind FIFOs of ``depth``."""
        tensor, label = program.statements[self.source].target.tensor, region_label(region.statements)
        if self.reader is None:
            text, limit = f"{self.tokens} entries or more leave an accumulator", f"half a FIFO of {depth}"
            return Violation("drained-fifo", text, limit, f"{tensor} of {label}")
        text, limit = f"{self.tokens} entries and stops or more wait", f"a FIFO of {depth}"
        return Violation("reconvergent-fifo", text, limit, f"{tensor} in S{self.reader} of {label}")


def held_back(
    workload: Workload, region: Meetings, loops: LoopsOf, depth: int, padded: Collection[int] = (),
    hollow: Mapping[int, Hollow] = MappingProxyType({}),
) -> Iterator[Wait]:  # fmt: skip
    """Streams of a region that must wait for more than a FIFO of ``depth`` holds, the cheapest to find first.
    Statements that are ``padded`` make entries wherever there may be some, ``hollow`` ones fibers without entries."""
    room = depth // TOKENS_PER_ENTRY
    for drained in region.drained:
        number = drained.statement
        largest = _largest_drained(workload, drained, loops[number], room, number in padded)
        if largest > room:
            yield Wait(largest, number)
    program = workload.program
    steps = tuple([_in_step(program, loops[n], n) for n in region.statements] if region.joined else [])
    whole = list[int]()  # readers that wait for all of a stream, of which the last element goes on only with its end
    for reader, source, other in region.joined:
        lag = _lag(program, region.statements, steps, source, other)
        if lag is not None:
            tokens = _most_tokens(
                workload, source, loops[source], lag, depth, source in padded, hollow.get(source, Hollow())
            )
            tokens += lag == 0 and any(first <= source for first in whole)
            if tokens > depth:
                yield Wait(tokens, source, reader)
            if lag == 0 and not program.statements[reader].universal:
                whole.append(reader)


def drain_limits(
    workload: Workload, drained: Drained, order: tuple[str, ...], offered: tuple[tuple[str, tuple[int, ...]], ...],
    parts: bool, depth: int,
) -> dict[str, tuple[bool, ...]] | None:  # fmt: skip
    """Which of the tile extents that the tiled indices of a statement are ``offered``, outer to inner, FIFOs of
    ``depth`` may hold, for the indices on which that depends; None if FIFOs hold nothing. Where it depends on several,
    each is judged as if the tiles of the others were as small as can be. ``parts``: of lanes are added."""
    if not parts and not drained.met:
        return {}
    key = (drained, order, offered, parts, depth)
    if key not in workload.drain_limits:
        workload.drain_limits[key] = _drain_limits(workload, drained, order, dict(offered), parts, depth)
    return workload.drain_limits[key]


def _drain_limits(
    workload: Workload, drained: Drained, order: tuple[str, ...], offered: dict[str, tuple[int, ...]],
    parts: bool, depth: int,
) -> dict[str, tuple[bool, ...]] | None:  # fmt: skip
    above = _drains(tuple(offered), order, drained.kept, drained.met, parts)
    if above is None:
        return {}
    target = workload.program.statements[drained.statement].target
    walked = _walked(tuple(offered), order, target.indices, above + 1)
    finest = {index: math.gcd(*offered[index]) if whole else 1 for index, whole in walked}
    room = depth // TOKENS_PER_ENTRY

    def held(granules: dict[str, int]) -> bool:
        return _largest_group(workload, drained.statement, tuple(granules.items()), room) <= room

    if not held(finest):
        return None
    found = {i: tuple([held({**finest, i: extent}) for extent in offered[i]]) for i, whole in walked if whole}
    return found if all(map(any, found.values())) else None


def _largest_drained(workload: Workload, drained: Drained, own: Loops, room: int, full: bool) -> int:
    """Most entries that leave an accumulator while a join waits for the next outer coordinate, or a lower bound of that
    number beyond ``room``."""
    number, kept, met = drained
    parts = bool(own.parallel) and any(index not in kept for index, _, _ in own.parallel)
    if not parts and not met:
        return 0
    above = _drains(tuple([index for index, _ in own.tiles]), own.order, kept, met, parts)
    return 0 if above is None else _largest_within(workload, number, own, above + 1, room, full)


@lru_cache(maxsize=65536)
def _drains(
    tiled: tuple[str, ...], order: tuple[str, ...], kept: frozenset[str], met: frozenset[str], parts: bool
) -> int | None:
    """Loops above the accumulator of a statement, if some of several levels that leave it are joined: with streams of
    others in the indices ``met``, or where ``parts`` of lanes are added."""
    nest = (*tiled, *order)
    above = next(n for n, index in enumerate(nest) if index not in kept)
    drained = [index for index in nest[above:] if index in kept]
    return above if len(drained) > 1 and (parts or met.intersection(drained[:-1])) else None


@lru_cache(maxsize=65536)
def _lag(
    program: Program, statements: tuple[int, ...], steps: tuple[int | None, ...], source: int, other: int
) -> int | None:
    """Leading loops of the shared order within which ``other`` follows its common origin with ``source`` entry by
    entry: below them it is ready only when the whole group is. None if nothing of the region is common to both.
    ``steps``: loops that each of its statements keeps in step."""
    fused = fused_edges(program, statements)

    def above(number: int) -> dict[int, int | None]:
        """Statements that ``number`` is computed from, and the least loops that any way down to it keeps in step."""
        found: dict[int, int | None] = {number: None}
        for statement, step in sorted(zip(statements, steps, strict=True), reverse=True):
            if statement in found:
                here = _least(found[statement], step)
                for edge in fused:
                    if edge.consumer == statement:
                        found[edge.producer] = _least(found.get(edge.producer), here)
        return found

    mine, theirs = above(source), above(other)
    common = [theirs[n] for n in mine if n in theirs and (n == source or n != other)]
    lags = [lag for lag in common if lag is not None]
    return min(lags) if lags else None


def _least(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


def _in_step(program: Program, loops: Loops, statement: int) -> int | None:
    """Loops above the first reduced one; None if the statement reduces nothing."""
    kept = program.statements[statement].target.indices
    return next((n for n, (index, _) in enumerate(loops.nest) if index not in kept), None)


def _most_tokens(
    workload: Workload, number: int, own: Loops, loops: int, depth: int, full: bool, hollow: Hollow
) -> int:  # fmt: skip
    """Most tokens on the last level of a statement's result within one iteration of its first ``loops`` loops over it,
    a number beyond ``depth`` if they are. ``full``: of one that may have entries everywhere."""
    kept = workload.program.statements[number].target.indices
    entries = _largest_within(workload, number, own, loops, depth, full)
    nest = [loop for loop in own.nest if loop[0] in kept]
    outer = len(nest) - 1  # loops above the last level
    if loops > outer:  # entry by entry
        return entries
    group, fiber = (_granules(own, kept, n) for n in (loops, outer))
    within = workload.extents[number] | dict(group)
    fibers, above = (
        math.prod([-(-within[i] // granule) for i, granule in _granules(own, kept, max(n, loops))])
        for n in (outer, outer - 1)
    )
    if not full and entries < depth and any(i in hollow.dense for i, _ in nest[:loops]):
        entries = _largest_after_none(workload, number, own, tuple(nest[:loops]), hollow.dense)
    if full or hollow.unmet or any(i in hollow.dense for i, _ in nest[loops:outer]):
        return fibers + max(entries, above)  # fewer entries than fibers: the level above is longer
    if entries < depth < entries + fibers:
        return _largest_with_stops(workload, number, group, fiber)
    return entries + (fibers if entries < depth else 1)


def _largest_after_none(
    workload: Workload, number: int, own: Loops, nest: tuple[Loop, ...], dense: frozenset[str]
) -> int:  # fmt: skip
    """Most entries of a statement's result within one iteration of the loops ``nest`` over it and, before them,
    iterations without any: a reduction tells of these only when it tells of those. ``dense``: indices of which it has
    all coordinates, but of tiles only those with entries."""
    target, tiles, extents = workload.program.statements[number].target, dict(own.tiles), workload.extents[number]
    key = (target.tensor, nest, own.tiles, dense)
    if key not in workload.group_sizes:
        tensor = workload.tensor(target.tensor)
        place, steps, whole = np.zeros(tensor.nnz, np.int64), 1, False
        for index, part in nest:
            at, tile = tensor.coords[target.indices.index(index)], tiles.get(index, extents[index])
            step = -(-extents[index] // tile) if part == "tile" else tile
            place, steps = place * step + (at // tile if part == "tile" else at % tile), steps * step
            whole = whole or (part == "inner" and index in dense)
            if not whole:
                place = np.unique(place, return_inverse=True)[1]
                steps = int(place.max(initial=-1)) + 1
        groups, entries = np.unique(place, return_counts=True)
        none = np.diff(groups, prepend=-1, append=steps) - 1
        workload.group_sizes[key] = int((none + np.append(entries, 0)).max())
    return workload.group_sizes[key]


def _largest_with_stops(
    workload: Workload, number: int, group: tuple[tuple[str, int], ...], fiber: tuple[tuple[str, int], ...]
) -> int:
    """Most entries and fibers of a statement's result in a group; both are what agrees in the coordinates of some
    indices divided by their granules."""
    target = workload.program.statements[number].target
    key = (target.tensor, group, fiber)
    if key not in workload.group_sizes:
        coords = dict(zip(target.indices, workload.tensor(target.tensor).coords, strict=True))
        columns = [coords[i] // granule for i, granule in (*group, *fiber)]
        fibers, entries, _ = distinct_columns(np.stack(columns))
        place = distinct_columns(fibers[: len(group)])[2] if group else np.zeros_like(entries)
        workload.group_sizes[key] = int(np.bincount(place, entries + 1).max(initial=0))
    return workload.group_sizes[key]


def _granules(own: Loops, kept: tuple[str, ...], loops: int) -> tuple[tuple[str, int], ...]:
    """What the first ``loops`` loops over the indices ``kept`` divide their coordinates by."""
    tiles = dict(own.tiles)
    return tuple([(i, tiles[i] if whole else 1) for i, whole in _walked(tuple(tiles), own.order, kept, loops)])


def _largest_within(workload: Workload, number: int, own: Loops, loops: int, room: int, full: bool) -> int:
    """Most entries of a statement's result within one iteration of its first ``loops`` loops over them, or a lower
    bound of that number beyond ``room``. ``full``: of a result that may have entries everywhere."""
    target = workload.program.statements[number].target
    granules = _granules(own, target.indices, loops)
    if full:
        return math.prod((workload.extents[number] | dict(granules))[i] for i in target.indices)
    return _largest_group(workload, number, granules, room)


def _largest_group(workload: Workload, number: int, granules: tuple[tuple[str, int], ...], room: int) -> int:
    """Most entries of a statement's result that agree in the coordinates of some indices divided by their granules, or
    a lower bound of that number beyond ``room``: the entries spread evenly."""
    target = workload.program.statements[number].target
    key = (target.tensor, granules)
    if key not in workload.group_sizes:
        tensor = workload.tensor(target.tensor)
        extents = workload.extents[number]
        groups = math.prod([-(-extents[i] // granule) for i, granule in granules])
        if tensor.nnz > room * groups:
            return -(-tensor.nnz // groups)
        columns = [tensor.coords[target.indices.index(i)] // g for i, g in granules]
        workload.group_sizes[key] = _most_alike(columns) if columns and tensor.nnz else tensor.nnz
    return workload.group_sizes[key]


@lru_cache(maxsize=65536)
def _walked(
    tiled: tuple[str, ...], order: tuple[str, ...], kept: tuple[str, ...], loops: int
) -> tuple[tuple[str, bool], ...]:
    """The indices that the first ``loops`` loops over ``kept`` walk, sorted, and whether only their tiles."""
    nest = (*((i, True) for i in tiled if i in kept), *((i, False) for i in order if i in kept))
    return tuple(sorted(dict(nest[:loops]).items()))


def _most_alike(columns: list[Coords]) -> int:
    """How often the most frequent tuple of coordinates occurs."""
    extents = [int(column.max()) + 1 for column in columns]
    if math.prod(extents) <= MOST_CELLS:
        cell = columns[0]
        for column, extent in zip(columns[1:], extents[1:], strict=True):
            cell = cell * extent + column
        return int(np.bincount(cell).max())
    order = np.lexsort(columns)
    changed = np.any([np.diff(c[order]) != 0 for c in columns], axis=0)
    ends = np.concatenate([[-1], np.flatnonzero(changed), [order.size - 1]])
    return int(np.diff(ends).max())
