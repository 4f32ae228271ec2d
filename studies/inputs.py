"""The data of a study: tensors read from files, generated, or handed over in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mapper.datasets import find_data, load_tensor
from mapper.document import Place
from mapper.errors import InputError
from mapper.seeded_draws import revalued
from mapper.synthetic import generate
from mapper.tensor import SparseTensor
from mapper.workload import Workload
from studies.records import DatasetRecord
from studies.spec import StudySpec, TensorSource


def load_workload(spec: StudySpec, in_memory: Mapping[str, Any] | None = None) -> Workload:
    """Program and data of a study. ``in_memory`` holds the tensors that the specification does not describe.

    Raises InputError, placed in the specification, for data that cannot be read or do not fit the program.
    """
    given = {**spec.given, **(in_memory or {})}
    tensors = {s.name: _load(spec, s, given.get(s.name)) for s in spec.sources}
    workload = Workload(spec.program, tensors)
    try:
        _ = workload.extents  # binds every index, which checks the shapes against each other
    except InputError as error:
        raise spec.document.error(("program",), str(error)) from error
    return workload


def dataset_records(spec: StudySpec, workload: Workload) -> tuple[DatasetRecord, ...]:
    """What the study keeps of its inputs."""
    return tuple(
        DatasetRecord(s.name, tensor.key, _origin(s), tensor.shape, tensor.nnz, tensor.notes)
        for s in spec.sources
        for tensor in (workload.tensors[s.name],)
    )


def _load(spec: StudySpec, source: TensorSource, held: Any) -> SparseTensor:
    place: Place = ("tensors", source.name, "file" if source.file else "random")
    try:
        if source.file is not None:
            path = find_data(source.file, spec.folder)
            tensor = load_tensor(path, duplicates=source.duplicates, member=source.member)
            return tensor if source.values_seed is None else revalued(tensor, source.values_seed)
        if source.kind is not None:
            return generate(source.kind, **dict(source.params))
    except InputError as error:
        raise spec.document.error(place, str(error)) from error
    if held is None:
        raise InputError(f"tensor {source.name!r} is to be handed over in memory, got none")
    return SparseTensor.from_any(held)


def _origin(source: TensorSource) -> str:
    if source.file is not None:
        return source.file + (f"[{source.member}]" if source.member else "")
    if source.kind is None:
        return source.model or "memory"
    return f"{source.kind}({', '.join(f'{k}={list(v) if isinstance(v, tuple) else v}' for k, v in source.params)})"
