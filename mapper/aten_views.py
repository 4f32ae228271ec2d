"""ATen operations that move no data, and those that pick parts of a tensor or join tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mapper.aten_site import Constant, Site, array, axis_number, labels
from mapper.axis_split import Axis, leaves
from mapper.errors import InputError
from mapper.tensor import SparseTensor
from mapper.tensor_view import Dim, Value

LOOKUP = (
    "rows looked up by number have no meaning in index notation: give the looked-up rows as an input, or multiply by a "
    "sparse matrix of ones"
)


def same(at: Site, x: Any, *_: Any, **__: Any) -> Value:
    """Copies, casts and layouts: the values stay."""
    return at.value(x, void=True)


def dropout(at: Site, x: Any, probability: float = 0.5, train: bool = False) -> Value:
    """Nothing, in evaluation."""
    if train and probability:
        raise InputError("dropout in training draws at random; pass training=self.training, which is false here")
    return same(at, x)


def view(at: Site, x: Any, *_: Any, **__: Any) -> Value:
    """Any reshape: torch has worked out the shape."""
    return at.value(x, void=True).view(at.shape)


def transpose(at: Site, x: Any, first: int = 0, second: int = 1) -> Value:
    """Two dimensions exchanged."""
    value = at.value(x, void=True)
    dims = list(value.dims)
    one, two = axis_number(first, len(dims)), axis_number(second, len(dims))
    if dims[1:]:  # a vector is its own transpose
        dims[one], dims[two] = dims[two], dims[one]
    return value.with_dims(dims)


def permute(at: Site, x: Any, order: Sequence[int]) -> Value:
    """Dimensions in another order."""
    value = at.value(x, void=True)
    return value.with_dims([value.dims[n] for n in order])


def expand(at: Site, x: Any, *_: Any, **__: Any) -> Value:
    """Dimensions of extent one repeated."""
    value = at.value(x, void=True)
    dims = [*([Dim(1)] * (len(at.shape) - len(value.dims))), *value.dims]
    return value.with_dims(
        [
            dim if dim.extent == extent else Dim(extent, (Axis(extent, free=True),))
            for dim, extent in zip(dims, at.shape, strict=True)
        ]
    )


def select(at: Site, x: Any, dim: int, index: int) -> Value:
    """One slice, picked by a vector with a single entry."""
    value = at.value(x)
    mode = axis_number(dim, len(value.dims))
    extent = value.dims[mode].extent
    names = labels(len(value.dims))
    out = [*names[:mode], *names[mode + 1 :]]
    if extent == 1:
        return value.with_dims([d for n, d in enumerate(value.dims) if n != mode])
    chosen = SparseTensor.from_coo((extent,), [[index % extent]], [1.0])
    picked = at.input(f"{at.name}_at", chosen)
    return at.emit("{0} * {1}", [(value, names), (picked, [names[mode]])], out, full=value.full)


def unbind(at: Site, x: Any, dim: int = 0) -> tuple[Value, ...]:
    """Every slice."""
    value = at.value(x)
    return tuple(select(at, value, dim, n) for n in range(value.dims[axis_number(dim, len(value.dims))].extent))


def slices(at: Site, x: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Value:
    """A range of coordinates, picked by a matrix with one entry per row."""
    value = at.value(x)
    mode = axis_number(dim, len(value.dims))
    return _take(at, value, mode, range(value.dims[mode].extent)[slice(start, end, step)], "")


def split(at: Site, x: Any, size: int | Sequence[int], dim: int = 0) -> tuple[Value, ...]:
    """Consecutive ranges of equal (an int) or given sizes."""
    value = at.value(x)
    mode = axis_number(dim, len(value.dims))
    extent = value.dims[mode].extent
    sizes = [min(size, extent - n) for n in range(0, extent, size)] if isinstance(size, int) else size
    starts = np.cumsum([0, *sizes])
    return tuple(
        _take(at, value, mode, range(int(first), int(first) + n), f"_{part}")
        for part, (first, n) in enumerate(zip(starts, sizes, strict=False))
    )


def chunk(at: Site, x: Any, chunks: int, dim: int = 0) -> tuple[Value, ...]:
    """About equal ranges."""
    value = at.value(x)
    extent = value.dims[axis_number(dim, len(value.dims))].extent
    return split(at, value, -(-extent // chunks), dim)


def cat(at: Site, tensors: Sequence[Any], dim: int = 0) -> Value:
    """The sum of all tensors, each placed by a matrix with one entry per column."""
    values = [at.value(x) for x in tensors]
    mode = axis_number(dim, len(values[0].dims))
    names = labels(len(values[0].dims))
    total, first = sum(v.dims[mode].extent for v in values), 0
    operands: list[tuple[Value, Sequence[str]]] = []
    for n, value in enumerate(values):
        extent = value.dims[mode].extent
        old = np.arange(extent)
        place = SparseTensor.from_coo((extent, total), np.stack([old, old + first]), np.ones(extent))
        inside = [*names[:mode], f"old{n}", *names[mode + 1 :]]
        operands += [(value, inside), (at.input(f"{at.name}_place", place), (f"old{n}", names[mode]))]
        first += extent
    template = " + ".join(f"{{{2 * n}}} * {{{2 * n + 1}}}" for n in range(len(values)))
    return at.emit(template, operands, names, full=all(v.full for v in values))


def stack(at: Site, tensors: Sequence[Any], dim: int = 0) -> Value:
    """Tensors side by side along a new dimension."""
    values = [at.value(x) for x in tensors]
    mode = axis_number(dim, len(values[0].dims) + 1)
    return cat(at, [v.with_dims([*v.dims[:mode], Dim(1), *v.dims[mode:]]) for v in values], mode)


def index_select(at: Site, x: Any, dim: int, index: Any) -> Value:
    """Coordinates along a dimension in a known order."""
    if not isinstance(index, Constant) or index.kind == "input":
        raise InputError(LOOKUP)
    value = at.value(x)
    mode = axis_number(dim, len(value.dims))
    walked = any(axis.fixed for leaf in leaves(value.dims[mode].axes) for axis in leaf.alike)  # by a convolution
    return _take(at, value, mode, array(index).astype(int).ravel().tolist(), "", apart=walked)


def _take(at: Site, value: Value, mode: int, coordinates: Sequence[int], suffix: str, *, apart: bool = False) -> Value:
    """The coordinates of one dimension; all of them are the value itself, or with ``apart`` one whose dimension may be
    cut where that of the value may not."""
    extent = value.dims[mode].extent
    if list(coordinates) == list(range(extent)) and not apart:
        return value
    names = labels(len(value.dims))
    picked = SparseTensor.from_coo(
        (len(coordinates), extent), np.stack([np.arange(len(coordinates)), coordinates]), np.ones(len(coordinates))
    )
    matrix = at.input(f"{at.name}_take", picked)
    old = [*names[:mode], "old", *names[mode + 1 :]]
    operands = [(value, old), (matrix, [names[mode], "old"])]
    return at.emit("{0} * {1}", operands, names, suffix=suffix, full=value.full)


_SAME = (
    "clone contiguous alias detach to.dtype to.device to.dtype_layout _to_copy to_dense lift_fresh_copy"
    " coalesce _coalesce to_sparse positive type_as"
)
_DROPOUTS = "dropout dropout_ feature_dropout alpha_dropout"
_VIEWS = "view reshape _unsafe_view flatten.using_ints unflatten.int squeeze squeeze.dim squeeze.dims unsqueeze"

VIEWS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(_SAME.split(), same),
    **dict.fromkeys(_DROPOUTS.split(), dropout),
    **dict.fromkeys(_VIEWS.split(), view),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), expand),
    "t": transpose,
    "numpy_T": lambda at, x: permute(at, x, range(len(at.shape))[::-1]),
    "transpose.int": transpose,
    "permute": permute,
}
"""Operations that only look at a tensor in another way; ``.default`` is left out of names."""

_PICKED: dict[str, Callable[..., Any]] = {
    "select.int": select,
    "unbind.int": unbind,
    "slice.Tensor": slices,
    "split.Tensor": split,
    "split_with_sizes": split,
    "chunk": chunk,
}

PARTS: dict[str, Callable[..., Any]] = {**_PICKED, "index_select": index_select, "cat": cat, "stack": stack}
"""Operations that pick or join parts; on constants they are done while importing."""

SHARING = frozenset({*VIEWS, *_PICKED} - {"clone", "_to_copy"})
"""Operations whose result may share memory with what they are given: a change in place of one changes the other."""
