"""Twelve mapping spaces small enough to be simulated whole, and six wider ones: specifications over seeded tensors.

Stated before any tool saw them. Each space is what the specification spans less what screening rejects (legality,
tiles larger than a buffer). What no tool is told is that a simulation stops, and has failed, at ``CYCLES`` times the
cycles and ``TOKENS`` times the tokens of the default mapping, and that some mappings deadlock.

Every space is searched twice: for ``latency_cycles`` alone, and together with the quantity that ``SECOND`` names.
"""

from __future__ import annotations

import copy
from typing import Any

CYCLES, TOKENS = 6, 4

Values = dict[str, Any]


def _drawn(kind: str, *shape: int, formats: str = "", **figures: Any) -> Values:
    found: Values = {"random": {"kind": kind, "shape": list(shape), **figures}}
    return {**found, "format": formats.split()} if formats else found


def _lanes(most: int, indices: str, partitions: str = "balanced") -> Values:
    return {"max": most, "index": list(indices), "partition": partitions.split()}


def _tiles(indices: str, **extents: int | list[int]) -> Values:
    given = {index: extent if isinstance(extent, list) else [extent] for index, extent in extents.items()}
    return {index: ["none", *given.get(index, [])] for index in indices}


CSF: Values = {"format": ["csf"]}
PRODUCT = "Z(i,j) = A(i,k) * B(k,j)"

