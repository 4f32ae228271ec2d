"""``sparseloom machine``: the bundled machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tuner.calibration import Calibration

app = typer.Typer(no_args_is_help=True, help="Look at the bundled machines.")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Process = Annotated[float, typer.Option(min=1.0, help="Process in nm; other than 45, areas are scaled estimates.")]


@app.command("list")
def list_machines(as_json: AsJson = False) -> None:
    """Names and sizes of all machines; areas in mm2 at 45 nm, none without limits."""
    import pandas as pd

    from mapper.area import area_mm2
    from mapper.canonical import plain
    from mapper.machine import load_machine, preset_names
    from tuner.cli_output import print_json, print_table, records

    shown = ("name", "clock_ghz", "fifo_depth", "buffer_bytes", "dram_channels", "dram_bytes_per_cycle")
    rows = []
    for machine in map(load_machine, preset_names()):
        fields, energy = plain(machine), machine.energy
        rows.append(
            {field: fields[field] for field in shown}
            | {"dram_pj_per_byte": energy.dram_pj_per_byte, "multiply_pj": energy.multiply_pj}
            | {"area_mm2": area_mm2(machine)}
        )
    frame = pd.DataFrame(rows)
    print_json(records(frame)) if as_json else print_table(frame)


@app.command("show")
def show_machine(
    name: Annotated[str, typer.Argument(help="Name of a machine.")], process_nm: Process = 45.0, as_json: AsJson = False
) -> None:
    """Every field of a machine, its area in mm2 and where the figures come from; null means unbounded or absent.
    Fields marked * can be searched."""
    from mapper.area import area_parts_mm2, process_scale
    from mapper.canonical import plain
    from mapper.machine import load_machine, machine_sources, numeric_fields
    from tuner.cli_output import print_json

    machine, scale = load_machine(name), process_scale(process_nm)
    parts = area_parts_mm2(machine)
    area = None if parts is None else {k: v * scale for k, v in (parts | {"total": sum(parts.values())}).items()}
    fields = plain(machine) | {"area_mm2": area, "process_nm": process_nm}
    sources = machine_sources(name)
    if as_json:
        print_json(fields | {"sources": sources})
        return
    for field, value in fields.items():
        mark = "*" if field in numeric_fields() else " "
        for key, entry in value.items() if isinstance(value, dict) else [("", value)]:
            label = f"{field}.{key}" if key else field
            text = "null" if entry is None else f"{entry:.4g}" if field == "area_mm2" else entry
            typer.echo(f"{mark} {label:<28} {text}")
    typer.echo("sources")
    for group, source in sources.items():
        typer.echo(f"  {group:<28} {source}")


@app.command("calibrate")
def calibrate_machine(
    spec: Annotated[Path, typer.Argument(help="Specification with the program, data and machine measured.")],
    measured: Annotated[Path, typer.Argument(help="JSON list of {mapping, cycles}.")],
    free: Annotated[list[str], typer.Option(help="Field to fit and its bounds, as dram_latency_cycles=20:400.")],
    candidates: Annotated[int, typer.Option(min=10, help="Machines to simulate.")] = 400,
    seed: int = 0,
    as_json: AsJson = False,
) -> None:
    """Fit fields of a machine to cycles measured on a real one; prints the error before and after."""
    from mapper.canonical import plain
    from studies.spec import load_spec
    from tuner.calibration import calibrate
    from tuner.cli_output import print_json
    from tuner.measurement import read_measurements
    from tuner.problem import load_problem

    bounds = dict(map(_bounds, free))
    problem = load_problem(load_spec(spec))
    measurements = read_measurements(measured, problem.workload)
    found = calibrate(problem.spec.machine, measurements, bounds, seed=seed, candidates=candidates)
    print_json(plain(found)) if as_json else _print_calibration(found)


def _bounds(text: str) -> tuple[str, tuple[float, float]]:
    """Field and bounds of ``name=low:high``; integers stay integers."""
    from mapper.errors import InputError

    name, _, ends = text.partition("=")
    try:
        low, high = (float(end) if set(end) & set(".e") else int(end) for end in ends.split(":"))
    except ValueError:
        raise InputError(f"--free must be name=low:high, as dram_latency_cycles=20:400, got {text!r}") from None
    return name, (low, high)


def _print_calibration(found: Calibration) -> None:
    import pandas as pd

    from tuner.cli_output import print_table

    columns = {"measured": found.after.measured, "fitted": found.after.simulated, "error": found.after.errors}
    if found.before:
        columns |= {"before": found.before.simulated, "error before": found.before.errors}
    print_table(pd.DataFrame(columns), title="cycles of each mapping; errors are simulated / measured - 1")
    for when, fit in (("before", found.before), ("after", found.after)):
        error = f"mean {fit.mean_error:.2%}, worst {fit.worst_error:.2%}" if fit else "some mapping does not finish"
        typer.echo(f"error {when}: {error}")
    for name, value in found.fitted.items():
        note = "  (undetermined: changes no measured mapping)" if name in found.undetermined else ""
        typer.echo(f"{name}: {value}{note}")
