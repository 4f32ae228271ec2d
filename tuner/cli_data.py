"""``sparseloom data``: data files and the patterns in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mapper.pattern import Pattern

app = typer.Typer(no_args_is_help=True, help="Look at data files.")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Member = Annotated[str | None, typer.Option(help="Which tensor of an .npz archive.")]
ValueBytes = Annotated[int, typer.Option(min=1, help="Bytes of a value; coordinates and pointers have four.")]


@app.command("list")
def list_data(as_json: AsJson = False) -> None:
    """Data files below SPARSELOOM_DATA."""
    import os
    from pathlib import Path

    import pandas as pd

    from mapper.datasets import DATA_VARIABLE, data_files
    from tuner.cli_output import print_json, print_table, records

    files = data_files()
    folder = Path(os.environ[DATA_VARIABLE])
    rows = [{"file": str(path.relative_to(folder)), "file_bytes": path.stat().st_size} for path in files]
    frame = pd.DataFrame(rows, columns=["file", "file_bytes"])
    print_json(records(frame)) if as_json else print_table(frame)


@app.command("analyse")
def analyse_data(
    file: Annotated[str, typer.Argument(help="Path, or name of a file or folder below SPARSELOOM_DATA.")],
    member: Member = None,
    value_bytes: ValueBytes = 4,
    as_json: AsJson = False,
) -> None:
    """Measure the pattern of a tensor and recommend a storage format."""
    import pandas as pd

    from mapper.canonical import plain
    from mapper.datasets import find_data, load_tensor
    from mapper.format_sizes import Widths
    from mapper.pattern import analyse
    from tuner.cli_output import print_json, print_table

    path = find_data(file, None)
    tensor = load_tensor(path, member=member)
    found = analyse(tensor, Widths(value=value_bytes))
    if as_json:
        data = {"file": str(path), "notes": list(tensor.notes)} | plain(found)
        print_json(data | {"sizes_bytes": dict(found.sizes_bytes)})
        return
    shape = " x ".join(map(str, found.shape)) or "scalar"
    typer.echo(f"{path}: {shape}, {found.nnz} entries, {found.kind}")
    for note in tensor.notes:
        typer.echo(f"note: {note}")
    for name, text in _measured(found):
        typer.echo(f"  {name:<10} {text}")
    sizes = sorted(found.sizes_bytes, key=lambda pair: pair[1])
    print_table(pd.DataFrame(sizes, columns=["format", "size_bytes"]))
    typer.echo(found.reason)


@app.command("stats")
def data_statistics(
    file: Annotated[str, typer.Argument(help="Path, or name of a file or folder below SPARSELOOM_DATA.")],
    member: Member = None,
    tile: Annotated[int, typer.Option(min=1, help="Extent of the tiles whose prefixes are counted.")] = 128,
    plot: Annotated[Path | None, typer.Option(help="Write the charts to this HTML file.")] = None,
    as_json: AsJson = False,
) -> None:
    """What the cost model counts: tile occupancy, entries per slice, fiber lengths, distinct prefixes."""
    import pandas as pd

    from costmodel.statistics import shared_statistics
    from costmodel.tensor_profile import draw, tensor_profile
    from mapper.canonical import plain
    from mapper.datasets import find_data, load_tensor
    from tuner.cli_output import print_json, print_table

    path = find_data(file, None)
    found = tensor_profile(shared_statistics().of(load_tensor(path, member=member)), tile)
    if plot is not None:
        draw(found).write_html(plot, include_plotlyjs=True)
    if as_json:
        print_json({"file": str(path)} | plain(found))
        return
    shape = " x ".join(map(str, found.shape)) or "scalar"
    typer.echo(f"{path}: {shape}, {found.nnz} entries, density {found.density:.4g}\n\ntile occupancy")
    print_table(pd.DataFrame([plain(o) for o in found.pyramid]))
    typer.echo("\nentries per slice of a mode")
    print_table(pd.DataFrame([plain(m) for m in found.marginals]))
    typer.echo("\nlevels of the compressed tree; fibers of 1, 2-3, 4-7, ... nodes")
    levels = [plain(f) | {"histogram": " ".join(map(str, f.histogram))} for f in found.fibers]
    print_table(pd.DataFrame(levels))
    if plot is not None:
        typer.echo(f"\ncharts: {plot}")


def _measured(found: Pattern) -> Iterator[tuple[str, str]]:
    rows, blocks, groups, diagonals = found.rows, found.blocks, found.groups, found.diagonals
    lengths = f"others {rows.mean:.4g} entries on average, at most {rows.longest}"
    spread = f"Gini {rows.gini:.2f}, variance/mean {rows.dispersion:.3g}"
    band = f"{diagonals.bandwidth} wide, 95 % of entries within {diagonals.bandwidth95}"
    yield "density", f"{found.density:.4g}"
    yield "rows", f"{rows.empty} of {rows.count} empty; {lengths}; {spread}"
    yield "blocks", f"{blocks.rows}x{blocks.columns}: {blocks.count} touched, {100 * blocks.fill:.3g} % filled"
    yield "N:M", f"{groups.n}:{groups.m}, {100 * groups.fill:.3g} % filled" if groups.n else "none holds every entry"
    yield "2:4", f"{100 * groups.two_of_four:.4g} % of the groups fit"
    yield "diagonals", f"{diagonals.count}, {100 * diagonals.fill:.3g} % filled"
    yield "band", f"{band}, {100 * diagonals.band_fill:.3g} % filled"
