"""Transfer: a study begins with the best mappings of others of the same program, on other data or another machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from mapper.canonical import plain
from mapper.errors import IllegalMapping, StudyError
from mapper.mapping import Mapping
from mapper.space import MappingSpace
from studies.frames import front
from studies.records import StudyContents, StudyHandle, TransferRecord
from studies.spec import ALL_RELATED
from studies.store import StudyStore
from tuner.problem import Problem
from tuner.sub_problem import within


def transfers(problem: Problem, store: StudyStore, study: StudyHandle) -> tuple[TransferRecord, ...]:
    """Mappings with which ``study`` begins, a batch of them at most: from the fronts of the studies that it names, by
    turns, from each evenly spread over its front; none twice. What has no like in the new space is left out.

    Raises StudyError for a study that is not there or has another program.
    """
    found: dict[str, TransferRecord] = {}
    columns = [_spread(contents, problem.spec.search.batch) for contents in _related(problem, store, study)]
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


def _related(problem: Problem, store: StudyStore, study: StudyHandle) -> list[StudyContents]:
    program, named = str(problem.spec.program), problem.spec.search.transfer
    if named == (ALL_RELATED,):
        handles = [h for h in store.studies() if h.identity["program"] == program and h.id != study.id]
    else:
        handles = [store.find(name) for name in named]
    for handle in handles:
        if handle.identity["program"] != program or handle.id == study.id:
            raise StudyError(
                f"search.transfer: study {handle.name!r} must be another study of the same program, but it has "
                f"{handle.identity['program']!r}"
            )
    return [store.load(handle.name) for handle in handles]


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
