"""The models of ``examples/`` in small: their programs over seeded tensors of a few entries, and what plain numpy makes
of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from hwsim import Limits
from mapper.formats import parse_format
from mapper.fusion import Fusion
from mapper.machine import load_machine
from mapper.mapping import PARTITIONS, Mapping
from mapper.notation import parse_program
from mapper.program import Program
from mapper.residency import RESIDENCIES
from mapper.rewrites import KINDS
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.synthetic import generate
from mapper.tensor import SparseTensor
from mapper.workload import Workload
from tuner.evaluate import StorageCache, evaluate

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TOLERANCE = 1e-9
"""Difference from numpy, over one plus the largest magnitude: both compute in float64, in different orders."""

FORMATS = {
    1: ("csf", "dense"),
    2: ("csf", "csr", "dense", "bitmap", "coo", "rle"),
    3: ("csf", "dense", "bitmap", "coo"),
}
FIFO_DEPTHS = (4, 16, 64)

Arrays = dict[str, np.ndarray]


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0)


def softmax(x: np.ndarray, where: np.ndarray | bool = True) -> np.ndarray:
    shifted = np.exp(x - np.max(x, axis=-1, keepdims=True, initial=-np.inf, where=where))
    kept = np.where(where, shifted, 0.0)
    return kept / kept.sum(axis=-1, keepdims=True)


def layernorm(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)


def gcn(A, X, W1, b1, W2, b2):  # type: ignore[no-untyped-def]
    return softmax(A @ relu(A @ X @ W1 + b1) @ W2 + b2)


def graphsage(A, X, S1, bs1, N1, bn1, S2, bs2, N2, bn2):  # type: ignore[no-untyped-def]
    hidden = relu(X @ S1 + bs1 + A @ X @ N1 + bn1)
    return relu(hidden @ S2 + bs2 + A @ hidden @ N2 + bn2)


def sae(X, We, be, Wd, bd):  # type: ignore[no-untyped-def]
    return relu(X @ We + be) @ Wd + bd


def decoder(X, g1, a1, Wq, bq, Wk, bk, Wv, bv, M, Wo, bo, g2, a2, W1, b1, W2, b2):  # type: ignore[no-untyped-def]
    inside = layernorm(X) * g1 + a1
    query, key, value = (np.einsum("td,dhe->the", inside, w) + b for w, b in ((Wq, bq), (Wk, bk), (Wv, bv)))
    weights = softmax(0.125 * np.einsum("the,uhe->htu", query, key), where=(M != 0)[None])
    middle = X + np.einsum("htu,uhf,hfd->td", weights, value, Wo) + bo
    return middle + relu((layernorm(middle) * g2 + a2) @ W1 + b1) @ W2 + b2


def mlp(X, W1, b1, W2, b2):  # type: ignore[no-untyped-def]
    return relu(X @ W1.T + b1) @ W2.T + b2


def bottleneck(X, W1, b1, W3, b3):  # type: ignore[no-untyped-def]
    return relu(W3.T @ relu(W1 @ X + b1[:, None]) + b3[:, None] + X)


def sddmm(T, E, R, F):  # type: ignore[no-untyped-def]
    return (T != 0) * np.einsum("ef,rf,tf->ert", E, R, F)


def mttkrp(T, R, F):  # type: ignore[no-untyped-def]
    return np.einsum("ert,rf,tf->ef", T, R, F)


def ttm(T, U):  # type: ignore[no-untyped-def]
    return np.einsum("ert,tf->erf", T, U)


@dataclass(frozen=True, slots=True)
class Model:
    """A model in small: extents of the program's indices, what numpy makes of its tensors, and the densities of tensors
    that the example reads from files or draws as sparse."""

    extents: dict[str, int]
    reference: Callable[..., np.ndarray]
    density: dict[str, float]


MODELS = {
    "gcn_cora": Model({"i": 7, "j": 7, "k": 6, "h": 4, "c": 3}, gcn, {"A": 0.3, "X": 0.4}),
    "graphsage_cora": Model({"i": 6, "j": 6, "k": 5, "h": 4, "c": 3}, graphsage, {"A": 0.3, "X": 0.4}),
    "sae": Model({"n": 4, "k": 12, "h": 6}, sae, {"We": 0.4, "Wd": 0.4}),
    "gpt3_decoder": Model({"t": 6, "u": 6, "d": 4, "h": 2, "e": 2, "f": 2, "m": 6}, decoder, {}),
    "pruned_mlp": Model({"n": 5, "k": 8, "h": 12, "m": 6}, mlp, {}),
    "resnet_block": Model({"c": 6, "d": 10, "p": 5}, bottleneck, {"X": 0.5, "W1": 0.3, "W3": 0.2}),
    "sddmm": Model({"e": 6, "r": 4, "t": 7, "f": 3}, sddmm, {"T": 0.2}),
    "mttkrp": Model({"e": 6, "r": 4, "t": 7, "f": 3}, mttkrp, {"T": 0.2}),
    "ttm": Model({"e": 6, "r": 4, "t": 7, "f": 3}, ttm, {"T": 0.2}),
}
"""By the name of the example."""


def example(name: str) -> dict[str, Any]:
    """The study as it is written."""
    found: dict[str, Any] = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    return found


def small_workload(name: str) -> Workload:
    """The program of an example over small tensors."""
    program, tensors = parse_program(example(name)["program"]), example(name)["tensors"]
    shapes = shapes_of(program, MODELS[name].extents)
    return Workload(
        program,
        {t: _small(tensors[t], shapes[t], MODELS[name].density.get(t), n) for n, t in enumerate(program.inputs)},
    )


def shapes_of(program: Program, extents: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """Shape of every input whose indices have these extents."""
    accesses = {a.tensor: a.indices for s in program.statements for a in s.operands}
    return {t: tuple(extents[i] for i in accesses[t]) for t in program.inputs}


def _small(source: dict[str, Any], shape: tuple[int, ...], density: float | None, seed: int) -> SparseTensor:
    if density is not None:
        return generate("uniform", shape=shape, density=density, seed=seed)
    said = {**source["random"], "shape": shape, "seed": seed}
    return generate(
        **said | ({"block": 2, "global_blocks": 1, "random_blocks": 1} if said["kind"] == "bigbird" else {})
    )


def whole_space(workload: Workload, rewrites: tuple[str, ...] = KINDS) -> MappingSpace:
    """Everything that can be searched, but for narrow value types: rewritings, formats of inputs, every residency."""
    formats = {
        name: tuple(parse_format(text, tensor.ndim) for text in FORMATS[tensor.ndim])
        for name, tensor in workload.tensors.items()
    }
    limits = SpaceLimits(
        formats=formats, rewrites=rewrites, partitions=PARTITIONS, max_lanes=4, residency=tuple(RESIDENCIES),
        machine={"fifo_depth": FIFO_DEPTHS},
    )  # fmt: skip
    return MappingSpace(workload, load_machine("rda"), limits)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One mapping: what went wrong in the simulation, if anything did, and the difference from numpy, over one plus the
    largest magnitude."""

    failure: str | None
    difference: float
    mapping: Mapping


