from __future__ import annotations

import numpy as np
import pytest
from loop_walk import spilled, walk_lanes
from random_mappings import RDA, random_mapping, random_tensor, random_workload

from costmodel import replay
from costmodel.accumulators import accumulator_of, reduction_of
from costmodel.factors import Factor
from costmodel.nest import Model
from costmodel.spills import Returning, UniformKeys, spilled_entries
from costmodel.statistics import Statistics
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.schedule import schedule
from mapper.synthetic import generate
from mapper.tensor import SparseTensor
from mapper.workload import Workload

PRODUCT = "Z(i,j) = A(i,k) * B(k,j)"


def nest_of(workload: Workload, mapping: Mapping, level: str = "L2"):
    (region,) = schedule(workload.program, mapping).regions
    return Model(workload, mapping, level, Statistics()).nests(region)[0]


def dense_product(order: str, tiles: dict[str, int]) -> tuple[Workload, Mapping]:
    tensors = {"A": SparseTensor.from_dense(np.ones((12, 8))), "B": SparseTensor.from_dense(np.ones((8, 10)))}
    kinds = tuple((t, ("dense", "dense")) for t in "ABZ")
    loops = Loops(tuple(order.split(",")), tuple((i, tiles[i]) for i in order.split(",") if i in tiles))
    return Workload(parse_program(PRODUCT), tensors), Mapping((), (loops,), kinds)


@pytest.mark.parametrize(
    ("order", "tiles", "shape"),
    [
        ("i,j,k", {}, None),
        ("i,k,j", {}, (2, 3, 1, (2,))),
        ("k,i,j", {}, (1, 3, 2, (1,))),
        ("i,j,k", {"i": 4, "j": 5, "k": 2}, (3, 5, 2, (3,))),
        ("i,k,j", {"i": 4, "j": 5, "k": 2}, (2, 6, 2, (2, 5))),
        ("k,j,i", {"k": 2, "j": 5}, (1, 5, 2, (1, 3))),
    ],
)
def test_shape_of_the_accumulator(order: str, tiles: dict[str, int], shape: tuple | None) -> None:
    found = accumulator_of(nest_of(*dense_product(order, tiles)))
    assert (found and (found.scope, found.depth, found.keys, found.returns)) == shape


def test_entries_per_scope_are_known() -> None:
    nest = nest_of(*dense_product("i,k,j", {"i": 4}))
    reduction = reduction_of(nest, RDA.with_fields(accumulator_bytes=8 * 9))
    assert reduction is not None  # a scope per row: 10 entries
    assert reduction.scopes.entries.tolist() == [10.0] * 12
    assert reduction.spilled.tolist() == [72.0] * 12  # 80 products in runs of 9: eight go, the ninth stays
    roomy = reduction_of(nest, RDA)
    assert roomy is not None and not roomy.spilled.any()
    assert roomy.scopes.entries.tolist() == [10.0] * 12


def test_scopes_that_are_alike_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    tensors = {"A": random_tensor(rng, (60, 30), 0.05), "B": random_tensor(rng, (30, 20), 0.05)}
    kinds = tuple((t, ("compressed", "compressed")) for t in "ABZ")
    mapping = Mapping((), (Loops(("i", "k", "j"), (), (("i", 3, "cyclic"),)),), kinds)
    workload = Workload(parse_program(PRODUCT), tensors)
    apart = reduction_of(nest_of(workload, mapping), RDA)
    monkeypatch.setattr("costmodel.accumulators.MANY_SCOPES", 0)
    together = reduction_of(nest_of(workload, mapping), RDA)
    assert apart is not None and together is not None
    assert together.scopes.entries.size < apart.scopes.entries.size == together.scopes.number.sum()
    for power in (0, 1, 2):
        one, other = (r.scopes.per_lane(r.scopes.entries**power, 3).tolist() for r in (apart, together))
        assert one == other


