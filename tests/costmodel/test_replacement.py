from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest

from costmodel.factors import Floats, Ints
from costmodel.replacement import first_loads, previous_of, recent_loads


def loop_recent(lane: Ints, tile: Ints, taken: Floats, room: int) -> tuple[list[float], list[float]]:
    """Visit by visit, as a buffer would."""
    loads, removed, size = np.zeros(tile.size), np.zeros(tile.size, bool), taken.tolist()
    held, total, current, full = OrderedDict[int, None](), 0.0, -1, False
    for at, (here, now) in enumerate(zip(lane.tolist(), tile.tolist(), strict=True)):
        if here != current:
            held, total, current, full = OrderedDict(), 0.0, here, False
        if now in held:
            held.move_to_end(now)
        else:
            loads[at], held[now], total = 1.0, None, total + size[now]
        while total > room:
            total, full = total - size[held.popitem(last=False)[0]], True
        removed[at] = full
    emptied = [bool(removed[lane == here].any()) for here in lane]
    return loads.tolist(), np.where(emptied, removed, loads == 0).astype(float).tolist()


def loop_first(lane: Ints, tile: Ints, size: Floats, room: float, share: float) -> list[float]:
    """Visit by visit: a tile that fits when it first comes stays."""
    loads, kept, held = np.zeros(size.size), dict[tuple[int, int], bool](), dict[int, float]()
    for here, now in zip(lane.tolist(), tile.tolist(), strict=True):
        if new := (here, now) not in kept:
            before = held.get(here, 0.0)
            kept[here, now] = before / share + size[now] <= room
            held[here] = before + size[now] * kept[here, now]
        loads[now] += new or not kept[here, now]
    return loads.tolist()


def visits(rng: np.random.Generator, kind: str, most: int) -> tuple[Ints, Ints, Floats, int]:
    """(lane, tile, bytes of every tile, room): some tiles empty, some larger than the buffer."""
    count, tiles = int(rng.integers(0, most)), int(rng.integers(1, max(2, most // 5)))
    tile = {
        "random": rng.integers(0, tiles, count),
        "cycle": np.arange(count) % tiles,
        "gaps": np.flatnonzero(rng.random(2 * count) < 0.7) % tiles,
        "skewed": rng.zipf(1.3, count) % tiles,
        "walk": np.abs(np.cumsum(rng.integers(-2, 3, count))) % tiles,
    }[kind].astype(np.int64)
    size = rng.integers(0, 10, tiles) * 1.0
    lane = np.sort(rng.choice([0, 1, 4], tile.size)) * int(rng.integers(0, 2))
    return lane, tile, size, int(size.sum() * rng.random())


@pytest.mark.parametrize("kind", ["random", "cycle", "gaps", "skewed", "walk"])
@pytest.mark.parametrize("most", [6, 60, 2000])
def test_loads_equal_a_buffer_that_is_run(kind: str, most: int) -> None:
    rng = np.random.default_rng(most)
    for _ in range(60 if most < 2000 else 12):
        lane, tile, size, room = visits(rng, kind, most)
        loads, known = recent_loads(lane, tile, size, room)
        assert (loads.tolist(), known.tolist()) == loop_recent(lane, tile, size, room)
        share = float(rng.choice([1.0, 0.5, 0.3]))
        shuffled = rng.permutation(tile.size)
        loads = first_loads(lane[shuffled], tile[shuffled], shuffled * 3, size, room, share).sum(axis=0)
        assert loads.tolist() == loop_first(lane, tile, size, room, share)


def test_the_least_recently_used_goes() -> None:
    """2 pushes out 1, as 0 was used after it; for the same reason 1 pushes out 2, and 2 pushes out 1 again."""
    tile, size = np.array([0, 1, 0, 2, 0, 0, 1, 0, 2]), np.array([2.0, 2.0, 3.0])
    loads, known = recent_loads(np.zeros(9, np.int64), tile, size, 5)
    assert loads.tolist() == [1, 1, 0, 1, 0, 0, 1, 0, 1]
    assert known.tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 1]


def test_where_nothing_is_removed_hits_are_known() -> None:
    loads, known = recent_loads(np.array([0, 0, 0, 1, 1]), np.array([0, 1, 0, 1, 1]), np.array([2.0, 3.0]), 5)
    assert loads.tolist() == [1, 1, 0, 1, 0]
    assert known.tolist() == [0, 0, 1, 0, 1]


def test_where_a_key_stood_last() -> None:
    assert previous_of(np.array([3, 1, 3, 3, 2, 1])).tolist() == [-1, -1, 0, 2, -1, 1]
