"""Tables of a study as pandas DataFrames: trials, verdicts, and how the model compares with the simulator."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mapper.errors import InputError, nearest
from mapper.mapping import Mapping
from mapper.notation import parse_program
from mapper.program import Program
from mapper.rewrites import rewriting
from studies.pareto import pareto_front
from studies.records import StudyContents, TrialRecord

if TYPE_CHECKING:
    import pandas as pd

MEASURES = ("latency_cycles", "traffic_bytes", "energy_pj")


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of cost model and simulator."""

    model: str
    simulator: str

    def stale(self, trial: TrialRecord) -> bool:
        """True for rows made by another model or simulator."""
        return (trial.model_version, trial.simulator_version) != (self.model, self.simulator)


def current_versions() -> Versions:
    """Versions of the installed cost model and simulator."""
    from costmodel import MODEL_VERSION
    from hwsim import SIMULATOR_VERSION

    return Versions(str(MODEL_VERSION), str(SIMULATOR_VERSION))


def program_of(contents: StudyContents) -> Program:
    """The program that a study maps."""
    return parse_program(contents.handle.identity["program"])


def simulated(contents: StudyContents, versions: Versions | None = None) -> list[TrialRecord]:
    """Trials with measured values, each mapping once; with ``versions`` none of another model or simulator."""
    rows = (t for t in contents.trials if t.state == "simulated" and t.values)
    return [t for t in rows if versions is None or not versions.stale(t)]


def eligible(contents: StudyContents, versions: Versions | None = None) -> list[TrialRecord]:
    """Simulated trials that meet the constraints of the study: only they may be on the front or the best."""
    return [t for t in simulated(contents, versions) if not t.over(contents.budgets)]


def front(contents: StudyContents, versions: Versions | None = None) -> list[TrialRecord]:
    """Pareto-optimal eligible trials by the objectives of the study, ordered by the first."""
    rows = eligible(contents, versions)
    points = [[(t.values or {})[o] for o in contents.objectives] for t in rows]
    return [rows[n] for n in pareto_front(np.reshape(points, (len(rows), len(contents.objectives))))]


def best(contents: StudyContents, objective: str, versions: Versions | None = None) -> TrialRecord | None:
    """The eligible trial with the smallest ``objective``; the first of equal ones. Raises InputError for an unknown
    objective."""
    if objective not in MEASURES:
        raise InputError(f"unknown objective {objective!r}.{nearest(objective, MEASURES)}")
    return min(eligible(contents, versions), key=lambda t: (t.values or {})[objective], default=None)


def why_no_winner(contents: StudyContents, versions: Versions | None = None) -> str:
    """Why there is no best mapping; empty text if there is one."""
    if eligible(contents, versions):
        return ""
    if simulated(contents, versions):
        limits = ", ".join(f"{name} <= {limit:g}" for name, limit in contents.budgets)
        return f"no simulated mapping meets the constraints: {limits}"
    if simulated(contents):
        return "no mapping was simulated by the installed versions of model and simulator"
    if failures := Counter(t.failure for t in contents.trials if t.state == "failed").most_common(1):
        ((failure, times),) = failures
        return f"all simulations failed, {times} of them by: {failure}"
    return "no mapping was simulated to its end"


def winners_frame(contents: StudyContents, versions: Versions | None = None) -> pd.DataFrame:
    """The default mapping and the best one per objective: measured values, and how many times less than the default
    each is (``latency_cycles_gain`` is the speed-up); missing without a simulated default."""
    import pandas as pd

    base = (contents.baseline.values if contents.baseline else None) or {}
    found = [("default", contents.baseline)] if contents.baseline else []
    found += [(f"best {o}", t) for o in contents.objectives if (t := best(contents, o, versions))]
    rows = []
    for label, trial in found:
        values = trial.values or {}
        gains = {f"{m}_gain": base[m] / values[m] for m in MEASURES if base.get(m) and values.get(m)}
        number = None if trial is contents.baseline else trial.number
        rows.append({"mapping": label, "trial": number, **{m: values.get(m) for m in MEASURES}, **gains})
    return pd.DataFrame(rows, columns=["mapping", "trial", *MEASURES, *(f"{m}_gain" for m in MEASURES)])


def trials_frame(contents: StudyContents, versions: Versions | None = None) -> pd.DataFrame:
    """One row per trial. Measured values carry the objective's name, estimates ``model_`` before it; every choice
    of the mapping has a column (``order_S0``, ``tile_S0_i``, 0 where not tiled, ``lanes_S0``, ``cut_T_S1``, ...)."""
    import pandas as pd

    program = program_of(contents)
    optimal = {t.number for t in front(contents, versions)}
    rows = [
        _row(program, t, t.number in optimal, t.over(contents.budgets), versions is not None and versions.stale(t))
        for t in contents.trials
    ]
    fixed = list(_row(program, TrialRecord(0, 0, "rejected", {}, {}), False, False, False))
    chosen = dict.fromkeys(name for row in rows for name in row if name not in fixed)
    return pd.DataFrame(rows, columns=[*fixed, *sorted(chosen)])


def verdicts_frame(trials: Sequence[TrialRecord]) -> pd.DataFrame:
    """One row per rule that stopped trials, most frequent first, with an example of what was measured; audited trials
    were not stopped."""
    import pandas as pd

    first: dict[str, dict[str, Any]] = {}
    for trial in trials:
        if trial.state in ("duplicate", "simulated", "failed"):
            continue
        for rule, verdict in {v.rule: v for v in reversed(trial.verdicts)}.items():
            row = first.setdefault(
                rule,
                {"rule": rule, "trials": 0, "example": trial.number, "measured": verdict.measured}
                | {"limit": verdict.limit, "unit": verdict.unit, "where": verdict.where},
            )
            row["trials"] += 1
    rows = sorted(first.values(), key=lambda r: (-r["trials"], r["rule"]))
    return pd.DataFrame(rows, columns=["rule", "trials", "example", "measured", "limit", "unit", "where"])


