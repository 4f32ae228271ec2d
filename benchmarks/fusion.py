"""Fusion beside FuseFlow: the models of its evaluation on ``comal``, unfused, fused in part and fused whole.

Published are the cycles that the plotting script of FuseFlow's artifact holds. Sizes are FuseFlow's, but for the
decoder, of which every extent, the block of the mask included, is divided by ``scale``: products shrink by scale^3 and
keep their proportions. Loop orders are row-major wherever a region allows it. ``chain`` is (A B) C on the karate-club
graph in every legal order, as two regions, fused, and as one product of three.

    python benchmarks/fusion.py [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Iterator
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from hwsim import Limits
from mapper.datasets import find_data, load_tensor
from mapper.default_mapping import row_major_order
from mapper.formats import parse_format
from mapper.fusion import Fusion
from mapper.machine import load_machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.regions import region_label, stored_tensors
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.synthetic import generate
from mapper.tensor import SparseTensor
from mapper.workload import Workload
from tuner.evaluate import evaluate

MOST_TOKENS = 6_000_000_000
"""Per region; what takes more is reported as such."""

WEIGHTS = 0.4
"""Density of weights in FuseFlow's data."""

KARATE = (
    "1-2 1-3 1-4 1-5 1-6 1-7 1-8 1-9 1-11 1-12 1-13 1-14 1-18 1-20 1-22 1-32 2-3 2-4 2-8 2-14 2-18 2-20 2-22 2-31 3-4 "
    "3-8 3-9 3-10 3-14 3-28 3-29 3-33 4-8 4-13 4-14 5-7 5-11 6-7 6-11 6-17 7-17 9-31 9-33 9-34 10-34 14-34 15-33 15-34 "
    "16-33 16-34 19-33 19-34 20-34 21-33 21-34 23-33 23-34 24-26 24-28 24-30 24-33 24-34 25-26 25-28 25-32 26-32 27-30 "
    "27-34 28-34 29-32 29-34 30-33 30-34 31-33 31-34 32-33 32-34 33-34"
)
"""Zachary's karate club (1977): 34 members, 78 friendships."""

PUBLISHED = {
    ("gcn", "unfused"): 48_998_261,
    ("gcn", "partial"): 29_997_611,
    ("gcn", "full"): 166_361_105,
    ("graphsage", "unfused"): 79_355_629,
    ("graphsage", "partial"): 37_798_698,
    ("graphsage", "full"): 166_361_105,
    ("sae", "unfused"): 109_113,
    ("sae", "partial"): 108_595,
    ("sae", "full"): 162_480,
    ("decoder", "unfused"): 102_275_175_360 // 12,
    ("decoder", "partial"): 60_497_286_996 // 12,
    ("decoder", "full"): 40_596_220_668 // 12,
}  # fmt: skip
"""Cycles by model and choice; the decoder's are for blocks of 64 and a twelfth of twelve decoders."""

GCN = """
H(i,h) = relu((A(i,j) * X(j,k)) * W1(k,h) + b1(h))
Y(i,c) = softmax(c, (A(i,j) * H(j,h)) * W2(h,c) + b2(c))
"""

GRAPHSAGE = """
H(i,h) = relu((X(i,k) * S1(k,h) + bs1(h)) + ((A(i,j) * X(j,k)) * N1(k,h) + bn1(h)))
Y(i,c) = relu((H(i,h) * S2(h,c) + bs2(c)) + ((A(i,j) * H(j,h)) * N2(h,c) + bn2(c)))
"""

SAE = """
H(n,h) = relu(X(n,k) * We(k,h) + be(h))
Y(n,k) = H(n,h) * Wd(h,k) + bd(k)
"""

