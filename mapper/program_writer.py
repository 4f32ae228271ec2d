"""Writes index notation statement by statement while reshapes may still cut the indices of earlier ones.

Names of indices are chosen when the text is made, after the last cut.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count

import numpy as np

from mapper.axis_split import Axis, align, leaves, unite
from mapper.errors import InputError
from mapper.notation import CALLABLE, RESERVED
from mapper.tensor import Coords, SparseTensor
from mapper.tensor_view import Dim, Value, Window

LETTERS = "ijklmnpqrstuvwxyzabcdefgh"


Groups = list[tuple[Axis, ...]]
"""Alike axes, one tuple per index."""


@dataclass(frozen=True, eq=False)
class _Line:
    target: str
    template: str
    operands: tuple[Value, ...]
    labels: tuple[tuple[Hashable, ...], ...]
    out: tuple[Hashable, ...]
    groups: dict[Hashable, Groups]


@dataclass(frozen=True, eq=False)
class _Input:
    data: SparseTensor
    axes: tuple[Axis | None, ...]  # per mode of the data; None: of extent one, dropped


@dataclass(eq=False)
class ProgramWriter:
    """Collects inputs and statements."""

    _inputs: dict[str, _Input] = field(default_factory=dict)
    _modes: dict[str, tuple[Axis, ...]] = field(default_factory=dict)
    _lines: list[_Line] = field(default_factory=list)
    _taken: set[str] = field(default_factory=set)

    def name(self, wanted: str) -> str:
        """An unused identifier near ``wanted``."""
        base = "".join(c if c.isalnum() else "_" for c in wanted) or "_"
        base = f"_{base}" if base[0].isdigit() else base
        fitting = chain([base], (f"{base}_{n}" for n in count(0)))
        found = next(n for n in fitting if n not in self._taken and n not in CALLABLE | RESERVED)
        self._taken.add(found)
        return found

    def input(self, name: str, data: SparseTensor) -> Value:
        """A tensor that comes with data, under a name of ``name()``."""
        axes = tuple(None if extent == 1 else Axis(extent) for extent in data.shape)
        self._inputs[name] = _Input(data, axes)
        self._modes[name] = tuple(axis for axis in axes if axis)
        dims = tuple(Dim(n, (axis,) if axis else ()) for n, axis in zip(data.shape, axes, strict=True))
        return Value(name, dims, data.nnz == math.prod(data.shape))

    def statement(
        self,
        name: str,
        template: str,
        operands: Sequence[tuple[Value, Sequence[Hashable]]],
        out: Sequence[Hashable],
        *,
        full: bool,
        void: bool = False,
        extents: Mapping[Hashable, int] | None = None,
    ) -> Value:
        """Writes ``name(out) = template`` and returns it as a value.

        Each operand has a label per dimension; equal labels are one index (or several, after a cut) and must have
        equal extents or extent one. ``{0}``, ``{1}`` in the template are the operands, ``{label}`` the indices of a
        label. ``extents`` gives labels that no operand has directly (those of windows). A sum over an axis that
        no operand stores multiplies by its extent. Raises InputError where axes do not fit each other.
        """
        groups: dict[Hashable, Groups] = {label: [] for label in out}
        groups |= {label: [(Axis(n),)] for label, n in (extents or {}).items()}
        groups |= _aligned(operands)
        self._fix_windows(operands, groups)
        summed = chain.from_iterable(groups[label] for label in groups if label not in out)
        repeated = math.prod(same[0].extent for same in summed if all(axis.free for axis in same))
        target: list[Axis] = []
        dims = []
        for label in out:
            axes = []
            for n, same in enumerate(groups[label]):
                made = Axis(same[0].extent, free=all(a.free for a in same) and label not in (extents or {}))
                groups[label][n] = (*same, made)
                axes.append(made)
            target += (axis for axis in axes if not axis.free)
            dims.append(Dim(math.prod(axis.extent for axis in axes), tuple(axes)))
        for same in chain.from_iterable(groups.values()):
            unite(same)
        self._modes[name] = tuple(target)
        values, labels = tuple(v for v, _ in operands), tuple(tuple(at) for _, at in operands)
        scaled = f"{repeated} * {template}" if repeated > 1 else template
        self._lines.append(_Line(name, scaled, values, labels, tuple(out), groups))
        return Value(name, tuple(dims), full, void)

    def covers(self, value: Value, kept: Sequence[int]) -> bool:
        """Whether an input has a stored entry at every position of its dimensions ``kept``; False if not known."""
        if value.full:
            return True
        source = self._inputs.get(value.tensor)
        if source is None:
            return False
        inside = {leaf for n in kept for leaf in leaves(value.dims[n].axes)}
        modes = [m for m, axis in enumerate(source.axes) if axis and inside.issuperset(leaves([axis]))]
        if sum(len(leaves([axis])) for m in modes if (axis := source.axes[m])) != sum(not a.free for a in inside):
            return False
        return len(np.unique(source.data.coords[modes], axis=1).T) == math.prod(source.data.shape[m] for m in modes)

    def is_read(self, tensor: str) -> bool:
        """Whether a statement reads ``tensor``."""
        return any(value.tensor == tensor for line in self._lines for value in line.operands)

    def entries(self, name: str) -> int:
        """Number of stored entries of an input."""
        return self._inputs[name].data.nnz

    def is_input(self, tensor: str) -> bool:
        """Whether ``tensor`` comes with data."""
        return tensor in self._inputs

    def made(self) -> list[str]:
        """Tensors that statements assign, in order."""
        return [line.target for line in self._lines]

    def leaves(self, value: Value) -> list[Axis]:
        """Uncut axes of all dimensions of a value, outer first."""
        return [leaf for dim in value.dims for leaf in leaves(dim.axes)]

    def keep(self, results: Sequence[str]) -> None:
        """Removes the statements that no tensor of ``results`` needs."""
        needed = set(results)
        for line in reversed(self._lines):
            if line.target in needed:
                needed.update(value.tensor for value in line.operands)
        self._lines = [line for line in self._lines if line.target in needed]

    def tensors(self) -> dict[str, SparseTensor]:
        """Data of every input that a statement reads, in the shape that the text gives it."""
        return {name: _stored(source) for name, source in self._inputs.items() if self.is_read(name)}

    def text(self) -> dict[str, str]:
        """The statement that makes each tensor."""
        indices = _Indices(self._taken)
        return {line.target: indices.write(line, self._modes) for line in self._lines}

    def layout(self, value: Value) -> tuple[int | None, ...]:
        """For every leaf of the value's dimensions, its mode in the stored tensor; None where the value repeats."""
        modes = {leaf: n for n, leaf in enumerate(leaves(self._modes[value.tensor]))}
        return tuple(None if leaf.free else modes[leaf] for leaf in self.leaves(value))

    @staticmethod
    def _fix_windows(operands: Sequence[tuple[Value, Sequence[Hashable]]], groups: dict[Hashable, Groups]) -> None:
        for value, labels in operands:
            for dim, window in zip(value.dims, labels, strict=True):
                if not isinstance(window, Window):
                    continue
                for same in ((dim.axes,), groups[window.out], groups.get(window.kernel, [])):
                    for axis in chain.from_iterable(same):
                        axis.fixed = "a convolution walks it"
                if len(leaves(dim.axes)) > 1:
                    raise InputError("a convolved dimension cannot be one that was merged from several or split")


