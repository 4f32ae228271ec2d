"""The streaming region of overbooked buffers, and where each residency puts the tile load."""

from __future__ import annotations

import pytest

from mapper.describe import describe_mapping
from mapper.lowering import lower_region
from mapper.machine import Machine, load_machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.residency import RESIDENCIES, streaming_bytes
from mapper.schedule import schedule
from mapper.storage import Layout, Storage, store_tensor
from mapper.synthetic import uniform
from mapper.workload import Workload

RDA = load_machine("rda")
TENSORS = {"A": uniform((12, 10), 0.4, 1), "B": uniform((10, 8), 0.4, 2)}
PRODUCT = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), TENSORS)


@pytest.mark.parametrize(
    ("fields", "streaming"),
    [
        ({}, 6400),  # 64 bytes per cycle for 100 cycles; 65536 - 6400 is whole bursts
        ({"buffer_bytes": 65600}, 6400 + 0),
        ({"buffer_bytes": 65599}, 6400 + 63),  # the head is 64-byte bursts
        ({"buffer_bytes": 4096}, 2048),  # at most half
        ({"buffer_bytes": 100}, 100),  # half is no burst: no head stays
        ({"dram_latency_cycles": 0}, 0),
        ({"buffer_bytes": None}, 0),
        ({"dram_channels": None}, 0),
    ],
)
def test_the_streaming_region_hides_the_latency(fields: dict[str, int | None], streaming: int) -> None:
    assert streaming_bytes(RDA.with_fields(**fields)) == streaming


def unit_before_load(residency: str, tensor: str, tiles: tuple[tuple[str, int], ...], machine: Machine = RDA) -> str:
    kinds = tuple((t, ("compressed", "compressed")) for t in "ABZ")
    mapping = Mapping((), (Loops(("i", "k", "j"), tiles),), kinds, residency)
    (region,) = schedule(PRODUCT.program, mapping).regions

    def stored(name: str, layout: Layout) -> Storage:
        return store_tensor(PRODUCT.tensor(name), layout, machine)

    graph = lower_region(PRODUCT, mapping, machine, region, stored)
    (load,) = (c for c in graph.contexts if c.kind == "tile_load" and c.name.startswith(f"load {tensor}"))
    assert ("streaming_bytes" in load.params) == (residency == "overbooked")
    assert graph.channels[load.outputs[0]].capacity == machine.prefetch_tiles - (residency == "keep")
    return next(c.name for c in graph.contexts if load.inputs[0] in c.outputs).removeprefix("fork ").removesuffix(".1")


@pytest.mark.parametrize("residency", ["none", "lru", "keep"])
def test_a_tile_is_loaded_where_it_is_reached(residency: str) -> None:
    tiled = (("i", 4), ("k", 5), ("j", 4))
    assert unit_before_load(residency, "A", tiled) == "intersect S0.k.tile"
    assert unit_before_load(residency, "B", tiled) == "scan B in S0.j.tile"
    assert unit_before_load(residency, "B", ()) == "root B in S0"


def test_an_overbooked_tile_is_loaded_where_its_walk_begins() -> None:
    tiled = (("i", 4), ("k", 5), ("j", 4))
    assert unit_before_load("overbooked", "A", tiled) == "repeat S0.j.tile.0"  # once per tile of j
    assert unit_before_load("overbooked", "B", tiled) == "repeat S0.i.0"  # once per row of A's tile
    assert unit_before_load("overbooked", "A", ()) == "root A in S0"


def test_every_residency_is_described() -> None:
    kinds = tuple((t, ("compressed", "compressed")) for t in "ABZ")
    for residency, words in RESIDENCIES.items():
        mapping = Mapping((), (Loops(("i", "k", "j")),), kinds, residency)
        assert describe_mapping(PRODUCT.program, mapping).endswith(f"; {words}")
