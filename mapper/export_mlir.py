"""The storage of a mapping as MLIR: an encoding of the ``sparse_tensor`` dialect for every stored tensor.

A level of a mode d is written ``d1 : compressed``; a tiled mode is two levels, ``d1 floordiv 64`` and ``d1 mod 64``, as
are the modes of blocks and the groups of an N:M level (``structured[2, 4]``). Coordinates and pointers have the widths
of the machine.
"""

from __future__ import annotations

from mapper.dtypes import FP32
from mapper.errors import InputError
from mapper.formats import COMPRESSED, DENSE, NONUNIQUE, SINGLETON, block_of, slots_of
from mapper.machine import Machine
from mapper.mapping import Mapping
from mapper.schedule import Conversion, schedule, stored_operands
from mapper.storage import Layout
from mapper.workload import Workload

ELEMENTS = {FP32: "f32", "fp16": "f16", "bf16": "bf16", "int8": "i8"}
WIDTHS = (8, 16, 32, 64)
"""Bits that a position or coordinate may have."""


def mlir_export(workload: Workload, mapping: Mapping, machine: Machine) -> str:
    """An alias ``#A`` and the type of every stored tensor of a legal mapping, in order of first use; ``#A_2``, ... are
    the layouts into which it is converted. ``workload``: the program as written.

    Raises InputError, with tensor and level, for levels that the dialect does not have.
    """
    workload = workload.variant(mapping.variant)
    layouts: dict[str, list[Layout]] = {}
    for step in schedule(workload.program, mapping).steps:
        if isinstance(step, Conversion):
            continue
        for number in step.statements:
            for tensor, layout in stored_operands(workload.program, mapping, number):
                known = layouts.setdefault(tensor, [])
                known += [layout] * (layout not in known)
        for tensor, layout in step.stored:
            layouts[tensor] = [layout]
    texts = []
    for tensor, known in layouts.items():
        shape = workload.tensor(tensor).shape
        for n, layout in enumerate(known, 1):
            name = tensor if n == 1 else f"{tensor}_{n}"
            texts.append(_tensor_text(tensor, name, shape, layout, machine))
    return "\n".join(texts)


def _tensor_text(tensor: str, name: str, shape: tuple[int, ...], layout: Layout, machine: Machine) -> str:
    extents = "".join(f"{extent}x" for extent in shape)
    element = ELEMENTS[layout.dtype]
    if not shape:
        return f"// {name} : tensor<{element}>\n"
    dims = ", ".join(f"d{mode}" for mode in range(len(shape)))
    levels = ", ".join(_levels(tensor, layout))
    widths = {"posWidth": 8 * machine.pointer_bytes, "crdWidth": 8 * machine.coordinate_bytes}
    for field, bits in widths.items():
        if bits not in WIDTHS:
            raise InputError(
                f"MLIR has a {field} of {', '.join(map(str, WIDTHS))} bits, machine {machine.name} of {bits}"
            )
    fields = [f"map = ({dims}) -> ({levels})", *(f"{field} = {bits}" for field, bits in widths.items())]
    body = ",\n  ".join(fields)
    return f"#{name} = #sparse_tensor.encoding<{{\n  {body}\n}}>\n// {name} : tensor<{extents}{element}, #{name}>\n"


def _levels(tensor: str, layout: Layout) -> list[str]:
    """Level expressions with their types, outer to inner."""
    found = [f"d{mode} floordiv {layout.tiles[mode]} : compressed" for mode in layout.tile_modes]
    below: list[str] = []
    for depth, (mode, kind) in enumerate(zip(layout.modes, layout.kinds, strict=True)):
        where = f"level {depth} ({kind}) of tensor {tensor}"
        tile = layout.tiles[mode] if mode in layout.tile_modes else 0
        inner = f"d{mode} mod {tile}" if tile else f"d{mode}"
        slots, block = slots_of(kind), block_of(layout.kinds[-1])
        blocked = block is not None and depth >= len(layout.kinds) - 2
        if tile and (slots or blocked):
            raise InputError(f"MLIR splits a mode once, but {where} splits mode {mode} within its tiles of {tile}")
        if slots is not None:
            if depth < len(layout.kinds) - 1 or {*layout.kinds[:-1]} - {DENSE} or layout.tile_modes:
                raise InputError(f"MLIR has structured levels below dense ones and last alone, not {where}")
            found += [
                f"d{mode} floordiv {slots[1]} : dense",
                f"d{mode} mod {slots[1]} : structured[{slots[0]}, {slots[1]}]",
            ]
        elif block is not None and blocked:
            last = depth == len(layout.kinds) - 1
            side = block[last]
            found.append(f"d{mode} floordiv {side} : {COMPRESSED if last else DENSE}")
            below.append(f"d{mode} mod {side} : {DENSE}")
        else:
            found.append(f"{inner} : {_type(kind, layout.kinds[depth + 1 :], where)}")
    return found + below


def _type(kind: str, inner: tuple[str, ...], where: str) -> str:
    """The level type; a coordinate may come again while singleton levels follow."""
    repeats = "(nonunique)" if inner[:1] == (SINGLETON,) else ""
    types = {DENSE: DENSE, COMPRESSED: COMPRESSED, NONUNIQUE: COMPRESSED + repeats, SINGLETON: SINGLETON + repeats}
    if kind not in types:
        raise InputError(f"MLIR has no level like {where}; it has {', '.join(types)}, N:M and blocks")
    return types[kind]
