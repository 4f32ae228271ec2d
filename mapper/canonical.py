"""Canonical JSON and content hashes of frozen dataclasses: the identity of every core value."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """``value`` as JSON types: dataclasses become objects of their fields, tuples become lists."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    raise TypeError(f"canonical JSON holds dataclasses, containers and scalars, not {type(value).__name__}")


def canonical_json(value: Any) -> str:
    """One text per value: sorted keys, no white space, shortest round-trip floats, no NaN."""
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def content_hash(value: Any) -> str:
    """sha256 hex digest of the canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()
