"""StoredFormat: what level kinds and value type make of a tensor, by its data alone."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mapper.dtypes import DTYPES, FP32, LARGEST
from mapper.formats import block_of, kinds_problem, pads, slots_of, writable
from mapper.mapping import Mapping
from mapper.program import pattern_sensitive
from mapper.regions import stored_tensors
from mapper.violation import Violation
from mapper.workload import Workload

MOST_POSITIONS = 2**28
"""Positions, stored or not, of a level that the simulator's host holds."""


class StoredFormat(NamedTuple):
    """``broken``: rules that forbid it; ``sized``: values are stored in blocks, or so many of every few positions;
    ``placed``: whether it is legal depends on how it is walked, too; ``zeros``: places may be left empty."""

    broken: tuple[Violation, ...]
    sized: bool
    placed: bool
    zeros: bool


def stored_formats(workload: Workload, mapping: Mapping) -> dict[str, StoredFormat]:
    """The format of every tensor that a mapping stores."""
    kinds, dtypes, found = dict(mapping.formats), dict(mapping.dtypes), dict[str, StoredFormat]()
    for tensor in stored_tensors(workload.program, mapping.cuts):
        key = (tensor, kinds.get(tensor), dtypes.get(tensor, FP32))
        if key not in workload.known_formats:
            workload.known_formats[key] = _stored_format(workload, *key)
        found[tensor] = workload.known_formats[key]
    return found


def _stored_format(workload: Workload, tensor: str, kinds: tuple[str, ...] | None, dtype: str) -> StoredFormat:
    broken = (*_kinds_violations(workload, tensor, kinds), *_dtype_violations(workload, tensor, dtype))
    if broken or not kinds:
        return StoredFormat(broken, False, False, False)
    sized, data = any(block_of(kind) or slots_of(kind) for kind in kinds), workload.tensor(tensor)
    slots = slots_of(kinds[-1])
    full = 1.0 if slots is None else slots[0] / slots[1]  # where all places are taken
    large = math.prod(data.shape) > MOST_POSITIONS
    return StoredFormat((), sized, sized or large, pads(kinds) and data.density < full)


def _kinds_violations(workload: Workload, tensor: str, kinds: tuple[str, ...] | None) -> tuple[Violation, ...]:
    data, program = workload.tensor(tensor), workload.program
    if kinds is None or len(kinds) != data.ndim:
        return (Violation("format", f"{kinds}", f"{data.ndim} level kinds", tensor),)
    text = ",".join(kinds)
    if problem := kinds_problem(kinds):
        return (Violation("format", text, problem, tensor),)
    if tensor in program.producers and not writable(kinds):
        limit = "without rle and N:M levels, which cannot be written as entries come"
        return (Violation("format-of-result", text, limit, tensor),)
    if pads(kinds) and tensor in pattern_sensitive(program) and data.density < 1.0:
        limit = "a format that stores entries alone, as what is computed from it tells zeros from nothing"
        return (Violation("padded-pattern", text, limit, tensor),)
    return ()


def _dtype_violations(workload: Workload, tensor: str, dtype: str) -> tuple[Violation, ...]:
    if dtype not in DTYPES:
        return (Violation("dtype", dtype, f"one of {', '.join(DTYPES)}", tensor),)
    if dtype not in LARGEST:
        return ()
    values = np.abs(workload.tensor(tensor).values)
    largest = float(values[np.isfinite(values)].max(initial=0.0))
    if largest <= LARGEST[dtype]:
        return ()
    return (Violation("dtype-range", f"values up to {largest:g}", f"at most {LARGEST[dtype]:g} for {dtype}", tensor),)
