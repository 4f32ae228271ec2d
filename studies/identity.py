"""How two study identities differ, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mapper.canonical import canonical_json


def identity_diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """One line per differing value, as ``search.seed: 0 -> 1``, sorted by path."""
    before, after = dict(_leaves(old)), dict(_leaves(new))
    paths = sorted(p for p in before.keys() | after.keys() if before.get(p) != after.get(p))
    return [f"{path}: {before.get(path, 'absent')} -> {after.get(path, 'absent')}" for path in paths]


def _leaves(value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for key, below in value.items():
        if isinstance(below, Mapping) and below:
            yield from _leaves(below, f"{path}{key}.")
        else:
            yield f"{path}{key}", canonical_json(below)
