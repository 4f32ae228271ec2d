"""The small SAM graphs whose cycles are known from Comal, wired by hand, and their inputs.

Topologies and the rule of the inputs: the golden README (graphs ``vecmul`` to ``ikj``); numbers in
``golden_cycles.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from mapper.graph import UNCONNECTED, Channel, Context, Graph

CASES = {
    "s4": (4, 4, 4, 0.4), "s10": (10, 10, 10, 0.25), "s20x30x25": (20, 30, 25, 0.15), "s50": (50, 50, 50, 0.1),
    "s100": (100, 100, 100, 0.05), "s200": (200, 200, 200, 0.05), "s500": (500, 500, 500, 0.02),
    "s1000": (1000, 1000, 1000, 0.01), "s2000": (2000, 2000, 2000, 0.01),
}  # fmt: skip
"""Rows of B, inner extent, columns of C, density. Seeds: B 1, C 2, d 3 (density 0.5)."""

VECTORS = {
    "v10": (10, 0.5), "v100": (100, 0.3), "v1k": (1000, 0.2), "v10k": (10_000, 0.2), "v100k": (100_000, 0.2),
    "v1m": (1_000_000, 0.2), "v5m": (5_000_000, 0.2),
}  # fmt: skip
"""Length, density. Seeds: b 11, c 12."""


def _splitmix(seed: int, count: int) -> np.ndarray:
    """The hash of entries 0 .. count-1 under ``seed`` (uint64)."""
    with np.errstate(over="ignore"):
        x = np.uint64(seed * 0xD1342543DE82EF95 % 2**64) ^ np.arange(count, dtype=np.uint64)
        x += np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        return x ^ x >> np.uint64(31)


def golden_vector(seed: int, length: int, density: float) -> np.ndarray:
    """Dense float64[length]: an entry is stored (non-zero) where its hash falls below the density."""
    x = _splitmix(seed, length)
    stored = x >> np.uint64(11) < np.uint64(int(density * 2**53))
    return np.where(stored, 1.0 + (x & np.uint64(7)), 0.0)


def golden_matrix(seed: int, rows: int, columns: int, density: float) -> sp.csr_array:
    """As ``golden_vector`` over the row-major entries, and the entries ``i % columns == j`` are always stored."""
    x = _splitmix(seed, rows * columns).reshape(rows, columns)
    stored = x >> np.uint64(11) < np.uint64(int(density * 2**53))
    stored[np.arange(rows), np.arange(rows) % columns] = True
    return sp.csr_array(np.where(stored, 1.0 + (x & np.uint64(7)), 0.0))


@dataclass
class Wiring:
    """Collects contexts and channels; every method adds a context and returns its output channels."""

    depth: int | None = None
    latency: int = 1
    response_latency: int = 1
    contexts: list[Context] = field(default_factory=list)
    channels: list[Channel] = field(default_factory=list)

    def add(
        self, kind: str, name: str, inputs: tuple[int, ...] = (), outputs: int = 1, unused: tuple[int, ...] = (),
        params: dict[str, Any] | None = None, arrays: dict[str, np.ndarray] | None = None,
    ) -> tuple[int, ...]:  # fmt: skip
        out = []
        for port in range(outputs):
            if port in unused:
                out.append(UNCONNECTED)
                continue
            out.append(len(self.channels))
            self.channels.append(Channel(f"{name}.{port}", self.depth, self.latency, self.response_latency))
        self.contexts.append(Context(name, kind, inputs, tuple(out), params or {}, arrays or {}))
        return tuple(out)

    def root(self, name: str) -> int:
        return self.add("root", f"root {name}")[0]

    def scan(self, name: str, ref: int, level: dict[str, np.ndarray]) -> tuple[int, int]:
        crd, out = self.add("scan", f"scan {name}", (ref,), 2, arrays=level)
        return crd, out

    def fork(self, name: str, stream: int, ways: int = 2) -> tuple[int, ...]:
        return self.add("fork", f"fork {name}", (stream,), ways)

    def repeat(self, name: str, ref: int, over: int) -> int:
        (signal,) = self.add("repeat_signal", f"signal {name}", (over,))
        return self.add("repeat", f"repeat {name}", (ref, signal))[0]

    def array(self, name: str, ref: int, values: np.ndarray) -> int:
        return self.add("array", f"array {name}", (ref,), arrays={"values": values})[0]

    def graph(self) -> Graph:
        return Graph(tuple(self.contexts), tuple(self.channels))


def levels(matrix: sp.csr_array) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], np.ndarray]:
    """DCSR: arrays of both scans and the values."""
    rows = np.flatnonzero(np.diff(matrix.indptr)).astype(np.int64)
    outer = {"pos": np.array([0, len(rows)], dtype=np.int64), "crd": rows}
    pos = np.concatenate([matrix.indptr[rows], matrix.indptr[-1:]]).astype(np.int64)
    return outer, {"pos": pos, "crd": matrix.indices.astype(np.int64)}, matrix.data.astype(np.float64)


def vector_level(dense: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    at = np.flatnonzero(dense).astype(np.int64)
    return {"pos": np.array([0, len(at)], dtype=np.int64), "crd": at}, dense[at]


def elementwise(w: Wiring, left: Any, right: Any, join: str, op: str) -> Graph:
    """vecmul, vecadd (one level), matmulelem, matadd (two): join every level, then one operation on the values."""
    refs = (w.root("b"), w.root("c"))
    for depth, (b, c) in enumerate(zip(left[:-1], right[:-1], strict=True)):
        crd_b, ref_b = w.scan(f"b{depth}", refs[0], b)
        crd_c, ref_c = w.scan(f"c{depth}", refs[1], c)
        crd, *joined = w.add(join, f"join {depth}", (crd_b, crd_c, ref_b, ref_c), 3)
        w.add("crd_write", f"crd {depth}", (crd,), 0)
        refs = (joined[0], joined[1])
    values = (w.array("b", refs[0], left[-1]), w.array("c", refs[1], right[-1]))
    w.add("value_write", "values", w.add("alu", op, values, params={"op": op}), 0)
    return w.graph()


def spmv(w: Wiring, b: sp.csr_array, d: np.ndarray) -> Graph:
    rows, columns, values = levels(b)
    vector, vector_values = vector_level(d)
    crd_i, ref_i = w.scan("Bi", w.root("B"), rows)
    w.add("crd_write", "crd i", (crd_i,), 0)
    f0, f1 = w.fork("i", ref_i)
    crd_d, ref_d = w.scan("d", w.repeat("d", w.root("d"), f0), vector)
    crd_j, ref_j = w.scan("Bj", f1, columns)
    _, b_ref, d_ref = w.add("intersect", "join j", (crd_j, crd_d, ref_j, ref_d), 3, unused=(0,))
    _product(w, w.array("B", b_ref, values), w.array("d", d_ref, vector_values))
    return w.graph()


def ijk(w: Wiring, b: sp.csr_array, c: sp.csr_array) -> Graph:
    b_rows, b_columns, b_values = levels(b)
    c_rows, c_columns, c_values = levels(sp.csr_array(c.T))
    crd_i, ref_i = w.scan("Bi", w.root("B"), b_rows)
    w.add("crd_write", "crd i", (crd_i,), 0)
    f0, f1 = w.fork("i", ref_i)
    crd_j, ref_j = w.scan("CTj", w.repeat("C", w.root("C"), f0), c_rows)
    w.add("crd_write", "crd j", (crd_j,), 0)
    h0, h1 = w.fork("j", ref_j)
    crd_ck, ref_ck = w.scan("CTk", h0, c_columns)
    crd_bk, ref_bk = w.scan("Bk", w.repeat("B", f1, h1), b_columns)
    _, b_ref, c_ref = w.add("intersect", "join k", (crd_bk, crd_ck, ref_bk, ref_ck), 3, unused=(0,))
    _product(w, w.array("B", b_ref, b_values), w.array("C", c_ref, c_values))
    return w.graph()


def _product(w: Wiring, left: int, right: int) -> None:
    product = w.add("alu", "mul", (left, right), params={"op": "mul"})
    w.add("value_write", "values", w.add("reduce", "reduce", product, params={"op": "sum", "empty": "zero"}), 0)


def ikj(w: Wiring, b: sp.csr_array, c: sp.csr_array) -> Graph:
    b_rows, b_columns, b_values = levels(b)
    c_rows, c_columns, c_values = levels(c)
    crd_i, ref_i = w.scan("Bi", w.root("B"), b_rows)
    w.add("crd_write", "crd i", (crd_i,), 0)
    f0, f1 = w.fork("i", ref_i)
    crd_ck, ref_ck = w.scan("Ck", w.repeat("C", w.root("C"), f0), c_rows)
    crd_bk, ref_bk = w.scan("Bk", f1, b_columns)
    k, b_ref, c_ref = w.add("intersect", "join k", (crd_bk, crd_ck, ref_bk, ref_ck), 3)
    crd_j, ref_j = w.scan("Cj", c_ref, c_columns)
    h0, h1 = w.fork("j", ref_j)
    left = w.array("B", w.repeat("B", b_ref, h0), b_values)
    (product,) = w.add("alu", "mul", (left, w.array("C", h1, c_values)), params={"op": "mul"})
    params = {"depth": 2, "levels": (2,), "sizes": (c.shape[1],)}
    crd, val = w.add("accumulate", "accumulate", (k, crd_j, product), 2, params=params)
    w.add("crd_write", "crd j", (crd,), 0)
    w.add("value_write", "values", (val,), 0)
    return w.graph()


def golden_graph(
    name: str, data: str, depth: int | None = None, latency: int = 1, response_latency: int = 1
) -> tuple[Graph, Callable[[], np.ndarray]]:
    """The graph, and a function that gives the stored values its value writer must have collected."""
    w = Wiring(depth, latency, response_latency)
    if name in ("vecmul", "vecadd"):
        b, c = (golden_vector(seed, *VECTORS[data]) for seed in (11, 12))
        joined = b * c if name == "vecmul" else b + c
        join, op = ("intersect", "mul") if name == "vecmul" else ("union", "add")
        return elementwise(w, vector_level(b), vector_level(c), join, op), lambda: joined[joined != 0]
    rows, inner, columns, density = CASES[data]
    b_matrix, c_matrix = golden_matrix(1, rows, inner, density), golden_matrix(2, inner, columns, density)
    if name in ("matmulelem", "matadd"):
        join, op = ("intersect", "mul") if name == "matmulelem" else ("union", "add")
        result = b_matrix * c_matrix if name == "matmulelem" else b_matrix + c_matrix
        return elementwise(w, levels(b_matrix), levels(c_matrix), join, op), lambda: sp.csr_array(result).data
    if name == "spmv":
        d = golden_vector(3, inner, 0.5)
        return spmv(w, b_matrix, d), lambda: b_matrix @ d
    if name == "ijk":
        return ijk(w, b_matrix, c_matrix), lambda: (b_matrix @ c_matrix).toarray().ravel()
    return ikj(w, b_matrix, c_matrix), lambda: _sorted_data(b_matrix @ c_matrix)


def _sorted_data(matrix: sp.csr_array) -> np.ndarray:
    matrix = sp.csr_array(matrix)
    matrix.sort_indices()
    return matrix.data
