"""Parameters of an outside evaluator: permutation, ordinal, integer, real, categorical."""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mapper.errors import InputError
from mapper.linear_orders import PartialOrder
from tuner.given_numbers import number
from tuner.parameter import Parameter, check_distinct, tupled
from tuner.permutation_features import FloatArray, permutation_features

LARGEST_CODE = 2**53
"""Numbers of values must be exact in a float64."""

SAME_REAL = 1e-12
"""Codes of a real parameter that differ by no more are of one value: so much may be lost on the way out and back."""

NEAR_REAL = 0.03
"""Standard deviation of a local step of a real parameter, as a share of its range."""


@dataclass(frozen=True)
class Categorical(Parameter):
    """One of ``choices``, no two nearer than others."""

    choices: Sequence[Any] = ()

    def __post_init__(self) -> None:
        check_distinct(self, self.choices)

    @property
    def count(self) -> int:
        return len(self.choices)

    def value(self, code: float) -> Any:
        return self.choices[int(code)]

    def code(self, value: Any) -> float:
        for given in (value, tupled(value)):
            if given in self.choices:
                return float(list(self.choices).index(given))
        raise self._refuse(value, f"one of {', '.join(map(repr, self.choices))}")

    def embed(self, codes: FloatArray) -> FloatArray:
        return np.asarray((codes[:, None] == np.arange(self.count)) / math.sqrt(2), np.float64)


@dataclass(frozen=True)
class _Scaled(Parameter):
    """A parameter on a line, logarithmic with ``log``."""

    log: bool = field(default=False, kw_only=True)

    def _scale(self, values: FloatArray, low: float, high: float) -> FloatArray:
        if self.log:
            values, low, high = np.log(values), math.log(low), math.log(high)
        elif _overflows(low, high):
            values, low, high = values / 2, low / 2, high / 2
        return ((values - low) / ((high - low) or 1.0))[:, None]

    def _check_bounds(self, low: float, high: float) -> None:
        known = [end for end in map(number, (low, high)) if end is not None and math.isfinite(end)]
        if len(known) < 2 or low > high:
            raise InputError(
                f"the bounds of {self.name!r} must be finite numbers, the first no more, got {low!r} and {high!r}"
            )
        if self.log and low <= 0:
            raise InputError(f"{self.name!r} has a logarithmic scale and must be positive, got {low}")


@dataclass(frozen=True)
class Ordinal(_Scaled):
    """One of ``values``, ascending numbers; with ``log`` it is the logarithm of the value that counts."""

    values: Sequence[float] = ()

    def __post_init__(self) -> None:
        check_distinct(self, self.values)
        for value in self.values:
            read = number(float(value) if isinstance(value, bool) else value)
            if read is None or not math.isfinite(read):
                raise InputError(f"the values of {self.name!r} must be finite numbers, got {value!r}")
        if list(self.values) != sorted(self.values):
            raise InputError(f"the values of {self.name!r} must ascend, got {list(self.values)}")
        self._check_bounds(self.values[0], self.values[-1])

    @property
    def count(self) -> int:
        return len(self.values)

    def value(self, code: float) -> Any:
        return self.values[int(code)]

    def code(self, value: Any) -> float:
        if value not in self.values:
            raise self._refuse(value, f"one of {', '.join(map(str, self.values))}")
        return float(list(self.values).index(value))

    def embed(self, codes: FloatArray) -> FloatArray:
        return self._scale(np.asarray(self.values, np.float64)[codes.astype(np.int64)], self.values[0], self.values[-1])

    def walks(self, code: float, rng: np.random.Generator) -> Iterator[Iterable[float]]:
        yield map(float, range(int(code) - 1, -1, -1))
        yield map(float, range(int(code) + 1, self.count))