def test_scopes_of_which_nothing_was_sampled_spill_every_product(monkeypatch: pytest.MonkeyPatch) -> None:
    none = np.zeros(0, np.int64)
    nothing = Factor((("i", 1), ("j", 1), ("k", 1)), (none, none, none), np.zeros(0))
    monkeypatch.setattr(replay, "_sample", lambda *_: nothing)
    reduction = reduction_of(nest_of(*dense_product("i,k,j", {})), RDA.with_fields(accumulator_bytes=8 * 9))
    assert reduction is not None and reduction.spilled.tolist() == [80.0] * 12


@pytest.mark.parametrize("capacity_entries", [7, 16, 40, 100])
@pytest.mark.parametrize("order", ["k,i,j", "k,j,i"])
def test_full_outer_products_spill_exactly(order: str, capacity_entries: int) -> None:
    """Every step brings all 120 keys in the same order: no run meets a key again before it is full."""
    workload, mapping = dense_product(order, {})
    machine = RDA.with_fields(accumulator_bytes=12 * capacity_entries)
    reduction = reduction_of(nest_of(workload, mapping), machine)
    (walked,) = walk_lanes(workload, mapping, 0)
    assert reduction is not None
    assert reduction.spilled.sum() == spilled(walked, workload, mapping, 0, capacity_entries)


def test_unbounded_or_large_accumulators_do_not_spill() -> None:
    workload, mapping = dense_product("k,i,j", {})
    for machine in (RDA, RDA.with_fields(accumulator_bytes=None), RDA.with_fields(dram_channels=None)):
        reduction = reduction_of(nest_of(workload, mapping), machine)
        assert reduction is not None and not reduction.spilled.any()


def test_mean_scopes_merge_where_keys_fit() -> None:
    """1000 keys, 32,000 products: 4 outer steps of all keys, 10 blocks of 100 keys in each, 8 inner steps a block."""
    one = np.ones(1)
    outer, inner = Returning(one, 1, 4 * one, 4), Returning(40 * one, 4, 320 * one, 32)
    entries, products = 1000 * one, 32_000 * one
    uniform = UniformKeys(32_000, 1000)
    assert spilled_entries(entries, products, [outer, inner], uniform, 1000).tolist() == [0]
    assert spilled_entries(entries, products, [outer, inner], uniform, 0).tolist() == [0]
    within_blocks = spilled_entries(entries, products, [outer, inner], uniform, 200)
    assert within_blocks[0] == pytest.approx(4000 - 200, rel=0.06)
    across_steps = spilled_entries(entries, products, [outer, inner], uniform, 50)
    assert across_steps[0] > 2 * within_blocks[0]


@pytest.mark.parametrize("padded", [False, True])
def test_spills_of_random_mappings_are_those_of_a_walk(padded: bool) -> None:
    """But for what 40 scopes leave to the mean."""
    rng = np.random.default_rng(3)
    tensors = {n: generate("power_law", shape=(40, 40), nnz=250, seed=s) for n, s in (("A", 1), ("B", 2))}
    workload = Workload(parse_program(PRODUCT), tensors)
    seen = 0
    for _ in range(80):
        mapping = random_mapping(rng, workload, padded=padded)
        nest = nest_of(workload, mapping)
        shape = accumulator_of(nest)
        if shape is None:
            continue
        capacity = int(rng.choice([20, 60, 200]))
        machine = RDA.with_fields(accumulator_bytes=capacity * (4 + 4 * shape.keys))
        reduction = reduction_of(nest, machine)
        assert reduction is not None
        counted = sum(spilled(w, workload, mapping, 0, capacity) for w in walk_lanes(workload, mapping, 0))
        assert reduction.spilled.sum() == pytest.approx(counted, rel=0.01), mapping
        seen += counted > 0
    assert seen > 20


