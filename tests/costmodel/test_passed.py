"""Empty fibers of fused streams: what the model counts beside enumeration and the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costmodel import Statistics, passed, predict_traffic
from costmodel.nest import Model
from hwsim import Limits
from mapper.machine import load_machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.schedule import Region, schedule
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.synthetic import uniform
from mapper.workload import Workload
from tuner.evaluate import StorageCache, evaluate

RDA = load_machine("rda").with_fields(buffer_bytes=1024, accumulator_bytes=1024, fifo_depth=4096)

CHAINS: dict[str, tuple[str, dict[str, Any]]] = {
    "a product of entries": (
        "T(i,k) = A(i,k) * F(k)\nZ(i,j) = T(i,k) * W(k,j)",
        {"A": ((20, 24), 0.1), "F": ((24,), 0.1), "W": ((24, 16), 0.3)},
    ),
    "of three modes": (
        "T(i,k,l) = A(i,k) * F(k,l)\nZ(i,l) = T(i,k,l) * W(i,k,l)",
        {"A": ((20, 24), 0.1), "F": ((24, 16), 0.03), "W": ((20, 24, 16), 0.3)},
    ),
    "a reduction": (
        "T(i,k) = A(i,j) * X(j,k)\nZ(i,m) = T(i,k) * W(k,m)",
        {"A": ((20, 24), 0.05), "X": ((24, 16), 0.05), "W": ((16, 10), 0.3)},
    ),
    "read by a map": (
        "T(i,k) = A(i,k) * F(k)\nU(i,k) = abs(T(i,k))\nZ(i,j) = U(i,k) * W(k,j)",
        {"A": ((20, 24), 0.1), "F": ((24,), 0.1), "W": ((24, 16), 0.3)},
    ),
    "read by a sum": (
        "T(i,k) = A(i,k) * F(k)\nU(i,k) = T(i,k) + G(i,k)\nZ(i,j) = U(i,k) * W(k,j)",
        {"A": ((20, 24), 0.1), "F": ((24,), 0.1), "G": ((20, 24), 0.02), "W": ((24, 16), 0.3)},
    ),
}


def chain(name: str, seed: int = 0) -> Workload:
    text, tensors = CHAINS[name]
    made = {n: uniform(shape, density, 10 * seed + k) for k, (n, (shape, density)) in enumerate(tensors.items())}
    return Workload(parse_program(text), made)


@pytest.mark.parametrize("name", CHAINS)
def test_tiles_are_loaded_below_empty_fibers_too(name: str) -> None:
    workload, rng, more = chain(name), np.random.default_rng(1), 0
    space = MappingSpace(workload, RDA, SpaceLimits(max_lanes=4, fuse_others=True, residency=("none",), variants=("",)))
    for _ in range(40):
        mapping = space.sample(rng)
        result = evaluate(workload, mapping, RDA, Limits(), StorageCache())
        if result.failure is not None:
            continue
        predicted = sum(t.bytes for t in predict_traffic(workload, mapping, RDA, statistics=Statistics()))
        assert predicted == pytest.approx(result.traffic_bytes), mapping
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(passed, "MOST_LISTED", -1)
            blind = sum(t.bytes for t in predict_traffic(workload, mapping, RDA, statistics=Statistics()))
        assert blind <= predicted * (1 + 1e-9)
        more += blind < 0.99 * predicted
    assert more  # the empty ones matter


@pytest.mark.parametrize("tiled", [False, True])
def test_every_prefix_that_is_joined_is_there(tiled: bool) -> None:
    """T(i,k) = A(i,k) F(k): under a row (or a tile) of A the stream has a fiber, whether or not F has anything there.
    The last level has entries alone."""
    workload = chain("a product of entries")
    tiles = (("i", 4), ("k", 4)) if tiled else ()
    loops = (Loops(("i", "k"), tiles), Loops(("i", "k", "j"), tiles))
    mapping = Mapping((False,), loops, tuple((n, ("compressed",) * (1 + (n != "F"))) for n in "AFWZ"))
    (region,) = (s for s in schedule(workload.program, mapping).steps if isinstance(s, Region))
    maker, reader = Model(workload, mapping, "L2", Statistics()).nests(region)
    a, f, t = (workload.tensor(name).to_dense() != 0 for name in "AFT")
    grid = [np.add.reduceat(np.add.reduceat(x, range(0, 20, 4)), range(0, 24, 4), axis=1) > 0 for x in (a, t)]
    of_f = np.add.reduceat(f, range(0, 24, 4)) > 0
    rows = [grid[0].any(axis=1).sum(), (grid[0] & of_f).sum()] if tiled else [a.any(axis=1).sum()]
    assert [reader.leaf(0, q + 1).stats.count(reader.leaf(0, q + 1).view) for q in range(len(rows))] == rows
    assert rows[-1] > (grid[1] if tiled else t.any(axis=1)).sum()
    assert passed.passing(maker) == len(tiles) + 1
    full = reader.leaf(0, len(reader.loops) - 1)
    assert full.stats.key == maker.target.key and full.stats.count(full.view) == t.sum()
