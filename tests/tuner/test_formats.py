"""Every storage format from data to values and traffic: random mappings, simulated, against numpy and the model."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from costmodel import Statistics, estimate
from hwsim import Limits
from mapper.canonical import plain
from mapper.errors import EmptySpace
from mapper.formats import Format, pads, parse_format
from mapper.machine import load_machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.tensor import SparseTensor
from mapper.workload import Workload
from tuner.evaluate import StorageCache, evaluate

RDA = load_machine("rda").with_fields(coordinate_bytes=2, pointer_bytes=3, buffer_bytes=2048)

KERNELS = {
    "y(i) = A(i,j) * x(j)": {"A": (18, 27), "x": (27,)},
    "Z(i,j) = A(i,k) * B(k,j)": {"A": (14, 22), "B": (22, 11)},
    "Z(i,j) = S(i,j) * A(i,k) * B(k,j)": {"S": (14, 11), "A": (14, 9), "B": (9, 11)},
    "Z(i,j,r) = A(i,j,k) * B(k,r)": {"A": (7, 6, 9), "B": (9, 5)},
    "Z(i,j) = A(i,j) + B(i,j)": {"A": (13, 19), "B": (13, 19)},
    "Z(i,j) = A(i,k) * A(k,j)": {"A": (12, 12)},  # most orders walk A in two layouts: a conversion
}

MATRIX = ["csr", "bitmap", "bitmask,bitmask", "compressed,bitmask", "coo", "rle", "2:4", "2:4,compressed", "dense,2x4"]
SPARSE = {
    1: ["csf", "bitmap", "rle", "2:4"],
    2: MATRIX,
    3: ["csf", "coo", "bitmap", "dense,nonunique,singleton", "compressed,2:4,rle", "compressed,dense,4x2"],
}
RESULTS = {
    0: ["dense"],
    1: ["csf", "bitmap", "dense"],
    2: ["csf", "bitmap", "coo", "compressed,bitmask", "dense,2x2"],
    3: ["coo", "bitmap", "csf", "bitmask,dense,2x4"],
}


def tensor(rng: np.random.Generator, shape: tuple[int, ...]) -> SparseTensor:
    """At most two entries in four neighbouring positions along every mode, in aligned groups; few distinct values."""
    kept = rng.random(shape) < rng.choice([0.1, 0.5])
    for mode in range(len(shape)):
        along = np.moveaxis(kept, mode, 0)
        for start in range(0, shape[mode], 4):
            group = along[start : start + 4]
            group &= np.cumsum(group, axis=0) <= 2
    return SparseTensor.from_dense(kept * rng.integers(1, 4, shape) / 4)


def formats(rng: np.random.Generator, names: list[str], ndim: int) -> tuple[Format, ...]:
    return tuple(dict.fromkeys(parse_format(str(n), ndim) for n in rng.choice(names, size=2)))


def moved(rows: Iterable[Any]) -> Counter[tuple[str, str, str]]:
    """Bytes per tensor, direction and part."""
    found = Counter[tuple[str, str, str]]()
    for row in rows:
        for part in ("values_bytes", "metadata_bytes"):
            found[row["tensor"], row["direction"], part] += round(row[part])
    return found


@pytest.mark.parametrize("text", KERNELS)
@pytest.mark.parametrize("case", range(10))
def test_kernels_in_random_formats(text: str, case: int) -> None:
    rng = np.random.default_rng([case, len(text)])
    program = parse_program(text)
    workload = Workload(program, {n: tensor(rng, s) for n, s in KERNELS[text].items()})
    dense = {n: t.to_dense() for n, t in workload.tensors.items()}
    ranks = {a.tensor: len(a.indices) for s in program.statements for a in (s.target, *s.operands)}
    limits = SpaceLimits(
        variants=("",),
        formats={t: formats(rng, RESULTS[n] if t in program.producers else SPARSE[n], n) for t, n in ranks.items()},
        residency=("none",),
        tiles={i: (0, 4, 8) for s in program.statements for i in s.indices},
        max_lanes=4,
    )
    space, statistics, cache = MappingSpace(workload, RDA, limits), Statistics(), StorageCache()
    for _ in range(4):
        try:
            mapping = space.sample(rng, tries=300)
        except EmptySpace:  # no order and tiles keep the N:M patterns
            continue
        result = evaluate(workload, mapping, RDA, Limits(max_tokens=20_000_000), cache)
        assert result.failure is None, mapping
        (output,) = program.outputs
        np.testing.assert_allclose(result.outputs[output].to_dense(), expected(text, dense), atol=1e-12)
        simulated = moved(result.summary["traffic"])
        predicted = moved(map(plain, estimate(workload, mapping, RDA, statistics=statistics).traffic))
        padded = any(pads(kinds) for name, kinds in mapping.formats if name in workload.tensors)
        for key, count in simulated.items():  # zeros that an operand stores make further entries of the result
            assert predicted[key] == count or (padded and key[0] == output), (key, mapping)


def expected(text: str, dense: dict[str, np.ndarray]) -> np.ndarray:
    if "+" in text:
        return np.asarray(dense["A"] + dense["B"])
    target, right = text.replace(" ", "").split("=")
    names = [(part[0], part[2:-1].replace(",", "")) for part in right.split("*")]
    spec = ",".join(i for _, i in names) + "->" + target[2:-1].replace(",", "")
    return np.asarray(np.einsum(spec, *(dense[n] for n, _ in names)))


CHAIN = "T(i,k) = A(i,j) * B(j,k)\nZ(i,l) = T(i,k) * C(k,l)"


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "int8"])
@pytest.mark.parametrize("tensors", ["A", "T", "ATZ"])
def test_narrow_values(dtype: str, tensors: str) -> None:
    """Values are those of a program that rounds where tensors are stored; the error stays near the type's spacing."""
    rng = np.random.default_rng(3)
    shapes = {"A": (12, 15), "B": (15, 10), "C": (10, 8)}
    workload = Workload(
        parse_program(CHAIN),
        {n: SparseTensor.from_dense((rng.random(s) < 0.4) * rng.normal(size=s)) for n, s in shapes.items()},
    )
    formats = {t: (parse_format(f"csr:{dtype}" if t in tensors else "csr", 2),) for t in "ABCTZ"}
    for cut in (True, False):
        limits = SpaceLimits(
            variants=("",),
            formats=formats,
            fuse={"T": not cut},
            residency=("none",),
            tiles=dict.fromkeys("ijkl", (0, 4)),
        )
        space = MappingSpace(workload, RDA, limits)
        for _ in range(2):
            mapping = space.sample(rng)
            assert Mapping.from_json(plain(mapping)) == mapping
            result = evaluate(workload, mapping, RDA, Limits())
            assert result.failure is None
            error = result.summary["rounding_error"]["Z"] if mapping.dtypes else 0.0
            spacing = {"fp16": 2**-10, "bf16": 2**-7, "int8": 1 / 127}[dtype]
            stored = [t for t in tensors if t != "T" or cut]
            assert bool(mapping.dtypes) == bool(stored)
            assert (error > 0) == bool(stored)
            assert error <= 2 * spacing * len(stored)
            predicted = estimate(workload, mapping, RDA)
            loads = {(r["tensor"], r["direction"]): r["values_bytes"] for r in result.summary["traffic"]}
            found = {(t.tensor, t.direction): t.values_bytes for t in predicted.traffic if t.purpose == "load"}
            assert found["A", "read"] == loads["A", "read"]


