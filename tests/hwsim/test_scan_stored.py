"""Scans of bit masks, runs, N-of-M and repeated levels: cycles by hand, and every walk against its dense meaning."""

from __future__ import annotations

import random
from typing import Any

import pytest
from unit_harness import run_unit

from mapper.errors import GraphError

BITS: dict[str, Any] = {"pos": [0, 2, 2], "mask": [1 << 1, 1 << 1, 0, 0]}  # extent 70: fibers {1, 65}, {}


def bitmask(**params: int) -> dict[str, Any]:
    return {"storage": "bitmask", "size": 70, **params}


def test_bitmask_words_without_elements_cost_a_cycle() -> None:
    # t=1: 1; t=2: 65 (a word each); t=3: S0. Fiber 1: two empty words, t=4, 5; t=6: S0; t=7: Done.
    run = run_unit("scan", ["0 1 D"], 2, arrays=BITS, params=bitmask())
    assert run.timed == ("1@2 65@3 S0@4 S0@7 D@8", "0@2 1@3 S0@4 S0@7 D@8")
    assert (run.unit.busy, run.unit.firings) == (6, 4)


def test_bitmask_narrow_words() -> None:
    # 16 bits at once: 1 at t=1, three empty groups, 65 at t=5, S0 at t=6. Fiber 1: five groups, S0 at t=12.
    run = run_unit("scan", ["0 1 D"], 2, arrays=BITS, params=bitmask(word_bits=16))
    assert run.timed[0] == "1@2 65@6 S0@7 S0@13 D@14"


def test_runs_share_their_value() -> None:
    arrays = {"pos": [0, 3, 3, 4], "crd": [2, 5, 7, 0], "length": [3, 0, 1, 2]}
    run = run_unit("scan", ["0 1 2 S0 D"], 2, arrays=arrays, params={"storage": "run_length"})
    assert run.timed == (
        "2@2 3@3 4@4 7@5 S0@6 S0@7 0@8 1@9 S1@10 D@11",
        "0@2 0@3 0@4 2@5 S0@6 S0@7 3@8 3@9 S1@10 D@11",
    )


def test_two_of_four() -> None:
    arrays = {"pos": [0, 4, 6], "crd": [0, 3, 1, 2, 2, 3]}
    run = run_unit("scan", ["0 N 1 S0 D"], 2, arrays=arrays, params={"storage": "n_of_m", "n": 2, "m": 4})
    assert run.timed == (
        "0@2 3@3 5@4 6@5 S0@6 S0@7 2@8 3@9 S1@10 D@11",
        "0@2 1@3 2@4 3@5 S0@6 S0@7 4@8 5@9 S1@10 D@11",
    )


def test_the_last_group_may_have_fewer_places() -> None:
    # Extent 5 in groups of 4: the last group has one position, so one place.
    arrays = {"pos": [0, 3], "crd": [1, 2, 0]}
    run = run_unit("scan", ["0 D"], 2, arrays=arrays, params={"storage": "n_of_m", "n": 2, "m": 4})
    assert run.streams == ("1 2 4 S0 D", "0 1 2 S0 D")


def test_repeated_coordinates_take_a_cycle_each() -> None:
    # Fiber 0 stores 2 2 2 5: 2 at t=1, its repetitions at t=2, 3, 5 at t=4, S0 at t=5; fiber 1 stores 1 1: 1 at t=6,
    # its repetition at t=7, S0 at t=8.
    arrays = {"pos": [0, 2, 3], "crd": [2, 5, 1], "length": [3, 1, 2]}
    run = run_unit("scan", ["0 1 D"], 2, arrays=arrays, params={"storage": "repeated"})
    assert run.timed == ("2@2 5@5 S0@6 1@7 S0@9 D@10", "0@2 1@5 S0@6 2@7 S0@9 D@10")