def outcomes(name: str, mappings: int, seed: int = 0) -> Iterator[Outcome]:
    """Mappings of a small model, drawn uniformly from the whole space."""
    workload = small_workload(name)
    dense = {t: tensor.to_dense() for t, tensor in workload.tensors.items()}
    expected = {workload.program.outputs[0]: MODELS[name].reference(**dense)}
    space, cache, rng = whole_space(workload), StorageCache(), np.random.default_rng(seed)
    for _ in range(mappings):
        yield trial(space, expected, rng, cache)


def trial(
    space: MappingSpace, expected: Arrays, rng: np.random.Generator, cache: StorageCache,
    fusions: Sequence[Fusion] | None = None,
) -> Outcome:  # fmt: skip
    """A mapping of the space, or of ``fusions``, beside the dense outputs to expect. Raises AssertionError for an
    illegal one and for outputs of another name."""
    mapping = space.sample(rng, fusions)
    assert space.violations(mapping) == ()
    run = evaluate(space.workload, mapping, space.machine_of(mapping), Limits(max_tokens=10_000_000), cache)
    assert run.failure or {*run.outputs} == {*expected}
    worst = 0.0
    for tensor, got in run.outputs.items():
        scale = 1.0 + float(np.abs(expected[tensor]).max(initial=0.0))
        worst = max(worst, float(np.abs(got.to_dense() - expected[tensor]).max(initial=0.0)) / scale)
    return Outcome(run.failure, worst, mapping)
