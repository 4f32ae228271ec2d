"""The exact counter against the token simulator and the walk coordinate by coordinate."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from loop_walk import spilled, walk_lanes
from random_mappings import PROGRAMS, RDA, random_mapping, random_workload, small_buffers
from test_traffic import loaded, walked_loads

from costmodel import Statistics, predict_traffic
from costmodel.bounds import bounds
from costmodel.exact import count_traffic
from hwsim import Limits, simulate
from mapper.legality import violations
from mapper.lowering import lower_conversion, lower_region
from mapper.machine import Machine
from mapper.mapping import PARTITIONS, Loops, Mapping
from mapper.notation import parse_program
from mapper.residency import RESIDENCIES
from mapper.schedule import Conversion, schedule
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.storage import Layout, Storage, store_tensor
from mapper.synthetic import generate
from mapper.tensor import SparseTensor
from mapper.workload import Workload
from tuner.evaluate import evaluate


def simulated_traffic(workload: Workload, mapping: Mapping, machine: Machine) -> Counter[tuple[str, str, str]] | None:
    """Bytes per (tensor, direction, part) that the simulator counts, None if it does not finish."""
    workload = workload.variant(mapping.variant)

    def stored(tensor: str, layout: Layout) -> Storage:
        return store_tensor(workload.tensor(tensor), layout, machine)

    total: Counter[tuple[str, str, str]] = Counter()
    for step in schedule(workload.program, mapping).steps:
        if isinstance(step, Conversion):
            graph = lower_conversion(step, machine, stored)
        else:
            graph = lower_region(workload, mapping, machine, step, stored)
        profile = simulate(graph)
        if profile.status != "done":
            return None
        for row in profile.traffic:
            total[row.tensor, row.direction, "values"] += row.values_bytes
            total[row.tensor, row.direction, "metadata"] += row.metadata_bytes
    return +total


def counted_traffic(workload: Workload, mapping: Mapping, machine: Machine) -> Counter[tuple[str, str, str]]:
    total: Counter[tuple[str, str, str]] = Counter()
    for row in count_traffic(workload, mapping, machine):
        total[row.tensor, row.direction, "values"] += int(row.values_bytes)
        total[row.tensor, row.direction, "metadata"] += int(row.metadata_bytes)
    return +total


@pytest.mark.parametrize("residency", RESIDENCIES)
@pytest.mark.parametrize("text", PROGRAMS)
def test_equal_to_the_simulator(text: str, residency: str) -> None:
    rng, compared = np.random.default_rng(31), 0
    for n in range(25):
        workload = random_workload(rng, text)
        mapping = random_mapping(rng, workload, residency, padded=True)
        machine = small_buffers(
            RDA.with_fields(dram_burst_bytes=8, dram_latency_cycles=n % 3), 90 + 40 * n, 60 + 24 * n
        )
        if violations(workload, mapping, machine):
            continue
        expected = simulated_traffic(workload, mapping, machine)
        if expected is not None:
            compared += 1
            assert counted_traffic(workload, mapping, machine) == expected, mapping
    assert compared >= 10


SPACES = {
    "Z(i,j) = A(i,k) * B(k,j)": {
        "A": ("power_law", {"shape": (90, 90), "nnz": 700}),
        "B": ("power_law", {"shape": (90, 90), "nnz": 700}),
    },
    "Z(i,m) = relu((A(i,j)*X(j,k))*W(k,m) + b(m))": {
        "A": ("power_law", {"shape": (40, 40), "nnz": 150}),
        "X": ("uniform", {"shape": (40, 30), "density": 0.1}),
        "W": ("dense", {"shape": (30, 8)}),
        "b": ("dense", {"shape": (8,)}),
    },
    "Z(i,r) = X(i,j,k) * B(j,r) * C(k,r)": {
        "X": ("uniform", {"shape": (30, 20, 16), "density": 0.03}),
        "B": ("dense", {"shape": (20, 6)}),
        "C": ("dense", {"shape": (16, 6)}),
    },
    "Z(i,k) = (A(i,j) + b(i) - c(j)) * W(j,k)": {
        "A": ("uniform", {"shape": (30, 20), "density": 0.05}),
        "b": ("uniform", {"shape": (30,), "density": 0.2}),
        "c": ("uniform", {"shape": (20,), "density": 0.2}),
        "W": ("uniform", {"shape": (20, 8), "density": 0.4}),
    },
}  # fmt: skip


@pytest.mark.parametrize("text", SPACES)
def test_equal_to_the_simulator_over_whole_spaces(text: str) -> None:
    """All formats, conversions, fused regions and rewritings that a space offers."""
    rng = np.random.default_rng(32)
    machine = RDA.with_fields(buffer_bytes=900, accumulator_bytes=600)
    tensors = {n: generate(kind, seed=s, **p) for s, (n, (kind, p)) in enumerate(SPACES[text].items())}
    workload = Workload(parse_program(text), tensors)
    space, compared = MappingSpace(workload, machine, SpaceLimits(residency=tuple(RESIDENCIES))), 0
    while compared < 40:
        mapping = space.sample(rng)
        expected = simulated_traffic(workload, mapping, machine)
        if expected is not None:
            compared += 1
            assert counted_traffic(workload, mapping, machine) == expected, mapping


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("Z(o,p) = X(c,2*p+r-1) * W(o,c,r)", {"X": (3, 11), "W": (4, 3, 3)}),
        ("Z(o,p,q) = X(c,p+r,q+s) * W(o,c,r,s)", {"X": (2, 7, 6), "W": (3, 2, 2, 2)}),
        ("Z(p) = X(4*p) * W(p)", {"X": (40,), "W": (10,)}),
    ],
)
def test_windows_stored_and_read_in_place(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    """A view writes what it makes; read in place nothing is converted and the boxes of its operand are loaded."""
    rng, ran = np.random.default_rng(12), set()
    tensors = {n: generate("uniform", seed=k, shape=s, density=0.5) for k, (n, s) in enumerate(shapes.items())}
    workload = Workload(parse_program(text), tensors)
    space = MappingSpace(workload, RDA, SpaceLimits(residency=tuple(RESIDENCIES), max_lanes=2))
    for _ in range(25):
        mapping = space.sample(rng)
        result = evaluate(workload, mapping, RDA, Limits())
        if result.failure is None:
            assert sum(t.bytes for t in count_traffic(workload, mapping, RDA)) == result.traffic_bytes
            ran.add(mapping.variant)
    assert ran == {"", "T1 in place"}


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("made", ["jki", "kji", "kij", "ijk"])
def test_a_lane_gets_from_an_accumulator_what_it_has_alone(made: str, partition: str) -> None:
    """Lanes over i; k stands above it. Under a sum over j a lane drains the tiles along k in which it has rows (jki);
    where k is scanned above the sum, every lane passes all of them on. W is loaded accordingly."""
    shapes = {"A": (40, 36), "X": (36, 30), "W": (30, 8)}
    tensors = {n: generate("uniform", seed=s, shape=x, density=0.04) for s, (n, x) in enumerate(shapes.items())}
    workload = Workload(parse_program("T(i,k) = A(i,j) * X(j,k)\nZ(i,m) = T(i,k) * W(k,m)"), tensors)
    machine = RDA.with_fields(buffer_bytes=400, accumulator_bytes=600, fifo_depth=1024)
    lanes, tiles = (("i", 8, partition),), tuple((i, 4) for i in made if i != "j" or made == "jki")
    reader = Loops((*(i for i in made if i != "j"), "m"), tuple(t for t in tiles if t[0] != "j"), lanes)
    formats = tuple((name, ("compressed", "compressed")) for name in "AWXZ")
    mapping = Mapping((False,), (Loops(tuple(made), tiles, lanes), reader), formats)
    expected = simulated_traffic(workload, mapping, machine)
    assert expected is not None and counted_traffic(workload, mapping, machine) == expected
    predicted = predict_traffic(workload, mapping, machine, statistics=Statistics())
    of_w = sum(n for (tensor, _, _), n in expected.items() if tensor == "W")
    assert sum(t.bytes for t in predicted if t.tensor == "W") == pytest.approx(of_w)
    assert bounds(workload, mapping, machine).traffic_bytes <= sum(expected.values())


def test_readers_of_a_stream_see_fibers_that_are_empty() -> None:
    """A x X has empty rows and blocks of columns where both have tiles: the tiles of W are loaded for these too."""
    rng = np.random.default_rng(35)
    machine = RDA.with_fields(buffer_bytes=400, accumulator_bytes=600, fifo_depth=1024)
    shapes = {"A": (40, 36), "X": (36, 30), "W": (30, 8)}
    tensors = {n: generate("uniform", seed=s, shape=x, density=0.04) for s, (n, x) in enumerate(shapes.items())}
    workload = Workload(parse_program("T(i,k) = A(i,j) * X(j,k)\nZ(i,m) = T(i,k) * W(k,m)"), tensors)
    limits = SpaceLimits(fuse_others=True, variants=("",), residency=tuple(RESIDENCIES))
    space = MappingSpace(workload, machine, limits)
    for _ in range(60):
        mapping = space.sample(rng)
        expected = simulated_traffic(workload, mapping, machine)
        if expected is not None:
            counted = counted_traffic(workload, mapping, machine)
            assert counted == expected, mapping
            predicted = predict_traffic(workload, mapping, machine, statistics=Statistics())
            loads = sum(t.values_bytes for t in predicted if t.tensor == "W")
            assert counted["W", "read", "values"] == pytest.approx(loads)


def test_a_lane_sees_empty_fibers_of_its_own_part_alone() -> None:
    """U passes blocks of columns in which its lane has entries of T and M, though none in common: C is loaded for
    these, not for those that the other lane passes."""
    rng, lanes = np.random.default_rng(36), (("i", 2, "block"),)
    program = parse_program("T(i,j) = A(i,k) * B(k,j)\nU(i,j) = T(i,j) * M(i,j)\nZ(i,j) = U(i,j) * C(i,j)")
    makes, reads = Loops(("i", "j", "k"), (("k", 1), ("j", 2)), lanes), Loops(("i", "j"), (("j", 2),), lanes)
    mapping = Mapping((False, False), (makes, reads, reads), tuple((n, ("compressed",) * 2) for n in "ABCMZ"))
    for _ in range(20):
        shapes = {"A": (4, 2), "B": (2, 4), "M": (4, 4), "C": (4, 4)}
        tensors = {n: SparseTensor.from_dense((rng.random(shape) < 0.4) * 1.0) for n, shape in shapes.items()}
        workload = Workload(program, tensors)
        assert counted_traffic(workload, mapping, RDA) == simulated_traffic(workload, mapping, RDA)


NOTHING = np.zeros((3, 4))
ONES = np.ones((3, 4))
LEFT, RIGHT = np.eye(3, 4), np.eye(3, 4, 1)


@pytest.mark.parametrize(
    ("text", "a", "b", "kinds"),
    [
        ("Z(i,j) = A(i,j) * B(i,j)", NOTHING, ONES, ("compressed", "bitmask")),  # a bitmask without fibers
        ("Z = A(i,j) * B(i,j)", LEFT, ONES, ("dense", "dense")),  # a scalar that is made of zeros too
        ("Z = A(i,j) * B(i,j)", LEFT, RIGHT, ("compressed", "compressed")),  # one without products: never made
        ("Z = A(i,j) * B(i,j)", LEFT, RIGHT, ("dense", "dense")),  # one of zeros alone
        ("T = A(i,j) * B(i,j)\nZ(m) = T * C(m)", LEFT, RIGHT, ("compressed", "compressed")),
    ],
)
def test_operands_and_scalars_of_nothing(text: str, a: np.ndarray, b: np.ndarray, kinds: tuple[str, ...]) -> None:
    tensors = {"A": SparseTensor.from_dense(a), "B": SparseTensor.from_dense(b), "C": SparseTensor.from_dense(ONES[0])}
    program = parse_program(text)
    workload = Workload(program, {n: tensors[n] for n in program.inputs})
    formats = {"A": kinds, "B": kinds, "C": ("dense",), "T": (), "Z": ("compressed",) * workload.tensor("Z").ndim}
    stored = tuple((n, formats[n]) for n in sorted({*program.inputs, *program.producers}))
    loops = tuple(Loops(s.indices) for s in program.statements)
    mapping = Mapping((True,) * len(program.edges), loops, stored)
    result = evaluate(workload, mapping, RDA, Limits())
    assert sum(t.bytes for t in count_traffic(workload, mapping, RDA)) == result.traffic_bytes


@pytest.mark.parametrize("tiles", [(), (("i", 4),)])
def test_a_scalar_that_lanes_share_is_always_made(tiles: tuple[tuple[str, int], ...]) -> None:
    """What lanes give is added: 0 of nothing at all, 4 bytes and as many for each of both segment bounds."""
    workload = Workload(parse_program("y = A(i)"), {"A": SparseTensor.from_dense(np.zeros(8))})
    loops = Loops(("i",), tiles, (("i", 2, "balanced"),))
    mapping = Mapping((), (loops,), (("A", ("compressed",)), ("y", ())))
    (stored,) = (t for t in count_traffic(workload, mapping, RDA) if t.tensor == "y")
    assert (stored.purpose, stored.bytes) == ("store", 12)
    result = evaluate(workload, mapping, RDA, Limits())
    assert sum(t.bytes for t in count_traffic(workload, mapping, RDA)) == result.traffic_bytes


@pytest.mark.parametrize("text", ["Z(i,j) = A(i,k) * B(k,j)", "Z(i,r) = X(i,j,k) * B(j,r) * C(k,r)"])
def test_blocks_of_prefixes_change_nothing(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("costmodel.walk.BLOCK", 7)
    monkeypatch.setattr("costmodel.walk.LARGEST_TABLE", 0)
    rng = np.random.default_rng(33)
    machine = small_buffers(accumulator_bytes=120)
    for residency in RESIDENCIES:
        workload = random_workload(rng, text)
        mapping = random_mapping(rng, workload, residency)
        traffic = count_traffic(workload, mapping, machine)
        for tensor, expected in walked_loads(workload, mapping, machine).items():
            assert loaded(traffic, tensor) == tuple(expected)


def test_spills_equal_those_of_the_walk() -> None:
    rng, overflowing = np.random.default_rng(34), 0
    machine = small_buffers(accumulator_bytes=180)
    for _ in range(60):
        workload = random_workload(rng, "Z(i,j) = A(i,k) * B(k,j)")
        mapping = random_mapping(rng, workload)
        nest = mapping.loops[0].nest
        depth = max(q for q, (i, _) in enumerate(nest) if i in "ij")
        scope = next((q for q, (i, _) in enumerate(nest[:depth]) if i == "k"), None)
        if scope is None:
            continue
        keys = len({i for i, _ in nest[scope:] if i in "ij"})
        capacity = 180 // (4 + 4 * keys)
        expected = sum(spilled(w, workload, mapping, 0, capacity) for w in walk_lanes(workload, mapping, 0))
        traffic = count_traffic(workload, mapping, machine)
        found = [t.values_bytes for t in traffic if (t.purpose, t.direction) == ("spill", "write")]
        assert sum(found) == 4 * expected
        overflowing += expected > 0
    assert overflowing >= 10
