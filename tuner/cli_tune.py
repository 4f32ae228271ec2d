"""``sparseloom tune``: runs a specification, shows progress, prints the best mapping beside the default."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from tuner.problem import Problem


def tune(
    spec: Annotated[Path, typer.Argument(help="Study specification (YAML).", exists=True, dir_okay=False)],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how large the space and the work are.")] = False,
    restart: Annotated[
        bool,
        typer.Option("--restart", help="Delete the stored study of this specification, else of this name; begin anew."),
    ] = False,
    fork: Annotated[
        bool, typer.Option("--fork", help="Keep a stored study of another specification; begin anew beside it.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Worker processes; never changes results.")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", help="Dask scheduler, as tcp://host:8786, or 'local': a cluster of --workers."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Search for the best mappings of a study. A stored study of the same specification is resumed.

    Fails if no simulation succeeded.
    """
    from studies.report import write_report
    from studies.spec import load_spec
    from tuner.outcome import outcome, print_outcome
    from tuner.problem import load_problem
    from tuner.session import open_session, run_session

    problem = load_problem(load_spec(spec))
    if dry_run:
        _dry_run(problem, workers, as_json)
        return
    session = open_session(problem, restart=restart, fork=fork)
    reason = run_session(session, workers or problem.spec.search.workers, not (quiet or as_json), scheduler)
    contents = session.store.load(session.study.name)
    found = outcome(contents, reason)
    print_outcome(found, as_json)
    storage = session.store.name
    session.store.close()
    if problem.spec.report:
        write_report(contents, problem.spec.report)
    if not as_json:
        report = problem.spec.report or f"made by: sparseloom report {session.study.name} --storage {storage}"
        typer.echo(f"\ndatabase: {storage}\nreport: {report}")
    if found.failed:
        raise typer.Exit(1)


def _dry_run(problem: Problem, workers: int | None, as_json: bool) -> None:
    from rich.console import Console

    from tuner.forecast import forecast

    found: dict[str, Any] = forecast(problem, workers)
    console = Console()
    if as_json:
        console.print_json(data=found)
        return
    console.print(str(problem.workload.program), markup=False)
    console.print(f"mappings in the space: {found['mappings']:.3g} in {found['fusions']} choice(s) of cuts")
    console.print(f"within capacity: {found['within_capacity']} of {found['sampled']} uniformly sampled legal mappings")
    console.print(f"tokens per simulation: median {found['tokens_median']:.3g}, 90 % below {found['tokens_p90']:.3g}")
    console.print(f"engine speed here: {found['tokens_per_second']:.3g} tokens/s")
    runs = f"{found['simulations']} simulations on {found['workers']} workers"
    console.print(f"expected time: {found['minutes']:.1f} minutes for {runs}")
