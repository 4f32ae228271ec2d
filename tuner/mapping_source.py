"""Which mapping of a problem a command means: one in a file, a trial of the stored study, or the default."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mapper.default_mapping import default_mapping
from mapper.errors import IllegalMapping, InputError, StudyError
from mapper.mapping import Mapping
from mapper.mapping_text import read_mapping
from studies.frames import best, why_no_winner
from studies.identity import identity_diff
from studies.records import BASELINE, StudyContents, TrialRecord
from studies.store import StudyStore
from tuner.problem import Problem

BEST = "best"


@dataclass(frozen=True, slots=True)
class NamedMapping:
    """A mapping and what to call it: its file, ``trial 12``, ``default``."""

    name: str
    mapping: Mapping


def find_mapping(problem: Problem, file: Path | None, trial: str | None) -> NamedMapping:
    """The mapping in ``file``, the stored ``trial`` (a number, -1 for the default one, or ``best``), or with neither
    the default mapping. Raises InputError for both or a file that cannot be read, StudyError for trials that the study
    does not have, IllegalMapping for a mapping that breaks rules on the machine."""
    if file is not None and trial is not None:
        raise InputError("a mapping comes from --mapping or from --trial, not from both")
    if file is not None:
        found = NamedMapping(str(file), read_mapping(file, problem.workload.program))
    elif trial is not None:
        record = stored_trial(problem, trial_number(trial))
        assert record.mapping is not None  # stored_trial refuses a trial without one
        found = NamedMapping(f"trial {record.number}", Mapping.from_json(record.mapping))
    else:
        found = NamedMapping("default", default_mapping(problem.space))
    if broken := problem.space.violations(found.mapping):
        raise IllegalMapping(broken, f"mapping {found.name} is illegal: ")
    return found


def trial_number(text: str) -> int | None:
    """Number of a trial; None for the best one."""
    try:
        return None if text == BEST else int(text)
    except ValueError:
        raise InputError(
            f"--trial must be a number, {BASELINE} for the default mapping, or {BEST}, got {text!r}"
        ) from None


def stored_trial(problem: Problem, number: int | None) -> TrialRecord:
    """The trial of that number in the stored study of ``problem``, which may be a fork, or the best one by the first
    objective. Raises StudyError if there is none, if it has no mapping that can be simulated, or if the study is of
    another specification."""
    store = StudyStore(problem.spec.storage, create=False)
    try:
        contents = store.load(store.find(problem.spec.name, problem.identity).name)
    finally:
        store.close()
    if differences := identity_diff(contents.handle.identity, problem.identity):
        lines = "\n  ".join(differences)
        raise StudyError(
            f"study {contents.handle.name!r} was made from another specification; tune it again:\n  {lines}"
        )
    return _record(contents, number)


def _record(contents: StudyContents, number: int | None) -> TrialRecord:
    name = contents.handle.name
    if number is None:
        found = best(contents, contents.objectives[0])
        if found is None:
            raise StudyError(f"study {name!r} has no best mapping: {why_no_winner(contents)}")
        return found
    trials = {t.number: t for t in (contents.baseline, *contents.trials) if t}
    if number not in trials:
        raise StudyError(f"study {name!r} has no trial {number}; it has {BASELINE} (default) to {max(trials)}")
    found = trials[number]
    if found.mapping is None or found.state == "rejected":
        raise StudyError(f"trial {number} of study {name!r} cannot be simulated: it is {found.state}")
    return found
