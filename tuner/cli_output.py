"""How commands print tables and JSON."""

from __future__ import annotations

import json
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import pandas as pd


def print_json(data: Any) -> None:
    """``data`` as indented JSON."""
    typer.echo(json.dumps(data, indent=2, allow_nan=False))


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of a table as JSON objects, missing values as null."""
    rows: list[dict[str, Any]] = json.loads(frame.convert_dtypes().to_json(orient="records", double_precision=15))
    return rows


def print_table(frame: pd.DataFrame, *, title: str | None = None) -> None:
    """A table for people: numbers right, thousands grouped. Rows are never cut: long ones wrap in the terminal."""
    import pandas as pd
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    tidy = frame.convert_dtypes()
    for name in tidy.columns:
        numeric = pd.api.types.is_numeric_dtype(tidy[name]) and not pd.api.types.is_bool_dtype(tidy[name])
        table.add_column(str(name), justify="right" if numeric else "left", no_wrap=True)
    for row in tidy.itertuples(index=False):
        table.add_row(*("" if value is None or value is pd.NA else _text(value) for value in row))
    console = Console(width=10_000, highlight=False, markup=False)
    width = console.measure(table).maximum
    console.print(table, width=width, soft_wrap=True)


def _text(value: Any) -> str:
    if not isinstance(value, Real) or isinstance(value, bool):
        return str(value)
    return f"{value:,.0f}" if isinstance(value, Integral) or abs(float(value)) >= 1000 else f"{value:.4g}"