def test_sampled_replays_are_near_the_exact_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Banded and skewed patterns, a tenth of the products sampled: the capacity shrinks with the keys."""
    rng = np.random.default_rng(8)
    errors = []
    for kind, more in (("power_law", {"nnz": 4000}), ("banded", {"bandwidth": 8, "density": 0.8})):
        data = generate(kind, shape=(300, 300), seed=1, **more)
        workload = Workload(parse_program("Z(i,j) = A(i,k) * A(k,j)"), {"A": data})
        for _ in range(25):
            mapping = random_mapping(rng, workload)
            found = []
            for most in (10**9, max(1500, workload.effectual_multiplies // 10)):
                monkeypatch.setattr(replay, "SAMPLED_PRODUCTS", most)
                reduction = reduction_of(nest_of(workload, mapping), RDA.with_fields(accumulator_bytes=12 * 400))
                found.append(reduction.spilled.sum() if reduction else 0.0)
            if all(found):
                errors.append(abs(np.log(found[1] / found[0])))
    assert len(errors) > 15
    assert np.exp(np.mean(errors)) < 1.2


def banded_square(bandwidth: int, order: str, tiles: dict[str, int], lanes: int) -> tuple[Workload, Mapping]:
    """A band matrix of 600 rows times itself, whose keys return soon."""
    i, j = np.indices((600, 600))
    band = SparseTensor.from_dense((abs(i - j) <= bandwidth) * 1.0)
    parallel = (("k", lanes, "block"),) if lanes > 1 else ()
    loops = Loops(tuple(order), tuple((x, tiles[x]) for x in order if x in tiles), parallel)
    kinds = tuple((t, ("compressed", "compressed")) for t in "ABZ")
    return Workload(parse_program(PRODUCT), {"A": band, "B": band}), Mapping((), (loops,), kinds)


def test_a_sample_keeps_room_for_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """k outermost, two keys in 133 are kept: in a sampled accumulator of one or two keys hardly any is met again."""
    workload, mapping = banded_square(8, "kij", {}, 1)
    machine = RDA.with_fields(accumulator_bytes=12 * 900)
    exact = reduction_of(nest_of(workload, mapping), machine)
    monkeypatch.setattr(replay, "SAMPLED_PRODUCTS", 2000)
    near = reduction_of(nest_of(workload, mapping), machine)
    monkeypatch.setattr(replay, "LEAST_ROOM", 1)
    far = reduction_of(nest_of(workload, mapping), machine)
    spilled = [float(found.spilled.sum()) for found in (exact, near, far) if found is not None]
    assert spilled[0] > 0 and abs(spilled[1] / spilled[0] - 1) < 0.1 < abs(spilled[2] / spilled[0] - 1)


def test_a_lane_has_no_more_sums_than_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four lanes over k; a scope is a tile of 16 x 8 positions of which a sample sees a few."""
    monkeypatch.setattr(replay, "SAMPLED_PRODUCTS", 200)
    nest = nest_of(*banded_square(30, "ijk", {"i": 16, "j": 8, "k": 64}, 4))
    reduction = reduction_of(nest, RDA)
    assert reduction is not None and 64 < reduction.scopes.entries.max() <= 16 * 8


@pytest.mark.parametrize("level", ["L0", "L1"])
def test_lower_levels_know_mean_scopes(level: str) -> None:
    workload, mapping = dense_product("i,k,j", {"i": 4, "k": 2})
    reduction = reduction_of(nest_of(workload, mapping, level), RDA.with_fields(accumulator_bytes=12 * 20))
    assert reduction is not None
    scopes = reduction.scopes
    assert scopes.per_lane(scopes.entries, 1)[0] == pytest.approx(120, rel=0.01)
    assert scopes.number.tolist() == [3.0]
    assert reduction.spilled[0] > 0


def test_random_scopes_partition_the_result() -> None:
    rng = np.random.default_rng(9)
    for _ in range(40):
        workload = random_workload(rng, PRODUCT)
        nest = nest_of(workload, random_mapping(rng, workload))
        reduction = reduction_of(nest, RDA)
        if reduction is None:
            continue
        made = reduction.scopes.entries * reduction.scopes.number
        if nest.partial:  # each lane has a part of the sums, which overlap
            assert made.sum() <= nest.copies(("i", "j")) * workload.computed["Z"].nnz + 1e-9
        else:
            assert made.sum() == workload.computed["Z"].nnz