DECODER = """
P(h,t,u) = softmax(u, 0.125 * (pattern(M(t,u)) * (Q(t,h,e) * K(u,h,e))))
O(t,h,f) = P(h,t,u) * V(u,h,f)
R(t,d) = X(t,d) + (O(t,h,f) * Wo(h,f,d) + bo(d))
L(t,d) = layernorm(d, R(t,d)) * g2(d) + a2(d)
F(t,m) = relu(L(t,d) * W1(d,m) + b1(m))
Y(t,d) = R(t,d) + (F(t,m) * W2(m,d) + b2(d))
N(t,d) = layernorm(d, Y(t,d)) * g1(d) + a1(d)
Qn(t,h,e) = N(t,d) * Wq(d,h,e) + bq(h,e)
Kn(t,h,e) = N(t,d) * Wk(d,h,e) + bk(h,e)
Vn(t,h,f) = N(t,d) * Wv(d,h,f) + bv(h,f)
"""
"""From the projections of one decoder to those of the next: twelve of these are FuseFlow's network."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A fusion: ``cut`` lists what is stored, the rest is fused (None: nothing is); ``variant``: of the program."""

    name: str
    cut: tuple[str, ...] | None
    variant: str = ""


@dataclass(frozen=True, slots=True)
class Model:
    """A workload with its fusions; ``scale``: what its extents were divided by."""

    name: str
    workload: Workload
    choices: tuple[Choice, ...]
    scale: int = 1


def models(quick: bool) -> Iterator[Model]:
    """FuseFlow's models. GCN and GraphSAGE need SPARSELOOM_DATA."""
    layers = (Choice("unfused", None), Choice("partial", ("H",)))
    graph = layers if quick else (*layers, Choice("full", (), "recompute H"))
    yield Model("gcn", Workload(parse_program(GCN), _graph_tensors("W1 b1 W2 b2")), graph)
    if not quick:
        sage = parse_program(GRAPHSAGE)
        yield Model("graphsage", Workload(sage, _graph_tensors("S1 bs1 N1 bn1 S2 bs2 N2 bn2")), graph)
        yield Model("sae", Workload(parse_program(SAE), _sae_tensors()), (*layers, Choice("full", ())))
    stored = ("O", "Y")  # and with N, every projection is a region of its own
    choices = [Choice("unfused", None), Choice("partial", (*stored, "N")), Choice("partial, one N", stored)]
    choices += [Choice("full", stored[:1]), Choice("full, mask first", stored[:1], "pattern(M)*Q*K")]
    scale = 8 if quick else 4
    program = parse_program(DECODER)
    yield Model("decoder", Workload(program, decoder_tensors(scale)), tuple(choices), scale)


def _drawn(density: float, seed: int, *shape: int) -> SparseTensor:
    return generate("uniform", shape=shape, density=density, seed=seed)


def _graph_tensors(names: str) -> dict[str, SparseTensor]:
    """Adjacency as it is, features with their zeros stored, weights 40 % full."""
    features = load_tensor(find_data("cora_features.mtx.gz", None))
    found = {
        "A": load_tensor(find_data("cora_adj.mtx.gz", None)),
        "X": SparseTensor.from_dense(features.to_dense(), keep_zeros=True),
    }
    inner = (features.shape[1], 16, 7)
    for seed, name in enumerate(names.split()):
        layer = int(name[-1])
        matrix = name[0] != "b"
        shape = inner[layer - 1 : layer + 1] if matrix else inner[layer : layer + 1]
        found[name] = _drawn(WEIGHTS if matrix else 1.0, seed, *shape)
    return found


def _sae_tensors() -> dict[str, SparseTensor]:
    batch, pixels, hidden = 32, 224 * 224, 256
    return {
        "X": _drawn(1.0, 0, batch, pixels),
        "We": _drawn(0.1, 1, pixels, hidden),
        "be": _drawn(1.0, 2, hidden),
        "Wd": _drawn(0.1, 3, hidden, pixels),
        "bd": _drawn(1.0, 4, pixels),
    }