def failures_frame(trials: Sequence[TrialRecord]) -> pd.DataFrame:
    """One row per reason for which simulations failed, most frequent first, with the number of the first such trial."""
    import pandas as pd

    first: dict[str, dict[str, Any]] = {}
    for trial in trials:
        if trial.state == "failed":
            reason = trial.failure or ""
            row = first.setdefault(reason, {"failure": reason, "trials": 0, "example": trial.number})
            row["trials"] += 1
    rows = sorted(first.values(), key=lambda r: -r["trials"])
    return pd.DataFrame(rows, columns=["failure", "trials", "example"])


@dataclass(frozen=True, slots=True)
class ModelError:
    """The model against the simulator for one measure over ``trials`` rows: geometric mean of estimate over
    measurement, geometric standard deviation of that ratio, and Spearman's rank correlation (None where it is not
    defined)."""

    measure: str
    trials: int
    ratio: float
    spread: float
    rank_correlation: float | None


def model_errors(trials: Sequence[TrialRecord]) -> list[ModelError]:
    """One entry per measure that some simulated trial has both estimated and measured above zero."""
    found = []
    for measure in MEASURES:
        pairs = model_pairs(trials, measure)
        if pairs:
            estimated, measured = np.array(pairs, dtype=np.float64).T
            logs = np.log(estimated / measured)
            rank = _rank_correlation(estimated, measured)
            found.append(ModelError(measure, len(pairs), math.exp(logs.mean()), math.exp(logs.std()), rank))
    return found


def model_pairs(trials: Sequence[TrialRecord], measure: str) -> list[tuple[float, float]]:
    """(estimated, measured) of every simulated trial where both are above zero."""
    rows = ((t.estimate or {}, t.values or {}) for t in trials if t.state == "simulated")
    pairs = ((float(estimate.get(measure, 0)), float(values.get(measure, 0))) for estimate, values in rows)
    return [(estimated, measured) for estimated, measured in pairs if estimated > 0 and measured > 0]


def _rank_correlation(estimated: Any, measured: Any) -> float | None:
    if len(set(estimated)) < 2 or len(set(measured)) < 2:
        return None
    from scipy.stats import spearmanr

    return float(spearmanr(estimated, measured).statistic)


def _row(program: Program, trial: TrialRecord, optimal: bool, over_budget: bool, stale: bool) -> dict[str, Any]:
    values, estimate = trial.values or {}, trial.estimate or {}
    return {
        "number": trial.number,
        "batch": trial.batch,
        "state": trial.state,
        "fidelity": trial.fidelity,
        "front": optimal,
        "over_budget": over_budget,
        "stale": stale,
        **{m: values.get(m) for m in MEASURES},
        **{f"model_{m}": estimate.get(m) for m in MEASURES},
        "bottleneck": estimate.get("bottleneck"),
        "rule": trial.verdicts[0].rule if trial.verdicts else None,
        "failure": trial.failure,
        "duplicate_of": trial.duplicate_of,
        "gain": trial.gain,
        "origin": trial.origin,
        "seconds": trial.seconds,
        "mapping_key": trial.mapping_key,
        "mapping": None,
        **(_choices(program, Mapping.from_json(trial.mapping)) if trial.mapping else {}),
    }


def _choices(program: Program, mapping: Mapping) -> dict[str, Any]:
    program = rewriting(program, mapping.variant)
    row: dict[str, Any] = {"mapping": _brief(program, mapping), "residency": mapping.residency, **dict(mapping.machine)}
    row["rewrite"] = mapping.variant
    for edge, cut in zip(program.edges, mapping.cuts, strict=True):
        row[f"cut_{edge.tensor}_S{edge.consumer}"] = "cut" if cut else "fused"
    for number, loops in enumerate(mapping.loops):
        row[f"order_S{number}"] = ",".join(loops.order)
        row[f"lanes_S{number}"] = loops.lanes
        row.update({f"tile_S{number}_{index}": dict(loops.tiles).get(index, 0) for index in loops.order})
    row.update({f"format_{tensor}": str(form) for tensor, form in mapping.stored_formats()})
    return row


def _brief(program: Program, mapping: Mapping) -> str:
    """One line: ``i/64 k j/64 x4i; T fused; A csf; lru; fifo_depth=64``, tile extents after slashes, lanes after x."""
    nests = []
    for loops in mapping.loops:
        tiles = dict(loops.tiles)
        nest = " ".join(f"{i}/{tiles[i]}" if i in tiles else i for i in loops.order) or "scalar"
        if list(tiles) != [i for i in loops.order if i in tiles]:
            nest = f"tiles {' '.join(tiles)}: {nest}"
        nests.append(nest + "".join(f" x{lanes}{index}" for index, lanes, _ in loops.parallel))
    fused = [e.tensor for e, cut in zip(program.edges, mapping.cuts, strict=True) if not cut]
    formats = ", ".join(f"{t} {form}" for t, form in mapping.stored_formats() if form.kinds)
    streams = f"{', '.join(dict.fromkeys(fused))} fused" if fused else ""
    parts = [mapping.variant, " | ".join(nests), streams, formats, mapping.residency]
    return "; ".join([*filter(None, parts), *(f"{name}={value}" for name, value in mapping.machine)])
