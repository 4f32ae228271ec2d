"""SpaceLimits: what a specification pins, limits or forbids in a mapping space."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mapper.errors import InputError, nearest
from mapper.formats import Format
from mapper.mapping import PARTITIONS
from mapper.program import Program
from mapper.rewrites import rewriting, variants
from mapper.workload import Workload

Scalar = int | float | None


@dataclass(frozen=True, slots=True)
class SpaceLimits:
    """What a specification pins, limits or forbids; what is absent is searched.

    ``formats``: choices per tensor. ``orders``: choices per target tensor. ``tiles``: extents per index name
    (0: not tiled). ``fuse``: per computed tensor, ``fuse_others`` for the rest: fused or cut wherever regions allow.
    ``partitions``: how lanes share coordinates. ``rewrites``: kinds of rewriting that are searched
    (``rewrites.KINDS``); ``variants``: labels of rewritings, instead of all of these kinds. ``joins``: how products
    meet dense levels (``locating.JOINS``). ``machine``: values per machine field.
    """

    formats: dict[str, tuple[Format, ...]] = field(default_factory=dict)
    orders: dict[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    tiles: dict[str, tuple[int, ...]] = field(default_factory=dict)
    fuse: dict[str, bool] = field(default_factory=dict)
    fuse_others: bool | None = None
    rewrites: tuple[str, ...] = ("products", "windows")
    variants: tuple[str, ...] | None = None
    partitions: tuple[str, ...] = PARTITIONS
    max_lanes: int = 8
    parallel_indices: tuple[str, ...] | None = None
    residency: tuple[str, ...] = ("none", "lru", "keep")
    joins: tuple[str, ...] = ("locate",)
    machine: dict[str, tuple[Scalar, ...]] = field(default_factory=dict)

    def chosen_variants(self, program: Program) -> tuple[str, ...]:
        """Labels of the rewritings that are searched. Raises InputError for labels that the program does not have."""
        if self.variants is None:
            return tuple(variants(program, self.rewrites))
        for label in self.variants:
            rewriting(program, label)
        return self.variants


def check_names(workload: Workload, limits: SpaceLimits) -> None:
    """Raises InputError, with the nearest valid name, for anything in ``limits`` that the program does not have."""
    programs = [workload.variant(label).program for label in limits.chosen_variants(workload.program)]
    targets = {s.target.tensor: s for p in reversed(programs) for s in p.statements}
    tensors = {*workload.program.inputs, *targets}
    indices = {i for p in programs for s in p.statements for i in s.indices}
    known: list[tuple[str, Iterable[str], Iterable[str]]] = [
        ("format", limits.formats, tensors),
        ("order", limits.orders, targets),
        ("tile", limits.tiles, indices),
        ("fuse", limits.fuse, {e.tensor for p in programs for e in p.edges}),
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
