"""Which visits of tiles load, in a buffer where the first that come stay or the least recently used goes.

A buffer out of which the least recently used goes holds, after any visit, the tiles of the longest stretch of visits up
to then whose distinct tiles fit together, whatever their sizes, and the beginning of that stretch only ever moves
forward. So a visit hits if and only if the previous visit of its tile lies in the stretch.

Where stretches begin follows from which visits hit: the bytes that missed visits brought, less those that went, must
fit, and a tile goes when its visit falls out, unless the next visit of the tile hits and stands for it. Which visits
hit follows from where stretches begin. From a first guess both are found by turns until the hits come out as they went
in. Then they are right. Take the first visit that they have wrong: before it, the bytes that went can only be too few,
where a tile that is gone is taken to hit later; so the stretch begins no earlier than in truth, and that later visit
would have come out as missed. By the same argument two rounds put at least one more visit right; a few rounds put all.
Sizes are whole numbers of bytes, or of halves, so that sums are exact.
"""

from __future__ import annotations

import numpy as np

from costmodel.factors import Floats, Ints, firsts, in_order


def previous_of(keys: Ints) -> Ints:
    """Where each key stood last, -1 where it is new."""
    if keys.size and int(keys.max()) < 1 << 16:  # sorted by radix, in half of the time
        order = np.argsort(keys.astype(np.uint16), kind="stable")
        known = keys[order]
    else:
        known, order = in_order(keys)
    previous = np.full(keys.size, -1, np.int64)
    again = np.flatnonzero(known[1:] == known[:-1]) + 1
    previous[order[again]] = order[again - 1]
    return previous


def recent_loads(lane: Ints, tile: Ints, taken: Floats, room: int) -> tuple[Floats, Floats]:
    """Loads at each visit where the least recently used goes, and whether that is known: all visits of a lane once
    something has been removed, whatever was there before; in a lane where nothing ever is, the hits. Visits come lane
    by lane; ``taken``: bytes of every tile."""
    previous, size = previous_of(lane * taken.size + tile), taken[tile]
    back = np.flatnonzero(previous >= 0)
    before, later = previous[back], np.full(tile.size, tile.size)
    later[before] = back
    ends, miss = np.cumsum(size), np.ones(tile.size + 1, bool)
    sure = ends[back] - ends[before] <= room  # even if every visit since then were one of a new tile
    miss[back[sure]] = False
    back, before = back[~sure], before[~sure]
    bytes_brought, bytes_gone = np.zeros(tile.size + 1), np.zeros(tile.size + 1)
    while True:
        np.cumsum(size * miss[:-1], out=bytes_brought[1:])
        if not back.size:
            break
        np.cumsum(size * miss[later], out=bytes_gone[1:])  # all that a lane brought is gone at its end
        lost = bytes_gone[before] < bytes_brought[back] - room
        if (lost == miss[back]).all():
            break
        miss[back] = lost
    starts = firsts(lane)
    visits = np.diff(starts, append=tile.size)
    removed = bytes_brought[1:] - np.repeat(bytes_brought[starts], visits) > room
    emptied = np.repeat(removed[starts + visits - 1], visits)
    return miss[:-1].astype(np.float64), (removed | ~(emptied | miss[:-1])).astype(np.float64)


def first_loads(lane: Ints, tile: Ints, time: Ints, size: Floats, room: float, share: float) -> Floats:
    """Loads [lane, tile] where the first tiles that fit stay for good; ``share``: of the bytes of all tiles that those
    have which come at all. Visits in any order: ``time`` says it, lane by lane."""
    place, tiles = lane * size.size + tile, size.size
    visits = np.bincount(place, minlength=tiles * (int(lane.max(initial=0)) + 1))
    begin = np.full(visits.size, np.iinfo(np.int64).max)
    np.minimum.at(begin, place, time)
    loads, came = visits.astype(np.float64), np.flatnonzero(visits != 0)
    turns = came[np.argsort(begin[came])]
    for turn in np.split(turns, firsts(turns // tiles)[1:]):
        loads[turn[_admitted(size[turn % tiles], room, share)]] = 1.0
    return loads.reshape(-1, tiles)


def _admitted(size: Floats, room: float, share: float) -> Ints:
    """Which of the tiles fit, one after the other, beside those that fitted before."""
    stay, held, rest = [np.zeros(0, np.int64)], 0.0, np.arange(size.size)
    while rest.size:
        rest = rest[np.flatnonzero(held / share + size[rest] <= room)]  # the others never will: room only shrinks
        before = held + np.append(0.0, np.cumsum(size[rest]))
        too_many = np.flatnonzero(before[:-1] / share + size[rest] > room)
        count = int(too_many[0]) if too_many.size else rest.size
        stay.append(rest[:count])
        held, rest = float(before[count]), rest[count:]
    return np.concatenate(stay)
