"""Sparse efficiency gap: how much of the work that sparsity saves is not saved in time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mapper.errors import InputError

from .result import Profile

if TYPE_CHECKING:
    from mapper.machine import Machine
    from mapper.workload import Workload


@dataclass(frozen=True, slots=True)
class Efficiency:
    """``dense_multiplies`` of the program on dense tensors, ``useful_multiplies`` of the run (both operands non-zero),
    ``dense_cycles`` at ``peak_per_cycle`` multiplies per cycle, and the run's ``cycles``."""

    dense_multiplies: int
    useful_multiplies: int
    peak_per_cycle: int
    cycles: int

    @property
    def dense_cycles(self) -> float:
        """Cycles of the dense program at peak."""
        return self.dense_multiplies / self.peak_per_cycle

    @property
    def work_saved(self) -> float:
        """Dense over useful multiplies: the speed-up that sparsity allows (infinite without useful ones)."""
        return self.dense_multiplies / self.useful_multiplies if self.useful_multiplies else math.inf

    @property
    def speedup(self) -> float:
        """Dense cycles over cycles: the speed-up there is, against a dense machine at its peak."""
        return self.dense_cycles / self.cycles

    @property
    def gap(self) -> float:
        """``work_saved / speedup``: 1 is a machine at peak on useful work alone, 10 one that is ten times slower."""
        return self.work_saved / self.speedup


def dense_multiplies(workload: Workload) -> int:
    """Multiplications of the program if every tensor were dense: per contraction, one less than its operands for every
    point of its loops."""
    return sum(
        (len(statement.operands) - 1) * math.prod(extents[i] for i in statement.indices)
        for statement, extents in zip(workload.program.statements, workload.extents, strict=True)
        if statement.kind == "contract"
    )


def peak_multiplies_per_cycle(machine: Machine) -> int:
    """One multiply per alu unit and cycle. Raises ``InputError`` for a machine without a budget of alu units."""
    alus = (machine.units or {}).get("alu", 0)
    if alus < 1:
        raise InputError(
            f"machine {machine.name!r} must say how many alu units it has to have a peak, got units {machine.units}"
        )
    return alus


def sparse_efficiency(profile: Profile, dense: int, peak_per_cycle: int) -> Efficiency:
    """Efficiency of a run whose program has ``dense`` multiplies (:func:`dense_multiplies`) on a machine that does
    ``peak_per_cycle`` of them at best (:func:`peak_multiplies_per_cycle`).

    Raises ``InputError`` for a run that did not finish, took no cycle, or has nothing to multiply.
    """
    if profile.status != "done" or profile.cycles < 1:
        raise InputError(f"efficiency needs a finished run, got status {profile.status!r}, {profile.cycles} cycles")
    if dense < 1 or peak_per_cycle < 1:
        raise InputError(f"dense multiplies and peak must be at least 1, got {dense} and {peak_per_cycle}")
    return Efficiency(dense, profile.effectual_multiplies, peak_per_cycle, profile.cycles)
