from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest
from loop_walk import fetched, tile_bytes, walk_lanes
from random_mappings import PROGRAMS, RDA, random_mapping, random_tensor, random_workload

from costmodel import Statistics, TensorTraffic, predict_traffic
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.schedule import schedule
from mapper.storage import store_tensor
from mapper.tensor import SparseTensor
from mapper.workload import Workload


def loaded(traffic: tuple[TensorTraffic, ...], tensor: str) -> tuple[float, float]:
    return next(
        ((t.values_bytes, t.metadata_bytes) for t in traffic if (t.tensor, t.purpose) == (tensor, "load")), (0, 0)
    )


def walked_loads(workload: Workload, mapping: Mapping, machine: object = RDA) -> dict[str, np.ndarray]:
    """Loads that the oracle counts per tensor: (value bytes, metadata bytes), all lanes."""
    found: dict[str, np.ndarray] = {}
    lanes = walk_lanes(workload, mapping, 0)
    for n, access in enumerate(workload.program.statements[0].operands):
        sizes = tile_bytes(workload, mapping, 0, n, machine)
        total = sum(fetched(w.visits[n], sizes, mapping, machine) for w in lanes)
        found[access.tensor] = found.get(access.tensor, np.zeros(2)) + total
    return found


@pytest.mark.parametrize("text", PROGRAMS)
def test_loads_without_residency_are_exact(text: str) -> None:
    rng = np.random.default_rng(11)
    for _ in range(25):
        workload = random_workload(rng, text)
        mapping = random_mapping(rng, workload, padded=True)
        traffic = predict_traffic(workload, mapping, RDA, statistics=Statistics())
        for tensor, expected in walked_loads(workload, mapping).items():
            assert loaded(traffic, tensor) == pytest.approx(tuple(expected), abs=1e-6), mapping


@pytest.mark.parametrize("residency", ["lru", "keep", "overbooked"])
@pytest.mark.parametrize("text", PROGRAMS)
def test_replayed_residencies_are_exact(text: str, residency: str) -> None:
    rng = np.random.default_rng(17)
    for n in range(30):
        workload = random_workload(rng, text)
        mapping = random_mapping(rng, workload, residency, padded=True)
        machine = RDA.with_fields(
            buffer_bytes=None if n % 10 == 9 else 90 + 50 * n, dram_burst_bytes=8, dram_latency_cycles=n % 3
        )
        traffic = predict_traffic(workload, mapping, machine, statistics=Statistics())
        for tensor, expected in walked_loads(workload, mapping, machine).items():
            assert loaded(traffic, tensor) == pytest.approx(tuple(expected), abs=1e-6), (mapping, machine)


@pytest.mark.parametrize("residency", ["lru", "keep", "overbooked"])
def test_replays_in_part_are_close(residency: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("costmodel.visits.REPLAYED_VISITS", 400 if residency == "keep" else 2000)
    rng, ratios = np.random.default_rng(18), []
    for _ in range(15):
        tensors = {"A": random_tensor(rng, (60, 50), 0.1), "B": random_tensor(rng, (50, 70), 0.1)}
        workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), tensors)
        base = random_mapping(rng, workload, residency)
        tiles = tuple((i, int(rng.integers(2, 7))) for i in rng.permutation(list("ijk")).tolist())
        loops = Loops(base.loops[0].order, tiles, base.loops[0].parallel)
        mapping = dataclasses.replace(base, loops=(loops,))
        machine = RDA.with_fields(
            buffer_bytes=int(rng.choice([100, 400, 1600, 6400])), dram_burst_bytes=8, dram_latency_cycles=1
        )
        traffic = predict_traffic(workload, mapping, machine, statistics=Statistics())
        for tensor, expected in walked_loads(workload, mapping, machine).items():
            ratios.append(sum(loaded(traffic, tensor)) / expected.sum())
    errors = np.abs(np.log(ratios))
    assert np.exp(errors.mean()) < 1.06
    assert np.exp(errors.max()) < 2.5
    assert (errors > 1e-9).mean() > 0.05  # some were replayed in part


