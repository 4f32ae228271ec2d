"""How commands print tables and JSON."""

from __future__ import annotations

import json
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
    """A table for people: numbers right, thousands grouped, nothing cut off."""
    import pandas as pd
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    tidy = frame.convert_dtypes()
    for name in tidy.columns:
        numeric = pd.api.types.is_numeric_dtype(tidy[name]) and not pd.api.types.is_bool_dtype(tidy[name])
        table.add_column(str(name), justify="right" if numeric else "left", overflow="fold")
    for row in tidy.itertuples(index=False):
        table.add_row(*("" if value is None or value is pd.NA else _text(value) for value in row))
    Console(soft_wrap=False, highlight=False, markup=False).print(table)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)
