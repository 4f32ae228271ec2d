"""Products made by blocks: values, traffic, bounds and estimates of sampled mappings."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel import Statistics, bounds, estimate
from costmodel.exact import count_traffic
from hwsim import Limits
from mapper.blocks import block_plan
from mapper.formats import parse_format
from mapper.machine import load_machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.synthetic import generate
from mapper.tensor import SparseTensor
from mapper.workload import Workload
from tuner.evaluate import evaluate

BLOCKS = load_machine("rda-blocks")
WANTED = 12

CASES: dict[str, tuple[str, dict[str, tuple[int, ...]], dict[str, list[str]]]] = {
    "one in blocks": (
        "Z(i,j) = A(i,k) * B(k,j)", {"A": (32, 24), "B": (24, 16)},
        {"A": ["dense,4x4"], "B": ["dense"], "Z": ["dense", "dense,4x4"]},
    ),
    "oblong": (
        "Z(i,j) = A(i,k) * B(k,j)", {"A": (32, 24), "B": (24, 16)},
        {"A": ["dense,2x4", "dense,4x2"], "B": ["dense"], "Z": ["dense", "dense,2x4"]},
    ),
    "both in blocks": (
        "Z(i,j) = A(i,k) * B(k,j)", {"A": (32, 24), "B": (24, 16)},
        {"A": ["dense,4x4"], "B": ["dense,4x4"], "Z": ["dense", "dense,4x4"]},
    ),
    "several heads": (
        "Z(h,i,j) = A(i,k) * V(h,k,j)", {"A": (32, 24), "V": (3, 24, 16)},
        {"A": ["dense,4x4"], "V": ["dense"], "Z": ["dense", "compressed,dense,4x4"]},
    ),
    "smaller blocks at the edges": (
        "Z(i,j) = A(i,k) * B(k,j)", {"A": (30, 22), "B": (22, 13)},
        {"A": ["dense,4x4", "dense,2x4"], "B": ["dense"], "Z": ["dense", "dense,4x4"]},
    ),
    "smaller blocks of both": (
        "Z(h,i,j) = A(i,k) * V(h,k,j)", {"A": (29, 23), "V": (3, 23, 14)},
        {"A": ["dense,4x4"], "V": ["dense,dense,4x4", "compressed,dense,4x4"], "Z": ["dense", "compressed,dense,4x4"]},
    ),
    "a sum over heads": (
        "Z(i,j) = A(h,i,k) * V(h,k,j)", {"A": (3, 32, 24), "V": (3, 24, 16)},
        {"A": ["dense,dense,4x4", "compressed,dense,4x4"], "V": ["dense"], "Z": ["dense"]},
    ),
}  # fmt: skip


def blocked(rng: np.random.Generator, shape: tuple[int, ...]) -> SparseTensor:
    """Blocks of 4 x 4 with holes in them."""
    grid = rng.random((*shape[:-2], -(-shape[-2] // 4), -(-shape[-1] // 4))) < 0.3
    blocks = np.kron(grid, np.ones((4, 4)))[..., : shape[-2], : shape[-1]]
    return SparseTensor.from_dense(blocks * rng.integers(1, 9, shape) * (rng.random(shape) < 0.9))


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_sampled_mappings(name: str, small: bool) -> None:
    text, shapes, formats = CASES[name]
    rng = np.random.default_rng([5, small])
    program = parse_program(text)
    tensors = {
        n: SparseTensor.from_dense(rng.integers(1, 9, shape) * 1.0) if formats[n] == ["dense"] else blocked(rng, shape)
        for n, shape in shapes.items()
    }
    workload = Workload(program, tensors)
    fields = {"accumulator_bytes": 512, "buffer_bytes": 2048, "fifo_depth": 8} if small else {}
    machine = BLOCKS.with_fields(block_operations_per_cycle=16, **fields)
    limits = SpaceLimits(
        max_lanes=4, rewrites=(), tiles=dict.fromkeys("ijk", (0, 8, 16)),
        formats={t: tuple(parse_format(f, workload.tensor(t).ndim) for f in names) for t, names in formats.items()},
    )  # fmt: skip
    space, statistics, close = MappingSpace(workload, machine, limits), Statistics(), list[list[float]]()
    while len(close) < WANTED:
        mapping = space.sample(rng)
        if block_plan(workload, mapping, machine, 0) is None:
            continue
        result = evaluate(workload, mapping, machine, Limits())
        assert result.failure is None, (result.failure, mapping)
        np.testing.assert_array_equal(result.outputs["Z"].to_dense(), workload.computed["Z"].to_dense())
        assert result.summary["effectual_multiplies"] == workload.effectual_multiplies
        assert sum(t.bytes for t in count_traffic(workload, mapping, machine)) == result.traffic_bytes
        least = bounds(workload, mapping, machine, statistics=statistics)
        assert 0 < least.latency_cycles <= result.latency_cycles and least.energy_pj <= result.energy_pj
        assert 0 < least.traffic_bytes <= result.traffic_bytes
        found = estimate(workload, mapping, machine, statistics=statistics)
        measured = (result.summary["tokens"], result.traffic_bytes, result.energy_pj, result.latency_cycles)
        predicted = (found.tokens, found.traffic_bytes, found.energy_pj, found.latency_cycles)
        close.append([abs(np.log(p / m)) for p, m in zip(predicted, measured, strict=True)])
    assert (np.exp(np.mean(close, axis=0)) < [1.05, 1.01, 1.03, 1.3]).all()


def test_a_product_by_blocks_among_other_statements() -> None:
    rng = np.random.default_rng(8)
    a, c = blocked(rng, (16, 16)), blocked(rng, (8, 16))
    b = SparseTensor.from_dense(rng.integers(1, 9, (16, 8)) * 1.0)
    program = parse_program("T(i,k) = relu(A(i,k))\nY(i,j) = T(i,k) * B(k,j)\nZ(i,l) = Y(i,j) * C(j,l)")
    workload, whole = Workload(program, {"A": a, "B": b, "C": c}), ("dense", "4x4")
    loops = (Loops(("i", "k")), Loops(("i", "k", "j"), (("i", 8),), (("i", 2, "block"),)), Loops(("j", "i", "l")))
    kinds = (("A", ("dense", "compressed")), ("B", ("dense",) * 2), *((t, whole) for t in "CTY"), ("Z", ("dense",) * 2))
    mapping = Mapping((True, True), loops, kinds)
    machine = BLOCKS.with_fields(accumulator_bytes=200)
    assert [block_plan(workload, mapping, machine, n) is not None for n in range(3)] == [False, True, True]
    result = evaluate(workload, mapping, machine, Limits())
    assert result.failure is None
    found = estimate(workload, mapping, machine, statistics=Statistics())
    assert found.traffic_bytes == pytest.approx(result.traffic_bytes, rel=0.05)
    assert [step.name for step in found.steps] == [name for name, _ in result.profiles]
    assert sum(t.bytes for t in count_traffic(workload, mapping, machine)) == result.traffic_bytes
    assert bounds(workload, mapping, machine, statistics=Statistics()).traffic_bytes <= result.traffic_bytes


def test_cycles_of_dense_blocks_by_hand() -> None:
    """One strip of 4 blocks of 16 x 16 times 4 blocks: the products, 16 cycles each, follow one another."""
    rng = np.random.default_rng(0)
    tensors = {n: SparseTensor.from_dense(rng.integers(1, 9, s) * 1.0) for n, s in (("A", (16, 64)), ("B", (64, 16)))}
    workload = Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), tensors)
    kinds = (("A", ("dense", "16x16")), ("B", ("dense", "dense")), ("Z", ("dense", "dense")))
    mapping = Mapping((), (Loops(("i", "j", "k")),), kinds)
    result = evaluate(workload, mapping, BLOCKS, Limits())
    profile = dict(result.profiles)["S0"]
    unit = next(c for c in profile.contexts if c.name == "multiply S0.k")
    assert result.failure is None and unit.busy == 4 * 4096 // 256 + 1  # products, the end of the fiber
    by_element = evaluate(workload, mapping, load_machine("rda"), Limits())
    assert by_element.failure is None and by_element.traffic_bytes == result.traffic_bytes
    assert by_element.latency_cycles > 20 * result.latency_cycles


@pytest.mark.parametrize("side", [16, 32, 64])
def test_bigbird_attention_weights_times_values(side: int) -> None:
    """Rows of attention weights under a BigBird mask, in blocks, times values of 64 features."""
    weights = generate("bigbird", shape=(256, 256), block=side, seed=0)
    rng = np.random.default_rng(side)
    values = SparseTensor.from_dense(rng.integers(1, 9, (256, 64)) * 1.0)
    workload = Workload(parse_program("R(t,f) = P(t,u) * V(u,f)"), {"P": weights, "V": values})
    kinds = (("P", ("dense", f"{side}x{side}")), ("R", ("dense", "dense")), ("V", ("dense", "dense")))
    mapping = Mapping((), (Loops(("t", "u", "f")),), kinds, joins="locate")
    result = evaluate(workload, mapping, BLOCKS, Limits())
    assert result.failure is None
    np.testing.assert_allclose(result.outputs["R"].to_dense(), weights.to_dense() @ values.to_dense(), rtol=1e-12)
    by_element = evaluate(workload, mapping, load_machine("rda"), Limits())
    assert by_element.traffic_bytes == result.traffic_bytes
    assert by_element.latency_cycles > 10 * result.latency_cycles
