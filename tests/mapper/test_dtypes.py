"""Rounding to narrow types: against numpy's, by hand, and against the stated spacing."""

from __future__ import annotations

import numpy as np
import pytest

from mapper.dtypes import DTYPES, LARGEST, SPACING, rounded, value_width


def test_bf16_by_hand() -> None:
    # 8 significant bits: 1 + 2^-7 is stored, halfway below it goes to the even 1, halfway above to the even 1 + 2^-6.
    values = np.array([1 + 2**-7, 1 + 2**-8, 1 + 3 * 2**-8, -1.0, 0.0, 3.39e38, 3.4e39, 2.0**-133, 2.0**-135])
    largest = float(2**128 - 2**120)
    expected = [1 + 2**-7, 1.0, 1 + 2**-6, -1.0, 0.0, largest, np.inf, 2.0**-133, 0.0]
    assert rounded(values, "bf16").tolist() == expected


def test_bf16_is_the_nearest_fp32_with_a_short_fraction() -> None:
    values = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    bits = values.view(np.uint32).astype(np.uint64)
    near = ((bits + 0x7FFF + (bits >> np.uint64(16) & np.uint64(1))) >> np.uint64(16) << np.uint64(16)).astype(
        np.uint32
    )
    assert rounded(values.astype(np.float64), "bf16").tolist() == near.view(np.float32).astype(np.float64).tolist()


def test_int8_by_hand() -> None:
    # Scale 254 / 127 = 2: integers 127, -63 (of -62.75), 0 (of 0.5, even), 1.
    assert rounded(np.array([254.0, -125.5, 1.0, 2.0]), "int8").tolist() == [254.0, -126.0, 0.0, 2.0]
    assert rounded(np.zeros(3), "int8").tolist() == [0.0] * 3
    assert rounded(np.zeros(0), "int8").size == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_error_is_half_the_spacing_at_most_and_rounding_twice_changes_nothing(dtype: str) -> None:
    values = np.random.default_rng(1).normal(size=500) * 100
    once = rounded(values, dtype)
    assert np.abs(once - values).max() <= SPACING[dtype] / 2 * np.abs(values).max() * (1 + 1e-12)
    np.testing.assert_allclose(rounded(once, dtype), once, rtol=1e-14)


def test_widths_and_largest() -> None:
    assert [value_width(d, 4) for d in DTYPES] == [4, 2, 2, 1]
    assert rounded(np.array([65504.0, 65519.0, 65520.0]), "fp16").tolist() == [65504.0, 65504.0, np.inf]
    assert LARGEST["fp16"] == 65504.0