CASES: dict[str, Values] = {
    "spgemm-power-law": {
        "program": PRODUCT,
        "tensors": {
            "A": _drawn("power_law", 96, 96, nnz=300, seed=1, formats="csf csr"),
            "B": _drawn("power_law", 96, 96, nnz=300, seed=2),
        },
        "machine": {"preset": "rda", "fifo_depth": [4, 64]},
        "mapping": {"parallel": _lanes(4, "ik"), "tiles": _tiles("ikj", i=32, k=32), "residency": ["none", "lru"]},
    },
    "spgemm-banded": {
        "program": PRODUCT,
        "tensors": {
            "A": _drawn("banded", 128, 128, bandwidth=6, density=0.3, seed=3, formats="csf"),
            "B": _drawn("banded", 128, 128, bandwidth=6, density=0.3, seed=4, formats="csf"),
            "Z": CSF,
        },
        "machine": {"preset": "extensor", "buffer_bytes": 1024},
        "mapping": {
            "parallel": _lanes(8, "ij", "balanced cyclic"),
            "tiles": _tiles("ikj", i=[16, 64], k=32, j=16),
            "residency": ["none", "keep"],
        },
    },
    "spmm": {
        "program": PRODUCT,
        "tensors": {
            "A": _drawn("uniform", 64, 64, density=0.06, seed=5),
            "B": _drawn("dense", 64, 8, seed=6, formats="dense csf"),
        },
        "machine": {"preset": "rda", "buffer_bytes": 2048},
        "mapping": {
            "parallel": _lanes(4, "ij"),
            "tiles": _tiles("ikj", i=16, k=16, j=4),
            "residency": ["none", "lru"],
        },
    },
    "spmv": {
        "program": "y(i) = A(i,j) * x(j)",
        "tensors": {
            "A": _drawn("power_law", 256, 256, nnz=1000, seed=7),
            "x": _drawn("uniform", 256, density=0.25, seed=8),
        },
        "machine": {"preset": "rda", "fifo_depth": [2, 16, 64], "buffer_bytes": [1024, 16384]},
        "mapping": {
            "parallel": _lanes(8, "i"),
            "tiles": _tiles("ij", i=[32, 128], j=[32, 128]),
            "residency": ["none", "lru"],
        },
    },
    "sddmm": {
        "program": "Z(i,j) = M(i,j) * Q(i,k) * K(j,k)",
        "tensors": {
            "M": _drawn("block_sparse", 64, 64, block=[8, 8], density=0.15, seed=9, formats="csf coo"),
            "Q": _drawn("dense", 64, 8, seed=10, formats="dense"),
            "K": _drawn("dense", 64, 8, seed=11, formats="dense"),
            "Z": CSF,
        },
        "machine": {"preset": "rda", "fifo_depth": [16, 64]},
        "mapping": {
            "parallel": _lanes(4, "ij"),
            "tiles": _tiles("ijk", i=16, j=16),
            "residency": ["none", "lru"],
            "joins": ["locate", "intersect"],
            "rewrite": ["none"],
        },
    },
    "mttkrp": {
        "program": "M(e,f) = T(e,r,t) * R(r,f) * F(t,f)",
        "tensors": {
            "T": _drawn("uniform", 24, 12, 24, density=0.05, seed=12, formats="csf"),
            "R": _drawn("dense", 12, 4, seed=13, formats="dense"),
            "F": _drawn("dense", 24, 4, seed=14, formats="dense"),
            "M": CSF,
        },
        "machine": {"preset": "rda"},
        "mapping": {
            "parallel": _lanes(4, "ef"),
            "tiles": _tiles("ertf", e=8, t=8),
            "residency": ["none", "lru"],
            "rewrite": ["none"],
        },
    },
    "ttm": {
        "program": "Y(i,j,f) = T(i,j,k) * U(k,f)",
        "tensors": {
            "T": _drawn("power_law", 32, 16, 32, nnz=400, seed=15, formats="csf coo"),
            "U": _drawn("uniform", 32, 8, density=0.5, seed=16, formats="dense csf"),
        },
        "machine": {"preset": "rda"},
        "mapping": {"parallel": _lanes(4, "ik"), "tiles": _tiles("ijkf", i=8, k=8), "residency": ["none"]},
    },
    "gcn-layer": {
        "program": "H(n,f) = A(n,m) * X(m,f)\nO(n,g) = H(n,f) * W(f,g)",
        "tensors": {
            "A": _drawn("power_law", 48, 48, nnz=160, seed=17, formats="csf"),
            "X": _drawn("uniform", 48, 16, density=0.15, seed=18, formats="csf"),
            "W": _drawn("dense", 16, 4, seed=19, formats="dense"),
            "H": CSF,
        },
        "machine": {"preset": "rda"},
        "mapping": {"parallel": _lanes(2, "n"), "tiles": _tiles("nmfg", m=16), "residency": ["none"]},
    },
    "masked-chain": {
        "program": "S(i,j) = M(i,j) * Q(i,k) * K(j,k)\nZ(i,d) = S(i,j) * V(j,d)",
        "tensors": {
            "M": _drawn("banded", 32, 32, bandwidth=4, density=0.6, seed=20, formats="csf"),
            "Q": _drawn("dense", 32, 4, seed=21, formats="dense"),
            "K": _drawn("dense", 32, 4, seed=22, formats="dense"),
            "V": _drawn("dense", 32, 4, seed=23, formats="dense"),
            "S": CSF,
        },
        "machine": {"preset": "rda", "fifo_depth": [16, 64]},
        "mapping": {"parallel": _lanes(2, "i"), "tiles": _tiles("ijkd"), "residency": ["none"]},
    },
    "two-products": {
        "program": "T(i,k) = A(i,j) * B(j,k)\nZ(i,l) = T(i,k) * C(k,l)",
        "tensors": {
            "A": _drawn("uniform", 48, 48, density=0.05, seed=24, formats="csf"),
            "B": _drawn("uniform", 48, 48, density=0.05, seed=25, formats="csf"),
            "C": _drawn("uniform", 48, 8, density=0.3, seed=26, formats="csf"),
            "T": CSF,
        },
        "machine": {"preset": "gamma"},
        "mapping": {"parallel": _lanes(4, "i"), "tiles": _tiles("ijkl"), "residency": ["none"]},
    },
    "addition": {
        "program": "Z(i,j) = A(i,j) + B(i,j)",
        "tensors": {
            "A": _drawn("uniform", 96, 96, density=0.04, seed=27),
            "B": _drawn("power_law", 96, 96, nnz=400, seed=28),
        },
        "machine": {"preset": "onyx"},
        "mapping": {
            "parallel": _lanes(8, "ij"),
            "tiles": _tiles("ij", i=[8, 24], j=[8, 24]),
            "residency": ["none"],
        },
    },
    "pruned-layer": {
        "program": "Z(b,o) = X(b,i) * W(o,i)",
        "tensors": {
            "X": _drawn("uniform", 16, 64, density=0.4, seed=29),
            "W": _drawn("n_of_m", 32, 64, n=2, m=4, seed=30),
            "Z": CSF,
        },
        "machine": {"preset": "opal", "buffer_bytes": [512, 4096]},
        "mapping": {
            "parallel": _lanes(4, "bo"),
            "tiles": _tiles("boi", o=8, i=16),
            "residency": ["none", "lru"],
        },
    },
}

SECOND = {name: ("traffic_bytes", "energy_pj")[n % 2] for n, name in enumerate(CASES)}
"""The second objective of each."""


def _wider(values: Values) -> Values:
    """Four times as many lanes, and besides each extent of a tile its half and its double."""
    found = copy.deepcopy(values)
    mapping = found["mapping"]
    mapping["parallel"]["max"] *= 4
    for index, (none, *extents) in mapping["tiles"].items():
        mapping["tiles"][index] = [none, *sorted({n for e in extents for n in (e // 2, e, 2 * e)})]
    return found


WIDE = {
    f"{name}-wide": _wider(CASES[name])
    for name in ("spgemm-power-law", "spmv", "sddmm", "ttm", "gcn-layer", "pruned-layer")
}
"""Those of the twelve that have 10,000 to 50,000 mappings when widened so."""
SECOND |= {f"{name}-wide": second for name, second in SECOND.items()}
