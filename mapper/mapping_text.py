"""A mapping as text that a person can read and edit, and that is read back as the same mapping.

    edges:
      T1>S1.0: fused
    loops:
      # T1(i,k) = A(i,j) * X(j,k)
      T1: i.tile(64) > j.tile(32) > i > j > k
      ...
    lanes:
      T1: 4 over i (balanced), 2 over k (cyclic)
    formats:
      A: dense,compressed:fp16
    residency: lru
    machine:
      fifo_depth: 16

It is YAML. A section ``rewrite`` names the rewriting of the program that the names are of, absent for the program as
written. Every statement has loops and every stored tensor a format; a statement without lanes has one. Loops stand
outer to inner, tile loops above all others; a statement without loops is ``scalar``. The order of entries is free.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mapper.document import Document, Place, parse_document, read_document
from mapper.dtypes import FP32
from mapper.errors import InputError, nearest
from mapper.formats import Format, parse_format
from mapper.machine import check_field
from mapper.mapping import PARTITIONS, Lane, Loops, Mapping
from mapper.program import Access, Program
from mapper.residency import RESIDENCIES
from mapper.rewrites import rewriting

SECTIONS = ("rewrite", "edges", "loops", "lanes", "formats", "residency", "machine")
NO_LOOPS = "scalar"

_LOOP = re.compile(r"(?P<index>[^\W\d]\w*)(?P<tile>\.tile\((?P<extent>\d+)\))?")
_LANES = re.compile(r"(?P<lanes>\d+) over (?P<index>[^\W\d]\w*) \((?P<partition>\w+)\)")


def mapping_fields(program: Program, mapping: Mapping) -> dict[str, Any]:
    """The sections of the text: words, or words by name. ``program`` is the program as written. Raises InputError for
    a mapping of another program."""
    rewritten = rewriting(program, mapping.variant)
    targets = [s.target.tensor for s in rewritten.statements]
    if (len(mapping.cuts), len(mapping.loops)) != (len(rewritten.edges), len(targets)):
        got = f"{len(mapping.cuts)} edges and {len(mapping.loops)} statements"
        want = f"{len(rewritten.edges)} and {len(targets)}"
        raise InputError(f"the mapping must be of this program, but it has {got}, not {want}")
    edges = zip(rewritten.edges, mapping.cuts, strict=True)
    loops = dict(zip(targets, mapping.loops, strict=True))
    sections = {
        "rewrite": mapping.variant,
        "edges": {edge.name: "cut" if cut else "fused" for edge, cut in edges},
        "loops": {target: _loops_text(own) for target, own in loops.items()},
        "lanes": {target: _lanes_text(own) for target, own in loops.items() if own.parallel},
        "formats": {tensor: str(form) for tensor, form in mapping.stored_formats()},
        "residency": mapping.residency,
        "machine": {name: "null" if value is None else repr(value) for name, value in mapping.machine},
    }
    return {name: section for name, section in sections.items() if section}


def format_mapping(program: Program, mapping: Mapping) -> str:
    """The text of a mapping, every statement as a comment above its loops. ``program`` is the program as written."""
    statements = {s.target.tensor: str(s) for s in rewriting(program, mapping.variant).statements}
    lines = []
    for name, section in mapping_fields(program, mapping).items():
        if isinstance(section, str):
            lines.append(f"{name}: {_scalar(section)}")
            continue
        lines.append(f"{name}:")
        for key, text in section.items():
            lines += [f"  # {statements[key]}"] if name == "loops" else []
            lines.append(f"  {key}: {text}")
    return "\n".join(lines) + "\n"


def mapping_changes(program: Program, before: Mapping, after: Mapping) -> tuple[str, ...]:
    """What differs between two mappings of a program, as ``formats A: csf -> dense``; of another rewriting only its
    name."""
    if before.variant != after.variant:
        return (f"rewrite: {before.variant or 'none'} -> {after.variant or 'none'}",)
    old, new = (dict(_flat(mapping_fields(program, m))) for m in (before, after))
    paths = [path for path in dict.fromkeys((*old, *new)) if old.get(path) != new.get(path)]
    return tuple(f"{path}: {old.get(path, 'none')} -> {new.get(path, 'none')}" for path in paths)


def read_mapping(path: Path, program: Program) -> Mapping:
    """``parse_mapping`` of a file."""
    return _Reader(read_document(path), program).mapping()


def parse_mapping(text: str, program: Program, file: str = "mapping") -> Mapping:
    """The mapping that a text says. ``program`` is the program as written; ``file`` is the name that errors show.

    Raises InputError with line and column for what is not understood, unknown names with the valid ones, and choices
    that are missing. Whether the mapping is legal on a machine is not checked.
    """
    return _Reader(parse_document(text, file), program).mapping()


@dataclass(frozen=True, slots=True)
class _Reader:
    document: Document
    program: Program

    def mapping(self) -> Mapping:
        document = self.document
        if not isinstance(document.values, dict):
            raise document.error((), f"a mapping must have the sections {', '.join(SECTIONS)}")
        for name in document.values:
            if name not in SECTIONS:
                raise document.error((name,), f"unknown section {name!r}.{nearest(name, SECTIONS)}", key=True)
        label = self._rewrite()
        program = rewriting(self.program, label)
        cuts = self._cuts(program)
        loops = self._loops(program)
        formats = self._formats(program, cuts, loops)
        return Mapping(
            cuts=cuts,
            loops=tuple(loops.values()),
            formats=tuple((tensor, form.kinds) for tensor, form in formats),
            residency=self._word("residency", RESIDENCIES),
            machine=tuple(self._machine()),
            variant=label,
            dtypes=tuple((tensor, form.dtype) for tensor, form in formats if form.dtype != FP32),
        )

    def _rewrite(self) -> str:
        label = str(self.document.values.get("rewrite", "none")).removeprefix("none")
        try:
            rewriting(self.program, label)
        except InputError as error:
            raise self.document.error(("rewrite",), str(error)) from error
        return label

    def _cuts(self, program: Program) -> tuple[bool, ...]:
        names = [edge.name for edge in program.edges]
        section = self._section("edges", names, names)
        return tuple(self._word(name, ("cut", "fused"), section, "edges") == "cut" for name in names)

    def _loops(self, program: Program) -> dict[str, Loops]:
        targets = {s.target.tensor: s.indices for s in program.statements}
        nests = self._section("loops", targets, targets)
        lanes = self._section("lanes", targets, ())
        found = {}
        for target, indices in targets.items():
            order, tiles = self._nest(("loops", target), nests[target], indices)
            parallel = self._lanes(("lanes", target), lanes[target], indices) if target in lanes else ()
            found[target] = Loops(order, tiles, parallel)
        return found

    def _nest(
        self, place: Place, text: Any, indices: tuple[str, ...]
    ) -> tuple[tuple[str, ...], tuple[tuple[str, int], ...]]:
        order, tiles = list[str](), list[tuple[str, int]]()
        if not indices and text == NO_LOOPS:
            return (), ()
        for word, line, column in self._pieces(place, text, ">"):
            loop = _LOOP.fullmatch(word)
            if loop is None:
                raise self.document.text_error(place, line, column, f"{word!r} is no loop: write i or i.tile(64)")
            index, seen = loop["index"], [i for i, _ in tiles] if loop["tile"] else order
            problem = None
            if index not in indices:
                problem = f"unknown index {index!r}.{nearest(index, indices)}"
            elif index in seen:
                problem = f"a second {'tile ' if loop['tile'] else ''}loop over {index}"
            elif loop["tile"] and order:
                problem = f"tile loops stand above all others, but {index}.tile follows {order[-1]}"
            if problem:
                raise self.document.text_error(place, line, column, problem)
            if loop["tile"]:
                tiles.append((index, int(loop["extent"])))
            else:
                order.append(index)
        if missing := [i for i in indices if i not in order]:
            raise self.document.error(place, f"{place[-1]} also needs a loop over {', '.join(missing)}")
        return tuple(order), tuple(tiles)

    def _lanes(self, place: Place, text: Any, indices: tuple[str, ...]) -> tuple[Lane, ...]:
        found = []
        for word, line, column in self._pieces(place, text, ","):
            lane = _LANES.fullmatch(" ".join(word.split()))
            problem = None
            if lane is None:
                problem = f"{word!r} are no lanes: write 4 over i (balanced)"
            elif lane["index"] not in indices:
                problem = f"unknown index {lane['index']!r}.{nearest(lane['index'], indices)}"
            elif lane["partition"] not in PARTITIONS:
                problem = f"unknown partition {lane['partition']!r}.{nearest(lane['partition'], PARTITIONS)}"
            if lane is None or problem:
                raise self.document.text_error(place, line, column, problem or "")
            found.append((lane["index"], int(lane["lanes"]), lane["partition"]))
        return tuple(found)

    def _formats(self, program: Program, cuts: tuple[bool, ...], loops: dict[str, Loops]) -> list[tuple[str, Format]]:
        streamed = {e.tensor for e in program.edges} - {
            e.tensor for e, cut in zip(program.edges, cuts, strict=True) if cut
        }
        accesses = [(s.target.tensor, access) for s in program.statements for access in (s.target, *s.operands)]
        modes = {access.tensor: len(access.indices) for _, access in accesses if access.tensor not in streamed}
        section = self._section("formats", modes, modes, dict.fromkeys(streamed, "it is fused, so never stored"))
        found = []
        for tensor in sorted(modes):
            place = ("formats", tensor)
            try:
                form = parse_format(str(section[tensor]), modes[tensor])
            except InputError as error:
                raise self.document.error(place, str(error)) from error
            for target, access in accesses:
                walked = _modes(access, loops[target])
                if access.tensor == tensor and form.mode_order not in (None, walked):
                    text = f"{form} fixes the order of modes, but the loops of {target} walk {_csv(walked)}"
                    raise self.document.error(place, f"{text}; name level kinds instead: {','.join(form.kinds)}")
            found.append((tensor, form))
        return found

    def _machine(self) -> Iterator[tuple[str, Any]]:
        for name, value in sorted(self._mapping("machine").items()):
            try:
                check_field(name, value)
            except InputError as error:
                raise self.document.error(("machine", name), str(error), key=True) from error
            yield name, value

    def _section(
        self, name: str, known: Iterable[str], needed: Iterable[str], reasons: MappingABC[str, str] | None = None
    ) -> dict[str, Any]:
        """A section by name; every name must be ``known`` (``reasons``: why others are not) and all ``needed`` said."""
        section, valid = self._mapping(name), tuple(known)
        for key in section:
            if key not in valid:
                why = (reasons or {}).get(key)
                text = f"{key!r} has no place here: {why}" if why else f"unknown name {key!r} in {name}."
                raise self.document.error((name, key), text + ("" if why else nearest(key, valid)), key=True)
        if missing := [key for key in needed if key not in section]:
            raise self.document.error((name,), f"section {name} must also say {', '.join(missing)}", key=True)
        return section

    def _mapping(self, name: str) -> dict[str, Any]:
        section = self.document.values.get(name) or {}
        if not isinstance(section, dict):
            raise self.document.error((name,), f"section {name} must hold names and their choices, got {section!r}")
        return section

    def _word(
        self, name: str, valid: Iterable[str], values: MappingABC[str, Any] | None = None, section: str = ""
    ) -> str:
        values = self.document.values if values is None else values
        place = (section, name) if section else (name,)
        if name not in values:
            raise self.document.error(place, f"a mapping must say its {name}: {', '.join(valid)}")
        if (word := values[name]) not in (names := tuple(valid)):
            raise self.document.error(place, f"unknown choice {word!r} of {name}.{nearest(str(word), names)}")
        return str(word)

    def _pieces(self, place: Place, text: Any, separator: str) -> Iterator[tuple[str, int, int]]:
        """(word, line, column) of what stands between separators."""
        if not isinstance(text, str):
            raise self.document.error(place, f"loops and lanes are words, got {text!r}")
        for piece in re.finditer(rf"[^{separator}]+", text):
            word = piece[0].strip()
            start = piece.start() + len(piece[0]) - len(piece[0].lstrip())
            before = text[:start]
            yield word, before.count("\n") + 1, start - (before.rfind("\n") + 1) + 1


def _loops_text(loops: Loops) -> str:
    tiled = dict(loops.tiles)
    return " > ".join(f"{i}.tile({tiled[i]})" if part == "tile" else i for i, part in loops.nest) or NO_LOOPS


def _lanes_text(loops: Loops) -> str:
    return ", ".join(f"{lanes} over {index} ({partition})" for index, lanes, partition in loops.parallel)


def _scalar(text: str) -> str:
    """Labels of rewritings may begin with a character that YAML reserves."""
    return text if re.fullmatch(r"\w[^#:]*", text) else "'" + text.replace("'", "''") + "'"


def _flat(fields: MappingABC[str, Any]) -> Iterator[tuple[str, str]]:
    for name, section in fields.items():
        if isinstance(section, str):
            yield name, section
        else:
            yield from ((f"{name} {key}", text) for key, text in section.items())


def _modes(access: Access, loops: Loops) -> tuple[int, ...]:
    return tuple(access.indices.index(i) for i in loops.order if i in access.indices)


def _csv(items: Iterable[object]) -> str:
    return ",".join(map(str, items))