@pytest.mark.parametrize("lanes", [1, 4])
def test_cycles_that_fit_now_and_then(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tile of rows walks a panel of B again; of 24 panels every third is too large for the buffer. With lanes
    over columns, each loads the rows of A that its columns need."""
    monkeypatch.setattr("costmodel.visits.REPLAYED_VISITS", 8000)
    rng = np.random.default_rng(19)
    full = np.repeat(np.arange(24) % 3 == 0, 4)
    b = rng.random((48, 96)) < np.where(full, 0.9, 0.1)
    tensors = {"A": random_tensor(rng, (160, 48), 0.3), "B": SparseTensor.from_dense(b.astype(np.float64))}
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), tensors)
    loops = Loops(("i", "k", "j"), (("j", 4), ("i", 2), ("k", 4)), (("j", lanes, "blocks"),) * (lanes > 1))
    mapping = Mapping((), (loops,), tuple((t, ("compressed", "compressed")) for t in "ABZ"), "lru")
    machine = RDA.with_fields(buffer_bytes=1200, dram_burst_bytes=8)
    traffic = predict_traffic(workload, mapping, machine, statistics=Statistics())
    for tensor, expected in walked_loads(workload, mapping, machine).items():
        assert sum(loaded(traffic, tensor)) == pytest.approx(expected.sum(), rel=0.2)


def test_a_stretch_is_not_cut_off_by_the_loop_it_begins_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight tiles of rows, four stretches: each begins where one of them ends. B's 48 x 48 tiles come once per tile of
    rows and never fit, so that all of them are loaded eight times."""
    monkeypatch.setattr("costmodel.visits.REPLAYED_VISITS", 4000)
    monkeypatch.setattr("costmodel.visits.STRETCHES", (4, 4))
    tensors = {"A": SparseTensor.from_dense(np.ones((16, 96))), "B": SparseTensor.from_dense(np.ones((96, 96)))}
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), tensors)
    loops = Loops(("i", "k", "j"), (("i", 2), ("k", 2), ("j", 2)))
    mapping = Mapping((), (loops,), tuple((t, ("dense", "dense")) for t in "ABZ"), "lru")
    machine = RDA.with_fields(buffer_bytes=2048, dram_burst_bytes=8)
    traffic = predict_traffic(workload, mapping, machine, statistics=Statistics())
    assert sum(loaded(traffic, "B")) == pytest.approx(walked_loads(workload, mapping, machine)["B"].sum())
    assert loaded(traffic, "B")[0] == pytest.approx(8 * 96 * 96 * RDA.value_bytes)


def test_lru_keeps_what_fits_and_thrashes_on_what_does_not() -> None:
    """Dense B under loop i: fetched once where its panel fits, once per row tile of A where it does not."""
    tensors = {"A": SparseTensor.from_dense(np.ones((16, 12))), "B": SparseTensor.from_dense(np.ones((12, 8)))}
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), tensors)
    kinds = tuple((t, ("dense", "dense")) for t in "ABZ")
    mapping = Mapping((), (Loops(("i", "k", "j"), (("i", 4), ("j", 4), ("k", 3))),), kinds, "lru")
    panel = 4 * 2 * (3 * 4 * RDA.value_bytes + RDA.descriptor_bytes)
    for capacity, times in ((panel, 1), (panel - 1, 4)):
        traffic = predict_traffic(workload, mapping, RDA.with_fields(buffer_bytes=capacity), statistics=Statistics())
        assert sum(loaded(traffic, "B")) == times * panel


ORDERS = ["i,j,k", "i,k,j", "k,i,j", "k,j,i", "j,i,k", "j,k,i"]


@pytest.mark.parametrize("order", ORDERS)
def test_matrix_product_follows_the_closed_formulas(order: str) -> None:
    """Input bytes of a tiled sparse matrix product, in tile counts: alpha_k (beta_k) non-empty tiles of column k of A
    (row k of B), a_k (c_k) their bytes."""
    rng = np.random.default_rng(5)
    a, b = random_tensor(rng, (30, 24), 0.08), random_tensor(rng, (24, 28), 0.05)
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), {"A": a, "B": b})
    tiles = {"i": 5, "j": 6, "k": 4}
    kinds = tuple((t, ("compressed", "compressed")) for t in "ABZ")
    mapping = Mapping((), (Loops(tuple(order.split(",")), tuple((i, tiles[i]) for i in order.split(","))),), kinds)
    bytes_of = [tile_bytes(workload, mapping, 0, n, RDA) for n in (0, 1)]
    k_first = [order.index("k") < order.index("i"), order.index("k") < order.index("j")]
    count, size = [Counter[int](), Counter[int]()], [Counter[int](), Counter[int]()]
    for n in (0, 1):
        for tile, parts in bytes_of[n].items():
            k = tile[0] if k_first[n] else tile[1]
            count[n][k] += 1
            size[n][k] += sum(parts)
    alpha, beta = count
    both = sorted(set(alpha) & set(beta))
    traffic = predict_traffic(workload, mapping, RDA, statistics=Statistics())
    position = {index: p for p, index in enumerate(order.split(","))}
    refetched_a = position["j"] < max(position["i"], position["k"])
    refetched_b = position["i"] < max(position["k"], position["j"])
    expected_a = sum(size[0][k] * (beta[k] if refetched_a else 1) for k in both)
    expected_b = sum(size[1][k] * (alpha[k] if refetched_b else 1) for k in both)
    assert (sum(loaded(traffic, "A")), sum(loaded(traffic, "B"))) == (expected_a, expected_b)


