"""Units against plain Python on random loop nests in which any fiber, group or scope may be empty.

A nest of depth n is a dict from coordinates to nests of depth n - 1, at depth 0 a value (``None``: Empty).
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit_harness import Run, Token, done, run_unit, text

EXTENT = 5
PLAN = {"tensor": 0, "value_bytes": 4, "coordinate_bytes": 4, "pointer_bytes": 4, "descriptor_bytes": 0}

depths = st.sampled_from([None, 1, 2, 3, 8])
latencies = st.sampled_from([(1, 1), (2, 1), (1, 3)])
some = settings(max_examples=60, deadline=None)


def nests(depth: int, missing: bool = True) -> st.SearchStrategy[Any]:
    if depth == 0:
        values = st.integers(-4, 4).map(float)
        return st.none() | values if missing else values
    return st.dictionaries(st.integers(0, EXTENT - 1), nests(depth - 1, missing), max_size=4).map(
        lambda nest: dict(sorted(nest.items()))
    )


def crds(nest: Any, level: int) -> list[Any]:
    """Coordinates of a level (1-based) as nested lists of that depth."""
    return list(nest) if level == 1 else [crds(below, level - 1) for below in nest.values()]


def values(nest: Any, depth: int) -> Any:
    return nest if depth == 0 else [values(below, depth - 1) for below in nest.values()]


def entries(nest: Any, depth: int) -> list[tuple[tuple[int, ...], float | None]]:
    """All (coordinates, value) of a nest in order."""
    if depth == 0:
        return [((), nest)]
    return [((c, *rest), v) for c, below in nest.items() for rest, v in entries(below, depth - 1)]


def flat(nested: list[Any], depth: int) -> list[Any]:
    return nested if depth == 1 else [x for part in nested for x in flat(part, depth - 1)]


def expect(run: Run, *streams: list[Token]) -> None:
    assert run.streams == tuple(text(stream) for stream in streams)


def options(depth: int | None, latency: tuple[int, int]) -> dict[str, Any]:
    return {"depth": depth, "latency": latency[0], "response_latency": latency[1]}


def numbered(nested: list[Any], depth: int, counter: Any) -> list[Any]:
    """The same lists with elements replaced by their number."""
    return [next(counter) for _ in nested] if depth == 1 else [numbered(p, depth - 1, counter) for p in nested]


@some
@given(st.integers(1, 3).flatmap(lambda d: st.tuples(st.just(d), nests(d + 1))), depths, latencies)
def test_scan_and_repeat(case: tuple[int, Any], depth: int | None, latency: tuple[int, int]) -> None:
    level, nest = case
    fibers = flat(crds(nest, level + 1), level)
    refs = numbered(crds(nest, level), level, itertools.count())
    pos = [0, *itertools.accumulate(len(f) for f in fibers)]
    arrays = {"pos": pos, "crd": [c for fiber in fibers for c in fiber]}
    run = run_unit("scan", [done(refs, level)], 2, arrays=arrays, **options(depth, latency))
    below = crds(nest, level + 1)
    expect(run, done(below, level + 1), done(numbered(below, level + 1, itertools.count()), level + 1))

    signal = run_unit("repeat_signal", [done(below, level + 1)], **options(depth, latency))
    repeated = run_unit("repeat", [done(refs, level), signal.streams[0]], **options(depth, latency))
    number = itertools.count()

    def copies(nested: list[Any], at: int) -> list[Any]:
        return [next(number)] * len(nested) if at == 1 else [copies(part, at - 1) for part in nested]

    expect(repeated, done(copies(below, level + 1), level + 1))


@some
@given(st.integers(1, 3).flatmap(lambda d: st.tuples(st.just(d), nests(d))), st.sampled_from(["sum", "max"]), depths,
       latencies)  # fmt: skip
def test_reduce(case: tuple[int, Any], op: str, depth: int | None, latency: tuple[int, int]) -> None:
    n, nest = case

    def result(fiber: Any, at: int) -> Any:
        if at > 1:
            return [result(below, at - 1) for below in fiber.values()]
        present = [v for v in fiber.values() if v is not None]
        return None if not present else sum(present) if op == "sum" else max(present)

    outer = done(crds(nest, n - 1), n - 1) if n > 1 else done(0, 0)
    run = run_unit("reduce", [done(values(nest, n), n), outer], params={"op": op, "empty": "empty"}, floats=[0],
                   **options(depth, latency))  # fmt: skip
    expect(run, done(result(nest, n), n - 1))


@some
@given(st.data(), st.integers(0, 2), st.integers(2, 4), depths, latencies)
def test_accumulate(data: st.DataObject, scope: int, m: int, depth: int | None, latency: tuple[int, int]) -> None:
    nest = data.draw(nests(scope + m))
    keys = (*sorted(data.draw(st.sets(st.integers(2, m - 1)) if m > 2 else st.just(set()))), m)
    drain = data.draw(st.sampled_from([0, 1]))

    def sums(at: Any, level: int) -> Any:
        if level > 0:
            return {c: sums(below, level - 1) for c, below in at.items()}
        total: dict[Any, Any] = {}
        for coordinates, v in entries(at, m):
            if v is not None:
                *path, last = (coordinates[q - 1] for q in keys)
                leaf = total
                for c in path:
                    leaf = leaf.setdefault(c, {})
                leaf[last] = leaf.get(last, 0.0) + v
        return total

    def ordered(at: Any) -> Any:
        return {c: ordered(at[c]) for c in sorted(at)} if isinstance(at, dict) else at

    # The scope's own loops stay outside: a group of them is a group of the output too.
    result, order = ordered(sums(nest, scope)), len(keys)
    streams = [done(crds(nest, scope + q), scope + q) for q in (1, *keys)]
    params = {"depth": m, "levels": keys, "sizes": (EXTENT,) * order, "drain_cycles_per_entry": drain}
    run = run_unit("accumulate", [*streams, done(values(nest, scope + m), scope + m)], order + 1, params=params,
                   floats=[order], **options(depth, latency))  # fmt: skip
    outputs = [done(crds(result, scope + q), scope + q) for q in range(1, order + 1)]
    expect(run, *outputs, done(values(result, scope + order), scope + order))


@some
@given(st.integers(0, 3).flatmap(lambda d: st.tuples(st.just(d), nests(d))), depths, latencies)
def test_store(case: tuple[int, Any], depth: int | None, latency: tuple[int, int]) -> None:
    n, nest = case
    plan = PLAN | {"tile_levels": 0, "kinds": ["compressed"] * n, "dims": [EXTENT] * n, "tiles": [EXTENT] * n,
                   "tile_level_of": [-1] * n}  # fmt: skip
    streams = [done(crds(nest, q), q) for q in range(1, n + 1)]
    run = run_unit("store", [*streams, done(values(nest, n), n)], 0, params=plan, tensors=("Z",),
                   **options(depth, latency))  # fmt: skip
    coords, stored = run.profile.outputs["unit"]
    wanted = [(at, v) for at, v in entries(nest, n) if v is not None]
    assert list(zip(map(tuple, coords.T.tolist()), stored.tolist(), strict=True)) == wanted
    prefixes = [len({at[:q] for at, _ in wanted}) for q in range(n + 1)]
    metadata = sum((prefixes[q] + 1) * 4 + prefixes[q + 1] * 4 for q in range(n))
    traffic = [(row.values_bytes, row.metadata_bytes) for row in run.profile.traffic]
    assert traffic == ([(4 * len(wanted), metadata)] if wanted else [])


@some
@given(st.data(), st.integers(1, 3), st.booleans(), depths, latencies)
def test_stream_scan(
    data: st.DataObject, level: int, payload: bool, depth: int | None, latency: tuple[int, int]
) -> None:
    raw = data.draw(nests(level + 1))
    number = itertools.count()
    element = itertools.count()

    def choose(parents: Any, at: int) -> tuple[list[Any], list[Any], list[Any]]:
        """References into one group, and the coordinates and payloads of what they name."""
        picked: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
        for fiber in parents.values():
            if at > 1:
                for whole, part in zip(picked, choose(fiber, at - 1), strict=True):
                    whole.append(part)
                continue
            this, numbers = next(number), [next(element) for _ in fiber]
            found: list[tuple[Any, Any, Any]] = [(None, [], [])] * data.draw(st.integers(0, 1))
            if data.draw(st.booleans()):
                found.append((this, list(fiber), list(fiber.values()) if payload else numbers))
            for parts in found:
                for whole, part in zip(picked, parts, strict=True):
                    whole.append(part)
        return picked

    refs, names, numbers = choose(raw, level)
    run = run_unit(
        "stream_scan",
        [done(refs, level), done(crds(raw, level + 1), level + 1),
         done(values(raw, level + 1), level + 1) if payload else None, done(crds(raw, level), level)],
        2, floats=[1] if payload else [], params=data.draw(st.sampled_from([{}, *({"aligned": n} for n in range(3))])),
        **options(depth, latency),
    )  # fmt: skip
    expect(run, done(names, level + 1), done(numbers, level + 1))


@pytest.mark.parametrize("kind", ["intersect", "union"])
@some
@given(st.data(), st.integers(2, 4), st.integers(1, 3), depths, latencies)
def test_joins(
    kind: str, data: st.DataObject, sides: int, level: int, depth: int | None, latency: tuple[int, int]
) -> None:
    fibers = st.tuples(*[st.sets(st.integers(0, 9), max_size=5)] * sides)

    def groups(at: int) -> st.SearchStrategy[Any]:
        return fibers if at == 1 else st.lists(groups(at - 1), max_size=3)

    case = data.draw(groups(level))

    def side(at: Any, n: int) -> Any:
        return sorted(at[n]) if isinstance(at, tuple) else [side(part, n) for part in at]

    def joined(at: Any) -> Any:
        if isinstance(at, tuple):
            return sorted(set.intersection(*at) if kind == "intersect" else set.union(*at))
        return [joined(part) for part in at]

    def payload(at: Any, n: int) -> Any:
        if isinstance(at, tuple):
            return [100 * n + c if c in at[n] else None for c in joined(at)]
        return [payload(part, n) for part in at]

    def shifted(nested: Any, by: int) -> Any:
        return [shifted(x, by) for x in nested] if isinstance(nested, list) else nested + by

    own = [side(case, n) for n in range(sides)]
    inputs = [done(x, level) for x in own] + [done(shifted(x, 100 * n), level) for n, x in enumerate(own)]
    run = run_unit(kind, inputs, sides + 1, **options(depth, latency))
    expect(run, done(joined(case), level), *(done(payload(case, n), level) for n in range(sides)))
    # One turn per step: matches and mismatches of every fiber, and one per stop.
    assert run.profile.comparisons == run.unit.firings


@some
@given(st.integers(1, 3).flatmap(lambda d: st.tuples(st.just(d), nests(d))), depths, latencies)
def test_drop_empty_and_number(case: tuple[int, Any], depth: int | None, latency: tuple[int, int]) -> None:
    n, nest = case

    def kept(at: Any, level: int) -> Any:
        if level == 0:
            return at
        return {c: kept(below, level - 1) for c, below in at.items() if level > 1 or below is not None}

    run = run_unit("drop_empty", [done(crds(nest, n), n), done(values(nest, n), n)], 2, floats=[1],
                   **options(depth, latency))  # fmt: skip
    expect(run, done(crds(kept(nest, n), n), n), done(values(kept(nest, n), n), n))
    count = run_unit("number", [done(crds(nest, n), n)], **options(depth, latency))
    expect(count, done(numbered(crds(nest, n), n, itertools.count()), n))
