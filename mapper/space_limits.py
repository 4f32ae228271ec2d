"""SpaceLimits: what a specification pins, limits or forbids in a mapping space."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mapper.errors import InputError, nearest
from mapper.formats import Format
from mapper.workload import Workload

Scalar = int | float | None


@dataclass(frozen=True, slots=True)
class SpaceLimits:
    """What a specification pins, limits or forbids; what is absent is searched.

    ``formats``: choices per tensor. ``orders``: choices per target tensor. ``tiles``: extents per index name
    (0: not tiled). ``fuse``: per computed tensor. ``machine``: values per machine field.
    """

    formats: dict[str, tuple[Format, ...]] = field(default_factory=dict)
    orders: dict[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    tiles: dict[str, tuple[int, ...]] = field(default_factory=dict)
    fuse: dict[str, bool] = field(default_factory=dict)
    max_lanes: int = 8
    parallel_indices: tuple[str, ...] | None = None
    residency: tuple[str, ...] = ("none", "lru", "keep")
    machine: dict[str, tuple[Scalar, ...]] = field(default_factory=dict)


def check_names(workload: Workload, limits: SpaceLimits) -> None:
    """Raises InputError, with the nearest valid name, for anything in ``limits`` that the program does not have."""
    program = workload.program
    targets = {s.target.tensor: s for s in program.statements}
    tensors = {*program.inputs, *targets}
    indices = {i for s in program.statements for i in s.indices}
    known: list[tuple[str, Iterable[str], Iterable[str]]] = [
        ("format", limits.formats, tensors),
        ("order", limits.orders, targets),
        ("tile", limits.tiles, indices),
        ("fuse", limits.fuse, {e.tensor for e in program.edges}),
        ("parallel index", limits.parallel_indices or (), indices),
    ]
    for what, names, valid in known:
        for name in names:
            if name not in valid:
                raise InputError(f"{what} given for unknown name {name!r}.{nearest(name, valid)}")
    for tensor, orders in limits.orders.items():
        for order in orders:
            if sorted(order) != sorted(targets[tensor].indices):
                want = ", ".join(targets[tensor].indices)
                raise InputError(f"order of {tensor} must be a permutation of {want}, got {', '.join(order)}")