def test_lower_levels_follow_their_formulas() -> None:
    """L1 for order i, j, k: mean tile size times tiles times column tiles times chance of a partner tile."""
    rng = np.random.default_rng(6)
    a, b = random_tensor(rng, (40, 32), 0.05), random_tensor(rng, (32, 48), 0.1)
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), {"A": a, "B": b})
    kinds = tuple((t, ("compressed", "compressed")) for t in "ABZ")
    mapping = Mapping((), (Loops(("i", "j", "k"), (("i", 8), ("j", 8), ("k", 8))),), kinds)
    sizes = [tile_bytes(workload, mapping, 0, n, RDA) for n in (0, 1)]
    total = [sum(map(sum, s.values())) for s in sizes]
    fill = [len(sizes[0]) / (5 * 4), len(sizes[1]) / (4 * 6)]
    traffic = predict_traffic(workload, mapping, RDA, level="L1", statistics=Statistics())
    assert sum(loaded(traffic, "A")) == pytest.approx(total[0] * 6 * fill[1])
    assert sum(loaded(traffic, "B")) == pytest.approx(total[1] * 5 * fill[0])
    uniform = 1 - (1 - b.density) ** 64
    nonempty = 1 - (1 - a.density) ** 64
    guess = predict_traffic(workload, mapping, RDA, level="L0", statistics=Statistics())
    values, _ = loaded(guess, "A")
    assert values == pytest.approx(20 * nonempty * 6 * uniform * (64 * a.density / nonempty) * RDA.value_bytes)


@pytest.mark.parametrize("text", PROGRAMS)
def test_results_are_stored_once(text: str) -> None:
    rng = np.random.default_rng(14)
    for _ in range(15):
        workload = random_workload(rng, text)
        mapping = random_mapping(rng, workload)
        if mapping.loops[0].parallel:
            continue
        ((target, layout),) = schedule(workload.program, mapping).regions[0].stored
        stored = store_tensor(workload.computed[target], layout, RDA)
        traffic = predict_traffic(workload, mapping, RDA.with_fields(accumulator_bytes=None), statistics=Statistics())
        written = [(t.values_bytes, t.metadata_bytes) for t in traffic if t.direction == "write"]
        entries = workload.computed[target].nnz
        assert written == ([(stored.value_bytes, stored.metadata_bytes)] if entries else [])


def test_lanes_write_a_tile_that_they_share_in_parts() -> None:
    z = SparseTensor.from_dense(np.ones((6, 4)))
    workload = Workload(parse_program("Z(i,j) = relu(A(i,j))"), {"A": z})
    kinds = (("A", ("compressed", "compressed")), ("Z", ("compressed", "compressed")))
    part = 3 * 4 * 4 + (2 + 4) * 4 + (3 + 3 * 4) * 4 + RDA.descriptor_bytes  # values, pointers, coordinates, descriptor
    traffic = predict_traffic(
        workload, Mapping((), (Loops(("i", "j"), (), (("i", 2, "balanced"),)),), kinds), RDA, statistics=Statistics()
    )
    assert [t.bytes for t in traffic if t.purpose == "store"] == [2 * part]


def test_a_second_layout_is_converted() -> None:
    rng = np.random.default_rng(8)
    a = random_tensor(rng, (20, 20), 0.1)
    workload = Workload(parse_program("T(i,j) = A(i,k) * B(k,j)\nZ(j,i) = T(i,j) * A(j,i)"), {"A": a, "B": a})
    kinds = tuple((t, ("compressed", "compressed")) for t in ("A", "B", "T", "Z"))
    loops = (Loops(("i", "k", "j")), Loops(("i", "j")))
    traffic = predict_traffic(workload, Mapping((True,), loops, kinds), RDA, statistics=Statistics())
    row, column = (store_tensor(a, lay, RDA) for lay in _layouts_of_a(workload, Mapping((True,), loops, kinds)))
    moved = {(t.tensor, t.direction): t.bytes for t in traffic if t.purpose == "convert"}
    assert moved == {
        ("A", "read"): row.value_bytes + row.metadata_bytes,
        ("A", "write"): column.value_bytes + column.metadata_bytes,
    }


def _layouts_of_a(workload: Workload, mapping: Mapping) -> tuple[object, object]:
    (step,) = (s for s in schedule(workload.program, mapping).steps if hasattr(s, "source"))
    return step.source, step.result


def test_nothing_moves_on_a_machine_without_memory() -> None:
    workload = random_workload(np.random.default_rng(0), "Z(i,j) = A(i,k) * B(k,j)")
    mapping = random_mapping(np.random.default_rng(0), workload)
    assert predict_traffic(workload, mapping, RDA.with_fields(dram_channels=None), statistics=Statistics()) == ()