def _aligned(operands: Sequence[tuple[Value, Sequence[Hashable]]]) -> dict[Hashable, Groups]:
    """Per label the axes that walk together, none of them cut."""
    uses: dict[Hashable, list[Dim]] = {}
    for value, labels in operands:
        for dim, label in zip(value.dims, labels, strict=True):
            if not isinstance(label, Window):
                uses.setdefault(label, []).extend([dim] if dim.axes else [])
    for dims in uses.values():
        if len({dim.extent for dim in dims}) > 1:
            raise InputError(f"extents {' and '.join(str(d.extent) for d in dims)} must be equal")
    while True:
        groups: dict[Hashable, Groups] = {
            label: align([dim.axes for dim in dims]) if dims else [] for label, dims in uses.items()
        }
        every = chain.from_iterable(chain.from_iterable(groups.values()))
        if not any(axis.children for axis in every):  # what one label cuts, another may walk, too
            return groups


def _stored(source: _Input) -> SparseTensor:
    """The data with cut modes as several modes and without modes of extent one."""
    shape: list[int] = []
    coords: list[Coords] = []
    for mode, axis in enumerate(source.axes):
        rest = source.data.coords[mode]
        digits: list[Coords] = []
        extents = [leaf.extent for leaf in leaves([axis])] if axis else []
        for extent in reversed(extents):
            digits.insert(0, rest % extent)
            rest = rest // extent
        shape += extents
        coords += digits
    nnz = source.data.nnz
    rows = np.stack(coords) if coords else np.zeros((0, nnz), np.int64)
    if not shape and not nnz:
        return SparseTensor.from_coo((), np.zeros((0, 1), np.int64), [0.0])
    return SparseTensor(tuple(shape), rows, source.data.values, source.data.notes)


