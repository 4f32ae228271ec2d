"""Evaluation: run the schedule of one mapping on the simulator, check its values, add up what it cost.

A pure function of (workload, mapping, machine, limits), so that any worker gives the same record.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hwsim import Limits, Profile, energy_pj, simulate, smallest_depth
from mapper.canonical import plain
from mapper.graph import Graph
from mapper.lowering import Written, collect_output, lower_conversion, lower_region, written_elements
from mapper.machine import Machine
from mapper.mapping import Mapping
from mapper.precision import expected_outputs, multiply_scale, tolerance, viewed
from mapper.regions import region_label
from mapper.schedule import Conversion, Region, schedule
from mapper.storage import Layout, Storage, store_tensor
from mapper.tensor import SparseTensor
from mapper.windows import in_place
from mapper.workload import Workload

CACHED_LAYOUTS = 64

DEPTH_TOKENS = 2**21
"""Tokens of a step up to which the FIFO depth that would cure its deadlock is searched: a second at most."""

TOO_SLOW = "too slow"
"""Failure of a simulation that took more cycles than it was allowed."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Outcome of one mapping: ``failure`` says what went wrong, None if every step ran and the values are right;
    ``profiles`` has the name and the run of every step."""

    failure: str | None
    latency_cycles: int
    traffic_bytes: int
    energy_pj: float
    summary: dict[str, Any]
    outputs: dict[str, SparseTensor] = field(repr=False)
    profiles: tuple[tuple[str, Profile], ...] = field(repr=False)


class StorageCache:
    """Stored forms of tensors, most recently used first; the same layout serves many mappings. And the outputs to
    expect of mappings with narrow value types, which many share."""

    def __init__(self) -> None:
        self._stored: OrderedDict[tuple[Any, ...], Storage] = OrderedDict()
        self._expected: dict[tuple[Any, ...], dict[str, SparseTensor]] = {}

    def get(self, tensor: SparseTensor, layout: Layout, machine: Machine) -> Storage:
        """``store_tensor`` of the arguments, remembered."""
        widths = (machine.value_bytes, machine.coordinate_bytes, machine.pointer_bytes, machine.descriptor_bytes)
        key = (tensor.key, layout, widths, machine.dram_burst_bytes)
        if key not in self._stored:
            self._stored[key] = store_tensor(tensor, layout, machine)
            if len(self._stored) > CACHED_LAYOUTS:
                self._stored.popitem(last=False)
        self._stored.move_to_end(key)
        return self._stored[key]

    def expected(self, workload: Workload, mapping: Mapping) -> dict[str, SparseTensor]:
        """``expected_outputs`` of the arguments, remembered."""
        key = (workload.key, mapping.dtypes, mapping.cuts if mapping.dtypes else ())
        if key not in self._expected:
            if len(self._expected) >= CACHED_LAYOUTS:
                self._expected.clear()
            self._expected[key] = expected_outputs(workload, mapping)
        return self._expected[key]


def evaluate(
    workload: Workload,
    mapping: Mapping,
    machine: Machine,
    limits: Limits,
    cache: StorageCache | None = None,
    *,
    max_slices: int = 0,
    most_cycles: int | None = None,
) -> Evaluation:
    """Simulates every step of a legal mapping on ``machine`` (its knobs already chosen). ``limits`` hold per step, and
    so does ``max_slices``, the size of each profile's timeline; ``most_cycles`` of all steps together end it with the
    failure ``TOO_SLOW``."""
    cache = cache or StorageCache()
    written, workload = workload, workload.variant(mapping.variant)
    data = dict(workload.tensors)
    profiles: list[tuple[str, Profile]] = []
    energy, failure = 0.0, None

    unstored: dict[str, Conversion] = {}

    def store(tensor: SparseTensor, layout: Layout) -> Storage:
        return cache.get(tensor, layout, machine)

    def storage_of(tensor: str, layout: Layout) -> Storage:
        stored = store(data[tensor], layout)
        return in_place(workload, unstored[tensor], data[tensor], stored, store) if tensor in unstored else stored

    for step in schedule(workload.program, mapping).steps:
        if isinstance(step, Conversion):
            if step.statement is not None:
                data[step.made] = viewed(workload, mapping, step.statement, data[step.tensor])
            if step.in_place:
                unstored[step.made] = step
            name, graph = step.name, lower_conversion(step, machine, storage_of)
        else:
            name, graph = region_label(step.statements), lower_region(workload, mapping, machine, step, storage_of)
        left = None if most_cycles is None else most_cycles - sum(p.cycles for _, p in profiles)
        within = limits if left is None else replace(limits, max_cycles=min(left, limits.max_cycles or left))
        profile = simulate(graph, within, max_slices=max_slices)
        profiles.append((name, profile))
        statements = step.statements if isinstance(step, Region) else ()
        energy += energy_pj(profile, machine.energy, multiply_scale(workload.program, mapping, statements, machine))
        if profile.status != "done":
            failure = f"{name}: {profile.status}{_why(graph, profile)}"
            if left is not None and profile.cycles > left:
                failure = TOO_SLOW
            break
        if isinstance(step, Region):
            data.update(_written(workload, mapping, step, written_elements(graph, profile.outputs)))
    made = {t: data[t] for t in workload.program.outputs if t in data}
    oracle = workload if mapping.dtypes else written  # rounding is of the tensors that the rewriting stores
    failure = failure or _wrong_values(made, cache.expected(oracle, mapping), tolerance(workload, mapping))
    rounding = {name: _error(got, workload.computed[name]) for name, got in made.items()} if mapping.dtypes else {}
    return _summed(failure, profiles, made, energy, rounding)


def _why(graph: Graph, profile: Profile) -> str:
    """Of a deadlock: who waits for whom, and the FIFO depth at which the step would have run, where that is soon
    found."""
    if profile.deadlock is None:
        return ""
    found = smallest_depth(graph, Limits(max_tokens=DEPTH_TOKENS))
    cure = "" if found.depth is None else f"; a FIFO depth of {found.depth} suffices"
    if found.profile.deadlock:
        cure = "; no FIFO depth suffices"
    return f": {profile.deadlock.brief}{cure}"


def _written(
    workload: Workload, mapping: Mapping, region: Region, outputs: dict[str, Written]
) -> dict[str, SparseTensor]:
    written = {}
    for tensor, _ in region.stored:
        parts = [p for name, p in sorted(outputs.items()) if name.split("@")[0] == f"store {tensor}"]
        statement = workload.program.producers[tensor]
        written[tensor] = collect_output(workload, mapping, statement, parts)
    return written


def _wrong_values(made: dict[str, SparseTensor], expected: dict[str, SparseTensor], allowed: float) -> str | None:
    """First difference between simulated outputs and the oracle's beyond what the value types allow."""
    for name, got in made.items():
        want = expected[name]
        both = got.minus(want)
        error = np.abs(both.values)
        if not (error <= allowed * (1.0 + want.magnitude)).all():
            worst = int(np.argmax(error))
            at = tuple(both.coords[:, worst].tolist())
            return f"wrong value: {name}{at} differs from the oracle by {error[worst]:g}"
    return None


