"""Measurements: cycles that mappings took on a real machine, to compare simulated ones with."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mapper.errors import InputError
from mapper.mapping import Mapping
from mapper.workload import Workload


@dataclass(frozen=True, slots=True)
class Measurement:
    """``cycles`` that ``mapping`` took for ``workload`` on the real machine."""

    workload: Workload
    mapping: Mapping
    cycles: int


def read_measurements(path: Path, workload: Workload) -> list[Measurement]:
    """Measurements from a JSON file: a list of objects with ``mapping``, as studies store it, and ``cycles``.

    Raises InputError if the file is anything else, naming the entry.
    """
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} must be a readable JSON file: {error}") from None
    if not isinstance(entries, list):
        raise InputError(f"{path} must hold a list of measurements, got {type(entries).__name__}")
    return [_measurement(f"{path}, measurement {n}", entry, workload) for n, entry in enumerate(entries)]


def _measurement(place: str, entry: Any, workload: Workload) -> Measurement:
    if not isinstance(entry, dict) or set(entry) != {"mapping", "cycles"}:
        got = sorted(entry) if isinstance(entry, dict) else type(entry).__name__
        raise InputError(f"{place} must be an object with 'mapping' and 'cycles', got {got}")
    if isinstance(entry["cycles"], bool) or not isinstance(entry["cycles"], int):
        raise InputError(f"{place}: 'cycles' must be an integer, got {entry['cycles']!r}")
    try:
        mapping = Mapping.from_json(entry["mapping"])
    except (KeyError, IndexError, TypeError, ValueError) as error:
        wrong = f"{type(error).__name__}: {error}"
        raise InputError(f"{place}: 'mapping' must be as studies store it, but reading it gave {wrong}") from None
    return Measurement(workload, mapping, entry["cycles"])
