"""Groups of parameters that constraints tie together: their legal combinations, tabled, counted and drawn uniformly.

Parameters that share no constraint, directly or not, are independent, so a space is the product of its groups. A group
is a table of legal combinations, grown column by column and filtered by every constraint as soon as its parameters are
there (a breadth-first chain of trees: Rasch et al., TACO 2021; Hellsten et al., ASPLOS 2023, whose uniform choice over
leaves this is). What does not fit a table - reals, huge integers, more than ``MOST_ROWS`` rows - is drawn uniformly
beside a uniformly drawn row and rejected by the constraints that are left: still uniform.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mapper.errors import EmptySpace
from tuner.constraints import Constraint
from tuner.parameter import INACTIVE, Parameter
from tuner.permutation_features import FloatArray

MOST_ROWS = 500_000
"""Rows of a table while it grows."""

MOST_DRAWS = 1_000_000
"""Draws in a row without a legal combination after which a group counts as empty."""

Codes = tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Rule:
    """A constraint, or (``decides`` a column) the condition under which that parameter is active.

    ``columns``: positions in the space of all parameters it reads, the decided one last. A constraint one of whose
    parameters is inactive holds; a condition one of whose parameters is inactive does not.
    """

    constraint: Constraint
    parameters: tuple[Parameter, ...]
    columns: tuple[int, ...]
    decides: bool = False
    _known: dict[Codes, bool] = field(default_factory=dict, repr=False)

    @property
    def text(self) -> str:
        """Its name in messages."""
        return f"{self.parameters[-1].name} when {self.constraint.text}" if self.decides else self.constraint.text

    def holds(self, codes: Codes) -> bool:
        """Whether it holds at these codes of its columns."""
        if codes not in self._known:
            self._known[codes] = self._test(codes)
        return self._known[codes]

    def _test(self, codes: Codes) -> bool:
        read = codes[:-1] if self.decides else codes
        if INACTIVE in read:
            return not self.decides or codes[-1] == INACTIVE
        point = {p.name: p.value(c) for p, c in zip(self.parameters, read, strict=False)}
        return self.constraint.holds(point) == (not self.decides or codes[-1] != INACTIVE)

    def met(self, point: Mapping[str, Any]) -> bool:
        """Whether it holds at a point, by values: not every value of a real parameter has a code of its own."""
        present = all(name in point for name in self.constraint.names)
        if not self.decides:
            return not present or self.constraint.holds(point)
        return (self.parameters[-1].name in point) == (present and self.constraint.holds(point))

    def mask(self, rows: FloatArray) -> npt.NDArray[np.bool_]:
        """bool[rows]: whether it holds, tested once per distinct combination of its own columns."""
        own = rows[:, self.columns]
        if self.decides:  # the value of the decided parameter does not matter
            own[:, -1] = np.where(own[:, -1] == INACTIVE, INACTIVE, 0.0)
        if any(p.count is None for p in self.parameters[: len(self.columns) - self.decides]):
            return np.array([self._test(tuple(row)) for row in own.tolist()], bool)
        sizes = [p.count or 1 for p in self.parameters]
        place = np.zeros(len(own), np.float64)
        for column, size in zip(own.T, sizes, strict=True):
            place = place * (size + 1) + column + 1
        if np.prod([float(s + 1) for s in sizes]) >= 2.0**53:
            return np.array([self._test(tuple(row)) for row in own.tolist()], bool)
        _, first, which = np.unique(place, return_index=True, return_inverse=True)
        return np.array([self.holds(tuple(row)) for row in own[first].tolist()], bool)[which]


class Group:
    """The parameters in ``columns`` (positions in the space) with every rule among them."""

    def __init__(self, parameters: Sequence[Parameter], columns: Sequence[int], rules: Sequence[Rule]) -> None:
        self.parameters, self.rules = parameters, tuple(rules)
        self.columns = self._sorted(columns)
        self._conditional = {rule.columns[-1] for rule in rules if rule.decides}
        self.tabled, self.table = self._grown(self.rules)
        self.drawn = tuple(c for c in self.columns if c not in self.tabled)
        self.left = tuple(r for r in self.rules if set(r.columns) & set(self.drawn))
        if not len(self.table):
            raise EmptySpace(f"no point satisfies {self._blame()} together")

    @property
    def exact(self) -> bool:
        """Whether ``count`` is the number of legal combinations, not an upper bound."""
        return not self.left

    @cached_property
    def count(self) -> int | None:
        """Number of legal combinations (``exact``) or an upper bound; None: infinitely many."""
        counts = [self.parameters[c].count for c in self.drawn]
        if None in counts:
            return None
        found = len(self.table)
        for column, count in zip(self.drawn, counts, strict=True):
            found *= (count or 0) + (column in self._conditional)
        return found

    def draw(self, rng: np.random.Generator, count: int, width: int) -> FloatArray:
        """float64[count, width] with codes in the columns of the group, uniformly. Raises EmptySpace, with the rules
        that forbade most, after ``MOST_DRAWS`` draws without a legal one."""
        found, missing = [], count
        reasons = dict.fromkeys((rule.text for rule in self.left), 0)
        draws = 0
        while missing > 0:
            size = count if not self.left else min(max(4 * missing, 256), 65536)
            rows = np.full((size, width), INACTIVE)
            rows[:, self.tabled] = self.table[rng.integers(len(self.table), size=size)]
            for column in self.drawn:
                rows[:, column] = self._drawn(column, rng, size)
            legal = np.ones(size, bool)
            for rule in self.left:
                at = np.flatnonzero(legal)
                holds = rule.mask(rows[at])
                legal[at] = holds
                reasons[rule.text] += int((~holds).sum())
            found.append(rows[legal][:missing])
            missing -= len(found[-1])
            draws = 0 if len(found[-1]) else draws + size
            if draws >= MOST_DRAWS:
                blame = ", ".join(f"{text!r} ({n} times)" for text, n in sorted(reasons.items(), key=lambda r: -r[1]))
                raise EmptySpace(f"no legal point among {draws} uniform draws: forbidden by {blame}")
        return np.concatenate(found)

    def _drawn(self, column: int, rng: np.random.Generator, size: int) -> FloatArray:
        """Values of a column outside the table: an inactive one counts as one more value, beside a continuum or more
        values than are listed as much as all of them."""
        parameter = self.parameters[column]
        codes = parameter.draw(rng, size)
        if column in self._conditional:
            share = 1 / (1 + (parameter.count or 0)) if parameter.listed else 0.5
            codes[rng.random(size) < share] = INACTIVE
        return codes

    def _sorted(self, columns: Sequence[int]) -> tuple[int, ...]:
        """Columns in the order in which they enter the table: those that complete most rules first, then small ones."""
        order: list[int] = []
        left = list(columns)
        while left:
            done = {*order}
            completed = {c: sum(c in r.columns and set(r.columns) <= done | {c} for r in self.rules) for c in left}
            order.append(min(left, key=lambda c: (-completed[c], _values(self.parameters[c]), c)))
            left.remove(order[-1])
        return tuple(order)

    def _grown(self, rules: Sequence[Rule]) -> tuple[tuple[int, ...], FloatArray]:
        """(columns, their legal combinations) as far as a table holds them."""
        done: tuple[int, ...] = ()
        rows = np.zeros((1, 0))
        for column in self.columns:
            parameter = self.parameters[column]
            if not parameter.listed:
                continue
            codes = np.arange(-1.0 if column in self._conditional else 0.0, float(parameter.count or 0))
            if len(rows) * len(codes) > MOST_ROWS:
                continue
            done = (*done, column)
            rows = np.column_stack([np.repeat(rows, len(codes), axis=0), np.tile(codes, len(rows))])
            for rule in rules:
                if column in rule.columns and set(rule.columns) <= set(done):
                    full = np.full((len(rows), max(done) + 1), INACTIVE)
                    full[:, done] = rows
                    rows = rows[rule.mask(full)]
        return done, rows

    def _blame(self) -> str:
        """A smallest set of rules that leaves nothing: of those that any other rule could be dropped from."""
        needed = list(self.rules)
        for rule in self.rules:
            fewer = [r for r in needed if r is not rule]
            if not rule.decides and not len(self._grown(fewer)[1]):
                needed = fewer
        return " and ".join(repr(rule.text) for rule in needed)


def _values(parameter: Parameter) -> float:
    return float("inf") if parameter.count is None else float(parameter.count)
