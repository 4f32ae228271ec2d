"""Where one ATen operation is translated: its arguments become values, its result becomes statements.

Nothing here imports torch: tensors of constants are handled through their own methods.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mapper.axis_split import Axis, leaves
from mapper.errors import InputError
from mapper.program_writer import ProgramWriter
from mapper.tensor import SparseTensor, Values
from mapper.tensor_view import Dim, Value, Window

NEGLIGIBLE = -1e4
"""Scores at or below this are masked: their weight in a softmax, exp(-10000), is zero in any float."""

MANY_ZEROS = 0.1
"""Share of exact zeros from which a strided tensor of two modes or more counts as sparse."""

Labelled = tuple[Value, Sequence[Hashable]]


@dataclass(frozen=True, eq=False)
class Constant:
    """A tensor whose data are known: ``kind`` is "input", "parameter" or "created" (computed while importing).

    ``data`` is a torch tensor or numpy array; ``origin`` what it was computed from, element by element.
    """

    name: str
    data: Any
    kind: str
    origin: Constant | None = None


@dataclass(frozen=True, eq=False)
class Site:
    """One call: ``name`` for the tensor it makes, ``shape`` that the result must have."""

    writer: ProgramWriter
    name: str
    shape: tuple[int, ...]
    known: dict[Constant, Value]  # constants that already became inputs of the program; shared by all sites

    def value(self, given: Any, *, void: bool = False) -> Value:
        """An argument as a value; only with ``void`` one in which positions not stored mean -inf."""
        if isinstance(given, Constant):
            if given not in self.known:
                self.known[given] = self.input(given.name, *_compact(given.data))
            given = self.known[given]
        if not isinstance(given, Value):
            raise InputError(f"a tensor is needed here, got {given!r}")
        if given.void and not void:
            raise InputError(f"{given.tensor} is masked with -inf; only scaling and softmax may follow a mask")
        return given

    def named(self, suffix: str) -> Site:
        """The same site for a tensor called differently."""
        return replace(self, name=self.name + suffix)

    def input(self, wanted: str, data: SparseTensor, repeats: Sequence[int] = ()) -> Value:
        """A new input of the program; ``repeats``: per dimension, 0 or the extent by which a dimension of 1 repeats."""
        value = self.writer.input(self.writer.name(wanted), data)
        grown = [Dim(n, (Axis(n, free=True),)) if n else d for n, d in zip(repeats, value.dims, strict=bool(repeats))]
        return value.with_dims(grown) if repeats else value

    def emit(
        self,
        template: str,
        operands: Sequence[Labelled],
        out: Sequence[Hashable],
        *,
        suffix: str = "",
        full: bool | None = None,
        void: bool = False,
        extents: Mapping[Hashable, int] | None = None,
    ) -> Value:
        """``ProgramWriter.statement`` under this site's name; ``full`` by default as for a product of all operands."""
        stored = self.product_full(operands, out) if full is None else full
        name = self.writer.name(self.name + suffix)
        return self.writer.statement(name, template, operands, out, full=stored, void=void, extents=extents)

    def each(
        self, template: str, *operands: Any, suffix: str = "", full: bool | None = None, void: bool = False
    ) -> Value:
        """A statement over aligned positions: dimensions are matched from the last, as torch broadcasts."""
        values = [self.value(x, void=void) for x in operands]
        rank = max(len(v.dims) for v in values)
        labelled = [(v, labels(rank)[rank - len(v.dims) :]) for v in values]
        return self.emit(template, labelled, labels(rank), suffix=suffix, full=full, void=void)

    def stored(self, value: Value) -> Value:
        """``value`` with every position stored."""
        return value if value.full else self.each("{0} + 0.0", value, suffix="_dense", full=True)

    def product_full(self, operands: Sequence[Labelled], out: Sequence[Hashable]) -> bool:
        """Whether the product of ``operands``, summed to ``out``, certainly stores every position."""
        partial = [(value, at) for value, at in operands if not value.full]
        if len(partial) > 1 or any(isinstance(label, Window) for _, at in partial for label in at):
            return not partial
        return all(self.writer.covers(v, [n for n, label in enumerate(at) if label in out]) for v, at in partial)

    def pattern(self, kept: Constant) -> Value:
        """A tensor that stores what a Boolean constant keeps: the one it was computed from if that is the same."""
        pattern = array(kept) != 0
        if pattern.size == 1 and not pattern.any():  # a scalar always stores its value
            raise InputError("a mask of one position must not hide it: nothing would be left to compute")
        source = kept.origin
        while source is not None:
            data = array(source)
            if data.shape == pattern.shape and ((data != 0) == pattern).all():
                if source not in self.known:
                    self.known[source] = self.input(source.name, *_compact(source.data, drop_zeros=True))
                value = self.known[source]
                if not value.broadcast and self.writer.entries(value.tensor) == pattern.sum():
                    return value
            source = source.origin
        return self.input(kept.name, *_compact(kept.data, drop_zeros=True))

    def made(self, suffix: str, data: Any) -> Value:
        """An input computed by the importer; every position of a vector is stored."""
        return self.input(f"{self.name}{suffix}", SparseTensor.from_dense(data, keep_zeros=np.ndim(data) == 1))


