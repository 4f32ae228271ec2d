"""Quantities: what is measured of a point: objectives first, then what only has a budget."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from mapper.errors import InputError

Values = float | Sequence[float] | Mapping[str, float]


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
    """What a sequence or an array holds, or a number as the only one; None for anything else."""
    if number(values) is not None:
        return [values]
    if isinstance(values, np.ndarray):
        return list(values) if values.ndim else None
    return list(values) if isinstance(values, Sequence) and not isinstance(values, str | bytes) else None


def read_values(values: Any, names: Sequence[str]) -> dict[str, float]:
    """One finite number per name, given as a number, in order or by name. Raises InputError saying what is amiss."""
    if isinstance(values, Mapping):
        missing = [n for n in names if n not in values]
        if missing:
            raise InputError(f"a value of {', '.join(missing)} is needed, got {', '.join(map(str, values)) or 'none'}")
        given: list[Any] | None = [values[n] for n in names]
    else:
        given = numbers_of(values)
    if given is None:
        raise InputError(f"values must be numbers, got {values!r}")
    if len(given) != len(names):
        raise InputError(f"{len(names)} values ({', '.join(names)}) are needed, got {len(given)}")
    found = {}
    for name, value in zip(names, given, strict=True):
        read = number(value)
        if read is None or not math.isfinite(read):
            short = read is None or isinstance(value, float | np.number | np.ndarray)  # an integer may have any length
            raise InputError(
                f"{name} must be a finite number, got {repr(value) if short else 'one beyond the largest float'}"
            )
        found[name] = read
    return found
