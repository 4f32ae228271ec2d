"""The console script ``sparseloom``: registers the commands and turns errors into one message and an exit code.

Only typer is imported here, so that ``--help`` stays fast: every command imports what it needs when it runs.
"""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

from mapper.errors import EmptySpace, IllegalMapping, InputError, SparseLoomError, StudyError
from tuner import cli_data, cli_import, cli_machine, cli_mapping, cli_study, cli_trace, cli_tune

FAILED, WRONG_INPUT = 1, 2

app = typer.Typer(
    name="sparseloom",
    help="Search for the best mapping of a sparse tensor program on an accelerator.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(cli_tune.tune)
app.command()(cli_study.report)
app.command("import")(cli_import.import_model)
app.command()(cli_mapping.simulate)
app.command()(cli_mapping.estimate)
app.command()(cli_mapping.explain)
app.command()(cli_trace.trace)
app.add_typer(cli_study.app, name="study")
app.add_typer(cli_machine.app, name="machine")
app.add_typer(cli_data.app, name="data")


def main() -> NoReturn:
    """Runs the command line. Exit codes: 0 done, 1 failed, 2 wrong usage or input."""
    try:
        app()
    except SparseLoomError as error:
        typer.secho(f"error: {error}", fg=typer.colors.RED, err=True)
        wrong_input = isinstance(error, InputError | StudyError | EmptySpace | IllegalMapping)
        sys.exit(WRONG_INPUT if wrong_input else FAILED)
    sys.exit(0)
