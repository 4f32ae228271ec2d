"""Parameter: what every parameter of an outside evaluator has.

Inside, a value is a *code*, a float64: the number of the value, for reals the position in [0, 1] between the bounds.
``INACTIVE`` stands for a parameter that its condition ``when`` switches off; a point then has no such key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mapper.errors import InputError
from tuner.constraints import Constraint
from tuner.permutation_features import FloatArray

INACTIVE = -1.0

MOST_LISTED = 5040
"""Parameters with at most so many values have them listed; the values of others are drawn."""

When = str | Callable[..., Any] | Constraint | None


@dataclass(frozen=True)
class Parameter(ABC):
    """What every parameter has: a ``name`` and ``when`` it is active (an expression or predicate; None: always)."""

    name: str
    when: When = field(default=None, kw_only=True)

    @property
    @abstractmethod
    def count(self) -> int | None:
        """Number of values; None: a continuum."""

    @abstractmethod
    def value(self, code: float) -> Any:
        """The value of a code."""

    @abstractmethod
    def code(self, value: Any) -> float:
        """The code of a value. Raises InputError for what is no value."""

    @abstractmethod
    def embed(self, codes: FloatArray) -> FloatArray:
        """float64[values, features] of active codes; the values farthest apart have distance 1."""

    def walks(self, code: float, rng: np.random.Generator) -> Iterator[Iterable[float]]:
        """Directions in which to look for a neighbour: of each, the first legal code is one."""
        assert self.count is not None
        return ((float(other),) for other in range(self.count) if other != code)

    def draw(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Codes, uniformly."""
        return rng.random(count) if self.count is None else rng.integers(self.count, size=count).astype(np.float64)

    @property
    def listed(self) -> bool:
        """Whether there are few enough values to list them."""
        return self.count is not None and self.count <= MOST_LISTED

    def _refuse(self, value: Any, expected: str) -> InputError:
        return InputError(f"parameter {self.name!r} must be {expected}, got {value!r}")


def check_distinct(parameter: Parameter, values: Sequence[Any]) -> None:
    """Raises InputError unless ``values`` are a sequence of one or more that differ."""
    if not isinstance(values, Sequence | np.ndarray):
        raise InputError(f"the values of {parameter.name!r} must be a list or a tuple, got {values!r}")
    if not len(values) or any(v in values[:n] for n, v in enumerate(values)):
        raise InputError(f"the values of {parameter.name!r} must be one or more and differ, got {list(values)}")


def tupled(value: Any) -> Any:
    """With tuples for lists: what a text format such as JSON made of them."""
    return tuple(map(tupled, value)) if isinstance(value, list) else value
