"""``sparseloom study`` and ``sparseloom report``: reading what was found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import pandas as pd

    from studies.records import StudyContents
    from studies.store import StudyStore

app = typer.Typer(no_args_is_help=True, help="Look at stored studies.")

Study = Annotated[str, typer.Argument(metavar="STUDY", help="Name of a stored study.")]
Storage = Annotated[str, typer.Option("--storage", envvar="SPARSELOOM_STORAGE", help="Database of studies, as a URL.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DEFAULT_STORAGE = "sqlite:///studies.db"
WHERE = "Condition over columns, such as \"latency_cycles < 1e6 and state == 'simulated'\"."


@contextmanager
def _store(url: str) -> Iterator[StudyStore]:
    from studies.store import StudyStore

    store = StudyStore(url, create=False)
    try:
        yield store
    finally:
        store.close()


def _load(url: str, study: str) -> StudyContents:
    with _store(url) as store:
        return store.load(study)


@app.command("list")
def list_studies(storage: Storage = DEFAULT_STORAGE, as_json: AsJson = False) -> None:
    """All studies of a database."""
    import pandas as pd

    from tuner.cli_output import print_json, print_table, records

    with _store(storage) as store:
        rows = [
            {"study": h.name, "status": h.finished or "open", "batches": h.batches}
            | {"trials": sum(counts.values()), "simulated": counts.get("simulated", 0)}
            | {"objectives": ", ".join(h.identity["objectives"]), "created": h.created_at}
            for h in store.studies()
            for counts in (store.counts(h.id),)
        ]
    columns = ["study", "status", "batches", "trials", "simulated", "objectives", "created"]
    frame = pd.DataFrame(rows, columns=columns)
    print_json(records(frame)) if as_json else print_table(frame)


@app.command("show")
def show_study(study: Study, storage: Storage = DEFAULT_STORAGE, as_json: AsJson = False) -> None:
    """What a study searched, what it found, and what stopped the others."""
    from studies.audits import audits, coverages
    from studies.frames import current_versions
    from studies.summary import summarize, winner_words
    from tuner.cli_output import print_json, print_table, records

    contents = _load(storage, study)
    versions = current_versions()
    summary = summarize(contents, versions)
    audited, covered = audits(contents, versions), coverages(contents, versions)
    if as_json:
        tables = {"winners": records(summary.winners), "verdicts": records(summary.verdicts)}
        tables |= {"failures": records(summary.failures)}
        tables |= {"audits": list(map(asdict, audited)), "intervals": list(map(asdict, covered))}
        tables |= {"model_errors": summary.model_errors}
        print_json({**summary.facts, "funnel": dict(summary.funnel), **tables, "no_winner": summary.no_winner})
        return
    stages = ", ".join(f"{count} {stage}" for stage, count in summary.funnel)
    for name, text in {**summary.facts, "trials": stages}.items():
        typer.echo(f"{name + ':':<14}" + text.replace("\n", "\n" + " " * 14))
    typer.echo()
    print_table(summary.winners, title="best against default (gain: times less than the default)")
    if summary.no_winner:
        typer.echo(f"no best mapping: {summary.no_winner}\n")
    if len(summary.verdicts):
        print_table(summary.verdicts, title="what stopped the others")
    if len(summary.failures):
        print_table(summary.failures, title="simulations that failed")
    for error in summary.model_errors:
        rank = "undefined" if error["rank_correlation"] is None else f"{error['rank_correlation']:.3f}"
        typer.echo(
            f"model / simulator, {error['measure']}: {error['ratio']:.3f} (geometric mean), rank correlation {rank}"
        )
    for audit in audited:
        typer.echo(
            f"audit of {audit.rule}: {audit.audited} simulated beside {audit.stopped} stopped, {audit.on_front} on the "
            f"front, regret {audit.regret:.4f}"
        )
    for measure in covered:
        typer.echo(f"intervals of {measure.measure} held {measure.inside} of {measure.trials} simulated values")
    if words := winner_words(contents, versions):
        typer.echo(f"\nbest by {contents.objectives[0]}:\n{words}")


@app.command("query")
def query_study(
    study: Study,
    where: Annotated[str | None, typer.Option(help=WHERE)] = None,
    sort: Annotated[str | None, typer.Option(help="Column to sort by.")] = None,
    descending: Annotated[bool, typer.Option("--descending", help="Largest first.")] = False,
    limit: Annotated[int | None, typer.Option(min=0, help="Most rows to print.")] = None,
    columns: Annotated[str | None, typer.Option(help="Columns, separated by commas, or 'all'.")] = None,
    front: Annotated[bool, typer.Option("--front", help="Pareto-optimal trials alone.")] = False,
    best: Annotated[
        str | None, typer.Option(help="The trial within the constraints with the smallest value here.")
    ] = None,
    why_pruned: Annotated[bool, typer.Option("--why-pruned", help="Count the rules that stopped them.")] = False,
    storage: Storage = DEFAULT_STORAGE,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Trials of a study: filter, sort, choose columns."""
    from studies.frames import current_versions, trials_frame, verdicts_frame
    from studies.query import known_column, pick_columns, select_rows, sort_rows

    contents = _load(storage, study)
    frame = trials_frame(contents, current_versions())
    if where is not None:
        frame = select_rows(frame, where)
    if front:
        frame = sort_rows(frame[frame["front"]], contents.objectives[0])
    if best is not None:
        able = (frame["state"] == "simulated") & ~frame["over_budget"]
        measured = frame[able & frame[known_column(frame, best)].notna()]
        frame = sort_rows(measured, best).head(1)
    if sort is not None:
        frame = sort_rows(frame, sort, descending=descending)
    if why_pruned:
        kept = set(frame["number"])
        frame = verdicts_frame([t for t in contents.trials if t.number in kept])
    elif columns != "all":
        frame = pick_columns(frame, columns.split(",") if columns else _usual_columns(frame))
    _print(frame if limit is None else frame.head(limit), as_json, as_csv)


@app.command("delete")
def delete_study(
    study: Study,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    storage: Storage = DEFAULT_STORAGE,
) -> None:
    """Delete a study with all its trials."""
    with _store(storage) as store:
        handle = store.find(study)
        trials = sum(store.counts(handle.id).values())
        if not yes:
            typer.confirm(f"Delete study {study!r} with {trials} trials?", abort=True)
        store.delete(handle)
    typer.echo(f"deleted {study} ({trials} trials)")


def report(
    study: Study,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="File to write, else STUDY.html.")] = None,
    storage: Storage = DEFAULT_STORAGE,
) -> None:
    """Write a study as one HTML file that needs no network."""
    from studies.report import write_report

    file = output or Path(f"{study}.html")
    write_report(_load(storage, study), file)
    typer.echo(f"wrote {file}")


def _usual_columns(frame: pd.DataFrame) -> list[str]:
    from studies.frames import MEASURES

    flags = [name for name in ("over_budget", "stale") if frame[name].any()]
    return ["number", "state", "front", *flags, *MEASURES, "rule", "mapping"]


def _print(frame: pd.DataFrame, as_json: bool, as_csv: bool) -> None:
    from tuner.cli_output import print_json, print_table, records

    if as_json:
        print_json(records(frame))
    elif as_csv:
        typer.echo(frame.convert_dtypes().to_csv(index=False), nl=False)
    else:
        print_table(frame)
