"""Axes of tensors that reshaping cuts: one extent becomes several, everywhere the same extent is walked.

A front end that reads reshapes (768 viewed as 12 x 64) gives every mode of every tensor an ``Axis``. Axes that one
index walks are alike: a cut of one cuts all of them, so that each tensor of the program can be stored in the cut
form and the reshape itself costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mapper.errors import InputError


class Axis:
    """One mode, or a part of one after a cut: ``children`` are then its digits, outer first, in row-major order.

    ``free``: no tensor has this mode, a value is repeated along it. ``fixed``: why it may not be cut, if so.
    """

    __slots__ = ("alike", "children", "extent", "fixed", "free")

    def __init__(self, extent: int, *, free: bool = False) -> None:
        self.extent = extent
        self.free = free
        self.fixed = ""
        self.children: tuple[Axis, ...] = ()
        self.alike = [self]

    def cut(self, stride: int) -> None:
        """Separates coordinates at ``stride``: x becomes (x // stride, x % stride).

        Raises InputError if the extent cannot be cut there.
        """
        if stride in (1, self.extent):
            return
        if self.children:
            cut(self.children, stride)
            return
        reason = next((axis.fixed for axis in self.alike if axis.fixed), "")
        if reason or self.extent % stride:
            why = reason or f"{stride} does not divide it"
            raise InputError(f"an extent of {self.extent} cannot be split into runs of {stride}: {why}")
        for axis in self.alike:
            axis.children = (Axis(axis.extent // stride, free=axis.free), Axis(stride, free=axis.free))
        for same in zip(*(axis.children for axis in self.alike), strict=True):
            unite(same)


def leaves(axes: Iterable[Axis]) -> list[Axis]:
    """``axes`` with every cut one replaced by its parts."""
    return [leaf for axis in axes for leaf in (leaves(axis.children) if axis.children else (axis,))]


def cut(axes: Sequence[Axis], stride: int) -> None:
    """Cuts ``axes``, the digits of one coordinate, at ``stride``. Raises InputError where that is impossible."""
    inner = 1
    for axis in reversed(axes):
        if inner < stride < inner * axis.extent:
            if stride % inner:
                extents = " x ".join(str(a.extent) for a in axes)
                raise InputError(f"extents {extents} cannot be regrouped into runs of {stride}")
            axis.cut(stride // inner)
        inner *= axis.extent


def align(parts: Sequence[Sequence[Axis]]) -> list[tuple[Axis, ...]]:
    """Cuts lists of axes with the same product of extents until they agree; the n-th leaves of all, for each n."""
    while True:
        split = [leaves(axes) for axes in parts]
        if len({tuple(axis.extent for axis in axes) for axes in split}) == 1:
            return list(zip(*split, strict=True))
        strides: set[int] = set()
        for axes in split:
            inner = 1
            for axis in reversed(axes):
                strides.add(inner := inner * axis.extent)
        for axes in split:
            for stride in sorted(strides):
                cut(axes, stride)


def unite(axes: Sequence[Axis]) -> None:
    """From now on a cut of one of these uncut axes cuts all of them."""
    shared = axes[0].alike
    for axis in axes[1:]:
        if axis.alike is not shared:
            joined = axis.alike
            shared.extend(joined)
            for other in joined:
                other.alike = shared


def regroup(axes: Sequence[Axis], shape: Sequence[int]) -> list[tuple[Axis, ...]]:
    """``axes``, read as one row-major coordinate, as dimensions of the extents in ``shape``; cuts where needed."""
    inner = 1
    for extent in reversed(shape):
        inner *= extent
        cut(axes, inner)
    left = leaves(axes)
    found: list[tuple[Axis, ...]] = []
    for extent in shape:
        taken, size = 0, 1
        while size < extent:
            size *= left[taken].extent
            taken += 1
        found.append(tuple(left[:taken]))
        left = left[taken:]
    return found
