"""MappingSpace: the knobs of a workload on a machine, legal by construction where rules have product form.

Given the rewriting of the program and the cuts, the loops of each region and all other knobs are independent, but for
a few rules: units must suffice, streams must not need more than a FIFO holds, a format with a fixed mode order must
suit the loop order, and ``keep`` needs two tile buffers where their number is a knob. So the space is counted as a sum
of products (an upper bound by those rules; of what FIFOs refuse, most is left out of the ``loop_choices``) and sampled
uniformly: rewriting and cuts in proportion to their product, then every knob, then rejection of what the rules forbid.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as MappingABC
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from mapper.errors import EmptySpace, IllegalMapping
from mapper.fused_region import draw
from mapper.fusion import Fusion
from mapper.legality import joint_violations, violations
from mapper.machine import Machine
from mapper.mapping import Mapping
from mapper.mapping_text import mapping_changes
from mapper.program_space import ProgramSpace
from mapper.region_space import Chooser, pick
from mapper.space_limits import SpaceLimits, check_names
from mapper.violation import Violation
from mapper.workload import Workload


class MappingSpace:
    """All mappings of ``workload`` on ``machine`` within ``limits``.

    ``inputs``: other data for the same program, by name, the first of them ``workload``; a mapping must be legal for
    each of them, what is offered depends on the first alone.
    """

    def __init__(
        self,
        workload: Workload,
        machine: Machine,
        limits: SpaceLimits | None = None,
        inputs: MappingABC[str, Workload] | None = None,
    ) -> None:
        self.workload, self.machine, self.limits = workload, machine, limits or SpaceLimits()
        self.inputs = dict(inputs or {"": workload})
        check_names(workload, self.limits)
        self.programs = {
            label: ProgramSpace(workload.variant(label), machine, self.limits, label)
            for label in self.limits.chosen_variants(workload.program)
            if workload.keeps_results(label)
        }

    def machine_of(self, mapping: Mapping) -> Machine:
        """The machine with the mapping's values of machine knobs."""
        return self.machine.with_fields(**dict(mapping.machine)) if mapping.machine else self.machine

    def violations(self, mapping: Mapping) -> tuple[Violation, ...]:
        """Rules broken on the machine that the mapping asks for, by the first input that breaks any."""
        machine = self.machine_of(mapping)
        for name, workload in self.inputs.items():
            if broken := violations(workload, mapping, machine):
                return tuple(replace(v, where=self.place(v.where, name)) for v in broken)
        return ()

    def _drawn_violations(self, mapping: Mapping) -> tuple[Violation, ...]:
        """``violations`` of a mapping that was drawn, whose choices are legal one by one."""
        if len(self.inputs) > 1:
            return self.violations(mapping)
        held_depth = self.programs[mapping.variant].deepest
        return joint_violations(self.workload, mapping, self.machine_of(mapping), held_depth)

    def place(self, where: str, name: str) -> str:
        """``where`` with the name of the input, if there are several."""
        return f"{where} for input {name}" if len(self.inputs) > 1 else where

    @cached_property
    def fusions(self) -> tuple[Fusion, ...]:
        """Every legal choice of cuts of every rewriting, as far as they are listed (``ProgramSpace.fusions``). Raises
        EmptySpace, with the rules to blame, if no mapping is left."""
        found = tuple(fusion for program in self.programs.values() for fusion in program.fusions)
        if not found:
            reasons = dict.fromkeys(str(r) for program in self.programs.values() for r in program.reasons)
            if not self.programs:
                reasons = {"the rewritings that are asked for change the results on these data": None}
            raise EmptySpace(f"the mapping space is empty: {'; '.join(reasons) or 'no cuts are allowed'}")
        return found

    def size(self) -> int:
        """Number of mappings: an upper bound, as some rules may forbid what their product allows."""
        return self._running[-1]

    @cached_property
    def _running(self) -> list[int]:
        _ = self.fusions  # an empty space is an error
        return list(itertools.accumulate(program.size for program in self.programs.values()))

    def sample(self, rng: np.random.Generator, fusions: Sequence[Fusion] | None = None, tries: int = 10_000) -> Mapping:
        """A legal mapping, uniformly from the space or from the part that ``fusions`` span.

        Raises EmptySpace naming the rules that forbade all ``tries``.
        """
        reasons: dict[str, list[Violation]] = {}
        programs = list(self.programs.values())
        running = None if fusions is None else self._weighed(fusions)
        for _ in range(tries):
            try:
                if fusions is None or running is None:
                    program = programs[bisect.bisect_right(self._running, draw(rng, self._running[-1]))]
                    mapping = program.draw(rng)
                else:
                    fusion = fusions[bisect.bisect_right(running, draw(rng, running[-1]))]
                    mapping = self._program_of(fusion).draw(rng, fusion)
                broken = self._drawn_violations(mapping)
            except IllegalMapping as error:
                broken = error.violations
            if not broken:
                return mapping
            for violation in broken:
                reasons.setdefault(violation.rule, []).append(violation)
        text = "; ".join(f"{v[0]} ({len(v)} times)" for v in sorted(reasons.values(), key=len, reverse=True))
        raise EmptySpace(f"no legal mapping among {tries} uniform draws: forbidden by {text}")

    def choose(self, chooser: Chooser) -> Mapping:
        """The mapping that ``chooser`` makes, one named knob at a time; knobs without a choice are not asked, and a
        knob of one name always has the same choices.

        Raises IllegalMapping for cuts that no order serves and formats that do not suit orders.
        """
        return self.programs[pick(chooser, "rewrite", list(self.programs))].choose(chooser)

    def params(self, mapping: Mapping) -> dict[str, Any]:
        """The value of every knob that ``choose`` asks on the way to ``mapping``: its inverse; the first where
        several answers give the mapping. Raises IllegalMapping, with knob or rule, for a mapping outside the space."""
        if mapping.variant not in self.programs:
            limit = " or ".join(label or "the program as written" for label in self.programs)
            raise IllegalMapping([Violation("rewrite", mapping.variant or "the program as written", limit, "mapping")])
        known = {"rewrite": mapping.variant} | self.programs[mapping.variant].answers(mapping)
        chooser = _Answers(known)
        if (made := self.choose(chooser)) != mapping:
            text = "; ".join(mapping_changes(self.workload.program, made, mapping)) or "a machine field without a knob"
            raise IllegalMapping([Violation("space", text, "what the space offers", "mapping")])
        return chooser.chosen

    def neighbours(self, mapping: Mapping) -> Iterator[Mapping]:
        """Legal mappings one knob away from a legal one, each once, in a fixed order; those of a mapping in the space
        are in the space. ``neighbours.Neighbourhood`` says what one knob is."""
        from mapper.neighbours import Neighbourhood  # which needs the space

        return iter(Neighbourhood(self, mapping))

    def _weighed(self, fusions: Sequence[Fusion]) -> list[int]:
        return list(itertools.accumulate(self._program_of(f).weight(f) for f in fusions))

    def _program_of(self, fusion: Fusion) -> ProgramSpace:
        return next(p for p in self.programs.values() if p.workload.program is fusion.program)


class _Answers:
    """A chooser that answers from a table and remembers what was asked."""

    def __init__(self, known: dict[str, Any]) -> None:
        self.known, self.chosen = known, dict[str, Any]()

    def categorical(self, name: str, choices: Sequence[Any]) -> Any:
        value = self.known.get(name)
        if value not in choices:
            limit = f"one of {', '.join(map(str, choices))}"
            raise IllegalMapping([Violation("space", f"{value}", limit, name)])
        self.chosen[name] = value
        return value

    def integer(self, name: str, low: int, high: int) -> int:
        return int(self.categorical(name, range(low, high + 1)))
