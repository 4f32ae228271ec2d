"""Cycles that Comal (on DAM, coroutine build) printed for the graphs of ``golden_graphs.py``.

Source: the golden ``cycles.json`` (rows up to s200 and v100k) and sections 3.3 to 3.5 of the DAM and Comal notes.
Fixed numbers of an independent simulator, never to be regenerated from ours.
"""

UNBOUNDED: tuple[tuple[str, str, int, int], ...] = (
    ("matmulelem", "s4", 24, 160), ("matadd", "s4", 24, 202), ("spmv", "s4", 22, 126), ("ijk", "s4", 84, 551),
    ("ikj", "s4", 45, 371), ("matmulelem", "s10", 64, 418), ("matadd", "s10", 64, 598), ("spmv", "s10", 84, 446),
    ("ijk", "s10", 642, 3467), ("ikj", "s10", 162, 1797), ("spmv", "s20x30x25", 369, 1408),
    ("ijk", "s20x30x25", 5432, 21402), ("ikj", "s20x30x25", 642, 7944), ("matmulelem", "s50", 587, 2496),
    ("matadd", "s50", 587, 5250), ("spmv", "s50", 1370, 4425), ("ijk", "s50", 30687, 109472),
    ("ikj", "s50", 2604, 28612), ("matmulelem", "s100", 1190, 4820), ("matadd", "s100", 1190, 10616),
    ("spmv", "s100", 5406, 14247), ("ijk", "s100", 126169, 419162), ("ikj", "s100", 10153, 68742),
    ("matmulelem", "s200", 4272, 13908), ("matadd", "s200", 4272, 36528), ("spmv", "s200", 21483, 53485),
    ("ijk", "s200", 887808, 2504867), ("ikj", "s200", 40315, 363633), ("vecmul", "v10", 14, 54),
    ("vecadd", "v10", 14, 84), ("vecmul", "v100", 65, 196), ("vecadd", "v100", 65, 502), ("vecmul", "v1k", 374, 1054),
    ("vecadd", "v1k", 374, 3034), ("vecmul", "v10k", 3593, 10540), ("vecadd", "v10k", 3593, 29548),
)
"""Graph, data, cycles, tokens; unbounded channels."""

BOUNDED: tuple[tuple[str, str, int, int | None], ...] = (
    ("ijk", "s200", 8, 887808), ("ijk", "s200", 1024, 887808), ("ijk", "s20x30x25", 1, None),
    ("ijk", "s20x30x25", 2, 5433), ("ijk", "s20x30x25", 3, 5432), ("ijk", "s20x30x25", 4, 5432),
    ("ijk", "s20x30x25", 8, 5432), ("ijk", "s20x30x25", 16, 5432), ("ijk", "s20x30x25", 64, 5432),
    ("ijk", "s20x30x25", 256, 5432), ("ijk", "s20x30x25", 512, 5432), ("ikj", "s200", 8, 44555),
    ("ikj", "s200", 1024, 40315), ("ikj", "s20x30x25", 1, None), ("ikj", "s20x30x25", 2, 2454),
    ("ikj", "s20x30x25", 3, 1655), ("ikj", "s20x30x25", 4, 1295), ("ikj", "s20x30x25", 8, 820),
    ("ikj", "s20x30x25", 16, 678), ("ikj", "s20x30x25", 64, 642), ("ikj", "s20x30x25", 256, 642),
    ("ikj", "s20x30x25", 512, 642), ("ikj", "s50", 1, None), ("ikj", "s50", 2, 8822), ("ikj", "s50", 3, 6122),
    ("ikj", "s50", 4, 4881), ("ikj", "s50", 8, 3177), ("spmv", "s20x30x25", 1, 729), ("spmv", "s20x30x25", 2, 370),
    ("spmv", "s20x30x25", 3, 369), ("spmv", "s20x30x25", 4, 369), ("spmv", "s20x30x25", 8, 369),
    ("spmv", "s20x30x25", 16, 369), ("spmv", "s20x30x25", 64, 369), ("spmv", "s20x30x25", 256, 369),
    ("spmv", "s20x30x25", 512, 369), ("ikj", "s20x30x25", 10, 782), ("ikj", "s20x30x25", 11, 763),
    ("ikj", "s20x30x25", 12, 742), ("ikj", "s20x30x25", 13, 725), ("ikj", "s20x30x25", 14, 708),
    ("ikj", "s20x30x25", 20, 642),
)
"""Graph, data, FIFO depth, cycles (``None``: deadlock)."""

DEPTHS = (1, 2, 3, 4, 8, 16, 64)
DEPTH_SWEEP: dict[tuple[str, str], tuple[int | None, ...]] = {
    ("vecmul", "v100"): (124, 65, 65, 65, 65, 65, 65), ("vecadd", "v100"): (183, 87, 65, 65, 65, 65, 65),
    ("matmulelem", "s50"): (1166, 587, 587, 587, 587, 587, 587),
    ("matadd", "s50"): (1745, 817, 587, 587, 587, 587, 587),
    ("spmv", "s20x30x25"): (729, 370, 369, 369, 369, 369, 369),
    ("spmv", "s50"): (2731, 1371, 1370, 1370, 1370, 1370, 1370),
    ("ikj", "s20x30x25"): (None, 2454, 1655, 1295, 820, 678, 642),
    ("ikj", "s50"): (None, 8822, 6122, 4881, 3177, 2784, 2604),
    ("ijk", "s20x30x25"): (None, 5433, 5432, 5432, 5432, 5432, 5432),
    ("ijk", "s50"): (None, 30688, 30687, 30687, 30687, 30687, 30687),
}
"""Cycles at each of ``DEPTHS``."""

