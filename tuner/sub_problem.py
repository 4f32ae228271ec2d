"""Sub-problem: a part of the data that is simulated in a fraction of the time, and what it says of the whole.

The part keeps some rows: of one index of a result, with every mode that must agree with it, each ``share``-th block of
``BLOCK`` neighbouring coordinates. What the model gets wrong there, it is likely to get wrong on the whole: how far
this carries is learned from mappings of which both were simulated.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mapper.mapping import Mapping
from mapper.program import Program
from mapper.tensor import SparseTensor
from mapper.workload import Workload
from studies.records import TrialRecord

BLOCK = 16
"""Neighbouring coordinates that are kept together, so that tiles and bands stay what they are."""

DOUBT = 0.01
"""Weight of the belief that the model's error is the same on the part and on the whole, as the square of a logarithm:
one mapping that was simulated on both and contradicts by a tenth outweighs it."""

Place = tuple[str, int]
"""A mode of a tensor."""


def sub_problem(workload: Workload, share: int) -> Workload | None:
    """One in ``share`` rows of ``workload``; None if no mode of a result can be cut: windows read it or it is short."""
    program = workload.program
    shapes = {name: workload.tensor(name).shape for name in (*program.inputs, *program.producers)}
    rows, fixed = _agreeing(program)
    for output in program.outputs:
        for mode, extent in enumerate(shapes[output]):
            cut = rows[output, mode]
            if extent >= BLOCK * share and not cut & fixed:
                kept = np.arange(extent) // BLOCK % share == share // 2
                tensors = {name: _cut(tensor, cut, name, kept) for name, tensor in workload.tensors.items()}
                return Workload(program, tensors)
    return None


def within(mapping: Mapping, workload: Workload) -> Mapping:
    """The mapping with every tile that is no smaller than its index cut to the next smaller power of two, if any."""
    extents = workload.variant(mapping.variant).extents
    loops = tuple(
        dataclasses.replace(
            own,
            tiles=tuple(
                (index, small)
                for index, tile in own.tiles
                for small in [tile if tile < sizes[index] else 1 << (max(1, sizes[index] - 1).bit_length() - 1)]
                if small < sizes[index]
            ),
        )
        for own, sizes in zip(mapping.loops, extents, strict=True)
    )
    return dataclasses.replace(mapping, loops=loops)


def _agreeing(program: Program) -> tuple[dict[Place, frozenset[Place]], frozenset[Place]]:
    """For every mode all modes that have its extent by the program, and the modes that windows read."""
    groups: list[set[Place]] = []
    fixed: set[Place] = set()
    for statement in program.statements:
        places: dict[str, set[Place]] = {}
        for access in (statement.target, *(() if statement.kind == "view" else statement.operands)):
            for mode, index in enumerate(access.indices):
                places.setdefault(index, set()).add((access.tensor, mode))
        for mode, window in enumerate(statement.windows):
            place = statement.operands[0].tensor, mode
            for index, _ in window.terms:
                places.setdefault(index, set()).add(place)
            fixed |= set() if window.plain else {place}
        groups += places.values()
    found: dict[Place, frozenset[Place]] = {}
    while groups:
        group = groups.pop()
        if joined := [other for other in groups if other & group]:
            groups = [other for other in groups if not other & group] + [group.union(*joined)]
        else:
            found |= dict.fromkeys(group, frozenset(group))
    return found, frozenset(fixed)


def _cut(tensor: SparseTensor, cut: frozenset[Place], name: str, kept: Any) -> SparseTensor:
    modes = [mode for mode in range(tensor.ndim) if (name, mode) in cut]
    if not modes:
        return tensor
    number = np.cumsum(kept) - 1
    stays = np.all([kept[tensor.coords[mode]] for mode in modes], axis=0)
    coords = tensor.coords[:, stays]
    coords[modes] = number[coords[modes]]
    shape = tuple(int(kept.sum()) if mode in modes else extent for mode, extent in enumerate(tensor.shape))
    return SparseTensor(shape, coords, tensor.values[stays])


def corrected(
    estimates: Sequence[dict[str, Any]], rows: Sequence[TrialRecord], objectives: Sequence[str]
) -> list[dict[str, Any]]:
    """The estimates that have a ``sample`` (objective -> [estimated, simulated] of the part) with what it says of the
    whole as ``corrected``; by least squares over the logarithms of the errors of ``rows`` that have both."""
    both = [(r.estimate or {}, r.values) for r in rows if r.state == "simulated" and r.values]
    both = [(estimate, values) for estimate, values in both if "sample" in estimate]
    found = [dict(estimate) for estimate in estimates]
    for objective in objectives:
        part = np.array([_error(*estimate["sample"][objective]) for estimate, _ in both])
        whole = np.array([_error(estimate[objective], (values or {})[objective]) for estimate, values in both])
        design = np.column_stack([np.ones(part.size), part])
        start = np.array([0.0, 1.0])  # the whole has the error of the part
        change = np.linalg.solve(design.T @ design + DOUBT * np.eye(2), design.T @ (whole - design @ start))
        shift, slope = (start + change).tolist()
        for estimate in found:
            if "sample" in estimate:
                error = shift + slope * _error(*estimate["sample"][objective])
                own = {objective: estimate[objective] * math.exp(error)}
                estimate["corrected"] = {**estimate.get("corrected", {}), **own}
    return found


def _error(estimated: float, measured: float) -> float:
    """Logarithm of what the model is wrong by; 0 where there is nothing to measure."""
    return math.log(measured / estimated) if measured > 0 and estimated > 0 else 0.0