@dataclass(frozen=True)
class Integer(_Scaled):
    """An integer in [low, high]; with ``log`` and too many values to list them, draws are uniform in the logarithm."""

    low: int = 0
    high: int = 0

    def __post_init__(self) -> None:
        self._check_bounds(self.low, self.high)
        for end in ("low", "high"):
            given = getattr(self, end)
            if given != int(given):
                raise InputError(f"the bounds of {self.name!r} must be whole numbers, got {self.low} and {self.high}")
            object.__setattr__(self, end, int(given))  # numpy's would end up in every point
        if self.count > LARGEST_CODE:
            raise InputError(f"{self.name!r} may have at most 2^53 values, got {self.low} to {self.high}")

    @property
    def count(self) -> int:
        return self.high - self.low + 1

    def value(self, code: float) -> int:
        return self.low + int(code)

    def code(self, value: Any) -> float:
        if (
            isinstance(value, bool)
            or not isinstance(value, numbers.Integral)
            or not self.low <= int(value) <= self.high
        ):
            raise self._refuse(value, f"an integer from {self.low} to {self.high}")
        return float(int(value) - self.low)

    def embed(self, codes: FloatArray) -> FloatArray:
        return self._scale(codes + self.low, self.low, self.high)

    def walks(self, code: float, rng: np.random.Generator) -> Iterator[Iterable[float]]:
        reach = 1 if self.listed else max(1, round(abs(rng.normal(0, NEAR_REAL)) * self.count))
        yield map(float, range(int(code) - reach, -1, -1))
        yield map(float, range(int(code) + reach, self.count))

    def draw(self, rng: np.random.Generator, count: int) -> FloatArray:
        if not self.log or self.listed:
            return super().draw(rng, count)
        edges = math.log(self.low - 0.5 if self.low > 1 else 0.5), math.log(self.high + 0.5)
        return np.clip(np.rint(np.exp(rng.uniform(*edges, count))), self.low, self.high) - self.low


@dataclass(frozen=True)
class Real(_Scaled):
    """A number in [low, high]; with ``log`` draws are uniform in its logarithm."""

    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        self._check_bounds(self.low, self.high)

    @property
    def count(self) -> None:
        return None

    def value(self, code: float) -> float:
        if self.log:
            ratio = self.high / self.low
            apart = math.isinf(ratio)
            found = self.low ** (1 - code) * self.high**code if apart else self.low * ratio**code
        elif _overflows(self.low, self.high):
            found = self.low * (1 - code) + self.high * code
        else:
            found = self.low + (self.high - self.low) * code
        return float(min(max(float(found), self.low), self.high))

    def code(self, value: Any) -> float:
        """The first code that has exactly this value, where one has: codes of values of codes stay what they are."""
        number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not number or not self.low <= value <= self.high:
            raise self._refuse(value, f"a number from {self.low} to {self.high}")
        if value >= self.value(1.0):  # rounding may keep the bound itself from having a code
            return 1.0
        scaled = float(self._scale(np.array([value], np.float64), self.low, self.high)[0, 0])
        below, above = max(scaled - SAME_REAL, 0.0), min(scaled + SAME_REAL, 1.0)
        if self.value(below) == value:
            return below
        while below < (middle := (below + above) / 2) < above:
            if self.value(middle) < value:
                below = middle
            else:
                above = middle
        return above if self.value(above) == value else scaled

    def embed(self, codes: FloatArray) -> FloatArray:
        return codes[:, None]

    def walks(self, code: float, rng: np.random.Generator) -> Iterator[Iterable[float]]:
        steps = np.abs(rng.normal(0, NEAR_REAL, 6)) * np.array([-1, 1] * 3)
        return ((float(other),) for other in np.clip(code + steps, 0, 1) if other != code)