LATENCIES: tuple[tuple[str, str, int, int, int, int], ...] = (
    ("vecmul", "v100", 8, 1, 1, 65), ("vecmul", "v100", 8, 2, 1, 70), ("vecmul", "v100", 8, 1, 2, 65),
    ("vecmul", "v100", 8, 4, 1, 80), ("vecmul", "v100", 8, 1, 4, 65), ("vecmul", "v100", 8, 4, 4, 80),
    ("vecmul", "v100", 8, 10, 10, 159), ("vecadd", "v100", 8, 1, 1, 65), ("vecadd", "v100", 8, 2, 1, 70),
    ("vecadd", "v100", 8, 1, 2, 65), ("vecadd", "v100", 8, 4, 1, 80), ("vecadd", "v100", 8, 1, 4, 65),
    ("vecadd", "v100", 8, 4, 4, 81), ("vecadd", "v100", 8, 10, 10, 195), ("spmv", "s50", 8, 1, 1, 1370),
    ("spmv", "s50", 8, 2, 1, 1380), ("spmv", "s50", 8, 1, 2, 1370), ("spmv", "s50", 8, 4, 1, 1400),
    ("spmv", "s50", 8, 1, 4, 1370), ("spmv", "s50", 8, 4, 4, 1400), ("spmv", "s50", 8, 10, 10, 3144),
    ("ikj", "s50", 8, 1, 1, 3177), ("ikj", "s50", 8, 2, 1, 4440), ("ikj", "s50", 8, 1, 2, 3226),
    ("ikj", "s50", 8, 4, 1, 7453), ("ikj", "s50", 8, 1, 4, 3804), ("ikj", "s50", 8, 4, 4, 8324),
    ("ikj", "s50", 8, 10, 10, 20333), ("ijk", "s20x30x25", 8, 1, 1, 5432), ("ijk", "s20x30x25", 8, 2, 1, 5446),
    ("ijk", "s20x30x25", 8, 1, 2, 5432), ("ijk", "s20x30x25", 8, 4, 1, 5474), ("ijk", "s20x30x25", 8, 1, 4, 5432),
    ("ijk", "s20x30x25", 8, 4, 4, 5474), ("ijk", "s20x30x25", 8, 10, 10, 9912), ("ikj", "s50", 64, 1, 1, 2604),
    ("ikj", "s50", 64, 2, 1, 2618), ("ikj", "s50", 64, 1, 2, 2604), ("ikj", "s50", 64, 4, 1, 2646),
    ("ikj", "s50", 64, 1, 4, 2604), ("ikj", "s50", 64, 4, 4, 2646), ("ikj", "s50", 64, 10, 10, 2735),
    ("vecmul", "v100", 4, 10, 5, 224), ("spmv", "s20x30x25", 4, 3, 2, 447), ("ikj", "s20x30x25", 8, 4, 2, 2085),
    ("ijk", "s20x30x25", 8, 5, 3, 5488),
)
"""Graph, data, FIFO depth, latency, response latency, cycles."""

FINAL_TIMES: dict[tuple[str, str], dict[str, int]] = {
    ("vecmul", "v10"): {
        "root b": 2, "root c": 2, "scan b0": 6, "scan c0": 7, "join 0": 10, "array b": 11, "array c": 11, "crd 0": 11,
        "mul": 13, "values": 14,
    },
    ("spmv", "s4"): {
        "root B": 2, "root d": 2, "scan Bi": 6, "crd i": 7, "fork i": 7, "signal d": 8, "repeat d": 9, "scan Bj": 13,
        "scan d": 13, "join j": 17, "array B": 18, "array d": 18, "mul": 20, "reduce": 20, "values": 22,
    },
    ("ikj", "s4"): {
        "scan Bi": 6, "crd i": 7, "fork i": 7, "signal C": 8, "repeat C": 9, "scan Bk": 13, "scan Ck": 25, "join k": 26,
        "scan Cj": 30, "fork j": 31, "signal B": 32, "array C": 32, "repeat B": 33, "array B": 34, "mul": 36,
        "accumulate": 40, "crd j": 45, "values": 45,
    },
    ("ijk", "s4"): {
        "scan Bi": 6, "fork i": 7, "signal C": 8, "repeat C": 9, "scan CTj": 25, "crd j": 26, "fork j": 26,
        "signal B": 27, "repeat B": 28, "scan Bk": 49, "scan CTk": 67, "join k": 79, "array B": 80, "array C": 80,
        "mul": 82, "reduce": 82, "values": 84,
    },
}
"""Final clock of contexts, unbounded channels."""
