"""ParameterSpace: parameters with constraints between them, legal by construction.

    space = ParameterSpace(
        [Ordinal("chunk", [2, 4, 8, 16], log=True), Ordinal("unroll", [2, 4, 8], log=True), Permutation("order", 5)],
        ["unroll < chunk", "before(order, 0, 2)"],
    )

A point is a dict from the names of active parameters to values; inside it is a tuple of codes, one per parameter.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mapper.errors import InputError, nearest
from tuner.constraints import Constraint, read_constraint
from tuner.given_numbers import number, numbers_of
from tuner.parameter import INACTIVE, Parameter
from tuner.parameter_groups import Codes, Group, Rule
from tuner.parameters import SAME_REAL
from tuner.permutation_features import FloatArray

Point = dict[str, Any]

FEW = 2000
"""Spaces with at most so many points are searched as a list."""

TRIES = 8
"""Draws of parameters that a step of a local search switched on, until they are legal."""


class ParameterSpace:
    """All points of ``parameters`` that satisfy ``constraints`` (texts, predicates or Constraints).

    A constraint that reads an inactive parameter holds; a parameter whose condition reads an inactive one is inactive.
    ``estimate``: a cheap guess of everything measured at a point, in order and with the sign it is measured with, for
    the prior mean of the models. Raises EmptySpace naming contradictory constraints, InputError for names and
    conditions that make no sense.
    """

    def __init__(
        self,
        parameters: Sequence[Parameter],
        constraints: Sequence[str | Callable[..., Any] | Constraint] = (),
        estimate: Callable[[Point], Sequence[float]] | None = None,
    ) -> None:
        if isinstance(constraints, str) or callable(constraints):
            raise InputError(f"constraints must be a list, got {constraints!r} alone")
        for parameter in parameters:
            if not isinstance(parameter, Parameter) or not isinstance(parameter.name, str):
                raise InputError(f"parameters must be a list of parameters whose names are texts, got {parameter!r}")
        self.estimate = estimate
        self._estimates: dict[Codes, tuple[float, ...]] = {}
        self.parameters = tuple(parameters)
        self.names = tuple(p.name for p in self.parameters)
        if not self.names or len(set(self.names)) < len(self.names):
            raise InputError(f"parameters must be one or more with different names, got {', '.join(self.names)}")
        self.conditional = tuple(p.when is not None for p in self.parameters)
        read = [read_constraint(given, self.names) for given in constraints]
        conditions = [
            (c, read_constraint(p.when, self.names)) for c, p in enumerate(self.parameters) if p.when is not None
        ]
        self._rules = tuple([self._rule(c) for c in read] + [self._rule(c, column) for column, c in conditions])
        self._order = self._activation_order()
        self.tree = tuple(Group(self.parameters, columns, self._among(columns)) for columns in self._components())

    @property
    def exact(self) -> bool:
        """Whether ``size`` counts legal points, not an upper bound."""
        return all(group.exact for group in self.tree)

    @cached_property
    def size(self) -> float:
        """Number of points: exact (an int) or an upper bound, infinite with reals."""
        counts = [group.count for group in self.tree]
        return math.inf if None in counts else math.prod(c for c in counts if c is not None)

    def sample(self, rng: np.random.Generator, count: int) -> list[Codes]:
        """``count`` legal points, independent and uniform."""
        rows = np.full((count, len(self.parameters)), INACTIVE)
        for group in self.tree:
            columns = list(group.columns)
            rows[:, columns] = group.draw(rng, count, len(self.parameters))[:, columns]
        return list(map(tuple, rows.tolist()))

    def enumerate(self) -> Iterator[Codes]:
        """Every point of an exact finite space, once."""
        if not self.exact or not math.isfinite(self.size):
            raise InputError("only a finite space whose constraints fit a table can be listed")
        parts = [self._listed(group) for group in self.tree]
        for rows in itertools.product(*parts):
            codes = [INACTIVE] * len(self.parameters)
            for group, row in zip(self.tree, rows, strict=True):
                for column, code in zip((*group.tabled, *group.drawn), row, strict=True):
                    codes[column] = code
            yield tuple(codes)

    def kind(self, codes: Codes) -> int:
        """All points are alike."""
        return 0

    def few(self) -> list[Codes] | None:
        """All points of a space with at most ``FEW``."""
        return self._every if self.exact and self.size <= FEW else None

    @cached_property
    def _every(self) -> list[Codes]:
        return list(self.enumerate())

    def estimates(self, points: Sequence[Codes]) -> FloatArray | None:
        """Prior estimates of measured quantities: float64[points, quantities], if ``estimate`` was given."""
        if self.estimate is None:
            return None
        return np.array([self._estimated(codes) for codes in points], np.float64)

    def _estimated(self, codes: Codes) -> tuple[float, ...]:
        if codes not in self._estimates:
            assert self.estimate is not None
            point = self.point(codes)
            given = self.estimate(point)
            listed = numbers_of(given) or []
            found = [v for v in map(number, listed) if v is not None]
            width = len(next(iter(self._estimates.values()), listed))
            if not found or not len(found) == len(listed) == width:
                raise InputError(
                    "the estimate of a space must give one number per measured quantity, at every point as many, got "
                    f"{given!r} at {point}"
                )
            self._estimates[codes] = tuple(found)
        return self._estimates[codes]

    def neighbours(self, codes: Codes, rng: np.random.Generator) -> list[Codes]:
        """Legal points that differ in one parameter and in what that one switches on or off.

        An ordinal or integer takes the nearest legal value on either side, past illegal ones, a categorical every
        other value, a short permutation every other order, a long one every exchange, a real six draws nearby.
        """
        found: dict[Codes, None] = {}
        for column, parameter in enumerate(self.parameters):
            if codes[column] == INACTIVE:
                continue
            for walk in parameter.walks(codes[column], rng):
                legal = (self._moved(codes, column, other, rng) for other in walk)
                moved = next((m for m in legal if m is not None), None)
                if moved is not None:
                    found[moved] = None
        return list(found)

    def features(self, points: Sequence[Codes]) -> FloatArray:
        """float64[points, features]. A conditional number lies on an arc and an inactive one in its centre, as far from
        every value as the extreme values are from each other (Swersky et al., 2014); other inactive ones are zero."""
        rows = np.array(points, np.float64).reshape(len(points), len(self.parameters))
        return np.concatenate([self._block(c, rows[:, c]) for c in range(len(self.parameters))], axis=1)

    @cached_property
    def groups(self) -> npt.NDArray[np.int64]:
        """int64[features]: the parameter that each feature belongs to."""
        first = self.features(self.sample(np.random.default_rng(0), 1))
        widths = [self._block(c, np.zeros(1)).shape[1] for c in range(len(self.parameters))]
        assert sum(widths) == first.shape[1]
        return np.repeat(np.arange(len(widths)), widths)

    def point(self, codes: Codes) -> Point:
        """Names and values of the active parameters."""
        return {p.name: p.value(c) for p, c in zip(self.parameters, codes, strict=True) if c != INACTIVE}

    def codes(self, point: Mapping[str, Any]) -> Codes:
        """Codes of a legal point. Raises InputError saying what is wrong with it."""
        return self.read(point)[0]

    def read(self, point: Mapping[str, Any]) -> tuple[Codes, Point]:
        """(codes, point) of a legal point as it was given, reals to the last digit, other values as the parameters have
        them (tuples for lists). Raises InputError saying what is wrong with it."""
        for name in point:
            if name not in self.names:
                raise InputError(f"unknown parameter {name!r}.{nearest(name, self.names)}")
        codes = tuple(p.code(point[p.name]) if p.name in point else INACTIVE for p in self.parameters)
        given = {
            p.name: float(point[p.name]) if p.count is None else p.value(code)
            for p, code in zip(self.parameters, codes, strict=True)
            if p.name in point
        }
        conditions = {r.columns[-1]: r for r in self._rules if r.decides}
        for column in [c for c in range(len(codes)) if c not in conditions] + self._order:
            name = self.names[column]
            if not (conditions[column].met(given) if column in conditions else name in given):
                text = "is inactive and must be absent" if name in given else "is missing"
                raise InputError(f"parameter {name!r} {text}, got {dict(point)}")
        if broken := [repr(r.text) for r in self._rules if not r.met(given)]:
            raise InputError(f"the point {dict(point)} breaks {', '.join(broken)}")
        return codes, given

    def settled(self, codes: Codes) -> Codes:
        """The codes that the values of ``codes`` have: of several codes of one real value always the same."""
        return tuple(
            p.code(p.value(c)) if p.count is None and c != INACTIVE else c
            for p, c in zip(self.parameters, codes, strict=True)
        )

    def same(self, codes: Codes, others: Codes) -> bool:
        """Whether codes are of one point, but for the last digits of reals."""
        return all(
            a == b or (p.count is None and INACTIVE not in (a, b) and abs(a - b) <= SAME_REAL)
            for p, a, b in zip(self.parameters, codes, others, strict=True)
        )

    def _rule(self, constraint: Constraint, decides: int | None = None) -> Rule:
        columns = tuple(self.names.index(n) for n in constraint.names)
        if decides is not None:
            if decides in columns:
                raise InputError(f"the condition of {self.names[decides]!r} reads itself: {constraint.text}")
            columns = (*columns, decides)
        return Rule(constraint, tuple(self.parameters[c] for c in columns), columns, decides is not None)

    def _activation_order(self) -> list[int]:
        """Conditional columns, each after those its condition reads."""
        wait = {r.columns[-1]: set(r.columns[:-1]) for r in self._rules if r.decides}
        order: list[int] = []
        while wait:
            ready = sorted(c for c, needs in wait.items() if not needs & wait.keys())
            if not ready:
                raise InputError(f"conditions run in a circle: {', '.join(self.names[c] for c in sorted(wait))}")
            order += ready
            wait = {c: needs for c, needs in wait.items() if c not in ready}
        return order

    def _components(self) -> list[list[int]]:
        """Columns tied together by rules, in order of their first."""
        part = list(range(len(self.names)))
        for rule in self._rules:
            joined = {part[c] for c in rule.columns}
            part = [min(joined) if p in joined else p for p in part]
        return [[c for c, p in enumerate(part) if p == first] for first in sorted(set(part))]

    def _among(self, columns: Sequence[int]) -> list[Rule]:
        return [rule for rule in self._rules if rule.columns[0] in columns]

    @staticmethod
    def _read(rule: Rule, codes: Sequence[float]) -> Codes:
        own = tuple(codes[c] for c in rule.columns)
        return (*own[:-1], min(own[-1], 0.0)) if rule.decides else own

    def _activity(self, codes: Sequence[float]) -> list[bool]:
        """Per parameter, whether its condition holds at ``codes``, taken in activation order."""
        now, active = list(codes), [True] * len(codes)
        conditions = {r.columns[-1]: r for r in self._rules if r.decides}
        for column in self._order:
            now[column] = 0.0
            active[column] = conditions[column].holds(self._read(conditions[column], now))
            now[column] = codes[column] if active[column] else INACTIVE
        return active

    def _moved(self, codes: Codes, column: int, other: float, rng: np.random.Generator) -> Codes | None:
        """``codes`` with another value in ``column``; parameters switched on are drawn. None if that is illegal."""
        now = list(codes)
        now[column] = other
        conditions = any(r.decides and column in r.columns[:-1] for r in self._rules)
        for _ in range(TRIES if conditions else 1):
            tried = list(now)
            if conditions:
                for n in self._order:  # what a switch turns on may switch others
                    active = self._activity(tried)
                    if active[n] != (tried[n] != INACTIVE):
                        tried[n] = float(self.parameters[n].draw(rng, 1)[0]) if active[n] else INACTIVE
            if all(r.holds(self._read(r, tried)) for r in self._rules if conditions or column in r.columns):
                return tuple(tried)
        return None

    def _block(self, column: int, codes: FloatArray) -> FloatArray:
        """Features of one parameter; of one with few values looked up in a table."""
        parameter = self.parameters[column]
        if parameter.listed:
            found = self._tables[column][codes.astype(np.int64)]
        else:
            found = parameter.embed(np.maximum(codes, 0.0))
        if self.conditional[column]:
            if found.shape[1] == 1:
                angle = found * (math.pi / 3)
                found = np.concatenate([np.cos(angle), np.sin(angle)], axis=1)
            found = np.where(codes[:, None] == INACTIVE, 0.0, found)
        return found

    @cached_property
    def _tables(self) -> dict[int, FloatArray]:
        return {
            c: p.embed(np.arange(p.count or 0, dtype=np.float64)) for c, p in enumerate(self.parameters) if p.listed
        }

    def _listed(self, group: Group) -> list[Codes]:
        extra = [range(self.parameters[c].count or 0) for c in group.drawn]
        return [
            (*row, *map(float, more)) for row in map(tuple, group.table.tolist()) for more in itertools.product(*extra)
        ]
