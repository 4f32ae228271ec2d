"""PartialOrder against enumeration of every permutation."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from scipy.stats import chisquare

from mapper.errors import InputError
from mapper.linear_orders import PartialOrder


def random_order(seed: int, largest: int) -> PartialOrder:
    """Up to ``largest`` elements, pairs ordered and told apart with random frequencies."""
    rng = np.random.default_rng(seed)
    names = tuple("ihgfedcba"[: rng.integers(largest + 1)])
    hidden = list(rng.permutation(list(names)))
    pairs = list(itertools.combinations(hidden, 2))
    ordered, apart = rng.random(2) * (0.5, 1)
    before = frozenset((str(a), str(b)) for a, b in pairs if rng.random() < ordered)
    told = frozenset(frozenset(map(str, pair)) for pair in pairs if rng.random() < apart)
    return PartialOrder(names, before, None if seed % 3 == 0 else told)


def classes(order: PartialOrder) -> dict[tuple[bool, ...], list[tuple[str, ...]]]:
    """Linear extensions by what they say about each pair that is told apart or ordered."""
    kept = [tuple(sorted(pair)) for pair in order.told_apart] + sorted(order.before)
    found: dict[tuple[bool, ...], list[tuple[str, ...]]] = {}
    for word in itertools.permutations(order.elements):
        place = {name: i for i, name in enumerate(word)}
        if all(place[a] < place[b] for a, b in order.before):
            found.setdefault(tuple(place[a] < place[b] for a, b in kept), []).append(word)
    return found


def reachable(word: tuple[str, ...], order: PartialOrder) -> set[tuple[str, ...]]:
    """Words that swaps of independent neighbours lead to: the definition of a class."""
    ordered = order.before | {(b, a) for a, b in order.before}
    seen, todo = {word}, [word]
    while todo:
        old = todo.pop()
        for i, pair in enumerate(itertools.pairwise(old)):
            new = (*old[:i], *pair[::-1], *old[i + 2 :])
            if frozenset(pair) not in order.told_apart and pair not in ordered and new not in seen:
                seen.add(new)
                todo.append(new)
    return seen


@pytest.mark.parametrize("seed", range(100))
def test_counts_equal_enumeration(seed: int) -> None:
    order = random_order(seed, 9 if seed % 10 == 0 else 8)
    groups = classes(order)
    assert order.count() == len(groups)
    if order.told_apart == frozenset(map(frozenset, itertools.combinations(order.elements, 2))):
        assert all(len(group) == 1 for group in groups.values())


@pytest.mark.parametrize("seed", range(40))
def test_numbers_and_normal_forms(seed: int) -> None:
    order = random_order(seed, 6)
    place = {name: i for i, name in enumerate(order.elements)}
    firsts = []
    for group in classes(order).values():
        first = min(group, key=lambda word: [place[name] for name in word])
        assert set(group) == reachable(group[0], order)
        assert {order.normal(word) for word in group} == {first}
        assert len({order.rank(word) for word in group}) == 1
        firsts.append(first)
    firsts.sort(key=lambda word: [place[name] for name in word])
    assert list(order) == firsts
    assert [order.unrank(n) for n in range(order.count())] == firsts
    assert [order.rank(word) for word in firsts] == list(range(order.count()))


@pytest.mark.parametrize("seed", range(30))
def test_neighbours_are_one_swap_away(seed: int) -> None:
    order = random_order(seed, 6)
    groups = {order.normal(group[0]): group for group in classes(order).values()}
    for first, group in groups.items():
        expected = set()
        for word in group:
            for i, pair in enumerate(itertools.pairwise(word)):
                if frozenset(pair) in order.told_apart:
                    swapped = (*word[:i], *pair[::-1], *word[i + 2 :])
                    expected |= {order.normal(swapped)} if order.contains(swapped) else set()
        found = order.neighbours(first)
        assert set(found) == expected and len(found) == len(expected)
        assert all(first in order.neighbours(word) for word in found)


def test_samples_are_uniform() -> None:
    """Five elements, one pair ordered, a cycle of told-apart pairs; significance 0.1 %, seed fixed."""
    names = tuple("abcde")
    order = PartialOrder(names, frozenset({("c", "a")}), [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "a")])
    rng = np.random.default_rng(7)
    drawn = [order.rank(order.sample(rng)) for _ in range(200 * order.count())]
    assert order.count() == len(classes(order)) > 10
    assert chisquare(np.bincount(drawn, minlength=order.count())).pvalue > 0.001


def test_small_and_large() -> None:
    assert PartialOrder(()).count() == 1 and PartialOrder(()).unrank(0) == () and list(PartialOrder(())) == [()]
    assert PartialOrder(("i",)).sample(np.random.default_rng(0)) == ("i",)
    names = tuple(f"i{n}" for n in range(24))
    assert PartialOrder(names, told_apart=()).count() == 1
    assert PartialOrder(names, frozenset(itertools.pairwise(names))).count() == 1
    chain = PartialOrder(names, told_apart=list(itertools.pairwise(names)))
    assert chain.count() == 2**23  # every edge of a path may point either way
    two = PartialOrder(names, frozenset([*itertools.pairwise(names[:12]), *itertools.pairwise(names[12:])]))
    assert two.count() == math.comb(24, 12)
    start = time.process_time()
    assert PartialOrder(names[:12]).count() == math.factorial(12)
    assert time.process_time() - start < 1


def test_numbers_beyond_64_bits() -> None:
    """Three independent chains of twelve, interleaved in 36! / 12!^3 ways."""
    names = tuple(f"{chain}{n}" for n in range(12) for chain in "abc")
    order = PartialOrder(names, frozenset(pair for start in range(3) for pair in itertools.pairwise(names[start::3])))
    assert order.count() == math.factorial(36) // math.factorial(12) ** 3
    word = order.sample(np.random.default_rng(3))
    assert order.unrank(order.rank(word)) == word


def test_cycles_admit_nothing() -> None:
    order = PartialOrder(("i", "j", "k"), frozenset({("i", "j"), ("j", "k"), ("k", "i")}))
    assert order.count() == 0 and not list(order) and not order.contains(("i", "j", "k"))
    cycle = order.cycle()
    assert cycle and all((a, b) in order.before for a, b in zip(cycle, (*cycle[1:], cycle[0]), strict=True))
    with pytest.raises(InputError, match="cycle"):
        order.sample(np.random.default_rng(0))
    assert PartialOrder(("i",), frozenset({("i", "i")})).cycle() == ("i",)
    assert PartialOrder(("i", "j"), frozenset({("i", "j")})).cycle() is None


def test_bad_input() -> None:
    order = PartialOrder(("i", "j"), frozenset({("i", "j")}))
    with pytest.raises(InputError, match="i must precede j"):
        order.rank(("j", "i"))
    with pytest.raises(InputError, match="each of i, j once"):
        order.normal(("i", "i"))
    with pytest.raises(InputError, match="below 1, got 1"):
        order.unrank(1)
    with pytest.raises(InputError, match="i more than once"):
        PartialOrder(("i", "i"))
    with pytest.raises(InputError, match="unknown element 'q'"):
        PartialOrder(("i",), frozenset({("i", "q")}))


def test_equal_orders_are_equal() -> None:
    a = PartialOrder(("i", "j"), told_apart=lambda a, b: True)
    assert a == PartialOrder(("i", "j"), told_apart=[("j", "i")]) and hash(a) == hash(PartialOrder(("i", "j")))