@dataclass(frozen=True)
class Permutation(Parameter):
    """An order of ``items`` (of 0..n-1 for an integer n) as a tuple; the first of each pair in ``before`` comes
    earlier. ``metric``: what makes two orders similar (``permutation_features.METRICS``)."""

    items: Sequence[Any] | int = ()
    before: Sequence[tuple[Any, Any]] = field(default=(), kw_only=True)
    metric: str = field(default="spearman", kw_only=True)

    def __post_init__(self) -> None:
        check_distinct(self, self.elements)
        permutation_features(np.arange(len(self.elements)), self.metric)  # an unknown metric is an error now
        for pair in self.before:
            if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
                raise InputError(f"before of permutation {self.name!r} must be pairs of items, got {pair!r}")
        for item in itertools.chain.from_iterable(self.before):
            if item not in self.elements:
                raise InputError(f"permutation {self.name!r} has no item {item!r}, among {list(self.elements)}")
        if not self.count:
            raise InputError(f"no order of {self.name!r} is left: {self.before} form a cycle")
        if self.count > LARGEST_CODE:
            raise InputError(f"permutation {self.name!r} has {self.count} orders, at most 2^53 can be numbered")

    @cached_property
    def elements(self) -> tuple[Any, ...]:
        """The items."""
        items: Any = self.items
        return tuple(range(int(items)) if isinstance(items, numbers.Integral) else items)

    @cached_property
    def _orders(self) -> PartialOrder:
        place = {item: str(n) for n, item in enumerate(self.elements)}
        return PartialOrder(tuple(place.values()), frozenset((place[a], place[b]) for a, b in self.before))

    @cached_property
    def count(self) -> int:
        return self._orders.count() if self.before else math.factorial(len(self.elements))

    @cached_property
    def _known(self) -> dict[int, tuple[int, ...]]:
        return {}

    def _order(self, code: float) -> tuple[int, ...]:
        """Element numbers by position: the order of that number, in lexicographic order."""
        number = int(code)
        if number not in self._known:
            self._known[number] = (
                tuple(map(int, self._orders.unrank(number))) if self.before else _unrank(number, len(self.elements))
            )
        return self._known[number]

    def value(self, code: float) -> tuple[Any, ...]:
        return tuple(self.elements[n] for n in self._order(code))

    def code(self, value: Any) -> float:
        given = list(value) if isinstance(value, Sequence) else [value]
        given = [item if item in self.elements else tupled(item) for item in given]
        places = [self.elements.index(item) for item in given if item in self.elements]
        if sorted(places) != list(range(len(self.elements))) or len(given) != len(places):
            raise self._refuse(value, f"an order of {', '.join(map(str, self.elements))}")
        if not self.before:
            return float(_rank(places))
        order = tuple(map(str, places))
        if not self._orders.contains(order):
            raise self._refuse(value, f"an order in which {self.before} come in that order")
        return float(self._orders.rank(order))

    def embed(self, codes: FloatArray) -> FloatArray:
        orders = np.array([self._order(c) for c in codes.tolist()], np.int64).reshape(len(codes), -1)
        return permutation_features(np.argsort(orders, axis=1), self.metric)

    def walks(self, code: float, rng: np.random.Generator) -> Iterator[Iterable[float]]:
        """All orders while they are few, else one exchange of two items."""
        if self.count <= math.factorial(5):
            yield from super().walks(code, rng)
            return
        order = self._order(code)
        for a, b in itertools.combinations(range(len(order)), 2):
            other = list(order)
            other[a], other[b] = other[b], other[a]
            names = tuple(map(str, other))
            if not self.before:
                yield (float(_rank(other)),)
            elif self._orders.contains(names):
                yield (float(self._orders.rank(names)),)


def _overflows(low: float, high: float) -> bool:
    """Whether a range is wider than the largest float."""
    return math.isinf(float(high) - float(low))


def _rank(order: Sequence[int]) -> int:
    """Number of a permutation of 0..n-1 in lexicographic order."""
    number = 0
    for n, item in enumerate(order):
        number = number * (len(order) - n) + sum(other < item for other in order[n + 1 :])
    return number


def _unrank(number: int, items: int) -> tuple[int, ...]:
    digits = []
    for base in range(1, items + 1):
        number, digit = divmod(number, base)
        digits.append(digit)
    left = list(range(items))
    return tuple(left.pop(digit) for digit in reversed(digits))