def decoder_tensors(scale: int) -> dict[str, SparseTensor]:
    t, d, h, e, m = 1024 // scale, 768 // scale, 12, 64 // scale, 3072 // scale
    shapes: dict[str, tuple[int, ...]] = {
        "Q": (t, h, e), "K": (t, h, e), "V": (t, h, e), "X": (t, d), "Wo": (h, e, d), "bo": (d,), "g2": (d,),
        "a2": (d,),
        "W1": (d, m), "b1": (m,), "W2": (m, d), "b2": (d,), "g1": (d,), "a1": (d,),
        "Wq": (d, h, e), "bq": (h, e), "Wk": (d, h, e), "bk": (h, e), "Wv": (d, h, e), "bv": (h, e),
    }  # fmt: skip
    found = {name: _drawn(1.0, seed, *shape) for seed, (name, shape) in enumerate(shapes.items())}
    return {**found, "M": generate("bigbird", shape=(t, t), block=64 // scale, seed=0)}


def karate_workload() -> Workload:
    """(A B) C with the graph as A, B full and C of 16 columns a tenth full."""
    edges = np.array([[int(end) - 1 for end in edge.split("-")] for edge in KARATE.split()]).T
    both = np.concatenate([edges, edges[::-1]], axis=1)
    a = SparseTensor.from_coo((34, 34), both, np.ones(both.shape[1]))
    tensors = {"A": a, "B": _drawn(1.0, 1, 34, 34), "C": _drawn(0.1, 2, 34, 16)}
    return Workload(parse_program("D(i,l) = (A(i,k) * B(k,j)) * C(j,l)"), tensors)


def row_major(fusion: Fusion) -> tuple[tuple[str, ...], ...]:
    """Per statement the order of its region in which most statements walk their operands row by row."""
    orders: dict[int, tuple[str, ...]] = {}
    for region in fusion.regions:
        found = (region.order(rank) for rank in range(region.order_count))
        wanted = [row_major_order(fusion.program.statements[n]) for n in region.statements]
        best = max(found, key=lambda own: sum(o == w for o, w in zip(own, wanted, strict=True)))
        orders |= dict(zip(region.statements, best, strict=True))
    return tuple(orders[n] for n in sorted(orders))


def mapping_of(workload: Workload, fusion: Fusion, orders: tuple[tuple[str, ...], ...], variant: str) -> Mapping:
    """Full tensors dense, others in compressed levels; no tiles, one lane."""
    formats = []
    for tensor in sorted(stored_tensors(workload.program, fusion.cuts)):
        data = workload.tensor(tensor)
        formats.append((tensor, parse_format("dense" if data.density == 1.0 else "csf", data.ndim).kinds))
    return Mapping(fusion.cuts, tuple(map(Loops, orders)), tuple(formats), variant=variant, joins="locate")


def run_model(model: Model) -> Iterator[dict[str, Any]]:
    """One row per choice: cycles and tokens, what FuseFlow published, and the region that takes longest."""
    machine = load_machine("comal")
    for choice in model.choices:
        cut = {} if choice.cut is None else dict.fromkeys(choice.cut, False)
        limits = SpaceLimits(variants=(choice.variant,), fuse=cut, fuse_others=choice.cut is not None)
        workload = model.workload.variant(choice.variant)
        (fusion,) = MappingSpace(model.workload, machine, limits).fusions
        mapping = mapping_of(workload, fusion, row_major(fusion), choice.variant)
        start = time.perf_counter()
        run = evaluate(model.workload, mapping, machine, Limits(max_tokens=MOST_TOKENS))
        name, longest = max(((n, p.cycles) for n, p in run.profiles), key=lambda step: step[1])
        published = PUBLISHED.get((model.name, choice.name))
        yield {
            "model": model.name, "choice": choice.name, "scale": model.scale, "regions": len(fusion.regions),
            "cycles": run.latency_cycles, "published_cycles": published, "longest_region": name,
            "longest_region_cycles": longest, "tokens": run.summary["tokens"], "failure": run.failure,
            "seconds": time.perf_counter() - start,
        }  # fmt: skip


def run_chain() -> dict[str, Any]:
    """Every order of every fusion and rewriting of the chain of two products."""
    workload, machine = karate_workload(), load_machine("comal")
    space = MappingSpace(workload, machine, SpaceLimits(rewrites=("products",)))
    found: list[tuple[int, str, str]] = []
    for label, program in space.programs.items():
        for fusion in program.fusions:
            for ranks in itertools.product(*(range(region.order_count) for region in fusion.regions)):
                orders = {
                    n: order
                    for region, rank in zip(fusion.regions, ranks, strict=True)
                    for n, order in zip(region.statements, region.order(rank), strict=True)
                }
                mapping = mapping_of(program.workload, fusion, tuple(orders[n] for n in sorted(orders)), label)
                run = evaluate(workload, mapping, machine, Limits())
                assert run.failure is None, run.failure
                cut = " | ".join(region_label(r.statements) for r in fusion.regions)
                text = f"{label or 'A*B, then C'}; {cut}; {' '.join(''.join(orders[n]) for n in sorted(orders))}"
                found.append((run.latency_cycles, text, label))
    found.sort()
    return {
        "model": "chain", "orders": len(found), "best_cycles": found[0][0], "best": found[0][1],
        "worst_cycles": found[-1][0], "worst": found[-1][1], "worst_over_best": found[-1][0] / found[0][0],
        "best_as_written_cycles": next(cycles for cycles, _, label in found if not label),
        "published_worst_over_best": 29,
    }  # fmt: skip


def summary_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How many times faster than unfused each choice is, here and as published."""
    found: dict[str, Any] = {}
    done = {(r["model"], r["choice"]): r for r in rows if "choice" in r and r["failure"] is None}
    for (model, choice), row in done.items():
        if choice != "unfused" and (base := done.get((model, "unfused"))):
            found[f"{model}, {choice}"] = {
                "speedup": base["cycles"] / row["cycles"],
                "published_speedup": _ratio(base["published_cycles"], row["published_cycles"]),
            }
    return found


def _ratio(a: int | None, b: int | None) -> float | None:
    return a / b if a and b else None


def _print(row: MappingABC[str, Any], base: int | None) -> None:
    published = f"{row['published_cycles']:,}" if row["published_cycles"] else "-"
    faster = f"{base / row['cycles']:.3f}" if base else "-"
    print(
        f"{row['model']:<11}{row['choice']:<18}{row['regions']:>4}{row['cycles']:>16,}{faster:>8}{published:>16}"
        f"{row['tokens']:>16,}{row['seconds']:>8.1f}  {row['failure'] or row['longest_region']}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smaller decoder, of the others GCN in two choices")
    parser.add_argument("--json", type=Path, help="file for the rows")
    options = parser.parse_args()

    print(
        f"{'model':<11}{'choice':<18}{'regs':>4}{'cycles':>16}{'x':>8}{'published':>16}{'tokens':>16}{'s':>8}  longest"
    )
    rows: list[dict[str, Any]] = []
    for model in models(options.quick):
        base = None
        for row in run_model(model):
            rows.append(row)
            base = base or row["cycles"]
            _print(row, base)
    chain = run_chain()
    print(
        f"chain of two products, {chain['orders']} orders: best {chain['best_cycles']:,} ({chain['best']}), worst "
        f"{chain['worst_cycles']:,} ({chain['worst']}): {chain['worst_over_best']:.1f} times; published about 29; best "
        f"without a rewriting {chain['best_as_written_cycles']:,}"
    )
    if options.json:
        summary = summary_of(rows) | {"chain_worst_over_best": chain["worst_over_best"]}
        options.json.write_text(json.dumps({"summary": summary, "rows": [*rows, chain]}, indent=2) + "\n")


if __name__ == "__main__":
    main()
