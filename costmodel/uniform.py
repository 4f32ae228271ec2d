"""Level L0: what shape and number of entries alone say, entries being spread uniformly (Sparseloop, MICRO 2022)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from costmodel.views import View
from mapper.program import ZERO_PRESERVING, Statement
from mapper.workload import Workload


@dataclass(frozen=True, slots=True)
class UniformStatistics:
    """Expected node counts of a tensor with ``nnz`` entries (a real number: it may itself be an expectation)."""

    shape: tuple[int, ...]
    nnz: float

    @property
    def key(self) -> str:
        """Identity for memoisation."""
        return f"uniform {self.shape} {self.nnz!r}"

    @property
    def effectual(self) -> UniformStatistics:
        """Entries that are not zero: all of them."""
        return self

    def cells(self, view: View) -> int:
        """Positions that a view has."""
        return math.prod(-(-self.shape[m] // g) for m, g in view)

    def count(self, view: View) -> float:
        """Expected number of nodes."""
        return self.cells(view) * self.density(view)

    def density(self, view: View) -> float:
        """Chance that a cell holds an entry: 1 - (1 - d)^m for density d and m positions per cell."""
        positions, cells = math.prod(self.shape), self.cells(view)
        if not positions or not cells:
            return 0.0
        fill = min(1.0, self.nnz / positions)
        return 1.0 if fill == 1.0 else -math.expm1(positions / cells * math.log1p(-fill))


def expected_entries(workload: Workload) -> dict[str, float]:
    """Expected number of entries of every tensor, computed ones from their operands' densities."""
    found = {name: float(t.nnz) for name, t in workload.tensors.items()}
    for number, statement in enumerate(workload.program.statements):
        cells = math.prod(workload.shape(statement.target, number))
        found[statement.target.tensor] = cells * _density(workload, number, statement, found)
    return found


def _density(workload: Workload, number: int, statement: Statement, entries: dict[str, float]) -> float:
    fills = []
    for access in statement.operands:
        positions = math.prod(workload.shape(access, number))
        fills.append(min(1.0, entries[access.tensor] / positions) if positions else 0.0)
    if statement.kind == "view":  # but for the edges, where windows are emptier
        return fills[0]
    if statement.kind == "map":
        return fills[0] if statement.function in ZERO_PRESERVING else 1.0
    if statement.kind == "add":
        return 1.0 - math.prod(1.0 - f for f in fills)
    steps = math.prod(workload.extents[number][i] for i in statement.reduced)
    hit = math.prod(fills)
    return 1.0 if hit == 1.0 and steps else float(-np.expm1(steps * np.log1p(-hit))) if hit < 1.0 else 0.0
