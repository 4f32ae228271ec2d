"""``sparseloom import``: what a PyTorch model says in index notation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from mapper.torch_import import Imported


def import_model(
    model: Annotated[str, typer.Argument(metavar="FILE.py:NAME", help="A PyTorch module, its class or a function.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the program that a PyTorch model is read as: statements with their source, tensors, indices.

    The file is executed. Its example_inputs() gives the arguments of forward, and so all shapes.
    """
    import pandas as pd

    from mapper.torch_file import import_file
    from tuner.cli_output import print_json, print_table

    found = understood(import_file(model))
    if as_json:
        print_json(found)
        return
    here = f"{Path.cwd()}/"
    lines = [{**line, "source": line["source"].removeprefix(here)} for line in found["lines"]]
    shapes = [{**t, "shape": " x ".join(map(str, t["shape"])) or "scalar"} for t in found["tensors"]]
    print_table(pd.DataFrame(lines))
    print_table(pd.DataFrame(shapes))
    print_table(pd.DataFrame([{**i, "extent": ", ".join(map(str, i["extent"]))} for i in found["indices"]]))
    outputs = ", ".join(f"{o['tensor']} as {' x '.join(map(str, o['shape'])) or 'scalar'}" for o in found["outputs"])
    typer.echo(f"{found['statements']} statements in {len(lines)} lines; outputs: {outputs}")


def understood(imported: Imported) -> dict[str, Any]:
    """An imported module as JSON types; an index name that stands for several extents lists them all."""
    from mapper.extents import bind_extents

    program = imported.program
    extents: dict[str, set[int]] = {}
    bound = bind_extents(program, {name: t.shape for name, t in imported.tensors.items()})
    for statement, own in zip(program.statements, bound, strict=True):
        for index in statement.indices:
            extents.setdefault(index, set()).add(own[index])
    return {
        "program": imported.text,
        "statements": len(program.statements),
        "lines": [
            {"line": n, "statement": text, "operation": origin.operation, "source": origin.source}
            for n, (text, origin) in enumerate(zip(imported.lines, imported.origins, strict=True), 1)
        ],
        "tensors": [
            {"tensor": name, "shape": list(t.shape), "entries": t.nnz, "density": t.density}
            for name, t in imported.tensors.items()
        ],
        "indices": [{"index": index, "extent": sorted(found)} for index, found in extents.items()],
        "outputs": [{"tensor": r.tensor, "shape": list(r.shape)} for r in imported.results],
    }
