"""Value types of stored tensors: their widths, and what rounding to them does to values.

``fp32`` is the type of streams and accumulators (``Machine.value_bytes`` wide). The simulator carries it as float64
without rounding, so that any difference from the oracle beyond the order of a sum is an error. Narrower types round
where a tensor enters memory: inputs as they are stored, results as they are written. Products of narrow operands are
summed in fp32 (int8: in int32, which is exact).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

FP32 = "fp32"

NARROW_BYTES: dict[str, int] = {"fp16": 2, "bf16": 2, "int8": 1}
"""Bytes of a stored value of each narrow type."""

DTYPES = (FP32, *NARROW_BYTES)

SPACING: dict[str, float] = {FP32: 0.0, "fp16": 2.0**-10, "bf16": 2.0**-7, "int8": 1 / 127}
"""Distance between neighbouring stored values over the largest magnitude of the tensor, at most."""

LARGEST: dict[str, float] = {"fp16": 65504.0, "bf16": float(2**128 - 2**120)}
"""Largest finite magnitude; int8 is scaled to its tensor and has none."""


def value_width(dtype: str, fp32_bytes: int) -> int:
    """Bytes of one stored value on a machine whose fp32 values take ``fp32_bytes``."""
    return NARROW_BYTES.get(dtype, fp32_bytes)


def rounded(values: Values, dtype: str) -> Values:
    """``values`` as stored in ``dtype``: to the nearest, ties to even; beyond the largest value infinite.

    int8 is symmetric with one scale for the tensor: integers -127 to 127 times max|x| / 127.
    """
    match dtype:
        case "fp16":
            with np.errstate(over="ignore"):
                return values.astype(np.float16).astype(np.float64)
        case "bf16":
            return _bf16(values)
        case "int8":
            scale = float(np.abs(values).max(initial=0.0)) / 127
            return np.rint(values / scale) * scale if scale else values
        case _:
            return values


def _bf16(values: Values) -> Values:
    """8 significant bits, exponents of fp32: subnormals are multiples of 2^-133."""
    exponent = np.maximum(np.frexp(values)[1], -125) - 8
    near = np.ldexp(np.rint(np.ldexp(values, -exponent)), exponent)
    return np.where(np.abs(near) > LARGEST["bf16"], np.copysign(np.inf, values), near)
