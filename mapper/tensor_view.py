"""Tensors seen through dimensions: transposing, merging and splitting dimensions writes no statement."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from mapper.axis_split import Axis, leaves, regroup
from mapper.errors import InputError


@dataclass(frozen=True)
class Dim:
    """A dimension of a value: the product of its axes, none for an extent of one."""

    extent: int
    axes: tuple[Axis, ...] = ()


@dataclass(frozen=True)
class Value:
    """``full``: every position is stored for certain. ``void``: positions not stored mean -inf, not 0."""

    tensor: str
    dims: tuple[Dim, ...]
    full: bool
    void: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of every dimension."""
        return tuple(dim.extent for dim in self.dims)

    @property
    def broadcast(self) -> bool:
        """Whether the value repeats along an axis that its tensor lacks."""
        return any(leaf.free for dim in self.dims for leaf in leaves(dim.axes))

    def view(self, shape: Sequence[int]) -> Value:
        """The same entries in row-major order as another shape. Raises InputError if no cut of the axes gives it."""
        if math.prod(shape) != math.prod(self.shape):
            raise InputError(f"shape {list(self.shape)} has another number of entries than {list(shape)}")
        axes = [axis for dim in self.dims for axis in dim.axes]
        return self.with_dims(map(Dim, shape, regroup(axes, shape)))

    def with_void(self, void: bool) -> Value:
        """The same tensor with another meaning of what it does not store."""
        return replace(self, void=void)

    def with_dims(self, dims: Iterable[Dim]) -> Value:
        """The same tensor through other dimensions."""
        return replace(self, dims=tuple(dims))


@dataclass(frozen=True)
class Window:
    """Label of a convolved dimension: coordinate = stride * out + dilation * kernel + offset."""

    out: Hashable
    kernel: Hashable
    stride: int
    dilation: int
    offset: int
