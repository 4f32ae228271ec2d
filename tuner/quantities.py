"""Quantities: what is measured of a point: objectives first, then what only has a budget."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
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
        self.directions = _directions(objectives)
        self.objectives = tuple(self.directions)
        limits = _limits(budgets, self.directions)
        self.names = (*self.objectives, *(n for n in limits if n not in self.directions))
        self._signs = np.array([-1.0 if self.directions.get(n) == "maximize" else 1.0 for n in self.names])
        corner = None if reference is None else self._corner(reference)
        self.goal = Goal(
            len(self.objectives), tuple((self.names.index(n), limit) for n, limit in limits.items()), corner
        )

    def _corner(self, reference: Any) -> tuple[float, ...]:
        given = [number(r) for r in numbers_of(reference) or []]
        found = [r for r in given if r is not None and math.isfinite(r)]
        if not len(found) == len(given) == len(self.objectives):
            raise InputError(
                f"reference must have {len(self.objectives)} values, finite numbers, one per objective, got {reference}"
            )
        return tuple(float(s * r) for s, r in zip(self._signs, found, strict=False))

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


def _directions(objectives: Any) -> dict[str, str]:
    if isinstance(objectives, str) or not isinstance(objectives, Collection):
        raise InputError(
            f"objectives must be a list of names, or name -> {' or '.join(DIRECTIONS)}, got {objectives!r}"
        )
    for name in objectives:
        if not isinstance(name, str):
            raise InputError(f"names of objectives must be texts, got {name!r}")
    found = dict(objectives) if isinstance(objectives, Mapping) else dict.fromkeys(objectives, "minimize")
    if not found or len(found) < len(objectives):
        raise InputError(f"one or more objectives with different names are needed, got {list(objectives)}")
    for name, direction in found.items():
        if direction not in DIRECTIONS:
            close = nearest(str(direction), DIRECTIONS)
            raise InputError(f"objective {name!r}: unknown direction {direction!r}.{close}")
    return found


def _limits(budgets: Any, directions: Mapping[str, str]) -> dict[str, float]:
    if budgets is not None and not isinstance(budgets, Mapping):
        raise InputError(f"budgets must be name -> upper limit, got {budgets!r}")
    found = {}
    for name, given in (budgets or {}).items():
        limit = number(given)
        if not isinstance(name, str) or limit is None or math.isnan(limit):
            raise InputError(f"budgets must be name -> upper limit, a number, got {name!r}: {given!r}")
        if directions.get(name) == "maximize":
            raise InputError(
                f"objective {name!r} is maximised and cannot have a budget, which is an upper limit, got {given}: for "
                f"an upper limit measure it under a second name; for at least {given} minimise its negative, with a "
                f"budget of {-limit:g}"
            )
        found[name] = limit
    return found
