"""Violation: a broken rule as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """What was measured, what the limit is, and where."""

    rule: str
    measured: str
    limit: str
    where: str

    def __str__(self) -> str:
        return f"{self.rule} at {self.where}: {self.measured} (must be {self.limit})"
