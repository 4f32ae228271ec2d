"""Profile of a tensor's pattern: what the cost model counts, in numbers and drawings for a reader.

Tile occupancy pyramid (TACO and Tailors speak of tile occupancies), entries per tile row of every mode, lengths of
fibers per level, distinct prefixes: the nodes of a compressed tree (CSF) over whole coordinates and over tiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from costmodel.factors import Floats, coarser, group_sum
from costmodel.statistics import TensorStatistics

if TYPE_CHECKING:
    import plotly.graph_objects as go

FINEST_TILES = 4096
"""Tiles per mode that the finest level of the pyramid has at most."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Tiles of ``tile`` coordinates per mode (edges smaller): how many there are, how many hold entries, and the
    entries of those: mean, median, 90 %, 99 % and most."""

    tile: int
    tiles: int
    nonempty: int
    mean: float
    median: float
    quantile90: float
    quantile99: float
    most: int


@dataclass(frozen=True, slots=True)
class Marginal:
    """Entries per slice of one mode: how many slices are empty, and of all: mean, median, 99 %, most."""

    mode: int
    extent: int
    empty: int
    mean: float
    median: float
    quantile99: float
    most: int


@dataclass(frozen=True, slots=True)
class Fibers:
    """Level ``level`` of the compressed tree over modes 0, 1, ...: its nodes (distinct prefixes of coordinates),
    distinct prefixes of tiles of ``tile`` coordinates, and how many fibers have 1, 2-3, 4-7, ... nodes."""

    level: int
    nodes: int
    tile: int
    tile_nodes: int
    histogram: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """All of it. ``density``: entries over positions."""

    shape: tuple[int, ...]
    nnz: int
    density: float
    pyramid: tuple[Occupancy, ...]
    marginals: tuple[Marginal, ...]
    fibers: tuple[Fibers, ...]


def tensor_profile(stats: TensorStatistics, tile: int = 128) -> Profile:
    """Profile of a tensor; ``tile``: extent of the tiles whose prefixes are counted. O(nnz log nnz)."""
    modes = range(len(stats.shape))
    return Profile(
        stats.shape,
        stats.nnz,
        stats.tensor.density,
        _pyramid(stats) if stats.shape else (),
        tuple(_marginal(stats, mode) for mode in modes),
        tuple(_fibers(stats, level, tile) for level in modes),
    )


def _pyramid(stats: TensorStatistics) -> tuple[Occupancy, ...]:
    """Finest first; each level from the one before."""
    largest = max(stats.shape)
    tile = max(2, 1 << max(0, (largest - 1) // FINEST_TILES).bit_length())
    coords, weights = tuple(coarser(c, tile) for c in stats.tensor.coords), None
    found: list[Occupancy] = []
    while True:
        sizes = [max(1, -(-extent // tile)) for extent in stats.shape]
        coords, counted = group_sum(coords, sizes, weights)
        weights = counted
        found.append(_occupancy(tile, float(np.prod([float(s) for s in sizes])), counted))
        if max(sizes) == 1:
            return tuple(found)
        tile, coords = 2 * tile, tuple(coarser(c, 2) for c in coords)


def _occupancy(tile: int, tiles: float, held: Floats) -> Occupancy:
    if not held.size:
        return Occupancy(tile, int(tiles), 0, 0.0, 0.0, 0.0, 0.0, 0)
    median, q90, q99 = np.quantile(held, [0.5, 0.9, 0.99]).tolist()
    return Occupancy(tile, int(tiles), held.size, float(held.mean()), median, q90, q99, int(held.max()))


def _marginal(stats: TensorStatistics, mode: int) -> Marginal:
    held = np.bincount(stats.tensor.coords[mode], minlength=stats.shape[mode])
    if not held.size:
        return Marginal(mode, 0, 0, 0.0, 0.0, 0.0, 0)
    median, q99 = np.quantile(held, [0.5, 0.99]).tolist()
    empty = int((held == 0).sum())
    return Marginal(mode, held.size, empty, float(held.mean()), median, q99, int(held.max()))


def _fibers(stats: TensorStatistics, level: int, tile: int) -> Fibers:
    view = tuple((m, 1) for m in range(level + 1))
    tiles = stats.count(tuple((m, tile) for m in range(level + 1)))
    lengths = stats.marginal(view, view[:-1])[1]
    lengths = lengths[lengths > 0]
    histogram = np.bincount(np.log2(lengths).astype(np.int64)) if lengths.size else np.zeros(0, np.int64)
    return Fibers(level, stats.count(view), tile, tiles, tuple(histogram.tolist()))


def draw(profile: Profile) -> go.Figure:
    """Three charts: share of tiles that hold entries and their occupancy by tile extent; fiber lengths; slices."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    titles = ("tiles that hold entries", "entries of those tiles", "fibers by length", "entries per slice")
    figure = make_subplots(rows=2, cols=2, subplot_titles=titles)
    tiles = [o.tile for o in profile.pyramid]
    share = [o.nonempty / max(1, o.tiles) for o in profile.pyramid]
    figure.add_trace(go.Scatter(x=tiles, y=share, name="share of all tiles"), 1, 1)
    for name in ("mean", "quantile99", "most"):
        figure.add_trace(go.Scatter(x=tiles, y=[getattr(o, name) for o in profile.pyramid], name=name), 1, 2)
    for own in profile.fibers:
        bins = [f"{2**n}" if n == 0 else f"{2**n}-{2 ** (n + 1) - 1}" for n in range(len(own.histogram))]
        figure.add_trace(go.Bar(x=bins, y=list(own.histogram), name=f"level {own.level}"), 2, 1)
    for field in ("mean", "quantile99", "most"):
        values = [getattr(m, field) for m in profile.marginals]
        figure.add_trace(go.Bar(x=[f"mode {m.mode}" for m in profile.marginals], y=values, name=field), 2, 2)
    for row, col, title in ((1, 1, "tile extent"), (1, 2, "tile extent"), (2, 1, "length"), (2, 2, "")):
        figure.update_xaxes(title_text=title, row=row, col=col, **({"type": "log"} if row == 1 else {}))
        figure.update_yaxes(type="log", row=row, col=col)
    shape = " x ".join(map(str, profile.shape))
    figure.update_layout(title=f"{shape}, {profile.nnz} entries, density {profile.density:.3g}")
    return figure
