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
    """``load_workloads`` of a study with one input, else its first."""
    return next(iter(load_workloads(spec, in_memory).values()))


def load_workloads(spec: StudySpec, in_memory: Mapping[str, Any] | None = None) -> dict[str, Workload]:
    """Program and data of a study, by input. ``in_memory`` holds the tensors that the specification does not describe,
    by ``TensorSource.label``.

    Raises InputError, placed in the specification, for data that cannot be read or do not fit the program.
    """
    given = {**spec.given, **(in_memory or {})}
    loaded: dict[str, SparseTensor] = {}
    found = {}
    for name, sources in spec.inputs:
        for source in sources:
            if source.label not in loaded:
                loaded[source.label] = _load(spec, source, given.get(source.label))
        found[name] = Workload(spec.program, {s.name: loaded[s.label] for s in sources})
        try:
            _ = found[name].extents  # binds every index, which checks the shapes against each other
        except InputError as error:
            place: Place = ("inputs", name) if name else ("program",)
            raise spec.document.error(place, str(error), key=bool(name)) from error
    return found


def dataset_records(spec: StudySpec, workloads: Mapping[str, Workload]) -> tuple[DatasetRecord, ...]:
    """What the study keeps of its inputs; a tensor that only one of them has is called after both."""
    records = {
        s.label: DatasetRecord(s.label, tensor.key, _origin(s), tensor.shape, tensor.nnz, tensor.notes)
        for name, sources in spec.inputs
        for s in sources
        for tensor in (workloads[name].tensors[s.name],)
    }
    return tuple(records.values())


def _load(spec: StudySpec, source: TensorSource, held: Any) -> SparseTensor:
    place: Place = (*source.place, "file" if source.file else "random")
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
        raise InputError(f"tensor {source.label!r} is to be handed over in memory, got none")
    return SparseTensor.from_any(held)


def _origin(source: TensorSource) -> str:
    if source.file is not None:
        return source.file + (f"[{source.member}]" if source.member else "")
    if source.kind is None:
        return source.model or "memory"
    return f"{source.kind}({', '.join(f'{k}={list(v) if isinstance(v, tuple) else v}' for k, v in source.params)})"
