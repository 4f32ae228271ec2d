"""Replay of an accumulator on a sample of its keys: how many full runs it spills.

Whether a key is still in the current run when it returns depends on the order of the loops and on how the operands'
patterns lie, which no mean tells. So the products of some output coordinates are put in loop order and run through an
accumulator whose capacity is scaled by the share of keys that they are (spatially hashed sampling as in SHARDS,
USENIX FAST 2015, which is nearly unbiased for caches). Below ``EXACT_TIMES`` as many products the replay is exact.
"""

from __future__ import annotations

import numpy as np

from costmodel.counting import with_lane
from costmodel.factors import Factor, Floats, Ints, bin_sum, coarser, firsts, in_order, pack, radices
from costmodel.nest import Nest
from costmodel.products import sum_product
from costmodel.replacement import previous_of

SAMPLED_PRODUCTS = 50_000
"""Products of a sample, about; more where keys are so many that the accumulator of a sample would be too small."""

LEAST_ROOM = 128
"""Keys that the accumulator of a sample holds at least, about: in fewer no neighbours meet."""

MOST_PRODUCTS = 1_000_000
"""Products of a sample at most, about."""

EXACT_TIMES = 4
"""How many times as many are replayed without sampling: the fewer they are, the fewer runs, and one too many counts."""

MOST_SCOPES = 40
"""Overflowing scopes that are replayed; the others spill in proportion to their products."""

KEPT_COORDINATES = 32
"""Coordinates of an output index that stay in a scope, at least."""

_Choice = tuple[str, int, int]
"""(index, granule, step): every step-th block of granule coordinates, in order of its products."""


def replayed_spills(nest: Nest, scope: int, scopes: Factor, products: Floats, capacity: int) -> Floats:
    """Entries spilled per scope. ``scope``: depth of the loop that opens one; ``scopes``: entries of each, by the
    columns of the loops above and the lane; ``products`` of each."""
    entries = scopes.weights
    spilled = np.zeros(entries.size)
    full = np.flatnonzero(entries > capacity)
    if not full.size:
        return spilled
    sample = _sample(nest, scope, LEAST_ROOM / capacity)
    number = _numbers(nest, sample, scopes)
    seen = full[np.bincount(number + 1, minlength=entries.size + 1)[1:][full] > 0]
    seen = seen[np.unique(np.linspace(0, seen.size - 1, min(seen.size, MOST_SCOPES)).round().astype(np.int64))]
    wanted = np.zeros(entries.size, bool)
    wanted[seen] = True
    number, keys = _stream(nest, scope, sample, number, wanted)
    previous, starts = previous_of(keys), firsts(number)
    found = np.add.reduceat(previous < 0, starts, dtype=np.int64) if starts.size else starts
    for which, new, start, end in zip(seen, found, starts, np.append(starts, number.size)[1:], strict=True):
        room = max(1, round(capacity * new / entries[which]))
        runs = _runs(previous[:end], int(start), room)
        most = (products[which] - 1.0) // capacity  # a run takes as many products, which few keys of a sample may hide
        spilled[which] = capacity * max(1.0, min(runs, most))
    rest = np.setdiff1d(full, seen)
    weight = products[seen].sum()
    rate = spilled[seen].sum() / weight if weight else 1.0
    spilled[rest] = np.maximum(capacity, rate * products[rest])
    return spilled


def distinct_entries(nest: Nest, scope: int, products: Factor) -> Floats:
    """Distinct keys per scope, of which ``products`` has the number of products."""
    total, sample = products.weights, _sample(nest, scope, 0.0)
    number, keys = _stream(nest, scope, sample, _numbers(nest, sample, products), np.ones(total.size, bool))
    found = bin_sum(number, (previous_of(keys) < 0).astype(np.float64), total.size)
    seen = bin_sum(number, np.ones(number.size), total.size)
    mean = found.sum() / max(1.0, seen.sum())
    entries = total * np.divide(found, seen, out=np.full(total.size, mean), where=seen > 0)
    return np.asarray(np.maximum(entries, np.minimum(total, 1.0)))


def _numbers(nest: Nest, products: Factor, scopes: Factor) -> Ints:
    """Which of ``scopes`` every product lies in, -1 for none of them."""
    points = [products.column(*c) for c in scopes.columns[:-1]]
    lane = with_lane(products, nest.splits).coords[-1]
    index = Factor(scopes.columns, scopes.coords, np.arange(1.0, scopes.weights.size + 1))
    return index.at([*points, lane], radices(scopes.columns, nest.counter.extents)).astype(np.int64) - 1


