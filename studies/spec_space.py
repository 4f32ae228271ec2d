"""The part of a specification that says what is searched: machine, formats, orders, tiles, lanes, cuts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mapper.document import Document
from mapper.errors import InputError
from mapper.formats import Format, parse_format
from mapper.machine import Machine, load_machine, numeric_fields
from mapper.mapping import PARTITIONS
from mapper.program import Program
from mapper.residency import RESIDENCIES
from mapper.rewrites import KINDS, variants
from mapper.space_limits import Scalar, SpaceLimits
from studies.schema import MappingModel, SpecModel

UNTILED = 0
"""Tile extent by which SpaceLimits says that an index is not tiled."""


def read_space(document: Document, model: SpecModel, program: Program) -> tuple[Machine, SpaceLimits]:
    """The machine with the fields given as one value, and what the user pins, limits or lists as knobs.

    Raises InputError, placed in the document, for unknown names and values that do not fit.
    """
    machine, knobs = _machine(document, model.machine)
    formats = _formats(document, model, program)
    return machine, SpaceLimits(formats=formats, machine=knobs, **_mapping(document, model.mapping, program))


def program_modes(program: Program, tensor: str) -> int:
    """Number of modes with which the program uses a tensor."""
    accesses = (a for s in program.statements for a in (s.target, *s.operands))
    return next(len(a.indices) for a in accesses if a.tensor == tensor)


def _formats(document: Document, model: SpecModel, program: Program) -> dict[str, tuple[Format, ...]]:
    allowed = {}
    for tensor, entry in sorted(model.tensors.items()):
        formats = []
        for n, name in enumerate(entry.format):
            try:
                formats.append(parse_format(name, program_modes(program, tensor)))
            except InputError as error:
                raise document.error(("tensors", tensor, "format", n), str(error)) from error
        if formats:
            allowed[tensor] = tuple(dict.fromkeys(formats))
    return allowed


def _machine(document: Document, given: Mapping[str, Any]) -> tuple[Machine, dict[str, tuple[Scalar, ...]]]:
    """The machine with the fields given as one value, and the fields given as several."""
    try:
        machine = load_machine(str(given.get("preset", "rda")))
    except InputError as error:
        raise document.error(("machine", "preset"), str(error)) from error
    knobs = {}
    for name, value in sorted(given.items()):
        if name == "preset":
            continue
        document.known(("machine", name), name, ("preset", *numeric_fields()), key=True)
        choices = value if isinstance(value, list) else [value]
        if not choices:
            raise document.error(("machine", name), f"machine field {name!r} needs at least one value")
        for n, choice in enumerate(choices):
            try:
                changed = machine.with_fields(**{name: choice})
            except InputError as error:
                raise document.error(("machine", name, n), str(error)) from error
        if len(set(choices)) == 1:
            machine = changed
        else:
            knobs[name] = tuple(dict.fromkeys(choices))
    return machine, knobs


def _mapping(document: Document, model: MappingModel, program: Program) -> dict[str, Any]:
    """Fields of SpaceLimits that the mapping section says; what it does not say is left to their defaults."""
    indices = tuple(dict.fromkeys(i for s in program.statements for i in s.indices))
    for n, index in enumerate(model.parallel.index or ()):
        document.known(("mapping", "parallel", "index", n), index, indices)
    for n, residency in enumerate(model.residency or ()):
        document.known(("mapping", "residency", n), residency, RESIDENCIES)
    for index in model.tiles:
        document.known(("mapping", "tiles", index), index, indices, key=True)
    said: dict[str, Any] = {
        "tiles": {index: tuple(dict.fromkeys(t or UNTILED for t in tiles)) for index, tiles in model.tiles.items()},
        **_fusion(document, model, program),
        **_rewrites(document, model, program),
        "orders": {},
    }
    for target, entries in model.orders.items():
        document.known(("mapping", "orders", target), target, program.producers, key=True)
        wanted = program.statements[program.producers[target]].indices
        said["orders"][target] = _orders(document, target, entries, wanted)
    if model.parallel.max is not None:
        said["max_lanes"] = model.parallel.max
    for n, partition in enumerate(model.parallel.partition or ()):
        document.known(("mapping", "parallel", "partition", n), partition, PARTITIONS)
    for name, choices in (
        ("parallel_indices", model.parallel.index),
        ("partitions", model.parallel.partition),
        ("residency", model.residency),
    ):
        if choices is not None:
            said[name] = tuple(dict.fromkeys(choices))
    return said


def _fusion(document: Document, model: MappingModel, program: Program) -> dict[str, Any]:
    """``fuse: all`` and ``fuse: none`` say it for every tensor, ``cut`` lists what is stored, the rest being fused."""
    streams, rewritten = (
        {e.tensor for e in program.edges},
        {e.tensor for p in variants(program).values() for e in p.edges},
    )
    for n, tensor in enumerate(model.cut or ()):
        document.known(("mapping", "cut", n), tensor, rewritten if tensor in rewritten else streams)
    if isinstance(model.fuse, str):
        if model.cut is not None:
            raise document.error(("mapping", "cut"), f"'cut' says what is stored; leave out 'fuse: {model.fuse}'")
        return {"fuse_others": model.fuse == "all"}
    for tensor in model.fuse:
        document.known(("mapping", "fuse", tensor), tensor, rewritten if tensor in rewritten else streams, key=True)
        if tensor in (model.cut or ()) and model.fuse[tensor]:
            raise document.error(("mapping", "fuse", tensor), f"{tensor!r} cannot be both fused and cut")
    cuts = dict.fromkeys(model.cut or (), False)
    return {"fuse": {**cuts, **model.fuse}, "fuse_others": None if model.cut is None else True}


def _rewrites(document: Document, model: MappingModel, program: Program) -> dict[str, Any]:
    """``rewrite`` lists kinds of rewriting, or labels of rewritings with ``none`` for the program as written."""
    if model.rewrite is None:
        return {}
    if set(model.rewrite) <= set(KINDS):
        return {"rewrites": tuple(dict.fromkeys(model.rewrite))}
    labels = {"none": "", **{label: label for label in variants(program) if label}}
    for n, label in enumerate(model.rewrite):
        document.known(("mapping", "rewrite", n), label, [*KINDS, *labels])
        if label in KINDS:
            text = f"{label!r} is a kind of rewriting; list either kinds or single rewritings"
            raise document.error(("mapping", "rewrite", n), text)
    return {"variants": tuple(dict.fromkeys(labels[label] for label in model.rewrite))}


def _orders(
    document: Document, target: str, entries: list[Any], wanted: tuple[str, ...]
) -> tuple[tuple[str, ...], ...]:
    """Loop orders written as ``[i, k, j]``, ``"i,k,j"`` or ``ikj`` (one-letter indices), or a list of these."""
    if sorted(map(str, entries)) == sorted(wanted):
        entries = [entries]
    orders = []
    for n, entry in enumerate(entries):
        order = entry
        if isinstance(entry, str):
            order = [i.strip() for i in entry.split(",")] if "," in entry or entry in wanted else list(entry)
        if not isinstance(order, list) or sorted(map(str, order)) != sorted(wanted):
            text = f"a loop order of {target!r} must hold each of its indices {', '.join(wanted)} once, got {entry!r}"
            raise document.error(("mapping", "orders", target, n), text)
        orders.append(tuple(map(str, order)))
    return tuple(dict.fromkeys(orders))