def test_energy_of_narrow_multiplies() -> None:
    """A 4 x 4 by 4 product, all dense: 16 multiplies; fp16 operands halve their energy, one fp32 operand does not."""
    tensors = {"A": SparseTensor.from_dense(np.ones((4, 4))), "x": SparseTensor.from_dense(np.ones(4))}
    workload = Workload(parse_program("y(i) = A(i,j) * x(j)"), tensors)
    energies = {}
    machine = load_machine("rda")
    for a, x in itertools.product(("fp32", "fp16"), repeat=2):
        dtypes = tuple((t, d) for t, d in (("A", a), ("x", x)) if d != "fp32")
        formats = (("A", ("dense", "dense")), ("x", ("dense",)), ("y", ("dense",)))
        mapping = Mapping((), (Loops(("i", "j")),), formats, dtypes=dtypes)
        result = evaluate(workload, mapping, machine, Limits())
        traffic = result.traffic_bytes * machine.energy.buffer_pj_per_byte
        energies[a, x] = result.energy_pj - traffic
        found = estimate(workload, mapping, machine)
        assert found.multiplies == 16
        assert (
            found.traffic_bytes
            == result.traffic_bytes
            == 4 * 4 + 3 * 8 + (32 if a == "fp16" else 64) + (8 if x == "fp16" else 16)
        )
    # 72 bytes of A take two bursts, 40 take one; x and y take one of 64 bytes in any type.
    burst = 64 * machine.energy.dram_pj_per_byte
    saved = {types: energies["fp32", "fp32"] - energy for types, energy in energies.items()}
    assert saved["fp16", "fp16"] == pytest.approx(burst + 16 * machine.energy.multiply_pj / 2)
    assert saved["fp16", "fp32"] == pytest.approx(burst)
    assert saved["fp32", "fp16"] == pytest.approx(0.0, abs=1e-6)


def test_without_memory_nothing_is_moved() -> None:
    """Not even the bits of the masks of results."""
    text = "T(i,k) = A(i,j) * B(j,k)\nZ(i,k) = relu(T(i,k))"
    rng = np.random.default_rng(0)
    workload = Workload(parse_program(text), {"A": tensor(rng, (6, 9)), "B": tensor(rng, (9, 7))})
    masks = tuple((name, ("bitmask", "bitmask")) for name in ("A", "B", "T", "Z"))
    mapping = Mapping((True,), (Loops(("i", "j", "k")), Loops(("i", "k"))), masks)
    machine = load_machine("comal")
    result = evaluate(workload, mapping, machine, Limits(), StorageCache())
    assert (result.failure, result.traffic_bytes) == (None, 0)
    assert estimate(workload, mapping, machine, statistics=Statistics()).traffic_bytes == 0
