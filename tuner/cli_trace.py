"""``sparseloom trace``: one mapping of a study as a trace for Perfetto."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


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
    from studies.spec import load_spec
    from tuner.cli_output import print_json
    from tuner.evaluate import evaluate
    from tuner.mapping_source import stored_trial
    from tuner.problem import load_problem

    problem = load_problem(load_spec(spec))
    record = stored_trial(problem, trial)
    assert record.mapping is not None  # stored_trial refuses a trial without one
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
