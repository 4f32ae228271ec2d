"""Problem: a specification with its data loaded, ready to be searched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mapper.datasets import find_data, load_tensor
from mapper.errors import InputError
from mapper.space import MappingSpace, SpaceLimits
from mapper.synthetic import generate
from mapper.tensor import SparseTensor
from mapper.workload import Workload
from studies.spec import StudySpec, TensorSource


@dataclass(frozen=True, eq=False)
class Problem:
    """What one study searches: the space, what counts as good, and how long to look."""

    spec: StudySpec
    workload: Workload
    space: MappingSpace

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that decides the rows of the study, data included."""
        return self.spec.identity({name: t.key for name, t in self.workload.tensors.items()})


def load_problem(spec: StudySpec, tensors: dict[str, SparseTensor] | None = None) -> Problem:
    """Reads or generates every input of ``spec`` (those in ``tensors`` are taken as they are) and opens the space.

    Raises InputError with the spec's file, line and column where data cannot be had or do not fit the program.
    """
    given = tensors or {}
    data = {s.name: given[s.name] if s.name in given else _load(spec, s) for s in spec.sources}
    workload = Workload(spec.program, data)
    try:
        extents = workload.extents
    except InputError as error:
        raise spec.document.error(("tensors",), str(error)) from error
    del extents
    return Problem(spec, workload, MappingSpace(workload, spec.machine, space_limits(spec)))


def space_limits(spec: StudySpec) -> SpaceLimits:
    """The mapping constraints of a specification as limits of the space."""
    given, default = spec.mapping, SpaceLimits()
    return SpaceLimits(
        formats=dict(spec.formats),
        orders=dict(given.orders),
        tiles={index: tuple(t or 0 for t in tiles) for index, tiles in given.tiles},
        fuse=dict(given.fuse),
        max_lanes=given.max_lanes or default.max_lanes,
        parallel_indices=given.parallel,
        residency=given.residency or default.residency,
        machine=dict(spec.machine_knobs),
    )


def _load(spec: StudySpec, source: TensorSource) -> SparseTensor:
    try:
        if source.file is not None:
            return load_tensor(find_data(source.file, spec.folder), duplicates=source.duplicates)
        return generate(str(source.kind), **dict(source.params))
    except InputError as error:
        place = ("tensors", source.name, "file" if source.file is not None else "random")
        raise spec.document.error(place, str(error)) from error