@pytest.mark.parametrize("seed", range(20))
def test_lanes_see_their_coordinates_alone(seed: int) -> None:
    """Any level restricted to lo..hi yields what the whole level yields there."""
    pick = random.Random(seed)
    size = pick.randrange(1, 150)
    lo = pick.randrange(size + 1)
    hi = pick.randrange(lo, size + 1)
    groups = [sorted(pick.sample(range(min(4, size - at)), min(2, size - at))) for at in range(0, size, 4)]
    fiber = [4 * g + c for g, group in enumerate(groups) for c in group]
    bits = [sum(1 << c - 64 * w for c in fiber if c // 64 == w) for w in range((size + 63) // 64)]
    runs = [c for c in fiber if c - 1 not in fiber]
    lengths = [next(n for n in range(1, 9) if c + n not in fiber) for c in runs]
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {"crd": fiber}),
        ({"storage": "repeated"}, {"crd": fiber, "length": [pick.randrange(1, 4) for _ in fiber]}),
        ({"storage": "n_of_m", "n": 2, "m": 4}, {"crd": [c for group in groups for c in group]}),
        ({"storage": "bitmask", "size": size}, {"mask": [w - (1 << 64) if w >> 63 else w for w in bits]}),
        (
            {"storage": "run_length"},
            {"crd": runs, "length": lengths},
        ),
    ]
    for params, arrays in cases:
        places = len(arrays.get("crd", fiber))
        arrays = {"pos": [0, places], **arrays}
        whole = run_unit("scan", ["0 D"], 2, arrays=arrays, params=params)
        part = run_unit("scan", ["0 D"], 2, arrays=arrays, params={**params, "lo": lo, "hi": hi})
        both = [zip(*(s.split()[:-2] for s in run.streams), strict=True) for run in (whole, part)]
        assert [x for x in both[0] if lo <= int(x[0]) < hi] == list(both[1])


@pytest.mark.parametrize("seed", range(12))
def test_walks_agree_with_a_compressed_level(seed: int) -> None:
    pick = random.Random(seed)
    size, word_bits = pick.randrange(1, 200), pick.choice([1, 8, 32, 64])
    fibers = [sorted(pick.sample(range(size), pick.randrange(size + 1) // 3)) for _ in range(4)]
    pos = [sum(map(len, fibers[:r])) for r in range(5)]
    flat = [c for fiber in fibers for c in fiber]
    words = [sum(1 << c - 64 * w for c in fiber if c // 64 == w) for fiber in fibers for w in range((size + 63) // 64)]
    mask = [word - (1 << 64) if word >> 63 else word for word in words]
    plain = run_unit("scan", ["2 0 S0 3 1 S1 D"], 2, arrays={"pos": pos, "crd": flat})
    for depth in (None, 1):
        bits = run_unit(
            "scan", ["2 0 S0 3 1 S1 D"], 2, arrays={"pos": pos, "mask": mask}, depth=depth,
            params={"storage": "bitmask", "size": size, "word_bits": word_bits},
        )  # fmt: skip
        assert bits.streams == plain.streams
    empty = sum(
        not any(at <= c < at + word_bits for c in fiber) for fiber in fibers for at in range(0, size, word_bits)
    )
    assert bits.unit.busy == plain.unit.busy + empty
    runs = run_unit(
        "scan", ["2 0 S0 3 1 S1 D"], 2, arrays={"pos": pos, "crd": flat, "length": [1] * len(flat)},
        params={"storage": "run_length"},
    )  # fmt: skip
    assert runs.timed == plain.timed


@pytest.mark.parametrize(
    ("params", "arrays", "message"),
    [
        (bitmask(word_bits=24), BITS, "'word_bits' must be a power of two up to 64, got 24"),
        (bitmask(), {**BITS, "mask": [0]}, "'mask' must hold 2 words of 64 bits for each of the 2 fibers"),
        (bitmask(), {**BITS, "pos": [0, 1, 2]}, "the bits of fiber 0 in 'mask' must be as many as 'pos' says"),
        (bitmask(), {**BITS, "mask": [1, 1 << 9, 0, 0]}, "below 'size'"),
        (bitmask(phase=2, step=2), BITS, "'phase' and 'step' must be 0 <= phase < step"),
        ({"storage": "run_length"}, {"pos": [0, 1], "crd": [2], "length": [1, 1]}, "one entry per run each"),
        ({"storage": "run_length"}, {"pos": [0, 1], "crd": [2], "length": [-1]}, "must not be negative"),
        ({"storage": "repeated"}, {"pos": [0, 1], "crd": [2], "length": [0]}, "'length' must be at least 1"),
        ({"storage": "repeated"}, {"pos": [0, 1], "crd": [2], "length": []}, "one entry per place each"),
        ({"storage": "n_of_m", "n": 2, "m": 4}, {"pos": [0, 2], "crd": [2, 1]}, "place 1 has 1"),
        ({"storage": "n_of_m", "n": 2, "m": 4}, {"pos": [0, 2], "crd": [2, 4]}, "place 1 has 4"),
        ({"storage": "n_of_m", "n": 4, "m": 2}, {"pos": [0], "crd": []}, "1 <= n <= m"),
        ({"storage": "bitmap"}, BITS, "unknown storage 'bitmap'. Did you mean 'bitmask'"),
    ],
)
def test_errors(params: dict[str, Any], arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        run_unit("scan", ["0 D"], 2, params=params, arrays=arrays)


def test_reference_out_of_range() -> None:
    with pytest.raises(GraphError, match="port ref has reference 2, the level has 2 fibers"):
        run_unit("scan", ["2 D"], 2, params=bitmask(), arrays=BITS)
