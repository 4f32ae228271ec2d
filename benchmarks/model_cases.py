"""Kernels on real data whose mappings the benchmarks of the cost model draw."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from mapper.datasets import data_files, load_tensor
from mapper.machine import Machine
from mapper.notation import parse_program
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.tensor import SparseTensor
from mapper.workload import Workload
from studies.inputs import load_workload
from studies.spec import spec_from_values

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

COLUMNS = {"SpMM": 16, "SDDMM": 8, "TTM": 8, "MTTKRP": 8}
"""Extent of the dense index, where a case says none."""

PRODUCT = "Z(i,j) = A(i,k) * B(k,j)"
PRODUCT_ORDERS = (("i", "j", "k"), ("i", "k", "j"), ("k", "i", "j"), ("k", "j", "i"))
LAYER = "Z(i,m) = relu((A(i,j)*X(j,k))*W(k,m) + b(m))"
ATTENTION = "P(i,j) = M(i,j) * Q(i,d) * K(d,j)\nZ(i,e) = P(i,j) * V(j,e)"
GRAPHS = {"planetoid-cora": "cora", "planetoid-citeseer": "citeseer", "cora_ml": "cora_ml"}

MODELS: dict[str, dict[str, int]] = {
    "gcn_cora": {},
    "graphsage_cora": {},
    "sae": {"n": 16, "k": 3136},
    "gpt3_decoder": {"t": 128, "u": 128, "d": 96, "e": 8, "f": 8, "m": 384},
    "pruned_mlp": {},
    "resnet_block": {},
}
"""Models of ``examples``, and extents that are smaller than there, so that most random mappings can be simulated."""


@dataclass(frozen=True)
class Case:
    """One kernel on one data set; ``model`` of several statements that may be fused. ``columns``: extent of the dense
    index."""

    kernel: str
    data: str
    files: tuple[Path, ...]
    columns: int | None = None

    @property
    def model(self) -> bool:
        """Whether it has several statements."""
        return self.kernel in ("GCN layer", "attention", *MODELS)

    @property
    def seed(self) -> int:
        """Of its random draws."""
        return zlib.crc32(f"{self.kernel} {self.data}".encode())

    def spaces(self, machine: Machine, residency: tuple[str, ...], rng: np.random.Generator) -> Iterator[MappingSpace]:
        """Spaces that mappings are drawn from in turn, without end. Of a model of many statements each is one that
        stores a random share of the intermediate tensors and fuses the rest as far as regions allow."""
        if self.kernel in MODELS:
            computed = sorted({edge.tensor for edge in self.workload.program.edges})
            while True:
                stored = rng.random(len(computed)) < rng.random()
                fuse = {tensor: False for tensor, apart in zip(computed, stored, strict=True) if apart}
                limits = SpaceLimits(residency=residency, variants=("",), fuse=fuse, fuse_others=True, max_lanes=4)
                yield MappingSpace(self.workload, machine, limits)
        orders = [{"Z": (order,)} for order in PRODUCT_ORDERS] if self.kernel == "SpMSpM" else [{}]
        variants = None if self.kernel == "GCN layer" else ("",)
        limits_of = (SpaceLimits(residency=residency, orders=order, variants=variants) for order in orders)
        yield from itertools.cycle([MappingSpace(self.workload, machine, limits) for limits in limits_of])

    @cached_property
    def workload(self) -> Workload:
        """Its program with the data."""
        if self.kernel in MODELS:
            return _example(self.kernel)
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
        columns = self.columns or COLUMNS[self.kernel]
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


def _example(name: str) -> Workload:
    """The workload of an example, with the extents of ``MODELS``."""
    path, extents = EXAMPLES / f"{name}.yaml", MODELS[name]
    said = yaml.safe_load(path.read_text())
    program = parse_program(said["program"])
    for access in (a for s in program.statements for a in s.operands if a.tensor in said["tensors"]):
        if source := said["tensors"][access.tensor].get("random"):
            source["shape"] = [extents.get(i, e) for i, e in zip(access.indices, source["shape"], strict=True)]
            if source["kind"] == "bigbird":
                source["block"] = source["shape"][0] // 16
    return load_workload(spec_from_values(said, folder=EXAMPLES, name=name))


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
    for name in MODELS:
        if not quick or name in ("sae", "gpt3_decoder"):
            yield Case(name, "model", ())
