"""Appraisal: one mapping, simulated or estimated, as plain figures that a command prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from costmodel import Statistics, capacity_verdicts, estimate
from hwsim import Efficiency, Limits, Profile, TrafficRow, dense_multiplies, peak_multiplies_per_cycle
from mapper.default_mapping import default_mapping
from mapper.machine import Machine
from tuner.advice import advise
from tuner.evaluate import evaluate
from tuner.mapping_source import NamedMapping
from tuner.problem import Problem


def simulated_facts(problem: Problem, found: NamedMapping) -> dict[str, Any]:
    """What the simulator says of a legal mapping, as a study would: within the limits of the specification, but for the
    default mapping, with which all others are compared. ``failure`` is null where
    every step ran and the values are right; ``verdicts`` say which tiles are larger than their buffer."""
    machine = problem.space.machine_of(found.mapping)
    limits = Limits(max_cycles=problem.spec.limits.cycles, max_tokens=problem.spec.limits.tokens)
    if found.mapping == default_mapping(problem.space):
        limits = Limits()
    result = evaluate(problem.workload, found.mapping, machine, limits)
    profiles = result.profiles
    multiplies = result.summary["effectual_multiplies"]
    verdicts = capacity_verdicts(problem.workload, found.mapping, machine)
    return {
        "mapping": found.name,
        "key": found.mapping.key,
        "failure": result.failure,
        "verdicts": [asdict(verdict) for verdict in verdicts],
        "latency_cycles": result.latency_cycles,
        "traffic_bytes": result.traffic_bytes,
        "energy_pj": result.energy_pj,
        "tokens": result.summary["tokens"],
        "effectual_multiplies": multiplies,
        **_ratios(problem, found, machine, multiplies, result.traffic_bytes, result.latency_cycles),
        "bottleneck": _bottleneck([profile for _, profile in profiles], machine),
        "output_nnz": result.summary["output_nnz"],
        "rounding_error": result.summary["rounding_error"],
        "steps": [{"step": name, "latency_cycles": p.cycles, "status": p.status} for name, p in profiles],
        "traffic": _by_tensor(row for _, profile in profiles for row in profile.traffic),
        "deadlock": result.summary["deadlock"],
    }


def estimated_facts(problem: Problem, found: NamedMapping, changes: int) -> dict[str, Any]:
    """What the cost model says of a legal mapping, and the ``changes`` of one knob, and of one field of the machine,
    that gain most by the first objective."""
    space, machine, statistics = problem.space, problem.space.machine_of(found.mapping), Statistics()
    known = estimate(problem.workload, found.mapping, machine, statistics=statistics)
    advice = advise(space, found.mapping, known, statistics) if changes else []
    objective = problem.spec.objectives[0]
    best = sorted(advice, key=lambda change: (-change.gain(objective), change.what))
    told = [[asdict(c) for c in best if c.of_machine == of_machine][:changes] for of_machine in (False, True)]
    return {
        "mapping": found.name,
        "key": found.mapping.key,
        "verdicts": [asdict(v) for v in capacity_verdicts(problem.workload, found.mapping, machine, statistics)],
        "latency_cycles": known.latency_cycles,
        "traffic_bytes": known.traffic_bytes,
        "energy_pj": known.energy_pj,
        "tokens": known.tokens,
        "effectual_multiplies": known.multiplies,
        **_ratios(problem, found, machine, known.multiplies, known.traffic_bytes, known.latency_cycles),
        "bottleneck": known.bottleneck,
        "largest_tiles_bytes": dict(known.largest_tiles),
        "steps": [asdict(step) for step in known.steps],
        "traffic": [asdict(row) for row in known.traffic],
        "objective": objective,
        "changes": {"mapping": told[0], "machine": told[1]},
    }


def _ratios(
    problem: Problem, found: NamedMapping, machine: Machine, multiplies: float, traffic_bytes: float, cycles: float
) -> dict[str, float | None]:
    """Multiplies per byte, and the sparse efficiency gap; null where nothing moves, or nothing is multiplied, or the
    machine has no peak."""
    gap = None
    dense = dense_multiplies(problem.workload.variant(found.mapping.variant))
    if dense and multiplies and cycles and (machine.units or {}).get("alu"):
        gap = Efficiency(dense, round(multiplies), peak_multiplies_per_cycle(machine), round(cycles)).gap
    return {
        "multiplies_per_byte": multiplies / traffic_bytes if traffic_bytes else None,
        "sparse_efficiency_gap": gap,
    }


def _bottleneck(profiles: Sequence[Profile], machine: Machine) -> str:
    """The unit that is busy longest in the longest step, or the memory."""
    longest = max(profiles, key=lambda profile: profile.cycles)
    moving = longest.burst_bytes / machine.streaming_bytes_per_cycle
    busiest = max(longest.contexts, key=lambda context: context.busy)
    return "memory bandwidth" if moving > busiest.busy else busiest.name


def _by_tensor(rows: Iterable[TrafficRow]) -> list[dict[str, Any]]:
    """Traffic with the rows of one tensor and direction added up."""
    total: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        known = total.setdefault((row.tensor, row.direction), [0, 0])
        known[0] += row.values_bytes
        known[1] += row.metadata_bytes
    return [
        {"tensor": tensor, "direction": direction, "values_bytes": values, "metadata_bytes": metadata}
        for (tensor, direction), (values, metadata) in total.items()
    ]