def _error(got: SparseTensor, exact: SparseTensor) -> float:
    """Largest difference from the values without rounding, over their largest magnitude."""
    return float(np.abs(got.minus(exact).values).max(initial=0.0)) / (exact.magnitude or 1.0)


def _summed(
    failure: str | None, profiles: list[tuple[str, Profile]], made: dict[str, SparseTensor], energy: float,
    rounding: dict[str, float],
) -> Evaluation:  # fmt: skip
    latency = sum(p.cycles for _, p in profiles)
    traffic = [row for _, p in profiles for row in plain(p.traffic)]
    total = sum(row["values_bytes"] + row["metadata_bytes"] for row in traffic)
    deadlocks = [str(p.deadlock) for _, p in profiles if p.deadlock]
    summary = {
        "status": "done" if failure is None else failure,
        "latency_cycles": latency,
        "traffic_bytes": total,
        "energy_pj": energy,
        "tokens": sum(p.tokens for _, p in profiles),
        "effectual_multiplies": sum(p.effectual_multiplies for _, p in profiles),
        "output_nnz": {name: tensor.nnz for name, tensor in made.items()},
        "rounding_error": rounding,
        "traffic": traffic,
        "steps": [
            {"name": name, "cycles": p.cycles, "status": p.status, "contexts": plain(p.contexts)}
            for name, p in profiles
        ],
        "deadlock": deadlocks[0] if deadlocks else None,
    }
    return Evaluation(failure, latency, total, energy, summary, made, tuple(profiles))
