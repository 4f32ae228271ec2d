"""Problem: a specification with its data loaded, ready to be searched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from costmodel import MODEL_VERSION
from hwsim import SIMULATOR_VERSION
from mapper.space import MappingSpace
from mapper.workload import Workload
from studies.inputs import load_workloads
from studies.spec import StudySpec


@dataclass(frozen=True, eq=False)
class Problem:
    """What one study searches: the space, what counts as good, how long to look. ``workload``: of the first input."""

    spec: StudySpec
    workload: Workload
    space: MappingSpace

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that decides the rows of the study: specification, data, versions of model and simulator."""
        versions = {"model": MODEL_VERSION, "simulator": SIMULATOR_VERSION}
        keys = {n: {name: t.key for name, t in w.tensors.items()} for n, w in self.space.inputs.items()}
        return {**self.spec.identity(keys), "versions": versions}


def load_problem(spec: StudySpec, in_memory: Mapping[str, Any] | None = None) -> Problem:
    """Reads or generates every input of ``spec`` and opens the space; errors are placed in the specification."""
    inputs = load_workloads(spec, in_memory)
    workload = next(iter(inputs.values()))
    return Problem(spec, workload, MappingSpace(workload, spec.machine, spec.space, inputs))
