"""ProgramSpace: the mappings of one way to write the program - cuts, the loops of every region, formats, buffers."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from mapper.dtypes import FP32
from mapper.errors import IllegalMapping
from mapper.format_choices import FormatChoices
from mapper.fused_region import FusedRegion, draw
from mapper.fusion import Fusion, Partition
from mapper.machine import Machine
from mapper.mapping import Loops, Mapping
from mapper.reconvergence import held_back, meetings
from mapper.region_space import Chooser, RegionSpace, pick
from mapper.regions import stored_tensors
from mapper.residency import KEEP
from mapper.space_limits import SpaceLimits
from mapper.units import lacking_units
from mapper.violation import Violation
from mapper.workload import Workload

MOST_FUSIONS = 1024
"""Choices of cuts that are listed; of programs with more, cuts are drawn edge by edge."""

MOST_SEEN = 2**16
"""Choices of cuts, whole or of the first edges, that are remembered."""

MOST_DRAWS = 256
"""Loops of a region that are drawn until FIFOs hold its streams, where cuts are not listed."""


class ProgramSpace:
    """The mappings of ``workload``, which is variant ``label`` of the workload that the user gave."""

    def __init__(self, workload: Workload, machine: Machine, limits: SpaceLimits, label: str) -> None:
        self.workload, self.machine, self.limits, self.label = workload, machine, limits, label
        self.prefix = f"{label}: " if label else ""
        self.reasons: list[Violation] = []  # against cuts that were tried in vain
        self._regions: dict[FusedRegion, RegionSpace] = {}
        self._asked: dict[tuple[str, ...], list[tuple[str, tuple[Any, ...]]]] = {}
        self._served: dict[FusedRegion, list[Violation]] = {}
        self._seen: dict[tuple[bool, ...], tuple[list[Partition], list[Violation]]] = {}
        self._made: dict[tuple[bool, ...], tuple[Fusion, list[Violation]]] = {}
        self.formats = FormatChoices(workload, machine, limits)

    @cached_property
    def listed(self) -> bool:
        """Whether all legal choices of cuts are listed."""
        return len(self._listed) <= MOST_FUSIONS

    @cached_property
    def fusions(self) -> tuple[Fusion, ...]:
        """Every legal choice of cuts, or the first ``MOST_FUSIONS``; what made others impossible is in ``reasons``."""
        return tuple(self._listed[:MOST_FUSIONS])

    @cached_property
    def _listed(self) -> list[Fusion]:
        if lacking := lacking_units(self.workload.program, self.machine):
            self.reasons += lacking
            return []
        found = itertools.islice(self._fusions(self.undecided), MOST_FUSIONS + 1)
        return [fusion for fusion in found if self._has_order(fusion) and self._has_loops(fusion)]

    @cached_property
    def undecided(self) -> Partition:
        """No edge decided yet."""
        return Partition.of(self.workload.program, self.limits.orders)

    def _fusions(self, partition: Partition) -> Iterator[Fusion]:
        left = [partition]
        while left:
            partition = left.pop()
            if partition.edge is not None:
                options, reasons = self._options(partition)
                left += reversed(options)
                self.reasons += reasons
                continue
            try:
                yield partition.fusion()
            except IllegalMapping as error:
                self.reasons += error.violations

    def _options(self, partition: Partition) -> tuple[list[Partition], list[Violation]]:
        """The next edge cut, then fused, as far as regions and limits allow, and what is against the others."""
        if partition.decided not in self._seen:
            if len(self._seen) >= MOST_SEEN:
                self._seen.clear()
            self._seen[partition.decided] = self._decided(partition)
        return self._seen[partition.decided]

    def _decided(self, partition: Partition) -> tuple[list[Partition], list[Violation]]:
        limits, edge = self.limits, partition.edge
        assert edge is not None
        both = [partition.decide(cut) for cut in (True, False)]
        options = [following for following in both if isinstance(following, Partition)]
        reasons = [reason for reason in both if isinstance(reason, Violation)]
        if edge.tensor in limits.fuse:
            wanted = not limits.fuse[edge.tensor]
            left = [following for following in options if following.decided[-1] == wanted]
            if not left:
                text = f"limits say that it is {'cut' if wanted else 'fused'}"
                reasons.append(Violation("edge", text, "what its regions allow", edge.name))
            return left, reasons
        if limits.fuse_others is not None and len(options) > 1:
            return [options[int(limits.fuse_others)]], reasons
        return options, reasons

    def _has_order(self, fusion: Fusion) -> bool:
        """Whether some loop order suits the formats that the user allows; notes the reasons against the others."""
        fixed = tuple(t for t in stored_tensors(self.workload.program, fusion.cuts) if t in self.formats.fixed)
        if not fixed:
            return True
        ranks = (range(min(region.order_count, MOST_FUSIONS)) for region in fusion.regions)
        for chosen in itertools.islice(itertools.product(*ranks), MOST_FUSIONS):
            misfits = self.formats.misfits(fixed, self._spread(fusion, chosen))
            if not misfits:
                return True
            self.reasons += misfits
        return False

    def _has_loops(self, fusion: Fusion) -> bool:
        """Whether FIFOs may hold the streams of some loops; notes the reasons against the others."""
        refused = [region for region in fusion.regions if not self.region_space(region).choices.count]
        self.reasons += [reason for region in refused for reason in self._unserved(region)]
        return not refused

    def _spread(self, fusion: Fusion, ranks: tuple[int, ...]) -> dict[int, tuple[str, ...]]:
        return {
            number: order
            for region, rank in zip(fusion.regions, ranks, strict=True)
            for number, order in zip(region.statements, region.order(rank), strict=True)
        }

    @cached_property
    def size(self) -> int:
        """Number of mappings, an upper bound: what the rules of product form leave, or where cuts are not all listed
        as many cuts as there could be times the largest part."""
        if self.listed:
            return self._running[-1] if self._running else 0
        bound: int = 2 ** len(self.workload.program.edges) * max(map(self.weight, self.fusions))
        return bound

    @cached_property
    def _running(self) -> list[int]:
        return list(itertools.accumulate(map(self.weight, self.fusions)))

    def weight(self, fusion: Fusion) -> int:
        """Number of mappings with these cuts."""
        loops: int = math.prod(self.region_space(region).choices.count for region in fusion.regions)
        formats: int = math.prod([len(self.formats.of(t)) for t in stored_tensors(self.workload.program, fusion.cuts)])
        return loops * formats * math.prod(map(len, self._others.values()))

    def draw(self, rng: np.random.Generator, fusion: Fusion | None = None) -> Mapping:
        """A mapping, every one equally likely (where cuts are not listed: given its cuts). Raises IllegalMapping for a
        format that does not suit the orders drawn and, at the first region that has them, for streams that wait for
        more than a FIFO holds."""
        tries = 1 if fusion or self.listed else MOST_DRAWS  # cuts are drawn by the number of their loops, or all alike
        fusion = fusion or self._draw_fusion(rng)
        loops: dict[int, Loops] = {}
        for region in fusion.regions:
            loops |= self._draw_loops(rng, region, tries)
        knobs = self._knobs(fusion)
        number, picks = draw(rng, math.prod([len(choices) for _, choices in knobs])), {}
        for name, choices in knobs:
            number, chosen = divmod(number, len(choices))
            picks[name] = choices[chosen]
        return self._assemble(fusion, loops, picks)

    def _draw_loops(self, rng: np.random.Generator, region: FusedRegion, tries: int) -> dict[int, Loops]:
        space = self.region_space(region)
        held = self.deepest is None or space.choices.held
        if not space.choices.count:  # FIFOs refuse all; the first tells why
            space, tries = RegionSpace(self.workload, region, self.limits), 1
        wait: Violation | None = None
        for _ in range(tries):
            loops = space.loops(space.choices.unrank(draw(rng, space.choices.count)))
            wait = None if held else self._wait(region, loops)
            if wait is None:
                return loops
        raise IllegalMapping([wait] if wait else [])

    def _wait(self, region: FusedRegion, loops: dict[int, Loops]) -> Violation | None:
        """What FIFOs do not hold of a region with loops that were drawn."""
        assert self.deepest is not None
        met = meetings(self.workload.program, region.statements)
        wait = next(held_back(self.workload, met, loops, self.deepest), None)
        return wait and wait.violation(met, self.workload.program, self.deepest)

    def _unserved(self, region: FusedRegion) -> list[Violation]:
        """What is against the loops of a region if none were found that FIFOs serve, by draws that are the same for
        every caller: no mapping depends on those drawn before it."""
        if region not in self._served:
            self._served[region] = []
            try:
                self._draw_loops(np.random.default_rng(0), region, MOST_DRAWS)
            except IllegalMapping as error:
                self._served[region] = list(error.violations)
        return self._served[region]

    @cached_property
    def deepest(self) -> int | None:
        """The largest depth that FIFOs may have; what waits for more need not be drawn to its end."""
        depths = self.limits.machine.get("fifo_depth", (self.machine.fifo_depth,))
        return None if None in depths else max(int(depth) for depth in depths if depth is not None)

    def _draw_fusion(self, rng: np.random.Generator) -> Fusion:
        if self.listed:
            return self.fusions[bisect.bisect_right(self._running, draw(rng, self._running[-1]))]
        partition = self.undecided
        while partition.edge is not None:
            options, reasons = self._options(partition)
            if not options:
                raise IllegalMapping(reasons)
            partition = options[int(rng.integers(len(options))) if len(options) > 1 else 0]
        if partition.decided not in self._made:
            if len(self._made) >= MOST_SEEN:
                self._made.clear()
            fusion = partition.fusion()
            self._made[partition.decided] = fusion, [v for region in fusion.regions for v in self._unserved(region)]
        fusion, unserved = self._made[partition.decided]
        if unserved:
            raise IllegalMapping(unserved)
        return fusion

    def choose(self, chooser: Chooser) -> Mapping:
        """The mapping that ``chooser`` makes; edges that must be cut or fused are not asked."""
        partition = self.undecided
        while (edge := partition.edge) is not None:
            options, reasons = self._options(partition)
            if not options:
                raise IllegalMapping(reasons)
            cut = len(options) == 1
            if len(options) > 1:
                cut = chooser.categorical(f"{self.prefix}cut.{edge.name}", ["cut", "fused"]) == "cut"
            partition = options[0 if cut else 1]
        fusion = partition.fusion()
        loops: dict[int, Loops] = {}
        for region in fusion.regions:
            loops |= self.region_space(region).choose(chooser)
        picks = {knob: pick(chooser, knob, list(choices)) for knob, choices in self._knobs(fusion)}
        return self._assemble(fusion, loops, picks)

    def fusion_of(self, cuts: Sequence[bool]) -> Fusion:
        """The fusion with these cuts. Raises IllegalMapping for cuts that regions or limits exclude."""
        partition = self.undecided
        for cut in cuts:
            following = next((p for p in self._options(partition)[0] if p.decided[-1] == cut), None)
            if following is None:
                assert partition.edge is not None
                got, where = "cut" if cut else "fused", partition.edge.name
                raise IllegalMapping([Violation("edge", got, "what regions and limits allow", where)])
            partition = following
        return partition.fusion()

    def answers(self, mapping: Mapping) -> dict[str, Any]:
        """What a chooser must answer to get ``mapping``, knobs that it will not be asked included. Raises
        IllegalMapping for cuts, orders and formats that the space does not have."""
        loops = dict(enumerate(mapping.loops))
        cuts = zip(self.workload.program.edges, mapping.cuts, strict=True)
        found: dict[str, Any] = {f"{self.prefix}cut.{e.name}": "cut" if cut else "fused" for e, cut in cuts}
        for region in self.fusion_of(mapping.cuts).regions:
            found |= self.region_space(region).answers(loops)
        forms = self.formats.stored(mapping)
        found |= {f"{self.prefix}format.{tensor}": str(form) for tensor, form in forms.items()}
        found |= {"residency": mapping.residency, "joins": mapping.joins}
        return found | {f"machine.{k}": v for k, v in mapping.machine}

    def region_space(self, region: FusedRegion) -> RegionSpace:
        """The knobs of one region."""
        if region not in self._regions:
            self._regions[region] = RegionSpace(self.workload, region, self.limits, self.prefix, self.deepest)
        return self._regions[region]

    def _knobs(self, fusion: Fusion) -> list[tuple[str, tuple[Any, ...]]]:
        """(name, choices) of the knobs that are independent once the cuts are chosen, in a fixed order."""
        stored = stored_tensors(self.workload.program, fusion.cuts)
        if stored not in self._asked:
            forms = [(f"{self.prefix}format.{tensor}", tuple(self.formats.of(tensor))) for tensor in stored]
            self._asked[stored] = [*forms, *self._others.items()]
        return self._asked[stored]

    @cached_property
    def _others(self) -> dict[str, tuple[Any, ...]]:
        machine = sorted(self.limits.machine.items())
        return {
            "residency": self.residencies,
            "joins": self.limits.joins,
            **{f"machine.{name}": values for name, values in machine},
        }

    @cached_property
    def residencies(self) -> tuple[str, ...]:
        """Residencies that may be legal: without memory nothing is loaded, and ``keep`` needs a second buffer."""
        if self.machine.dram_channels is None:
            return ("none",)
        most = max(v or 0 for v in self.limits.machine.get("prefetch_tiles", (self.machine.prefetch_tiles,)))
        return tuple(r for r in self.limits.residency if r != KEEP or most > 1) or self.limits.residency

    def _assemble(self, fusion: Fusion, loops: dict[int, Loops], picks: dict[str, Any]) -> Mapping:
        formats, dtypes = [], []
        orders = {n: own.order for n, own in loops.items()}
        for tensor in sorted(stored_tensors(self.workload.program, fusion.cuts)):
            form = self.formats.picked(tensor, picks[f"{self.prefix}format.{tensor}"], orders)
            formats.append((tensor, form.kinds))
            dtypes += [(tensor, form.dtype)] * (form.dtype != FP32)
        machine = tuple((k.removeprefix("machine."), v) for k, v in sorted(picks.items()) if k.startswith("machine."))
        ordered = tuple(loops[n] for n in sorted(loops))
        return Mapping(
            fusion.cuts, ordered, tuple(formats), picks["residency"], machine, self.label, tuple(dtypes), picks["joins"]
        )
