"""Place: which stored study a specification means, and what becomes of it.

A study and its forks have the same origin, the name that the specification asked for. What tells them apart is the
identity: the one that has it is meant, whatever its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mapper.canonical import content_hash
from mapper.errors import StudyError
from studies.identity import identity_diff
from studies.records import StudyHandle


@dataclass(frozen=True, slots=True)
class Place:
    """``name``: what the study is or will be called. ``resumed``: it is there and goes on. ``replaced``: what it takes
    the place of."""

    name: str
    resumed: StudyHandle | None = None
    replaced: StudyHandle | None = None


def place_of(
    studies: Sequence[StudyHandle], identity: Mapping[str, Any], name: str, *, restart: bool, fork: bool
) -> Place:
    """Where the study ``name`` with this identity goes among ``studies``.

    One of that name with another identity is refused with the differences, unless it is replaced (``restart``) or left
    alone (``fork``, under the first free name ``NAME-2``, ``NAME-3``, ...).
    """
    if restart and fork:
        raise StudyError("--restart and --fork exclude each other: one deletes the old study, the other keeps it")
    same = matching(studies, identity, name)
    old = same or next((h for h in studies if h.name == name), None)
    if same and not restart:
        return Place(same.name, resumed=same)
    if old and restart:
        return Place(old.name, replaced=old)
    if old and not fork:
        raise _changed(old, identity, [h.name for h in studies if h.origin == name and h.name != name])
    taken = {h.name for h in studies}
    return Place(next(n for n in (name, *(f"{name}-{k}" for k in range(2, len(taken) + 3))) if n not in taken))


def matching(studies: Sequence[StudyHandle], identity: Mapping[str, Any], name: str) -> StudyHandle | None:
    """The study ``name``, or a fork of it, that has this identity."""
    digest = content_hash(identity)
    return next((h for h in studies if name in (h.name, h.origin) and h.identity_hash == digest), None)


def _changed(old: StudyHandle, identity: Mapping[str, Any], forks: Sequence[str]) -> StudyError:
    lines = "\n  ".join(identity_diff(old.identity, identity))
    others = f" Its forks {', '.join(forks)} differ, too, and stay." if forks else ""
    return StudyError(
        f"study {old.name!r} exists with another specification (old -> new):\n  {lines}\n"
        f"Use --restart to delete it and start anew, --fork to keep it and start another, or give the study a new "
        f"name.{others}"
    )
