"""store: entries, bytes of tiles, and the time of writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from unit_harness import Run, run_unit

from mapper.errors import GraphError
from mapper.graph import Dram

BYTES = {"tensor": 0, "value_bytes": 4, "coordinate_bytes": 2, "pointer_bytes": 8, "descriptor_bytes": 16}


def plan(kinds: str, dims: list[int], tiles: list[int] | None = None, homes: list[int] | None = None) -> dict[str, Any]:
    """``kinds``: one letter per inner level; tiled levels name their tile level in ``homes``."""
    names = {"d": "dense", "c": "compressed", "b": "bitmask", "n": "nonunique", "s": "singleton"}
    homes = homes or [-1] * len(dims)
    return BYTES | {
        "tile_levels": 1 + max(homes, default=-1),
        "kinds": [names[k] for k in kinds],
        "dims": dims,
        "tiles": tiles or dims,
        "tile_level_of": homes,
    }


def store(crds: list[str], val: str, params: dict[str, Any], **options: Any) -> Run:
    return run_unit("store", [*crds, val], 0, params=params, tensors=("Z",), **options)


def written(run: Run) -> tuple[int, int, int]:
    (row,) = run.profile.traffic
    assert (row.tensor, row.direction) == ("Z", "write")
    return row.values_bytes, row.metadata_bytes, row.requests


def test_entries_and_cycles() -> None:
    # Row 0: {1: 1.0}, row 2: {0: 2.0, 1: Empty}. 1.0@1, S0@2 free, 2.0@3, N@4 costs its cycle, S1@5 free, D@6 +1.
    run = store(["0 2 S0 D", "1 S0 0 1 S1 D"], "1.0 S0 2.0 N S1 D", plan("dc", [3, 2]))
    coords, values = run.profile.outputs["unit"]
    np.testing.assert_array_equal(coords, [[0, 2], [1, 0]])
    np.testing.assert_array_equal(values, [1.0, 2.0])
    assert (run.cycles, run.unit.busy) == (7, 4)
    # Dense rows: 3 nodes; compressed columns: 4 pointers and 2 coordinates; 2 values.
    assert written(run) == (2 * 4, 16 + 4 * 8 + 2 * 2, 1)


@pytest.mark.parametrize(
    ("kinds", "values_bytes", "metadata_bytes"),
    [
        ("dd", 3 * 4 * 4, 16),
        ("cd", 2 * 4 * 4, 16 + 2 * 8 + 2 * 2),  # 2 pointers, 2 row coordinates
        ("cc", 3 * 4, 16 + 2 * 8 + 2 * 2 + 3 * 8 + 3 * 2),
        ("dc", 3 * 4, 16 + 4 * 8 + 3 * 2),
        ("db", 3 * 4, 16 + 2),  # 12 bits
        ("bb", 3 * 4, 16 + 1 + 1),  # 3 bits, then 2 rows x 4 bits
        ("ns", 3 * 4, 16 + 2 * 8 + 2 * 3 * 2),  # 2 pointers, a row and a column coordinate per entry
        ("cb", 3 * 4, 16 + 2 * 8 + 2 * 2 + 1),
    ],
)
def test_bytes_of_formats(kinds: str, values_bytes: int, metadata_bytes: int) -> None:
    run = store(["0 2 S0 D", "1 3 S0 0 S1 D"], "1.0 2.0 S0 3.0 S1 D", plan(kinds, [3, 4]))
    assert written(run) == (values_bytes, metadata_bytes, 1)


def test_bytes_of_blocks() -> None:
    # 5 x 7 in blocks of 2 x 4: (0, 1) and (1, 0) share block (0, 0); (1, 6) lies in the edge block of 2 x 3; (4, 5) in
    # the corner block of 1 x 3. 3 rows of blocks: 4 pointers; 3 blocks: 3 coordinates, 8 + 6 + 3 values.
    blocks = plan("dd", [5, 7]) | {"kinds": ["dense", "2x4"]}
    run = store(["0 1 4 S0 D", "1 S0 0 6 S0 5 S1 D"], "1.0 S0 2.0 3.0 S0 4.0 S1 D", blocks)
    assert written(run) == (17 * 4, 16 + 4 * 8 + 3 * 2, 1)
    with pytest.raises(GraphError, match="level kind 'rle' cannot be written"):
        store(["0 S0 D"], "1.0 S0 D", plan("d", [4]) | {"kinds": ["rle"]})


def test_tiles() -> None:
    # A vector of 5 in tiles of 2, tile coordinate first: tiles 0 {1}, 1 {} , 2 {4} (one element long).
    crds = ["0 1 2 S0 D", "1 S0 S0 4 S1 D"]
    dense = store(crds, "1.0 S0 S0 2.0 S1 D", plan("d", [5], [2], [0]))
    assert written(dense) == ((2 + 1) * 4, 2 * 16, 2)
    np.testing.assert_array_equal(dense.profile.outputs["unit"][0], [[0, 2], [1, 4]])
    compressed = store(crds, "1.0 S0 S0 2.0 S1 D", plan("c", [5], [2], [0]))
    assert written(compressed) == (2 * 4, 2 * (16 + 2 * 8 + 2), 2)


def test_writes_overlap_with_the_next_tile_one_in_flight() -> None:
    # One channel, a burst of 64 bytes takes 64 cycles; every tile (4 + 16 + 16 + 2 bytes) begins in the first burst.
    # Entries at t=1 (tile 0), 3 (tile 1), 5 (tile 2). t=3: tile 0 is written until 67, the clock goes on. t=5: tile 1
    # waits until 67 for its turn, is written until 67 + 64 = 131 (bytes 38..75: two bursts: 195). D: at 68, the last
    # tile waits until 195 and is written (bytes 76..113, one burst) until 259.
    crds = ["0 1 2 S0 D", "0 S0 2 S0 4 S1 D"]
    run = store(crds, "1.0 S0 1.0 S0 1.0 S1 D", plan("c", [5], [2], [0]), dram=Dram(1, 1, 64, 10))
    assert run.unit.memory == (67 - 5) + (195 - 68) + (259 - 195)
    assert run.profile.cycles == 260
    assert run.profile.burst_bytes == 4 * 64


def test_scalar_and_vector() -> None:
    run = store([], "4.0 D", plan("", []))
    coords, values = run.profile.outputs["unit"]
    assert coords.shape == (0, 1) and values.tolist() == [4.0]
    assert written(run) == (4, 16, 1)
    assert store([], "N D", plan("", [])).profile.outputs["unit"][1].size == 0
    assert store(["3 S0 D"], "1.0 S0 D", plan("d", [4])).profile.outputs["unit"][0].tolist() == [[3]]


@pytest.mark.parametrize(
    ("crds", "val"),
    [
        (["S0 D", "S1 D", "S2 D"], "S2 D"),
        (["0 S0 D", "S1 D", "S2 D"], "S2 D"),
        (["0 1 S0 D", "S0 2 S1 D", "S1 S2 D"], "S1 S2 D"),
        (["0 1 S0 D", "S0 S1 D", "S1 S2 D"], "S1 S2 D"),
        (["0 S0 D", "2 3 S1 D", "S0 S2 D"], "S0 S2 D"),
        (["D", "D", "D"], "D"),
        (["0 S0 D", "0 S1 D", "0 S2 D"], "N S2 D"),
    ],
)
def test_nothing_but_empty_fibers(crds: list[str], val: str) -> None:
    run = store(crds, val, plan("ccc", [4, 4, 4]))
    coords, values = run.profile.outputs["unit"]
    assert coords.shape == (3, 0) and values.size == 0
    assert run.profile.traffic == ()


def test_three_levels_with_empty_fibers_between() -> None:
    # (0, 2) is empty, (0, 3) holds 1; group 1 is empty; (2, 0) holds 0 and 2.
    crds = ["0 1 2 S0 D", "2 3 S0 S0 0 S1 D", "S0 1 S1 S1 0 2 S2 D"]
    run = store(crds, "S0 1.0 S1 S1 2.0 3.0 S2 D", plan("ccc", [4, 4, 4]))
    np.testing.assert_array_equal(run.profile.outputs["unit"][0], [[0, 2, 2], [3, 0, 0], [1, 0, 2]])


@pytest.mark.parametrize(
    ("crds", "val", "message"),
    [
        (["4 S0 D"], "1.0 S0 D", "port crd_1 has coordinate 4, its extent is 4"),
        (["3 S0 D"], "1.0 1.0 S0 D", "port crd_1 has Stop 0, port val has Val"),
        (["3 S0 D"], "1.0 S1 D", "port crd_1 has Stop 0, port val has Stop 1"),
        (["3 S0 D"], "1.0 D", "port crd_1 has Stop 0, port val has Done"),
    ],
)
def test_misaligned(crds: list[str], val: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        store(crds, val, plan("d", [4]))
