"""Transfer: a study begins with the best mappings of others of the same program, on other data or another machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from mapper.canonical import plain
from mapper.errors import IllegalMapping, StudyError, nearest
from mapper.mapping import Mapping
from mapper.space import MappingSpace
from studies.frames import front
from studies.records import StudyContents, TransferRecord
from studies.spec import ALL_RELATED
from studies.store import StudyStore
from tuner.problem import Problem
from tuner.sub_problem import within


def transfers(problem: Problem, store: StudyStore, own: str) -> tuple[TransferRecord, ...]:
    """Mappings with which the study called ``own`` begins, a batch of them at most: from the fronts of the studies that
    it names, by turns, from each evenly spread over its front; none twice. What has no like in the new space is left
    out.

    Raises StudyError for a study that is not there or has another program.
    """
    found: dict[str, TransferRecord] = {}
    columns = [_spread(contents, problem.spec.search.batch) for contents in _related(problem, store, own)]
    for each in _by_turns(columns):
        mapping = adapted(problem.space, Mapping.from_json(each.mapping))
        if mapping is not None and len(found) < problem.spec.search.batch:
            found.setdefault(mapping.key, dataclasses.replace(each, mapping=plain(mapping)))
    return tuple(found.values())


def adapted(space: MappingSpace, mapping: Mapping) -> Mapping | None:
    """The mapping in ``space``, None if it has no like there: the nearest values of machine knobs, tiles smaller than
    the extents of the data."""
    knobs = dict(mapping.machine)
    offered = sorted(space.limits.machine.items())
    machine = tuple((name, _nearest(knobs.get(name), values)) for name, values in offered)
    if mapping.variant not in space.programs:
        return None
    found = dataclasses.replace(within(mapping, space.workload), machine=machine)
    try:
        space.params(found)
    except (IllegalMapping, LookupError, ValueError):  # of a program that fits by its text, loops may not
        return None
    return None if space.violations(found) else found


def _related(problem: Problem, store: StudyStore, own: str) -> list[StudyContents]:
    program, named = str(problem.spec.program), problem.spec.search.transfer
    programs = {h.name: h.identity["program"] for h in store.studies() if h.name != own}
    related = [name for name, its_program in programs.items() if its_program == program]
    for name in () if named == (ALL_RELATED,) else named:
        if name in programs and name not in related:
            raise StudyError(
                f"search.transfer: study {name!r} must be another study of the same program, but it has "
                f"{programs[name]!r}"
            )
        if name not in related:
            what = "is this study itself" if name == own else f"is not in {store.name}"
            raise StudyError(f"search.transfer: {name!r} {what}, but must be another study.{nearest(name, related)}")
    return [store.load(name) for name in (related if named == (ALL_RELATED,) else named)]


def _spread(contents: StudyContents, count: int) -> list[TransferRecord]:
    """Up to ``count`` trials of the front: the ends and what lies evenly between them."""
    best = front(contents)
    steps = min(count, len(best))
    places = dict.fromkeys(round(n * (len(best) - 1) / max(1, steps - 1)) for n in range(steps))
    return [TransferRecord(contents.handle.name, best[n].number, best[n].mapping or {}) for n in places]


def _by_turns(columns: Sequence[Sequence[TransferRecord]]) -> Iterator[TransferRecord]:
    for row in zip_longest(*columns):
        yield from (each for each in row if each is not None)


def _nearest(value: Any, offered: Sequence[Any]) -> Any:
    """``value`` if it is offered, else the nearest number, else the first."""
    if value in offered:
        return value
    numbers = [x for x in offered if x is not None]
    return min(numbers, key=lambda x: abs(x - value)) if value is not None and numbers else offered[0]