def labels(rank: int) -> list[str]:
    """A label for each of ``rank`` dimensions."""
    return [f"d{n}" for n in range(rank)]


def axis_number(dim: int, rank: int) -> int:
    """``dim`` counted from the first."""
    return dim % rank if rank else 0


def array(constant: Any) -> Values:
    """Data of a constant as a dense numpy array. Raises InputError for what is computed from inputs."""
    if not isinstance(constant, Constant):
        what = constant.tensor if isinstance(constant, Value) else repr(constant)
        raise InputError(f"this must be known before the program runs (a parameter, buffer or input), got {what}")
    data = constant.data
    return np.asarray(data) if isinstance(data, np.ndarray) else np.asarray(_strided(data).numpy())


def without_repeats(value: Value, dims: Sequence[int]) -> Value:
    """``value`` with dimensions ``dims`` reduced to what its tensor stores."""
    kept = (
        Dim(dim.extent, tuple(a for a in leaves(dim.axes) if not a.free)) if n in dims else dim
        for n, dim in enumerate(value.dims)
    )
    return value.with_dims(kept)


def _compact(data: Any, *, drop_zeros: bool = False) -> tuple[SparseTensor, list[int]]:
    """The entries of torch or numpy data with expanded dimensions as ones, and by how much each of them repeats."""
    if isinstance(data, np.ndarray):
        return SparseTensor.from_dense(data), [0] * data.ndim
    data = data.detach()
    if str(data.layout) != "torch.strided":
        sparse = data if str(data.layout) == "torch.sparse_coo" else data.to_sparse_coo()
        sparse = sparse.coalesce()
        if sparse.dense_dim():
            raise InputError("sparse tensors with dense dimensions are not supported; make every dimension sparse")
        values = sparse.values().double().numpy()
        return SparseTensor.from_coo(tuple(sparse.shape), sparse.indices().numpy(), values), [0] * sparse.ndim
    repeats = [n if step == 0 and n > 1 else 0 for n, step in zip(data.shape, data.stride(), strict=True)]
    for mode, extent in enumerate(repeats):
        data = data.narrow(mode, 0, 1) if extent else data
    dense = _strided(data).numpy()
    if dense.dtype.kind == "c":
        raise InputError("complex tensors are not supported")
    zeros = 1.0 - np.count_nonzero(dense) / max(dense.size, 1)
    pruned = drop_zeros or dense.dtype == np.bool_ or (dense.ndim > 1 and zeros >= MANY_ZEROS)
    return SparseTensor.from_dense(dense, keep_zeros=not pruned), repeats


def _strided(data: Any) -> Any:
    """A dense CPU tensor that numpy can hold."""
    dense = data.detach().to_dense() if str(data.layout) != "torch.strided" else data.detach()
    return dense.cpu() if dense.dtype.is_complex or str(dense.dtype) == "torch.bool" else dense.cpu().double()
