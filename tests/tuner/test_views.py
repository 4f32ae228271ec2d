"""Convolutions end to end: sampled mappings give the values of scipy, and windows are charged both ways."""

from __future__ import annotations

import numpy as np
import scipy.signal

from costmodel import estimate
from hwsim import Limits
from mapper.default_mapping import default_mapping
from mapper.machine import load_machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.tensor import SparseTensor
from mapper.workload import Workload
from tuner.evaluate import StorageCache, evaluate

RDA = load_machine("rda").with_fields(buffer_bytes=2048)


def sparse(rng: np.random.Generator, *shape: int, density: float) -> SparseTensor:
    return SparseTensor.from_dense(np.where(rng.random(shape) < density, rng.integers(-8, 9, shape) / 8, 0.0))


def correlated(image: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """A convolution layer: image[c, h, w], filters[o, c, r, s] -> [o, p, q], one row of padding."""
    image = np.pad(image, ((0, 0), (1, 1), (0, 0)))
    return np.stack(
        [sum(scipy.signal.correlate(i, f, "valid") for i, f in zip(image, o, strict=True)) for o in filters]
    )


def test_sampled_mappings_of_two_layers_and_a_shortcut() -> None:
    rng = np.random.default_rng(3)
    tensors = {"X": sparse(rng, 3, 7, 6, density=0.4), "W": sparse(rng, 3, 3, 3, 1, density=0.5),
               "V": sparse(rng, 3, 3, 3, 1, density=0.5)}  # fmt: skip
    text = "Y(k,p,q) = relu(X(c,p+r-1,q+s) * W(k,c,r,s))\nZ(o,p,q) = relu(Y(k,p+r-1,q+s) * V(o,k,r,s) + X(o,p,q))"
    workload = Workload(parse_program(text), tensors)
    dense = {name: tensor.to_dense() for name, tensor in tensors.items()}
    hidden = np.maximum(correlated(dense["X"], dense["W"]), 0.0)
    want = np.maximum(correlated(hidden, dense["V"]) + dense["X"], 0.0)
    space, cache = (
        MappingSpace(workload, RDA, SpaceLimits(rewrites=("products", "activations", "windows"))),
        StorageCache(),
    )
    for n in range(24):
        mapping = default_mapping(space) if n == 0 else space.sample(rng)
        result = evaluate(workload, mapping, RDA, Limits(), cache)
        assert result.failure is None, (result.failure, mapping)
        np.testing.assert_allclose(result.outputs["Z"].to_dense(), want, atol=1e-12)


def test_windows_are_read_and_written_once_whatever_the_type() -> None:
    """X stores every other of 40 positions. An entry at x lies in the windows p = x - 1, x, x + 1: three, but for the
    entry at 0 two; so 59 are stored of 20."""
    x = SparseTensor.from_coo((40,), [np.arange(0, 40, 2)], np.arange(1.0, 21.0))
    w = SparseTensor.from_dense(np.ones(3))
    workload = Workload(parse_program("Z(p) = X(p+r-1) * W(r)"), {"X": x, "W": w})
    assert workload.computed["T1"].nnz == 59
    formats = (("T1", ("dense", "compressed")), ("W", ("dense",)), ("X", ("compressed",)), ("Z", ("dense",)))
    for dtypes, bytes_x, bytes_t in (((), 80, 236), ((("T1", "fp16"), ("X", "int8")), 20, 118)):
        mapping = Mapping((True,), (Loops(("p", "r")), Loops(("p", "r"))), formats, dtypes=dtypes)
        result = evaluate(workload, mapping, RDA, Limits())
        assert result.failure is None
        moved = {(r["tensor"], r["direction"]): r for r in result.summary["traffic"]}
        assert (moved["X", "read"]["values_bytes"], moved["X", "read"]["metadata_bytes"]) == (bytes_x, 4 * (20 + 2) + 8)
        predicted = {(t.tensor, t.purpose, t.direction): t.bytes for t in estimate(workload, mapping, RDA).traffic}
        written = moved["T1", "write"]
        assert written["values_bytes"] == bytes_t
        assert written["metadata_bytes"] == 4 * (59 + 41) + 8  # a coordinate each, a pointer per p, one descriptor
        assert predicted["X", "convert", "read"] == bytes_x + 4 * 22 + 8
        assert predicted["T1", "convert", "write"] == bytes_t + 4 * 100 + 8
        assert [s["name"] for s in result.summary["steps"]] == ["windows T1 of X", "S1"]


def test_windows_in_place_are_loaded_as_boxes_of_what_they_span() -> None:
    """X stores every other of 40 positions; tiles of 8 windows p span the boxes 8t - 1 ... 8t + 8, of which the first
    and the last are cut off at the ends: entries 0 ... 8 (5), 8 ... 16 (5), 16 ... 24 (5), 24 ... 32 (5), 32 ... 38
    (4), 24 in all. Nothing is stored but the result."""
    x = SparseTensor.from_coo((40,), [np.arange(0, 40, 2)], np.arange(1.0, 21.0))
    workload = Workload(parse_program("Z(p) = X(p+r-1) * W(r)"), {"X": x, "W": SparseTensor.from_dense(np.ones(3))})
    tiled = (Loops(("p", "r")), Loops(("p", "r"), (("p", 8),)))
    for kinds, values, metadata in (("compressed", 24, 24 + 2 * 5), ("dense", 5 * 10, 0)):
        formats = (("T1", ("compressed",) * 2), ("W", ("dense",)), ("X", (kinds,)), ("Z", ("dense",)))
        mapping = Mapping((True,), tiled, formats, variant="T1 in place")
        result = evaluate(workload, mapping, RDA, Limits())
        assert result.failure is None
        moved = {(r["tensor"], r["direction"]): r for r in result.summary["traffic"]}
        assert set(moved) == {("X", "read"), ("W", "read"), ("Z", "write")}
        row = moved["X", "read"]
        assert (row["values_bytes"], row["metadata_bytes"]) == (4 * values, 4 * metadata + 5 * RDA.descriptor_bytes)
        predicted = {t.tensor: t.bytes for t in estimate(workload, mapping, RDA).traffic if t.direction == "read"}
        assert predicted["X"] == row["values_bytes"] + row["metadata_bytes"]
        stored = evaluate(workload, Mapping((True,), tiled, formats), RDA, Limits())
        assert stored.traffic_bytes > result.traffic_bytes
