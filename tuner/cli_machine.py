"""``sparseloom machine``: the bundled machines."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Look at the bundled machines.")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_machines(as_json: AsJson = False) -> None:
    """Names and sizes of all machines."""
    import pandas as pd

    from mapper.canonical import plain
    from mapper.machine import load_machine, preset_names
    from tuner.cli_output import print_json, print_table, records

    shown = ("name", "clock_ghz", "fifo_depth", "buffer_bytes", "dram_channels", "dram_bytes_per_cycle")
    machines = [plain(load_machine(name)) for name in preset_names()]
    frame = pd.DataFrame([{field: machine[field] for field in shown} for machine in machines])
    print_json(records(frame)) if as_json else print_table(frame)


@app.command("show")
def show_machine(name: Annotated[str, typer.Argument(help="Name of a machine.")], as_json: AsJson = False) -> None:
    """Every field of a machine; null means unbounded or absent. Fields marked * can be searched."""
    from mapper.canonical import plain
    from mapper.machine import load_machine, numeric_fields
    from tuner.cli_output import print_json

    fields = plain(load_machine(name))
    if as_json:
        print_json(fields)
        return
    for field, value in fields.items():
        mark = "*" if field in numeric_fields() else " "
        for key, text in value.items() if isinstance(value, dict) else [("", value)]:
            label = f"{field}.{key}" if key else field
            typer.echo(f"{mark} {label:<28} {'null' if text is None else text}")
