"""Extents of indices: those of the tensors that are read, and of windows what a convolution makes of them.

A coordinate ``stride*p + dilation*r - n`` of a view stands for a padding of n on both sides, which gives
floor((extent + 2 n - dilation (R - 1) - 1) / stride) + 1 positions p for R positions r. Any one index of a coordinate
follows from the others in this way; a positive offset skips that many positions at the start alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mapper.errors import InputError, nearest
from mapper.program import Affine, Program, Statement

Place = tuple[int | str, int | str]
"""An index of a statement, by number and name, or a mode of an input, by name and number."""


def bind_extents(program: Program, shapes: Mapping[str, tuple[int, ...]]) -> tuple[dict[str, int], ...]:
    """Extent of every index, and of every mode that a view reads, per statement; ``shapes`` are those of the inputs.

    Raises InputError where a shape is missing, has another number of modes, two modes of one index differ, or windows
    do not fit what they read.
    """
    known = dict(shapes)
    windows = _Windows(program, shapes)
    bound = []
    for number, statement in enumerate(program.statements):
        extents: dict[str, int] = {}
        setter: dict[str, str] = {}
        for operand in statement.operands:
            if operand.tensor not in known:
                raise InputError(f"tensor {operand.tensor!r} has no data.{nearest(operand.tensor, shapes)}")
            shape = known[operand.tensor]
            if len(shape) != len(operand.indices):
                raise InputError(f"{operand} needs a tensor of {len(operand.indices)} modes, got shape {shape}")
            for mode, (index, extent) in enumerate(zip(operand.indices, shape, strict=True)):
                here = f"mode {mode} of {operand.tensor!r}"
                setter.setdefault(index, here)
                if extents.setdefault(index, extent) != extent:
                    message = f"index {index!r} has extent {extents[index]} by {setter[index]}, but {here} has {extent}"
                    raise InputError(f"{message} (in {statement}); the data or the indices must change")
        for window in (w for w in statement.windows if not w.plain):
            windows.bind(number, window, extents)
        known[statement.target.tensor] = tuple(extents[index] for index in statement.target.indices)
        bound.append(extents)
    return tuple(bound)


@dataclass(slots=True)
class _Windows:
    """Extents that are equal are found by joining places; those of windows follow."""

    program: Program
    shapes: Mapping[str, tuple[int, ...]]
    _leader: dict[Place, Place] = field(default_factory=dict)
    _extents: dict[Place, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not any(s.windows for s in self.program.statements):
            return
        for number, statement in enumerate(self.program.statements):
            for operand in statement.operands:
                producer = self.program.producers.get(operand.tensor)
                made = () if producer is None else self.program.statements[producer].target.indices
                for mode, index in enumerate(operand.indices):
                    origin: Place = (operand.tensor, mode) if producer is None else (producer, made[mode])
                    self._leader[self._first((number, index))] = self._first(origin)
        for tensor, shape in self.shapes.items():
            self._extents |= {self._first((tensor, mode)): extent for mode, extent in enumerate(shape)}
        while any(self._solve(n, s, w) for n, s in enumerate(self.program.statements) for w in s.windows):
            pass

    def bind(self, number: int, window: Affine, extents: dict[str, int]) -> None:
        """Puts the extents of the indices of ``window`` into ``extents``, which has that of the mode it reads."""
        statement, size = self.program.statements[number], extents[str(window)]
        for index, coefficient in window.terms:
            extent = self._extents.get(self._first((number, index)))
            if extent is None:
                message = f"the extent of index {index!r} of {window} is not known; all indices of a coordinate but one"
                raise InputError(f"{message} must be those of other tensors (in {statement})")
            if extent < 1 or coefficient * (extent - 1) + window.offset >= size + max(0, -window.offset):
                message = f"{extent} positions of index {index!r} do not fit {window} in a mode of extent {size}"
                raise InputError(f"{message}; the data, the offset or the coefficient must change (in {statement})")
            extents[index] = extent
        if not window.terms and not 0 <= window.offset < size:
            raise InputError(f"coordinate {window} lies outside of a mode of extent {size} (in {statement})")

    def _solve(self, number: int, statement: Statement, window: Affine) -> bool:
        """Whether the last unknown extent of a coordinate was found."""
        size = self._extents.get(self._first((number, str(window))))
        places = [(self._first((number, index)), coefficient) for index, coefficient in window.terms]
        unknown = [(place, coefficient) for place, coefficient in places if place not in self._extents]
        if size is None or len(unknown) != 1:
            return False
        span = 1 + sum(c * (self._extents[place] - 1) for place, c in places if place in self._extents)
        room = size - window.offset + max(0, -window.offset) - span
        self._extents[unknown[0][0]] = room // unknown[0][1] + 1
        return True

    def _first(self, place: Place) -> Place:
        while (above := self._leader.get(place, place)) != place:
            place = above
        return place
