"""Numbers as they are given: Python's, numpy's, arrays without dimensions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from numbers import Real
from typing import Any

import numpy as np


def number(value: Any) -> float | None:
    """A number, or an array without dimensions that holds one; infinite beyond the largest float. None: neither."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    given: Any = value
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        return float(given)
    except OverflowError:
        return math.inf if given > 0 else -math.inf


def numbers_of(values: Any) -> list[Any] | None:
    """What a sequence or an array holds, or a number as the only one; None for anything else and what has no order."""
    if number(values) is not None:
        return [values]
    if isinstance(values, str | bytes | Mapping | Set):
        return None
    try:
        return list(values)
    except TypeError:  # nothing that can be listed, such as None
        return None
