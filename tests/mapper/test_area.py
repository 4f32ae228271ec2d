"""Every kind of context is budgeted and has an area, or is free, and nothing in between."""

from __future__ import annotations

import pytest

from mapper.area import FREE_KINDS, UNIT_UM2, area_parts_mm2
from mapper.graph import CONTEXT_KINDS
from mapper.machine import load_machine, preset_names
from mapper.units import PORTED


def test_every_kind_is_free_or_has_an_area() -> None:
    assert set(UNIT_UM2) == set(PORTED)
    assert not FREE_KINDS & set(UNIT_UM2)
    assert FREE_KINDS | set(UNIT_UM2) == set(CONTEXT_KINDS)


@pytest.mark.parametrize("name", preset_names())
def test_finite_presets_budget_what_has_an_area(name: str) -> None:
    machine = load_machine(name)
    parts = area_parts_mm2(machine)
    assert (parts is None) == (machine.units is None)
    if parts is not None and machine.units is not None:
        assert set(machine.units) == set(UNIT_UM2)
        assert all(count >= 0 for count in machine.units.values()) and parts["logic"] > 0 and parts["fifos"] > 0
