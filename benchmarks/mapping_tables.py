"""Tables of whole mapping spaces: every mapping simulated, estimated, with its features and neighbours.

    python benchmarks/mapping_tables.py [--wide] [--tables FOLDER]

A table is built once and kept as ``FOLDER/<name>-<hash of its definition and of the versions>.jsonl``, a line per
mapping; what was interrupted goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from mapping_cases import CASES, CYCLES, TOKENS, WIDE

from hwsim import Limits
from mapper.canonical import content_hash
from mapper.default_mapping import default_mapping
from mapper.errors import IllegalMapping
from mapper.features import PERMUTATIONS, FeatureMap
from mapper.mapping import Mapping
from mapper.space import MappingSpace
from studies.spec import spec_from_values
from tuner.mapping_domain import MappingDomain
from tuner.problem import Problem, load_problem
from tuner.work import Worker

FOLDER = Path.home() / ".cache" / "sparseloom" / "tables"
QUANTITIES = ("latency_cycles", "traffic_bytes", "energy_pj")

Floats = npt.NDArray[np.float64]


@dataclass(slots=True)
class _Path:
    """A chooser that follows a list of positions among the choices, then takes the first of each."""

    places: list[int]
    widths: list[int] = field(default_factory=list)
    params: dict[str, Any] = field(default_factory=dict)

    def categorical(self, name: str, choices: Sequence[Any]) -> Any:
        depth = len(self.widths)
        if depth == len(self.places):
            self.places.append(0)
        self.widths.append(len(choices))
        self.params[name] = choices[self.places[depth]]
        return self.params[name]

    def integer(self, name: str, low: int, high: int) -> int:
        return int(self.categorical(name, range(low, high + 1)))

    def next(self) -> list[int] | None:
        """The positions of the next path, depth first."""
        places = self.places[: len(self.widths)]
        while places and places[-1] + 1 == self.widths[len(places) - 1]:
            places.pop()
        return [*places[:-1], places[-1] + 1] if places else None


def listed(space: MappingSpace) -> Iterator[tuple[dict[str, Any], Mapping]]:
    """Every way of answering the questions of ``space`` that makes a legal mapping."""
    places: list[int] | None = []
    while places is not None:
        path = _Path(places)
        try:
            mapping = space.choose(path)
        except IllegalMapping:
            pass
        else:
            if not space.violations(mapping):
                yield path.params, mapping
        places = path.next()


@dataclass(frozen=True, eq=False)
class Table:
    """``params``: answers that make each mapping, all ways of it; ``values``: float64[mappings, quantities], NaN where
    the simulation failed, for the reason in ``failures``; ``estimates``: of the model, NaN where it predicts more
    tokens than the limit; ``vectors``: features by metric of orders; ``near``: neighbours; ``start``: the values of
    the default mapping."""

    name: str
    params: list[list[dict[str, Any]]]
    values: Floats
    failures: list[str | None]
    estimates: Floats
    vectors: dict[str, Floats]
    groups: dict[str, npt.NDArray[np.int64]]
    near: list[list[int]]
    start: tuple[float, ...]
    ranges: dict[str, tuple[Any, ...]]

    @property
    def size(self) -> int:
        return len(self.values)


def load(name: str, folder: Path = FOLDER) -> Table:
    """The table of a case, built as far as it is not there yet."""
    problem = load_problem(spec_from_values((CASES | WIDE)[name], folder=Path("."), name=name))
    path = folder / f"{name}-{content_hash(_identity(problem))[:16]}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = _finished(path)
    if not lines or "end" not in lines[-1]:
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        with path.open("a") as file:
            for line in _Builder(problem).lines(len(lines)):
                file.write(f"{json.dumps(line)}\n")
        lines = _finished(path)
    return _table(name, problem.space, lines)


def _identity(problem: Problem) -> dict[str, Any]:
    """What decides a table, which how a study searches does not."""
    kept = ("program", "data", "machine", "space", "versions")
    return {**{key: problem.identity[key] for key in kept}, "cycles": CYCLES, "tokens": TOKENS}


def _finished(path: Path) -> list[dict[str, Any]]:
    lines = []
    for text in path.read_text().splitlines() if path.exists() else ():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:  # cut short
            break
    return lines


class _Builder:
    """Works out the lines of a table."""

    def __init__(self, problem: Problem) -> None:
        self._space, self._worker = problem.space, Worker(problem.space, "mean")
        self._features = {
            m: MappingDomain(problem.space, QUANTITIES, FeatureMap(problem.space, m), None) for m in PERMUTATIONS
        }
        self._start = self._worker.simulate(default_mapping(problem.space), Limits())
        assert self._start.summary is not None and self._start.failure is None
        self._tokens = TOKENS * self._start.summary["tokens"]
        self._limits = Limits(max_cycles=int(CYCLES * self._start.values[QUANTITIES[0]]), max_tokens=self._tokens)

    def lines(self, done: int) -> Iterator[dict[str, Any]]:
        """Those after the first ``done``; the last says that there are no more."""
        ways: dict[Mapping, list[dict[str, Any]]] = {}
        for params, mapping in listed(self._space):
            ways.setdefault(mapping, []).append(params)
        for n, (mapping, params) in enumerate(ways.items()):
            if n >= done:
                yield self._line(mapping, params)
        yield {"end": [self._start.values[q] for q in QUANTITIES]}

    def _line(self, mapping: Mapping, params: list[dict[str, Any]]) -> dict[str, Any]:
        screening = self._worker.estimate(mapping)
        if screening.estimate is None:
            return {"key": mapping.key, "screened": screening.verdicts[0].rule}
        found = self._worker.simulate(mapping, self._limits)
        forbidden = screening.estimate["tokens"] > self._tokens
        return {
            "key": mapping.key,
            "params": params,
            "failure": found.failure,
            "values": None if found.failure else [found.values[q] for q in QUANTITIES],
            "estimate": None if forbidden else [float(screening.estimate[q]) for q in QUANTITIES],
            "near": [m.key for m in self._space.neighbours(mapping)],
            "features": {m: domain.features([mapping])[0].tolist() for m, domain in self._features.items()},
        }


def _table(name: str, space: MappingSpace, lines: Sequence[dict[str, Any]]) -> Table:
    rows = [line for line in lines if "params" in line]
    place = {row["key"]: n for n, row in enumerate(rows)}
    nothing = [np.nan] * len(QUANTITIES)
    ranges: dict[str, dict[Any, None]] = {}
    for row in rows:
        for params in row["params"]:
            for knob, value in params.items():
                ranges.setdefault(knob, {})[value] = None
    metrics = {m: MappingDomain(space, QUANTITIES, FeatureMap(space, m), None) for m in PERMUTATIONS}
    return Table(
        name,
        [row["params"] for row in rows],
        np.array([row["values"] or nothing for row in rows], np.float64),
        [row["failure"] for row in rows],
        np.array([row["estimate"] or nothing for row in rows], np.float64),
        {m: np.array([row["features"][m] for row in rows], np.float64) for m in metrics},
        {m: domain.groups for m, domain in metrics.items()},
        [[place[key] for key in row["near"] if key in place] for row in rows],
        tuple(lines[-1]["end"]),
        {knob: tuple(values) for knob, values in ranges.items()},
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, default=FOLDER)
    parser.add_argument("--wide", action="store_true", help="the wider spaces")
    given = parser.parse_args()
    for name in WIDE if given.wide else CASES:
        started = time.perf_counter()
        table = load(name, given.tables)
        good = table.values[~np.isnan(table.values[:, 0]), 0]
        reasons = Counter(f.split(": ")[1] for f in table.failures if f)
        print(
            f"{name:<18}{table.size:>6} mappings, {100 * (1 - len(good) / table.size):4.1f} % fail {dict(reasons)}, "
            f"least {good.min():.0f} median {np.median(good):.0f} cycles, default {table.start[0]:.0f}; "
            f"{time.perf_counter() - started:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
