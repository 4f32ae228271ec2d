"""A tile buffer, visit by visit: what it fetches, counted. Independent of the predicting code (``costmodel.exact``)."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from costmodel.walk import Ints
from mapper.machine import Machine
from mapper.residency import KEEP, OVERBOOKED, streaming_bytes
from mapper.storage import Storage


def fetched_bytes(tiles: Ints, storage: Storage, residency: str, machine: Machine) -> tuple[float, float]:
    """(value bytes, metadata bytes) that a tile buffer fetches for a sequence of visits (docs/simulator.md, Tiles)."""
    values, metadata = storage.tile_value_bytes, storage.tile_metadata_bytes
    if residency == "none" or not tiles.size:
        return float(values[tiles].sum()), float(metadata[tiles].sum())
    size = values + metadata
    room = machine.buffer_bytes or int(size.sum()) + 1
    if residency == KEEP:
        order, first = np.unique(tiles, return_index=True)
        held, missed = 0, np.ones(tiles.size, bool)
        stays = np.zeros(size.size, bool)
        for tile in order[np.argsort(first)].tolist():
            if held + size[tile] <= room:
                stays[tile], held = True, held + int(size[tile])
        missed[stays[tiles]] = False
        missed[first] = True
        return float(values[tiles[missed]].sum()), float(metadata[tiles[missed]].sum())
    taken = np.minimum(size, room) if residency == OVERBOOKED else size
    loads, tails = _recent(tiles, taken, room)
    tail = np.where(size > room, size - room + streaming_bytes(machine), 0) if residency == OVERBOOKED else 0 * size
    tail_values = np.minimum(tail, values)
    total = (loads * values + tails * tail_values).sum(), (loads * metadata + tails * (tail - tail_values)).sum()
    return float(total[0]), float(total[1])


def _recent(tiles: Ints, taken: Ints, room: int) -> tuple[Ints, Ints]:
    """(misses, hits) of every tile where the most recently used that fit stay."""
    visits = np.bincount(tiles, minlength=taken.size)
    fresh = np.ones(tiles.size, bool)
    fresh[1:] = (tiles[1:] != tiles[:-1]) | (taken[tiles[1:]] > room)  # else the tile has just been used
    loads, size = np.zeros(taken.size, np.int64), taken.tolist()
    held: OrderedDict[int, None] = OrderedDict()
    total = 0
    for tile in tiles[fresh].tolist():
        if tile in held:
            held.move_to_end(tile)
            continue
        loads[tile] += 1
        held[tile] = None
        total += size[tile]
        while total > room:
            total -= size[held.popitem(last=False)[0]]
    return loads, visits - loads
