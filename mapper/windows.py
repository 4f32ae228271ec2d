"""Windows read in place: what a reader's loads take of the tensor below a view, when no window is stored.

The tiles of a view's result are loaded as the boxes of the operand that their windows span, in the operand's level
kinds: a dense level holds the whole box, all others what some window of the tile meets. An entry counts once per tile,
however many windows of it meet there, and again in every other tile: what neighbours share is loaded for each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from mapper.schedule import Conversion
from mapper.storage import Layout, Storage
from mapper.tensor import SparseTensor, distinct_columns
from mapper.workload import Workload


def boxes(workload: Workload, view: Conversion, windows: SparseTensor, layout: Layout) -> tuple[SparseTensor, Layout]:
    """The operand of ``view`` once per tile of ``windows``, its result in ``layout``, and how it is laid out.

    The first modes are the coordinates of tiles, of the tiled modes in their order; the modes of the operand follow,
    counted from the corner of the box.
    """
    assert view.statement is not None
    statement, extents = workload.program.statements[view.statement], workload.extents[view.statement]
    indices, tiles = statement.target.indices, dict(zip(statement.target.indices, layout.tiles, strict=True))
    tiled = sorted(layout.tile_modes)
    rows = [windows.coords[mode] // layout.tiles[mode] for mode in tiled]
    shape = [-(-windows.shape[mode] // layout.tiles[mode]) for mode in tiled]
    for window in statement.windows:
        corner = np.full(windows.nnz, window.offset)
        at, span = corner.copy(), 1
        for index, coefficient in window.terms:
            column, tile = windows.coords[indices.index(index)], tiles[index] or extents[index]
            at += coefficient * column
            corner += coefficient * (column // tile * tile)
            span += coefficient * (min(tile, extents[index]) - 1)
        rows.append(at - np.maximum(corner, 0))
        shape.append(min(span, extents[str(window)]))
    coords, _, place = distinct_columns(np.stack(rows))
    values = np.empty(coords.shape[1])
    values[place] = windows.values
    inner = tuple(len(tiled) + mode for mode in view.source.modes)
    order = tuple(tiled.index(mode) for mode in layout.tile_modes)
    steps = (1,) * len(tiled) + (0,) * len(statement.windows)
    kept = Layout(inner, view.source.kinds, order, steps, view.source.dtype)
    return SparseTensor(tuple(shape), coords, values), kept


def in_place(
    workload: Workload,
    view: Conversion,
    windows: SparseTensor,
    storage: Storage,
    store: Callable[[SparseTensor, Layout], Storage],
) -> Storage:
    """``storage`` of windows that are not stored: the bytes of every tile are those of its box, as ``store`` lays it
    out."""
    box = store(*boxes(workload, view, windows, storage.layout))
    return dataclasses.replace(
        storage, tile_value_bytes=box.tile_value_bytes, tile_metadata_bytes=box.tile_metadata_bytes
    )
