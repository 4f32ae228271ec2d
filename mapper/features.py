"""FeatureMap: a mapping as a vector of numbers of fixed length, for a surrogate model.

Features belong to what they are about: a statement by its text, a tensor by its name, so that rewritings of the program
share those of the parts that they share. What a mapping does not choose - loops of a statement that another rewriting
has, the format of a streamed tensor, the extent of a tile loop that is not there - is inactive: 0, with a mask.

Orders of loops and of tile loops become features of pairs or of positions (the three of BaCO), by choice:

* ``kendall``: +1/2 or -1/2 per pair of loops, by which stands above. The squared distance of two orders is the number
  of pairs that they order differently, Kendall's.
* ``spearman``: the position of every loop, 0 for the outermost.
* ``hamming``: per loop and position 1 if the loop stands there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mapper.errors import InputError, nearest
from mapper.formats import Format
from mapper.mapping import Loops, Mapping
from mapper.program import Edge, Program
from mapper.workload import Workload

if TYPE_CHECKING:
    from mapper.space import MappingSpace

PERMUTATIONS = ("kendall", "spearman", "hamming")

MOST_LOOPS = 65_536
"""Loops of statements whose features are remembered."""

Value = float | None
"""A feature; None is inactive."""


class FeatureMap:
    """Features of the mappings of ``space``; ``permutations`` says how orders become features. A knob without a choice
    has none. Raises InputError for an unknown way."""

    def __init__(self, space: MappingSpace, permutations: str = "kendall") -> None:
        if permutations not in PERMUTATIONS:
            raise InputError(f"unknown features of orders {permutations!r}.{nearest(permutations, PERMUTATIONS)}")
        self.limits, self.permutations = space.limits, permutations
        self._labels = tuple(space.programs)
        self._names: list[str] = []
        self._slots: dict[str, slice] = {}
        self._known: dict[tuple[str, Loops], tuple[Value, ...]] = {}
        workloads = [known.workload for known in space.programs.values()]
        self._programs = {
            label: ([_edge_name(w.program, e) for e in w.program.edges], [str(s) for s in w.program.statements])
            for label, w in zip(self._labels, workloads, strict=True)
        }
        self._add_choice("rewrite", [label or "none" for label in self._labels])
        for edges, _ in self._programs.values():
            for edge in edges:
                self._add(edge, [edge])
        self._indices: dict[str, tuple[str, ...]] = {}
        self._tileable: dict[str, tuple[str, ...]] = {}
        for workload in workloads:
            for number, statement in enumerate(workload.program.statements):
                self._indices[str(statement)] = statement.indices
                self._tileable[str(statement)] = self._tiled_indices(workload, number)
                self._add(str(statement), list(self._loop_names(str(statement))))
        self._forms: dict[str, tuple[str, ...]] = {}
        for known in space.programs.values():
            for tensor in dict.fromkeys((*known.workload.program.inputs, *known.workload.program.producers)):
                forms = (
                    *self._forms.get(tensor, ()),
                    *(_form(f.kinds, f.dtype) for f in known.formats.of(tensor).values()),
                )
                self._forms[tensor] = tuple(dict.fromkeys(forms))
        for tensor, forms in self._forms.items():
            self._add_choice(f"format {tensor}", forms)
        self._residencies = tuple(dict.fromkeys(r for p in space.programs.values() for r in p.residencies))
        self._add_choice("residency", self._residencies)
        self._add_choice("joins", space.limits.joins)
        for name, values in sorted(space.limits.machine.items()):
            unbounded = [f"machine {name}=null"] if None in values else []
            self._add(f"machine {name}", [f"log2 1 + machine {name}", *unbounded])

    def names(self) -> tuple[str, ...]:
        """A name per feature, such as ``log2 tile i of Z(i,j) = A(i,k) * B(k,j)``."""
        return tuple(self._names)

    @property
    def groups(self) -> npt.NDArray[np.int64]:
        """int64[features]: features of one knob have one number. Such are the order of a statement, its tile loops, its
        lanes, the tile of an index, every choice."""
        knobs: dict[str, int] = {}
        return np.array([knobs.setdefault(_knob(name), len(knobs)) for name in self._names], np.int64)

    def vector(self, mapping: Mapping) -> npt.NDArray[np.float64]:
        """float64[features]: what the mapping chooses, 0 where it does not. Raises InputError for a mapping of a
        rewriting or with a format that the space does not have."""
        return self._filled(mapping)[0]

    def mask(self, mapping: Mapping) -> npt.NDArray[np.bool_]:
        """bool[features]: the features that the mapping chooses."""
        return self._filled(mapping)[1]

    def _filled(self, mapping: Mapping) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        values, active = np.zeros(len(self._names)), np.zeros(len(self._names), np.bool_)
        for name, block in self._blocks(mapping):
            if (slot := self._slots.get(name)) is not None:
                values[slot] = [value or 0.0 for value in block]
                active[slot] = [value is not None for value in block]
        return values, active

    def _blocks(self, mapping: Mapping) -> Iterator[tuple[str, Sequence[Value]]]:
        yield "rewrite", _one_hot("rewriting", self._labels, mapping.variant)
        edges, statements = self._programs[mapping.variant]
        yield from ((edge, (float(cut),)) for edge, cut in zip(edges, mapping.cuts, strict=True))
        for text, loops in zip(statements, mapping.loops, strict=True):
            if (text, loops) not in self._known:
                if len(self._known) >= MOST_LOOPS:
                    self._known.clear()
                self._known[text, loops] = tuple(self._loop_values(text, loops))
            yield text, self._known[text, loops]
        for tensor, kinds in mapping.formats:
            form = _form(kinds, mapping.dtype(tensor))
            yield f"format {tensor}", _one_hot(f"format of {tensor}", self._forms[tensor], form)
        yield "residency", _one_hot("residency", self._residencies, mapping.residency)
        yield "joins", _one_hot("joins", self.limits.joins, mapping.joins)
        for name, value in mapping.machine:
            known = None if value is None else math.log2(1 + value)
            ends = [float(value is None)] if None in self.limits.machine.get(name, ()) else []
            yield f"machine {name}", [known, *ends]

    def _loop_names(self, text: str) -> Iterator[str]:
        indices, tileable, shares = self._indices[text], self._tileable[text], self.limits.partitions
        yield from (f"order {name} of {text}" for name in self._order_names(indices))
        yield from (f"tiled {index} of {text}" for index in tileable)
        yield from (f"log2 tile {index} of {text}" for index in tileable)
        yield from (f"tile order {name} of {text}" for name in self._order_names(tileable))
        if self.limits.max_lanes > 1:
            yield from (f"log2 lanes {index} of {text}" for index in indices)
            yield from (f"partition={share} of {text}" for share in shares if len(shares) > 1)

    def _loop_values(self, text: str, loops: Loops) -> Iterator[Value]:
        """Values in the order of ``_loop_names``."""
        tileable, shares, tiles = self._tileable[text], self.limits.partitions, dict(loops.tiles)
        yield from self._order_values(self._indices[text], loops.order)
        yield from (float(index in tiles) for index in tileable)
        yield from (math.log2(tiles[index]) if index in tiles else None for index in tileable)
        yield from self._order_values(tileable, [i for i, _ in loops.tiles if i in tileable])
        if self.limits.max_lanes > 1:
            lanes = {index: count for index, count, _ in loops.parallel}
            yield from (math.log2(lanes.get(index, 1)) for index in self._indices[text])
            share = loops.parallel[0][2] if loops.parallel else None
            yield from (None if share is None else float(share == s) for s in shares if len(shares) > 1)

    def _order_names(self, indices: Sequence[str]) -> Iterator[str]:
        if self.permutations == "kendall":
            yield from (f"{a} above {b}" for a, b in itertools.combinations(indices, 2))
        elif self.permutations == "spearman":
            yield from indices
        else:
            yield from (f"{index} at {place}" for index in indices for place in range(len(indices)))

    def _order_values(self, indices: Sequence[str], order: Sequence[str]) -> Iterator[Value]:
        """Features of an order of some of ``indices``."""
        place = {index: n for n, index in enumerate(order)}
        if self.permutations == "kendall":
            for a, b in itertools.combinations(indices, 2):
                yield math.copysign(0.5, place[b] - place[a]) if a in place and b in place else None
        elif self.permutations == "spearman":
            yield from (float(place[index]) if index in place else None for index in indices)
        else:
            for index in indices:
                yield from (float(place[index] == n) if index in place else None for n in range(len(indices)))

    def _tiled_indices(self, workload: Workload, number: int) -> tuple[str, ...]:
        """Indices of a statement that may be tiled."""
        extents = workload.extents[number]
        smallest = {index: [t for t in self.limits.tiles.get(index, (4,)) if t] for index in extents}
        indices = workload.program.statements[number].indices
        return tuple(i for i in indices if any(tile < extents[i] for tile in smallest[i]))

    def _add(self, name: str, features: Sequence[str]) -> None:
        """Room for the features of ``name``."""
        if name not in self._slots:
            self._slots[name] = slice(len(self._names), len(self._names) + len(features))
            self._names += features

    def _add_choice(self, name: str, choices: Sequence[str]) -> None:
        """Room for a feature per choice; a single one needs none."""
        if len(choices) > 1:
            self._add(name, [f"{name}={choice}" for choice in choices])


def _knob(name: str) -> str:
    """The knob that the feature ``name`` is about."""
    what, _, text = name.partition(" of ")
    for shared in ("order", "tile order", "log2 lanes", "partition"):
        if what.startswith((f"{shared} ", f"{shared}=")):
            return f"{shared} of {text}"
    if what.startswith(("tiled ", "log2 tile ")):
        return f"tile {what.split()[-1]} of {text}"
    return name if what.startswith("cut ") else name.removeprefix("log2 1 + ").partition("=")[0]


def _one_hot(what: str, choices: Sequence[str], chosen: str) -> tuple[Value, ...]:
    if chosen not in choices:
        raise InputError(f"no features for the {what} {chosen or 'none'!r}.{nearest(chosen, choices)}")
    return tuple(float(choice == chosen) for choice in choices)


def _form(kinds: tuple[str, ...], dtype: str) -> str:
    return str(Format(kinds, None, dtype))


def _edge_name(program: Program, edge: Edge) -> str:
    """Name of an edge that rewritings share."""
    return f"cut {edge.tensor} before operand {edge.operand} of {program.statements[edge.consumer]}"
