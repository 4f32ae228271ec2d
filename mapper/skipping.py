"""Skipping: coordinates of a stream that find no partner in a product, too many in a row for the FIFOs.

A product that joins a stream above its last level passes on what finds partners. The deeper levels of the stream are
selected by what was passed on: while nothing is, all that stands below coordinates without partners waits in the FIFOs,
and once it fills one, the stream stands still for good. How much that is the data tell; where it begins to matter
depends on what else is under way, so that the rule is on the safe side.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingABC
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from mapper.formats import DENSE
from mapper.locating import located
from mapper.mapping import Loop, Loops, Mapping
from mapper.program import Access, Edge, Program
from mapper.reconvergence import TOKENS_PER_ENTRY
from mapper.regions import fused_edges, region_label, renaming, stream_nest
from mapper.tensor import Coords, SparseTensor
from mapper.violation import Violation
from mapper.workload import Workload


def skipped_runs(workload: Workload, mapping: Mapping, depth: int, statements: tuple[int, ...]) -> list[Violation]:
    """Streams of a region, given by its statements, of which more stands between partners than half a FIFO holds."""
    found = []
    for edge in _multiplied(workload.program, statements):
        longest = _longest(workload, mapping, edge, fused_edges(workload.program, statements))
        if longest > depth // TOKENS_PER_ENTRY:
            limit, where = f"half a FIFO of {depth}", f"{edge.tensor} in S{edge.consumer} of {region_label(statements)}"
            found.append(Violation("skipped-fifo", f"{longest} tokens in a row find no partner", limit, where))
    return found


@lru_cache(maxsize=65536)
def _multiplied(program: Program, statements: tuple[int, ...]) -> tuple[Edge, ...]:
    """The fused edges of a region that products of several operands read."""
    readers = [n for n in statements if program.statements[n].kind == "contract"]
    readers = [n for n in readers if len(program.statements[n].operands) > 1]
    return tuple(edge for edge in fused_edges(program, statements) if edge.consumer in readers)


def _longest(workload: Workload, mapping: Mapping, edge: Edge, fused: tuple[Edge, ...]) -> int:
    """Most tokens of the level that fills a FIFO first, from one coordinate with partners to the next."""
    program, loops = workload.program, mapping.loops[edge.consumer]
    reader, nest = program.statements[edge.consumer], stream_nest(program, edge.producer, mapping.loops[edge.producer])
    if len(nest) < 2:
        return 0
    names = renaming(program, edge)
    levels = tuple([(names[i], part) for i, part in nest])
    streams = {e.operand for e in fused if e.consumer == edge.consumer}
    kinds = [None if n in streams else mapping.kinds(a.tensor) for n, a in enumerate(reader.operands)]
    joins = mapping.joins == "locate"
    missing = list[tuple[int, Access, tuple[Loop, ...]]]()  # (level, partner, its loops) that may lack coordinates
    for q, loop in enumerate(levels[:-1]):
        found = located(reader, loops, kinds, loop) if joins else ()
        for n, partner in enumerate(reader.operands):
            if n == edge.operand or n in found or loop[0] not in partner.indices:
                continue
            own = _sparse(partner, kinds[n], loops, levels[: q + 1])
            if own and not _covered(workload, edge, n, tuple(sorted({i for i, _ in own}))):
                missing.append((q, partner, own))
    if not missing:
        return 0
    deepest = len(levels) - (1 if _drained(workload, mapping, edge.producer, fused) else 2)
    tiles = tuple(sorted(loops.tiles))
    key = ("skipped", edge, levels, tiles, deepest, tuple((q, a.tensor, own) for q, a, own in missing))
    if key not in workload.group_sizes:
        workload.group_sizes[key] = _counted(workload, reader.operands[edge.operand], loops, levels, missing, deepest)
    return workload.group_sizes[key]


def _sparse(access: Access, kinds: tuple[str, ...] | None, loops: Loops, levels: Sequence[Loop]) -> tuple[Loop, ...]:
    """The loops of a partner among ``levels`` down to its last level that is not dense."""
    own = [loop for loop in levels if loop[0] in access.indices]
    order = [i for i in loops.order if i in access.indices]
    while own and kinds is not None and own[-1][1] == "inner" and kinds[order.index(own[-1][0])] == DENSE:
        own.pop()
    return tuple(own)


def _covered(workload: Workload, edge: Edge, partner: int, indices: tuple[str, ...]) -> bool:
    """Whether operand ``partner`` has all coordinates of ``indices`` that the stream has, and so all their tiles."""
    key = ("covered", edge.consumer, edge.operand, partner, indices)
    if key not in workload.group_sizes:
        operands = workload.program.statements[edge.consumer].operands
        read = (operands[edge.operand], operands[partner])
        own = (workload.tensor(a.tensor).coords[[a.indices.index(i) for i in indices]] for a in read)
        mine, theirs = _keys(*own)
        workload.group_sizes[key] = int(np.isin(mine, theirs).all())
    return bool(workload.group_sizes[key])


def _counted(
    workload: Workload, access: Access, loops: Loops, levels: tuple[Loop, ...],
    missing: Sequence[tuple[int, Access, tuple[Loop, ...]]], deepest: int,
) -> int:  # fmt: skip
    tensor = workload.tensor(access.tensor)
    columns = {loop: _coordinate(tensor, access, loops, loop) for loop in levels}
    order = np.lexsort([columns[loop] for loop in reversed(levels)])
    columns = {loop: column[order] for loop, column in columns.items()}
    matched, longest = np.ones(tensor.nnz, bool), 0
    for q, partner, own in missing:
        data = workload.tensor(partner.tensor)
        theirs = [_coordinate(data, partner, loops, loop) for loop in own]
        here, there = _keys(np.stack([columns[loop] for loop in own]), np.stack(theirs))
        matched &= np.isin(here, there)
        longest = max(longest, _run(columns, matched, max(deepest, q)))
    return longest


def _keys(mine: Coords, theirs: Coords) -> tuple[Coords, Coords]:
    """One number per column of each array, equal where the columns are."""
    both = np.concatenate([mine, theirs], axis=1)
    key = np.zeros(both.shape[1], np.int64)
    for row in both:
        rank = np.unique(row, return_inverse=True)[1]
        key = np.unique(key * (int(rank.max(initial=0)) + 1) + rank, return_inverse=True)[1]
    return key[: mine.shape[1]], key[mine.shape[1] :]


def _drained(workload: Workload, mapping: Mapping, number: int, fused: tuple[Edge, ...]) -> bool:
    """Whether an accumulator makes the levels of a statement's result, or of a stream that it is made of."""
    kept, nest = workload.program.statements[number].target.indices, mapping.loops[number].nest
    above = next((n for n, (index, _) in enumerate(nest) if index not in kept), len(nest))
    if any(index in kept for index, _ in nest[above:]):
        return True
    return any(_drained(workload, mapping, e.producer, fused) for e in fused if e.consumer == number)


def _coordinate(tensor: SparseTensor, access: Access, loops: Loops, loop: Loop) -> Coords:
    at, tile = tensor.coords[access.indices.index(loop[0])], dict(loops.tiles).get(loop[0], 0)
    return np.asarray(at // tile if loop[1] == "tile" else at % tile if tile else at)


def _run(columns: MappingABC[Loop, Coords], matched: np.ndarray, level: int) -> int:
    """Tokens of a level, one per node and one per fiber, in the longest run of entries that are not matched."""
    changed = np.zeros((level + 1, matched.size), bool)
    changed[:, :1] = True
    new = changed[0].copy()
    for q, column in enumerate(list(columns.values())[: level + 1]):
        new[1:] |= column[1:] != column[:-1]
        changed[q] = new
    tokens = changed[level].astype(np.int64) + (changed[level - 1] if level else 0)
    total = np.concatenate([[0], np.cumsum(tokens * ~matched)])
    ends = np.concatenate([[0], np.flatnonzero(matched) + 1, [matched.size]])
    return int(np.diff(total[ends]).max(initial=0))
