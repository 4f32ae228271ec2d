"""``sparseloom simulate``, ``estimate`` and ``explain``: one mapping of a specification."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

Spec = Annotated[Path, typer.Argument(help="Study specification (YAML).", exists=True, dir_okay=False)]
MappingFile = Annotated[
    Path | None, typer.Option("--mapping", help="Text of a mapping, as 'explain --as text' prints.", dir_okay=False)
]
Trial = Annotated[
    str | None,
    typer.Option("--trial", help="Number of a trial of the stored study, -1 for the default mapping, or 'best'."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

SHOWN = (
    "latency_cycles", "traffic_bytes", "energy_pj", "tokens", "effectual_multiplies", "multiplies_per_byte",
    "sparse_efficiency_gap", "bottleneck",
)  # fmt: skip


class Form(StrEnum):
    """How a mapping is printed."""

    words = "words"
    text = "text"
    json = "json"
    teaal = "teaal"
    mlir = "mlir"


def simulate(spec: Spec, mapping: MappingFile = None, trial: Trial = None, as_json: AsJson = False) -> None:
    """Simulate one mapping, the default one if none is named: cycles, energy, traffic by tensor, what limits it."""
    from mapper.errors import SparseLoomError
    from tuner.appraisal import simulated_facts

    problem, found = _found(spec, mapping, trial)
    facts = simulated_facts(problem, found)
    _print(facts, as_json)
    if facts["failure"]:
        deadlock = f"\n{facts['deadlock']}" if facts["deadlock"] else ""
        raise SparseLoomError(f"mapping {found.name} does not run: {facts['failure']}{deadlock}")


def estimate(
    spec: Spec,
    mapping: MappingFile = None,
    trial: Trial = None,
    changes: Annotated[int, typer.Option(min=0, help="How many changes to tell, of the mapping and the machine.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Estimate one mapping, the default one if none is named, and say which single change would help most."""
    from tuner.appraisal import estimated_facts

    facts = estimated_facts(*_found(spec, mapping, trial), changes)
    _print(facts, as_json)
    if as_json:
        return
    for of, title in (("mapping", "one choice changed"), ("machine", "one field of the machine changed")):
        if facts["changes"][of]:
            _print_changes(facts["changes"][of], title)
        elif changes:
            typer.echo(f"{title}: none is worth half a percent of anything")


def explain(
    spec: Spec,
    mapping: MappingFile = None,
    trial: Trial = None,
    form: Annotated[Form, typer.Option("--as", help="Words, editable text, TeAAL YAML, MLIR encodings.")] = Form.words,
    as_json: AsJson = False,
) -> None:
    """Print one mapping, the default one if none is named: in words, or as a text that can be edited and read back."""
    from mapper.canonical import plain
    from mapper.describe import describe_mapping
    from mapper.export_mlir import mlir_export
    from mapper.export_teaal import teaal_export
    from mapper.mapping_text import format_mapping
    from tuner.cli_output import print_json

    problem, found = _found(spec, mapping, trial)
    workload, chosen = problem.workload, found.mapping
    match Form.json if as_json else form:
        case Form.words:
            typer.echo(describe_mapping(workload.program, chosen))
        case Form.text:
            typer.echo(format_mapping(workload.program, chosen), nl=False)
        case Form.json:
            print_json({"name": found.name, "key": chosen.key, "mapping": plain(chosen)})
        case Form.teaal:
            typer.echo(teaal_export(workload, chosen), nl=False)
        case Form.mlir:
            typer.echo(mlir_export(workload, chosen, problem.space.machine_of(chosen)), nl=False)


def _found(spec: Path, mapping: Path | None, trial: str | None) -> tuple[Any, Any]:
    from studies.spec import load_spec
    from tuner.mapping_source import find_mapping
    from tuner.problem import load_problem

    problem = load_problem(load_spec(spec))
    return problem, find_mapping(problem, mapping, trial)


def _print(facts: dict[str, Any], as_json: bool) -> None:
    import pandas as pd

    from tuner.cli_output import print_json, print_table

    if as_json:
        print_json(facts)
        return
    typer.echo(f"mapping {facts['mapping']} ({facts['key'][:12]})")
    for name in SHOWN:
        value = facts[name]
        typer.echo(f"  {name:<22} {_text(value)}")
    for verdict in facts["verdicts"]:
        text = "{rule} at {where}: {measured} {unit}, {limit}".format(**verdict)
        typer.echo(f"  note: {text}")
    print_table(pd.DataFrame(facts["steps"]), title="steps")
    if facts["traffic"]:
        print_table(pd.DataFrame(facts["traffic"]), title="traffic")


def _text(value: float | str | None) -> str:
    if isinstance(value, str):
        return value
    return "undefined" if value is None else f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _print_changes(changes: list[dict[str, Any]], title: str) -> None:
    import pandas as pd

    from tuner.cli_output import print_table

    columns = {"speed-up": "latency_cycles", "traffic saved": "traffic_bytes", "energy saved": "energy_pj"}
    gains = {text: [f"{c[f'{measure}_gain']:.2f}x" for c in changes] for text, measure in columns.items()}
    print_table(pd.DataFrame({"change": [c["what"] for c in changes], **gains}), title=title)
