"""FormatChoices: the formats in which each tensor of a program may be stored, as far as loop orders suit them."""

from __future__ import annotations

from collections.abc import Mapping as MappingABC
from functools import cached_property

from mapper.blocks import offered_blocks
from mapper.errors import IllegalMapping
from mapper.formats import Format, offered_formats, pads, writable
from mapper.fused_region import order_text
from mapper.machine import Machine
from mapper.mapping import Mapping
from mapper.program import pattern_sensitive
from mapper.space_limits import SpaceLimits
from mapper.violation import Violation
from mapper.workload import Workload

OrdersOf = MappingABC[int, tuple[str, ...]]
"""The loop order of every statement."""


class FormatChoices:
    """What ``limits`` allow, and for other tensors what suits their data and the machine."""

    def __init__(self, workload: Workload, machine: Machine, limits: SpaceLimits) -> None:
        self._workload, self._machine, self._limits = workload, machine, limits
        self._offered: dict[str, dict[str, Format]] = {}

    def of(self, tensor: str) -> dict[str, Format]:
        """Formats of a tensor, by their text."""
        if tensor not in self._offered:
            forms = self._limits.formats.get(tensor) or self._fitting(tensor)
            self._offered[tensor] = {str(form): form for form in forms}
        return self._offered[tensor]

    def _fitting(self, tensor: str) -> list[Format]:
        data, program = self._workload.tensor(tensor), self._workload.program
        keeps = tensor in pattern_sensitive(program) and data.density < 1.0
        return [
            form
            for form in (*offered_formats(data), *offered_blocks(data, self._machine))
            if (tensor not in program.producers or writable(form.kinds)) and not (keeps and pads(form.kinds))
        ]

    def suited(self, tensor: str, orders: OrdersOf) -> list[Format]:
        """The formats of a tensor that loop orders suit."""
        return [form for form in self.of(tensor).values() if self._suits(tensor, form, orders)]

    def picked(self, tensor: str, text: str, orders: OrdersOf) -> Format:
        """The format of that text. Raises IllegalMapping if loop orders do not suit it."""
        form = self.of(tensor)[text]
        if not self._suits(tensor, form, orders):
            raise IllegalMapping([_misfit(tensor, text, orders)])
        return form

    def stored(self, mapping: Mapping) -> dict[str, Format]:
        """The format by which a mapping stores each tensor. Raises IllegalMapping where it is none of those offered."""
        orders = {n: loops.order for n, loops in enumerate(mapping.loops)}
        found = {}
        for tensor, form in mapping.stored_formats():
            alike = (f for f in self.suited(tensor, orders) if (f.kinds, f.dtype) == (form.kinds, form.dtype))
            suited = next(alike, None)
            if suited is None:
                limit = " or ".join(self.of(tensor))
                raise IllegalMapping([Violation("format", str(form), f"{limit}, as the loops walk it", tensor)])
            found[tensor] = suited
        return found

    @cached_property
    def fixed(self) -> frozenset[str]:
        """Tensors whose every format fixes the order of modes; the user alone asks for such."""
        allowed = self._limits.formats.items()
        return frozenset(tensor for tensor, forms in allowed if all(f.mode_order is not None for f in forms))

    def misfits(self, tensors: tuple[str, ...], orders: OrdersOf) -> list[Violation]:
        """Tensors of which loop orders suit no format."""
        return [
            _misfit(tensor, " or ".join(self.of(tensor)), orders)
            for tensor in tensors
            if not self.suited(tensor, orders)
        ]

    def _suits(self, tensor: str, form: Format, orders: OrdersOf) -> bool:
        """Whether every access of ``tensor`` walks the modes in the order that the format fixes, if it fixes one. Views
        take any order, and where there is nothing else rows come first."""
        if form.mode_order is None:
            return True
        walks = {
            tuple(access.indices.index(i) for i in orders[number] if i in access.indices)
            for number, statement in enumerate(self._workload.program.statements)
            if statement.kind != "view"
            for access in (statement.target, *statement.operands)
            if access.tensor == tensor
        }
        return (walks or {tuple(range(len(form.kinds)))}) == {form.mode_order}


def _misfit(tensor: str, formats: str, orders: OrdersOf) -> Violation:
    text = order_text(tuple(orders[n] for n in sorted(orders)))
    return Violation("format-order", f"order {text}", f"one that walks {formats}", tensor)
