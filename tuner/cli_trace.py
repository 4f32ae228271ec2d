"""``sparseloom trace``: one mapping of a study as a trace for Perfetto."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mapper.errors import StudyError

if TYPE_CHECKING:
    from studies.records import StudyContents, TrialRecord


def trace(
    spec: Annotated[Path, typer.Argument(help="Specification of a stored study (YAML).", exists=True, dir_okay=False)],
    trial: Annotated[
        int | None, typer.Option("--trial", help="Number of the trial, -1 for the default mapping; else the best one.")
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="File to write, else STUDY.trace.json.")] = None,
    max_slices: Annotated[
        int, typer.Option("--max-slices", min=1, help="Most slices per step; more are merged.")
    ] = 50_000,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Simulate one mapping of a study again and write what every unit did when, for ui.perfetto.dev."""
    from hwsim import Limits, chrome_trace, write_trace
    from mapper.mapping import Mapping
    from studies.identity import identity_diff
    from studies.spec import load_spec
    from studies.store import StudyStore
    from tuner.cli_output import print_json
    from tuner.evaluate import evaluate
    from tuner.problem import load_problem

    problem = load_problem(load_spec(spec))
    store = StudyStore(problem.spec.storage, create=False)
    try:
        contents = store.load(problem.spec.name)
    finally:
        store.close()
    if differences := identity_diff(contents.handle.identity, problem.identity):
        lines = "\n  ".join(differences)
        raise StudyError(
            f"study {contents.handle.name!r} was made from another specification; tune it again:\n  {lines}"
        )
    record = _record(contents, trial)
    assert record.mapping is not None  # _record refuses a trial without one
    mapping = Mapping.from_json(record.mapping)
    limits = Limits(max_cycles=problem.spec.limits.cycles, max_tokens=problem.spec.limits.tokens)
    result = evaluate(problem.workload, mapping, problem.space.machine_of(mapping), limits, max_slices=max_slices)
    file = output or Path(f"{problem.spec.name}.trace.json")
    write_trace(file, result.profiles)
    runs = chrome_trace(result.profiles)["otherData"]["runs"]
    if as_json:
        print_json({"file": str(file), "trial": record.number, "status": result.summary["status"], "runs": runs})
        return
    for run in runs:
        merged = run["slices_merged_within_cycles"]
        grain = f", merged within {merged} cycles" if merged > 1 else ""
        typer.echo(f"{run['name']}: {run['status']}, {run['cycles']:,} cycles, {run['slices']:,} slices{grain}")
    typer.echo(f"wrote {file} (trial {record.number}): open it at ui.perfetto.dev")


def _record(contents: StudyContents, number: int | None) -> TrialRecord:
    """The trial of that number, or the best one by the first objective."""
    from studies.frames import best
    from studies.records import BASELINE

    name = contents.handle.name
    if number is None:
        found = best(contents, contents.objectives[0])
        if found is None:
            raise StudyError(f"study {name!r} has no simulated mapping to trace")
        return found
    trials = {t.number: t for t in (contents.baseline, *contents.trials) if t}
    if number not in trials:
        raise StudyError(f"study {name!r} has no trial {number}; it has {BASELINE} (default) to {max(trials)}")
    found = trials[number]
    if found.mapping is None or found.state == "rejected":
        raise StudyError(f"trial {number} of study {name!r} cannot be simulated: it is {found.state}")
    return found