def _stream(nest: Nest, scope: int, products: Factor, number: Ints, wanted: np.ndarray) -> tuple[Ints, Ints]:
    """(scope number, key) of the products of the wanted scopes in loop order."""
    keep = np.flatnonzero((number >= 0) & wanted[number])
    number = number[keep]
    tiled, levels, sizes = dict(nest.plan.tiles), [number], [max(1, wanted.size)]
    target, loops = nest.statement.target.indices, nest.loops[scope - 1 : nest.value_depth]
    coords = {name: products.column(name, 1)[keep] for name in dict.fromkeys([*target, *(i for i, _ in loops)])}
    for name, part in loops:
        tile, crd = tiled.get(name, 0), coords[name]
        above = coarser(crd, tile) if tile else crd
        levels.append(above if part == "tile" or not tile else crd - above * tile)
        sizes.append(-(-nest.extents[name] // tile) if part == "tile" else tile or nest.extents[name])
    order = in_order(pack(levels, [max(1, s) for s in sizes]))[1]
    keys = pack(
        [number, *(coords[i] for i in target)],
        [max(1, wanted.size), *radices([(i, 1) for i in target], nest.extents)],
    )
    return number[order], keys[order]


def _runs(previous: Ints, start: int, room: int) -> int:
    """Runs of ``room`` distinct keys that fill up, and must go, among the positions from ``start``."""
    runs, stride = 0, 2 * room + 64
    while True:
        at, held = start, 0
        while at < previous.size:
            new = (previous[at : at + stride] < start).nonzero()[0]
            if held + new.size > room:
                at += int(new[room - held])
                break
            held, at = held + new.size, at + stride
        if at >= previous.size:
            return runs
        runs, stride, start = runs + 1, (at - start) * 5 // 4 + 64, at


def _sample(nest: Nest, scope: int, least: float) -> Factor:
    """Coordinates of the products of some output coordinates, remembered for all mappings that take the same."""
    leaves, every = [o.leaf(nest.loops, len(nest.loops)) for o in nest.operands], dict.fromkeys(nest.extents, 1)
    total = nest.counter.total(leaves, every)
    plan = _plan(nest, scope, total, min(MOST_PRODUCTS, max(SAMPLED_PRODUCTS, least * total)))
    key = ("products", tuple(x.key for x in leaves), tuple(sorted(nest.extents.items())), plan)

    def products() -> Factor:
        factors = [leaf.marginal(leaf.columns) for leaf in leaves]
        for index, extent in nest.extents.items():  # a padded operand has all coordinates of its dense levels
            if all(f.granule(index) != 1 for f in factors):
                factors.append(Factor(((index, 1),), (np.arange(extent),), np.ones(extent)))
        for index, granule, step in plan:
            weight = nest.counter.by(leaves, every, ((index, granule),))
            taken = np.zeros(-(-nest.extents[index] // granule), bool)
            taken[weight.coords[0][np.argsort(weight.weights, kind="stable")][step // 2 :: step]] = True
            holder = next(n for n, f in enumerate(factors) if f.granule(index) == 1)
            held = factors[holder]
            factors[holder] = held.taken(np.flatnonzero(taken[held.column(index, granule)]))
        return sum_product(factors, tuple(every.items()), nest.extents)

    return nest.model.statistics.remember(key, products)


def _plan(nest: Nest, scope: int, products: float, sampled: float) -> tuple[_Choice, ...]:
    """What to sample: coordinates inside the scopes, evenly over the output indices, then whole scopes."""
    if products <= EXACT_TIMES * SAMPLED_PRODUCTS:
        return ()
    outer, excess, plan = nest.variables(scope - 1), products / sampled, []
    target = nest.statement.target.indices
    inside = sorted((min(outer.get(i, nest.extents[i]), nest.extents[i]), i) for i in target)
    for n, (room, index) in enumerate(inside):
        step = int(min(excess ** (1 / (len(inside) - n)), room / KEPT_COORDINATES))
        if step > 1:
            plan.append((index, 1, step))
            excess /= step
    for index in target:
        granule = outer.get(index)
        step = 1 if granule is None else int(min(excess, -(-nest.extents[index] // granule) / 8))
        if step > 1:
            plan.append((index, granule or 1, step))
            excess /= step
    return tuple(plan)