class _Indices:
    """Names of indices: an axis keeps the name under which it was made, a name keeps one extent where it can."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self._home: dict[Axis, str] = {}
        self._extent: dict[str, int] = {}

    def write(self, line: _Line, modes: Mapping[str, tuple[Axis, ...]]) -> str:
        spelled: dict[Hashable, list[str | None]] = {}  # per label and leaf; None: no tensor has this axis
        used: set[str] = set()
        for label in [*line.out, *(label for label in line.groups if label not in line.out)]:
            spelled[label] = []
            for same in line.groups[label]:
                for alike in zip(*(leaves([axis]) for axis in same), strict=True):
                    walked = not all(axis.free for axis in alike)
                    spelled[label].append(self._choose(alike, used) if walked else None)
        accesses = [_access(v, at, spelled, modes[v.tensor]) for v, at in zip(line.operands, line.labels, strict=True)]
        named = {str(label): ", ".join(filter(None, names)) for label, names in spelled.items()}
        left = ",".join(name for label in line.out for name in spelled[label] if name)
        return f"{line.target}({left}) = {line.template.format(*accesses, **named)}"

    def _choose(self, alike: Sequence[Axis], used: set[str]) -> str:
        extent = alike[0].extent
        fresh = (f"{letter}{suffix}" for suffix in chain([""], count(1)) for letter in LETTERS)
        fitting = (n for n in fresh if n not in self._taken and self._extent.setdefault(n, extent) == extent)
        homes = (self._home[axis] for axis in alike if axis in self._home)
        name = next(n for n in chain(homes, fitting) if n not in used)
        used.add(name)
        for axis in alike:
            self._home.setdefault(axis, name)
        return name


def _access(
    value: Value, labels: Sequence[Hashable], spelled: Mapping[Hashable, list[str | None]], modes: Sequence[Axis]
) -> str:
    names: dict[Axis, str | None] = {}
    for dim, label in zip(value.dims, labels, strict=True):
        own = [_affine(label, spelled)] * len(dim.axes) if isinstance(label, Window) else spelled[label]
        names.update(zip(leaves(dim.axes), own, strict=False))  # an extent of one has no axes
    return f"{value.tensor}({','.join(str(names[leaf]) for leaf in leaves(modes))})"


def _affine(window: Window, spelled: Mapping[Hashable, list[str | None]]) -> str:
    terms = [
        f"{factor}*{name}" if factor != 1 else f"{name}"
        for factor, label in ((window.stride, window.out), (window.dilation, window.kernel))
        for name in spelled.get(label, [])
    ]
    return "+".join(terms) + (f"{window.offset:+d}" if window.offset else "") or "0"
