"""Kernels on real data whose mappings the benchmarks of the cost model draw."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mapper.datasets import data_files, load_tensor
from mapper.notation import parse_program
from mapper.space_limits import SpaceLimits
from mapper.tensor import SparseTensor
from mapper.workload import Workload

COLUMNS = {"SpMM": 16, "SDDMM": 8, "TTM": 8, "MTTKRP": 8}
"""Extent of the dense index."""

PRODUCT = "Z(i,j) = A(i,k) * B(k,j)"
PRODUCT_ORDERS = (("i", "j", "k"), ("i", "k", "j"), ("k", "i", "j"), ("k", "j", "i"))
LAYER = "Z(i,m) = relu((A(i,j)*X(j,k))*W(k,m) + b(m))"
ATTENTION = "P(i,j) = M(i,j) * Q(i,d) * K(d,j)\nZ(i,e) = P(i,j) * V(j,e)"
GRAPHS = {"planetoid-cora": "cora", "planetoid-citeseer": "citeseer", "cora_ml": "cora_ml"}


@dataclass(frozen=True)
class Case:
    """One kernel on one data set; ``model`` of several statements that may be fused."""

    kernel: str
    data: str
    files: tuple[Path, ...]

    @property
    def model(self) -> bool:
        """Whether it has several statements."""
        return self.kernel in ("GCN layer", "attention")

    @property
    def seed(self) -> int:
        """Of its random draws."""
        return zlib.crc32(f"{self.kernel} {self.data}".encode())

    def limits(self, residency: tuple[str, ...]) -> tuple[SpaceLimits, ...]:
        """Spaces that mappings are drawn from in turn."""
        if self.kernel == "GCN layer":
            return (SpaceLimits(residency=residency),)
        orders = [{"Z": (order,)} for order in PRODUCT_ORDERS] if self.kernel == "SpMSpM" else [{}]
        return tuple(SpaceLimits(residency=residency, orders=order, variants=("",)) for order in orders)

    @cached_property
    def workload(self) -> Workload:
        """Its program with the data."""
        x = load_tensor(self.files[0])
        rng = np.random.default_rng(self.seed)

        def dense(*shape: int) -> SparseTensor:
            return SparseTensor.from_dense(rng.random(shape) + 0.5)

        data: dict[str, Any]
        if self.kernel == "SpMSpM":
            a, b = _factors(x)
            return Workload(parse_program(PRODUCT), {"A": a, "B": b})
        if self.kernel == "GCN layer":
            features = load_tensor(self.files[1])
            data = {"A": x, "X": features, "W": dense(features.shape[1], 16), "b": dense(16)}
            return Workload(parse_program(LAYER), data)
        if self.kernel == "attention":
            data = {"M": x, "Q": dense(x.shape[0], 8), "K": dense(8, x.shape[1]), "V": dense(x.shape[1], 8)}
            return Workload(parse_program(ATTENTION), data)
        columns = COLUMNS[self.kernel]
        if self.kernel == "SpMM":
            return Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), {"A": x, "B": dense(x.shape[1], columns)})
        if self.kernel == "SDDMM":
            data = {"S": x, "A": dense(x.shape[0], columns), "B": dense(columns, x.shape[1])}
            return Workload(parse_program("Z(i,j) = S(i,j) * A(i,k) * B(k,j)"), data)
        indices = "ijklm"[: x.ndim]
        if self.kernel == "TTM":
            text = f"Z({','.join(indices[:-1])},r) = X({','.join(indices)}) * B({indices[-1]},r)"
            return Workload(parse_program(text), {"X": x, "B": dense(x.shape[-1], columns)})
        factors = {name: (i, extent) for name, i, extent in zip("BCDE", indices[1:], x.shape[1:], strict=False)}
        text = f"Z(i,r) = X({','.join(indices)})" + "".join(f" * {n}({i},r)" for n, (i, _) in factors.items())
        return Workload(parse_program(text), {"X": x, **{n: dense(e, columns) for n, (_, e) in factors.items()}})


def _factors(x: SparseTensor) -> tuple[SparseTensor, SparseTensor]:
    """A and B: the matrix times itself, or one that is not square times its transpose on the side with fewer
    products."""
    if x.shape[0] == x.shape[1]:
        return x, x
    turned = SparseTensor.from_coo(x.shape[::-1], x.coords[::-1], x.values)
    by_rows, by_columns = (float((np.bincount(c).astype(float) ** 2).sum()) for c in x.coords)
    return (turned, x) if by_rows < by_columns else (x, turned)


def cases(quick: bool) -> Iterator[Case]:
    """Every data set under every kernel that it fits, small files first; with ``quick`` those under some kernels."""
    files = sorted(data_files(), key=lambda path: path.stat().st_size)
    for number, path in enumerate(files):
        small = path.stat().st_size < 30_000
        if quick and not small:
            continue
        name, tensor = path.name.split(".")[0] if "dlmc" not in str(path) else path.stem, ".tns" in path.name
        kernels = ("TTM", "MTTKRP") if tensor else ("SpMSpM", "SpMM", "SDDMM")
        for n, kernel in enumerate(kernels):
            if not quick or tensor or (number + n) % 3 == 0 or kernel == "SpMSpM":
                yield Case(kernel, name, (path,))
    for folder, stem in GRAPHS.items():
        adjacency, features = (
            next(p for p in files if p.parent.name == folder and p.name.startswith(f"{stem}_{part}"))
            for part in ("adj", "features")
        )
        if not quick or folder == "planetoid-cora":
            yield Case("GCN layer", folder, (adjacency, features))
            yield Case("attention", folder, (adjacency,))
