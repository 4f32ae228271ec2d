"""PartialOrder: the orders that a set of constraints admits, counted, drawn and numbered exactly.

Loop orders of a fused region are the linear extensions of a partial order of its loops. Two of them that differ
only by neighbours that nothing tells apart are the same mapping, so what is counted are classes of linear extensions
under swaps of such neighbours: traces (Cartier and Foata, 1969). A class stands for the orders that agree on every
pair that is told apart or ordered; its normal form is the first of them by position in ``elements``.
"""

from __future__ import annotations

import graphlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from mapper.errors import InputError, nearest

Pairs = Iterable[Iterable[str]]


@dataclass(frozen=True, slots=True)
class PartialOrder:
    """Orders of ``elements`` in which the first of each pair in ``before`` precedes the second.

    ``told_apart`` holds the unordered pairs whose relative position matters (a set, or a predicate of two elements;
    None: every pair, so that each linear extension is a class of its own). Ordered pairs matter in any case. An
    element is bit i of a mask, i its position in ``elements``. Raises InputError for names that are no elements or
    come twice; a cyclic order is allowed and admits nothing.
    """

    elements: tuple[str, ...]
    before: frozenset[tuple[str, str]] = frozenset()
    told_apart: Callable[[str, str], bool] | Pairs | None = None
    _after: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _tied: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _counts: dict[tuple[int, int], int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = self.elements
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InputError(f"the elements of an order must differ, got {', '.join(twice)} more than once")
        place = {name: i for i, name in enumerate(names)}
        pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
        given = self.told_apart
        if given is None or callable(given):
            apart = frozenset(frozenset(pair) for pair in pairs if given is None or given(*pair))
        else:
            apart = frozenset(frozenset(pair) for pair in given)
        for name in {n for pair in self.before for n in pair} | {n for pair in apart for n in pair}:
            if name not in place:
                raise InputError(f"unknown element {name!r} of an order.{nearest(name, names)}")
        after = [0] * len(names)
        for a, b in self.before:
            after[place[b]] |= 1 << place[a]
        for middle in range(len(names)):  # transitive closure: what precedes `middle` precedes what follows it
            after = [mask | after[middle] if mask >> middle & 1 else mask for mask in after]
        tied = [
            mask | sum(1 << j for j, n in enumerate(names) if frozenset((name, n)) in apart or after[j] >> i & 1)
            for i, (name, mask) in enumerate(zip(names, after, strict=True))
        ]
        object.__setattr__(self, "told_apart", apart)
        object.__setattr__(self, "_after", tuple(after))
        object.__setattr__(self, "_tied", tuple(tied))
        object.__setattr__(self, "_counts", {})

    def cycle(self) -> tuple[str, ...] | None:
        """Elements that must each precede the next and the last the first; None if there are none."""
        followers: dict[str, list[str]] = {}
        for a, b in sorted(self.before):
            followers.setdefault(b, []).append(a)
        try:
            graphlib.TopologicalSorter(followers).prepare()
        except graphlib.CycleError as error:
            return tuple(error.args[1][:-1])
        return None

    def count(self) -> int:
        """Number of classes; 0 for a cyclic order, 1 for an order of nothing."""
        return self._count((1 << len(self.elements)) - 1)

    def sample(self, rng: np.random.Generator) -> tuple[str, ...]:
        """Normal form of a class, every class equally likely. Raises InputError if there is none."""
        count = self.count()
        if not count:
            raise InputError(f"no order exists: {' before '.join(self.cycle() or ())} form a cycle")
        bits = (count - 1).bit_length()
        while True:  # numbers of any size, without bias: at least every second one is kept
            number = int.from_bytes(rng.bytes(bits // 8 + 1), "big") & ((1 << bits) - 1)
            if number < count:
                return self.unrank(number)

    def unrank(self, number: int) -> tuple[str, ...]:
        """Normal form of class ``number``, in lexicographic order of normal forms by position in ``elements``.

        Raises InputError unless 0 <= number < count().
        """
        if not 0 <= number < self.count():
            raise InputError(f"the number of an order must be 0 or more and below {self.count()}, got {number}")
        word = []
        rest, barred = (1 << len(self.elements)) - 1, 0
        while rest:
            for letter, left, then in self._steps(rest, barred):
                share = self._count(left, then)
                if number < share:
                    word.append(self.elements[letter])
                    break
                number -= share
            rest, barred = left, then
        return tuple(word)

    def rank(self, order: Sequence[str]) -> int:
        """Number of the class of ``order``. Raises InputError if the order is not admitted."""
        number = 0
        rest, barred = (1 << len(self.elements)) - 1, 0
        for name in self.normal(order):
            for letter, left, then in self._steps(rest, barred):
                if self.elements[letter] == name:
                    break
                number += self._count(left, then)
            rest, barred = left, then
        return number

    def normal(self, order: Sequence[str]) -> tuple[str, ...]:
        """First order of the class of ``order``. Raises InputError if the order is not admitted."""
        if reason := self._refusal(order):
            raise InputError(f"order {', '.join(order) or 'of nothing'}: {reason}")
        return self._first(self._preceding(order))

    def contains(self, order: Sequence[str]) -> bool:
        """Whether ``order`` holds every element once and no pair against ``before``."""
        return not self._refusal(order)

    def neighbours(self, order: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Normal forms of the classes that one swap of neighbours leads to, in some order of the class of ``order``.

        Such a pair is told apart, not ordered, and nothing in between ties it together; the relation is symmetric.
        """
        preceding = self._preceding(self.normal(order))
        above = self._closed(preceding)
        found = []
        for b, mask in enumerate(preceding):
            for a in _bits(mask & ~self._after[b]):
                if any(above[c] >> a & 1 for c in _bits(mask)):
                    continue
                swapped = list(preceding)
                swapped[b] &= ~(1 << a)
                swapped[a] |= 1 << b
                found.append(self._first(swapped))
        return tuple(found)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """Normal forms of all classes, in the order of their numbers."""

        def complete(word: tuple[str, ...], rest: int, barred: int) -> Iterator[tuple[str, ...]]:
            if not rest:
                yield word
            for letter, left, then in self._steps(rest, barred):
                if self._count(left, then):
                    yield from complete((*word, self.elements[letter]), left, then)

        if self.count():
            yield from complete((), (1 << len(self.elements)) - 1, 0)

    def _count(self, rest: int, barred: int = 0) -> int:
        """Classes of the elements in ``rest`` none of whose orders begins with an element in ``barred``: a product over
        the parts that nothing ties together."""
        barred &= self._firsts(rest)
        count = 1
        while rest and count:
            part = self._part(rest)
            key = part, barred & part
            if key not in self._counts:
                self._counts[key] = sum(self._count(left, then) for _, left, then in self._steps(*key))
            count *= self._counts[key]
            rest &= ~part
        return count

    def _steps(self, rest: int, barred: int) -> Iterator[tuple[int, int, int]]:
        """Letters that may follow in a normal form, with what is left and what may not come before a tied letter:
        a smaller element that could have stood here, or earlier, instead."""
        for letter in _bits(self._firsts(rest) & ~barred):
            yield letter, rest & ~(1 << letter), (barred | (1 << letter) - 1) & rest & ~self._tied[letter]

    def _firsts(self, rest: int) -> int:
        return sum(1 << i for i in _bits(rest) if not self._after[i] & rest)

    def _part(self, rest: int) -> int:
        """Elements of ``rest`` that are tied, directly or not, to its lowest one."""
        part, edge = 0, rest & -rest
        while edge:
            part |= edge
            reach = 0
            for i in _bits(edge):
                reach |= self._tied[i]
            edge = reach & rest & ~part
        return part

    def _refusal(self, order: Sequence[str]) -> str:
        if sorted(order) != sorted(self.elements):
            return f"it must hold each of {', '.join(self.elements) or 'nothing'} once"
        place = {name: i for i, name in enumerate(order)}
        return next((f"{a} must precede {b}" for a, b in sorted(self.before) if place[a] >= place[b]), "")

    def _preceding(self, order: Sequence[str]) -> list[int]:
        """Per element, the tied ones that precede it in ``order``: what all orders of a class have in common."""
        masks, seen = [0] * len(self.elements), 0
        for name in order:
            i = self.elements.index(name)
            masks[i] = self._tied[i] & seen
            seen |= 1 << i
        return masks

    def _first(self, preceding: Sequence[int]) -> tuple[str, ...]:
        """First order in which each element follows its ``preceding`` ones."""
        word, rest = [], (1 << len(self.elements)) - 1
        while rest:
            letter = next(i for i in _bits(rest) if not preceding[i] & rest)
            word.append(self.elements[letter])
            rest &= ~(1 << letter)
        return tuple(word)

    def _closed(self, preceding: Sequence[int]) -> list[int]:
        """Per element, everything that precedes it, directly or not."""
        above = list(preceding)
        for name in self._first(preceding):
            i = self.elements.index(name)
            for c in _bits(preceding[i]):
                above[i] |= above[c]
        return above


def _bits(mask: int) -> Iterator[int]:
    """Positions of the bits of ``mask``, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
