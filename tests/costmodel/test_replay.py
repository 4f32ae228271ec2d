from __future__ import annotations

import numpy as np
import pytest

from costmodel.replacement import previous_of
from costmodel.replay import _runs


def loop_runs(keys: list[int], room: int) -> int:
    """Key by key: a new one that finds ``room`` others ends their run."""
    runs, held = 0, set[int]()
    for key in keys:
        if key not in held and len(held) == room:
            runs, held = runs + 1, set()
        held.add(key)
    return runs


@pytest.mark.parametrize("seed", range(40))
def test_runs_equal_an_accumulator_that_is_filled(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 3000))
    keys = rng.integers(0, rng.integers(1, 400), count) + np.arange(count) // 20 * (seed % 2)
    start, room = int(rng.integers(0, 9)), int(rng.integers(1, 300))
    previous = previous_of(keys)
    previous = np.concatenate([np.full(start, -1), np.where(previous < 0, -1, previous + start)])
    assert _runs(previous, start, room) == loop_runs(keys.tolist(), room)
