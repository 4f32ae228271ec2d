"""What a tool is asked to search: one space with one or two objectives, as everybody may see it.

A point is any hashable value. ``evaluate`` says what a point costs (None: it fails), ``domain`` is the space as this
package searches it, ``Encoding`` the space as parameters of Optuna.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from mapping_cases import SECOND
from mapping_tables import QUANTITIES, Floats, Table
from published_spaces import Instance

from mapper.errors import InputError
from tuner.mapping_domain import MOST_NEIGHBOURS
from tuner.model_sampler import MAPPING_INGREDIENTS
from tuner.parameter_space import ParameterSpace
from tuner.surrogate import Ingredients

Point = Any
Outcome = tuple[float, ...] | None


class Encoding(Protocol):
    """``distributions`` of Optuna's parameters and the way there and back; None for parameters of no legal point.
    ``rising``: pairs of which the first must be less than the second."""

    distributions: dict[str, Any]
    rising: tuple[tuple[str, str], ...]

    def params(self, point: Point) -> dict[str, Any]: ...

    def point(self, params: dict[str, Any]) -> Point | None: ...


class Task(Protocol):
    """One search. ``start``: what a run without a success is taken to have; ``ingredients``: of our sampler."""

    name: str
    objectives: int
    prior: bool
    start: tuple[float, ...]
    ingredients: Ingredients

    def draw(self, rng: np.random.Generator, count: int) -> Sequence[Hashable]: ...

    def evaluate(self, point: Point) -> Outcome: ...

    def domain(self, metric: str, prior: bool) -> Any: ...

    def encoding(self, categorical: bool) -> Encoding: ...

    def known(self) -> Floats:
        """float64[points, objectives]: everything there is that succeeds."""


def starting_points(task: Task, seed: int, count: int) -> list[Hashable]:
    """The same for every tool: uniform legal points, each once."""
    return list(dict.fromkeys(task.draw(np.random.default_rng([seed, 20]), 4 * count)))[:count]


class PublishedTask:
    """A space of ``published_spaces``."""

    objectives, prior, ingredients = 1, False, Ingredients()

    def __init__(self, instance: Instance) -> None:
        self.name, self._instance, self._space = instance.name, instance, instance.space()

    @cached_property
    def start(self) -> tuple[float, ...]:
        return (float(self.known()[0, 0]),)

    def draw(self, rng: np.random.Generator, count: int) -> Sequence[Hashable]:
        return self._space.sample(rng, count)

    def evaluate(self, point: Point) -> Outcome:
        time = self._instance.time(self._space.point(point))
        return None if time is None else (time,)

    def domain(self, metric: str, prior: bool) -> ParameterSpace:
        return self._instance.space("spearman" if metric == "default" else metric)

    def encoding(self, categorical: bool) -> Encoding:
        return PublishedEncoding(self._instance, self._space, categorical)

    def known(self) -> Floats:
        return self._known

    @cached_property
    def _known(self) -> Floats:
        times = (self._instance.time(self._space.point(codes)) for codes in self._space.enumerate())
        return np.array([[t] for t in times if t is not None])


class PublishedEncoding:
    """Exponents of ordinals; the order as a category, or as its number among the legal ones."""

    rising = (("unroll", "chunk"),)

    def __init__(self, instance: Instance, space: ParameterSpace, categorical: bool) -> None:
        from optuna.distributions import CategoricalDistribution, IntDistribution

        self._space, self._categorical = space, categorical
        by_name = dict(zip(space.names, space.parameters, strict=True))
        free = {n: v for n, v in space.point(next(iter(space.enumerate()))).items() if n != "order"}
        free |= {"chunk": 4, "unroll": 2}
        self._orders = [o for o in itertools.permutations(range(5)) if self._codes({**free, "order": o}) is not None]
        self.distributions: dict[str, Any] = {
            n: IntDistribution(round(math.log2(p.value(0))), round(math.log2(p.value(p.count - 1))))
            for n, p in by_name.items() if n not in ("order", "sched") and p.count
        }  # fmt: skip
        self.distributions["sched"] = CategoricalDistribution((0, 1))
        texts = ["".join(map(str, o)) for o in self._orders]
        self.distributions["order"] = (
            CategoricalDistribution(texts) if categorical else IntDistribution(0, len(texts) - 1)
        )

    def params(self, point: Point) -> dict[str, Any]:
        values = self._space.point(point)
        found = {n: v if n == "sched" else round(math.log2(v)) for n, v in values.items() if n != "order"}
        order = tuple(values["order"])
        return {**found, "order": "".join(map(str, order)) if self._categorical else self._orders.index(order)}

    def point(self, params: dict[str, Any]) -> Point | None:
        found = {n: v if n == "sched" else 2**v for n, v in params.items() if n != "order"}
        order = params["order"]
        return self._codes({**found, "order": tuple(map(int, order)) if self._categorical else self._orders[order]})

    def _codes(self, values: dict[str, Any]) -> Point | None:
        try:
            return self._space.codes(values)
        except InputError:
            return None


class TableTask:
    """A mapping space whose every mapping was simulated; points are numbers of mappings."""

    prior, ingredients = True, MAPPING_INGREDIENTS

    def __init__(self, table: Table, objectives: int) -> None:
        self._table, self.objectives = table, objectives
        second = SECOND[table.name]
        self.name = table.name if objectives == 1 else f"{table.name} and {second.partition('_')[0]}"
        columns = [0, QUANTITIES.index(second)][:objectives]
        self._values, self._estimates = table.values[:, columns], table.estimates[:, columns]
        self.start = tuple(table.start[c] for c in columns)

    def draw(self, rng: np.random.Generator, count: int) -> Sequence[Hashable]:
        return rng.integers(self._table.size, size=count).tolist()

    def evaluate(self, point: Point) -> Outcome:
        values = self._values[point]
        return None if np.isnan(values[0]) else tuple(values.tolist())

    def domain(self, metric: str, prior: bool) -> TableDomain:
        own = "kendall" if metric == "default" else metric
        return TableDomain(self, self._table, own, self._estimates if prior else None)

    def encoding(self, categorical: bool) -> Encoding:
        return TableEncoding(self._table)

    def known(self) -> Floats:
        return self._values[~np.isnan(self._values[:, 0])]


class TableDomain:
    """What ``MappingDomain`` says of a mapping space, looked up."""

    def __init__(self, task: TableTask, table: Table, metric: str, estimates: Floats | None) -> None:
        self._task, self._table, self._estimates = task, table, estimates
        self._vectors, self.groups = table.vectors[metric], table.groups[metric]

    def sample(self, rng: np.random.Generator, count: int) -> Sequence[Hashable]:
        return self._task.draw(rng, count)

    def neighbours(self, point: int, rng: np.random.Generator) -> list[int]:
        every = self._table.near[point]
        if len(every) <= MOST_NEIGHBOURS:
            return every
        return [every[n] for n in sorted(rng.choice(len(every), MOST_NEIGHBOURS, replace=False))]

    def kind(self, point: int) -> Any:
        return self._table.params[point][0].get("rewrite")

    def few(self) -> None:
        """A mapping space is not listed."""

    def features(self, points: Sequence[int]) -> Floats:
        return self._vectors[list(points)]

    def estimates(self, points: Sequence[int]) -> Floats | None:
        return None if self._estimates is None else self._estimates[list(points)]

    def hints(self, rng: np.random.Generator) -> list[int]:
        """Where a descent over the estimates ends, as a study has one for every simulation (``tuner.descent``)."""
        if self._estimates is None:
            return []
        weights = rng.dirichlet(np.ones(self._task.objectives))
        scores = np.nan_to_num(np.log(self._estimates) @ weights, nan=np.inf)
        place = int(rng.integers(self._table.size))
        while (near := self._table.near[place]) and scores[step := min(near, key=lambda n: scores[n])] < scores[place]:
            place = step
        return [place] if np.isfinite(scores[place]) else []


class TableEncoding:
    """A parameter per knob: texts are categories, numbers (places of tiles, ranks of orders) integers. A knob that a
    point does not have stands at its first value. Parameters are followed as the space would ask for them."""

    rising = ()

    def __init__(self, table: Table) -> None:
        from optuna.distributions import CategoricalDistribution, IntDistribution

        self.distributions: dict[str, Any] = {
            knob: IntDistribution(min(values), max(values))
            if isinstance(values[0], int) and not knob.startswith("machine")
            else CategoricalDistribution(values)
            for knob, values in table.ranges.items()
        }
        first = {k: d.low if hasattr(d, "low") else d.choices[0] for k, d in self.distributions.items()}
        self._params = [{**first, **ways[0]} for ways in table.params]
        self._trie: dict[Any, Any] = {}
        for place, ways in enumerate(table.params):
            for params in ways:
                node = self._trie
                for knob, value in params.items():
                    node = node.setdefault(knob, {}).setdefault(value, {})
                node[None] = place

    def params(self, point: Point) -> dict[str, Any]:
        return self._params[point]

    def point(self, params: dict[str, Any]) -> Point | None:
        node = self._trie
        while None not in node:
            (knob,) = node
            if params[knob] not in node[knob]:
                return None
            node = node[knob][params[knob]]
        return node[None]
