"""What the model's figures for a region depend on: mappings that agree in it share them."""

from __future__ import annotations

import sys
from collections.abc import Hashable

from costmodel.nest import Model
from mapper.machine import Machine
from mapper.schedule import Region


def region_key(model: Model, region: Region, machine: Machine) -> tuple[Hashable, ...]:
    """Everything of a mapping that a region sees, data and machine."""
    mapping, every = model.mapping, model.workload.program.statements
    statements = [every[n] for n in region.statements]
    read = {access.tensor for s in statements for access in s.operands}
    views = [s for s in every if s.kind == "view" and s.target.tensor in read]
    read |= {access.tensor for view in views for access in view.operands}  # windows may be read in place
    read |= {s.target.tensor for s in statements}  # whose format blocks must suit
    formats = tuple(pair for pair in (*mapping.formats, *mapping.dtypes) if pair[0] in read)
    seen = tuple(mapping.loops[n] for n in region.statements), formats, mapping.residency, mapping.joins
    found = tuple(model.widened[tensor].key for tensor in sorted(read & model.widened.keys()))
    return model.workload.key, model.level, region, seen, found, sys.intern(repr(machine))
