"""Quantities: what is measured of a point: objectives first, then what only has a budget."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mapper.errors import InputError, nearest
from tuner.given_numbers import number, numbers_of
from tuner.permutation_features import FloatArray
from tuner.surrogate import Goal

Values = float | Sequence[float] | Mapping[str, float]

DIRECTIONS = ("minimize", "maximize")


class Quantities:
    """``objectives``, ``budgets`` and ``reference`` as in ``Optimizer``; ``names`` of all that is measured, in order.

    The search minimises: what is maximised changes its sign here and nowhere else, in ``goal`` and by ``minimised``.
    Raises InputError for what does not fit together.
    """

    def __init__(
        self,
        objectives: Sequence[str] | Mapping[str, str],
        budgets: Mapping[str, float] | None,
        reference: Sequence[float] | None,
    ) -> None:
        directions = objectives if isinstance(objectives, Mapping) else dict.fromkeys(objectives, "minimize")
        for name, direction in directions.items():
            if direction not in DIRECTIONS:
                raise InputError(
                    f"objective {name!r}: unknown direction {direction!r}.{nearest(direction, DIRECTIONS)}"
                )
        if not directions or (not isinstance(objectives, Mapping) and len(set(objectives)) < len(objectives)):
            raise InputError(f"one or more objectives with different names are needed, got {list(objectives)}")
        self.objectives, self.directions = tuple(directions), dict(directions)
        limits = dict(budgets or {})
        for name, limit in limits.items():
            if directions.get(name) == "maximize":
                raise InputError(
                    f"objective {name!r} is maximised and cannot have a budget, which is an upper limit, got {limit}: "
                    f"for an upper limit measure it under a second name; for at least {limit} minimise its negative, "
                    f"with a budget of -{limit}"
                )
        self.names = (*self.objectives, *(n for n in limits if n not in directions))
        self._signs = np.array([-1.0 if directions.get(n) == "maximize" else 1.0 for n in self.names])
        if reference is not None and len(reference) != len(self.objectives):
            raise InputError(f"reference must have {len(self.objectives)} values, one per objective, got {reference}")
        corner = (
            None if reference is None else tuple(float(s * r) for s, r in zip(self._signs, reference, strict=False))
        )
        self.goal = Goal(
            len(self.objectives), tuple((self.names.index(n), float(limit)) for n, limit in limits.items()), corner
        )

    def minimised(self, rows: FloatArray) -> FloatArray:
        """float64[rows, quantities] as measured or estimated, to be minimised."""
        return np.asarray(rows * self._signs, np.float64)

    def outcomes(self, measured: Sequence[Mapping[str, float] | None]) -> FloatArray:
        """float64[rows, quantities] to be minimised, of values by name; failures (None) are rows of NaN."""
        rows = [[math.nan if values is None else values[n] for n in self.names] for values in measured]
        return self.minimised(np.array(rows, np.float64).reshape(len(rows), len(self.names)))

    def read(self, values: Any) -> dict[str, float]:
        """One finite number per name, given as a number, in order or by name. Raises InputError if it is not."""
        names = ", ".join(self.names)
        if isinstance(values, Mapping):
            missing = [n for n in self.names if n not in values]
            if missing:
                raise InputError(
                    f"a value of {', '.join(missing)} is needed, got {', '.join(map(str, values)) or 'none'}"
                )
            given: list[Any] | None = [values[n] for n in self.names]
        else:
            given = numbers_of(values)
        if given is None:
            raise InputError(f"values must be numbers, got {values!r}")
        if len(given) != len(self.names):
            raise InputError(f"{len(self.names)} values ({names}) are needed, got {len(given)}")
        return {name: _finite(name, value) for name, value in zip(self.names, given, strict=True)}


def _finite(name: str, value: Any) -> float:
    found = number(value)
    if found is None or not math.isfinite(found):
        short = found is None or isinstance(value, float | np.number | np.ndarray)  # an integer may have any length
        shown = repr(value) if short else "one beyond the largest float"
        raise InputError(f"{name} must be a finite number, got {shown}")
    return found
