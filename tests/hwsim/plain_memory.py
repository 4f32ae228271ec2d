"""Contexts of the plain simulator that use off-chip memory."""

from __future__ import annotations

import math
from typing import Any

from plain_contexts import array as array_free
from plain_contexts import closing_stop, value_of
from plain_contexts import scan as scan_free
from plain_unit import DONE, EMPTY, Body, Fifo, Unit, is_stop, is_val, stop_token, val_token


def _close_fibers(u: Unit, keys: list[tuple[int, Fifo | None]], depth: int, level: int) -> Body:
    """The coordinate streams (level, port) at Stop ``level`` of the values, whose depth is ``depth``."""
    for q, port in keys:
        head = yield from u.peek(port)
        if q < depth and is_val(head) and level >= depth - q - 1:
            yield from u.pop(port)
        if level >= depth - q:
            stop = yield from u.pop(port)
            assert stop == stop_token(level - (depth - q))


def accumulate(u: Unit) -> Body:
    p, outer_in, val_in = u.params, u.ins[0], u.ins[-1]
    depth, levels = p["depth"], p["levels"]
    keys = list(zip(levels, u.ins[1:-1], strict=True))
    per_entry, capacity = p.get("drain_cycles_per_entry", 0), p.get("capacity_entries", 0)
    entry = p.get("entry_value_bytes", 0), p.get("entry_metadata_bytes", 0)
    sums: dict[tuple[int, ...], float] = {}
    run: set[tuple[int, ...]] = set()
    spilled, ended = 0, False
    while True:
        outer = yield from u.peek(outer_in)
        key_list = []
        for _, port in keys:
            key_list.append((yield from u.peek(port)))
        val = yield from u.peek(val_in)
        if outer == DONE:
            yield from u.push_all([u.outs[-1], *u.outs[:-1]], DONE)
            return
        if is_val(outer) and is_stop(val):
            yield from _close_fibers(u, keys, depth, val[1])
            if val[1] >= depth - 2:
                yield from u.pop(outer_in)
            ended = val[1] >= depth - 1
            yield from u.pop(val_in)
            u.cost()
        elif is_val(outer):
            key = tuple(k[1] for k in key_list)
            if is_val(val):
                if capacity and key not in run and len(run) == capacity:
                    finish = yield from u.memory(spilled * sum(entry), capacity * sum(entry), True)
                    u.until(finish, "memory")
                    u.host.account(p["tensor"], "write", capacity * entry[0], capacity * entry[1])
                    spilled, run = spilled + capacity, set()
                    u.counts["spilled"] += capacity
                run.add(key)
                if p.get("op") == "max":
                    sums[key] = max(sums.get(key, -math.inf), val[1])
                else:
                    sums[key] = sums.get(key, 0.0) + val[1]
            yield from u.pop(keys[-1][1])
            yield from u.pop(val_in)
            u.cost()
        else:
            if not ended:
                yield from _close_fibers(u, keys, depth, val[1])
                yield from u.pop(val_in)
            ended = False
            if spilled:
                finish = yield from u.memory(0, spilled * sum(entry), False)
                u.until(finish, "memory")
                u.host.account(p["tensor"], "read", spilled * entry[0], spilled * entry[1])
            yield from _drain(u, sorted(sums.items()), outer[1], per_entry)
            sums, run, spilled = {}, set(), 0
            yield from u.pop(outer_in)
            u.cost()


def _drain(u: Unit, entries: list[tuple[tuple[int, ...], float]], level: int, per_entry: int) -> Body:
    crd_outs, val_out, order = u.outs[:-1], u.outs[-1], len(u.outs) - 1
    last: tuple[int, ...] | None = None
    for key, total in entries:
        changed = 0 if last is None else next(q for q in range(order) if key[q] != last[q])
        if last is not None and changed < order - 1:  # fibers below the changed key end
            for q in range(changed + 1, order):
                yield from u.push(crd_outs[q], stop_token(q - changed - 1))
            yield from u.push(val_out, stop_token(order - changed - 2))
        for q in range(changed, order):
            yield from u.push(crd_outs[q], val_token(key[q]))
        yield from u.push(val_out, val_token(total))
        u.cost(per_entry)
        last = key
    yield from u.push(val_out, stop_token(level + order - 1))
    for q in range(order):
        yield from u.push(crd_outs[q], stop_token(level + q))


def tile_load(u: Unit) -> Body:
    p, sizes = u.params, u.arrays
    held: dict[int, int] = {}  # tile to bytes that it occupies, least recently used first
    rate, filled = p.get("fill_bytes_per_cycle", math.inf), 0
    while True:
        ref = yield from u.pop(u.ins[0])
        available = 0
        if is_val(ref):
            tile = ref[1]
            values, metadata = sizes["value_bytes"][tile], sizes["metadata_bytes"][tile]
            yield from u.room(u.outs[0])
            if values + metadata:
                there = _visit(p, held, tile, values + metadata)
                fetched = ([0] * metadata + [1] * values)[there:]  # metadata comes first in a tile
                u.counts["misses" if fetched else "hits"] += 1
                if fetched:
                    u.host.account(p["tensor"], "read", sum(fetched), len(fetched) - sum(fetched))
                    begin = max(filled, u.t)
                    available = yield from u.memory(sizes["address"][tile] + there, len(fetched), False)
                    available = filled = max(available, begin + math.ceil(len(fetched) / rate))
        yield from u.push(u.outs[0], ref, available)
        if ref == DONE:
            return
        u.cost()


class _Window:
    """An array in off-chip memory, of which the burst last touched is kept."""

    def __init__(self, u: Unit, address: str, bits: str, metadata: bool) -> None:
        self.u, self.metadata = u, metadata
        self.start, self.bits = u.params.get(address, 0) * 8, u.params[bits]
        self.burst = u.host.dram.burst_bytes if u.host.dram else 1
        self.held, self.there = -1, 0

    def read(self, begin: int, end: int) -> Body:
        """When elements ``begin`` to ``end``, one at least, are there."""
        bits = range(self.start + begin * self.bits, self.start + end * self.bits)
        bursts = sorted({bit // 8 // self.burst for bit in bits})
        kept = self.held in (bursts[0], bursts[-1])
        missing = [n for n in bursts if n != self.held or not kept]
        before = self.there if kept else 0
        if missing:
            size = len(missing) * self.burst
            self.u.host.account(self.u.params["tensor"], "read", *((0, size) if self.metadata else (size, 0)))
            finish = yield from self.u.memory(missing[0] * self.burst, size, False)
            before = max(before, finish)
        self.held, self.there = bursts[-1] if self.u.host.dram else -1, before
        return before


def array(u: Unit) -> Body:
    return array_direct(u) if "tensor" in u.params else array_banked(u) if "banks" in u.params else array_free(u)


def scan(u: Unit) -> Body:
    return scan_direct(u) if "tensor" in u.params else scan_free(u)


def array_direct(u: Unit) -> Body:
    window = _Window(u, "address", "value_bits", False)
    while True:
        ref = yield from u.pop(u.ins[0])
        yield from u.room(u.outs[0])
        there = (yield from window.read(ref[1], ref[1] + 1)) if is_val(ref) else 0
        yield from u.push(u.outs[0], value_of(u, ref), there)
        if ref == DONE:
            return
        u.cost()


def array_banked(u: Unit) -> Body:
    p = u.params
    cycles, busy_until = math.ceil(p["value_bytes"] / p["bank_bytes_per_cycle"]), [0] * p["banks"]
    kept, out = (EMPTY, 0), u.outs[0]
    while True:
        ref = yield from u.pop(u.ins[0])
        yield from u.room(u.outs[0])
        if is_val(ref) and ref != kept[0]:
            bank = ref[1] % len(busy_until)
            u.until(busy_until[bank], "busy")
            busy_until[bank] = u.t + cycles
            kept = ref, u.t + (out.record.latency if out else 0) + cycles - 1
        yield from u.push(out, value_of(u, ref), kept[1] if is_val(ref) else 0)
        if ref == DONE:
            return
        u.cost()


def scan_direct(u: Unit) -> Body:
    pos, crd = u.arrays["pos"], u.arrays["crd"]
    places, entries = _Window(u, "pos_address", "pos_bits", True), _Window(u, "crd_address", "crd_bits", True)
    while True:
        ref = yield from u.pop(u.ins[0])
        if ref == DONE:
            yield from u.push_all(u.outs, DONE)
            return
        if is_val(ref):
            u.until((yield from places.read(ref[1], ref[1] + 2)), "memory")
            for p in range(*pos[ref[1] : ref[1] + 2]):
                yield from u.room(u.outs[0])
                there = yield from entries.read(p, p + 1)
                yield from u.push(u.outs[0], val_token(crd[p]), there)
                yield from u.push(u.outs[1], val_token(p))
                u.cost()
        closing = stop_token(ref[1] + 1) if is_stop(ref) else (yield from closing_stop(u, u.ins[0]))
        yield from u.push_all(u.outs, closing)
        u.cost()


def _visit(p: Any, held: dict[int, int], tile: int, size: int) -> int:
    """How many bytes of the tile are in the buffer, whose contents the visit changes."""
    policy, capacity = p["residency"], p.get("capacity_bytes", 0) or float("inf")
    if policy == "none":
        return 0
    if policy == "keep":
        if tile in held:
            return size
        if sum(held.values()) + size <= capacity:
            held[tile] = size
        return 0
    known = held.pop(tile, None)
    held[tile] = size
    there = size
    if policy == "overbooked" and size > capacity:
        held[tile], there = capacity, capacity - p.get("streaming_bytes", 0)
    while sum(held.values()) > capacity:
        del held[next(iter(held))]
    return 0 if known is None else there


def store(u: Unit) -> Body:
    p, n = u.params, len(u.ins) - 1
    keys, val_in = [(q + 1, port) for q, port in enumerate(u.ins[:-1])], u.ins[-1]
    u.coords = [[] for _ in range(n)]
    tile: list[tuple[int, ...]] = []  # entries of the open tile
    address = written = 0
    while True:
        heads = []
        for _, port in keys:
            heads.append((yield from u.peek(port)))
        val = yield from u.peek(val_in)
        if is_stop(val):
            yield from _close_fibers(u, keys, n, val[1])
            yield from u.pop(val_in)
            continue
        at = () if val == DONE else tuple(head[1] for head in heads)
        if tile and (val == DONE or (is_val(val) and at[: p["tile_levels"]] != tile[0][: p["tile_levels"]])):
            values, metadata = _tile_bytes(p, tile)
            u.until(written, "memory")
            u.host.account(p["tensor"], "write", values, metadata)
            written = yield from u.memory(address, values + metadata, True)
            address, tile = address + values + metadata, []
        if is_val(val):
            tile.append(at)
            u.values.append(val[1])
            for column, c in zip(u.coords, at, strict=True):
                column.append(c)
        if val == DONE:
            u.until(written, "memory")
        elif keys:
            yield from u.pop(keys[-1][1])
        yield from u.pop(val_in)
        u.cost()
        if val == DONE:
            return


def _tile_bytes(p: Any, tile: list[tuple[int, ...]]) -> tuple[int, int]:
    nodes, metadata, first, kinds = 1, p["descriptor_bytes"], p["tile_levels"], p["kinds"]

    def extent(q: int) -> int:
        whole, home = p["tiles"][q], p["tile_level_of"][q]
        return int(min(whole, p["dims"][q] - (tile[0][home] * whole if home >= 0 else 0)))

    def below(q: int) -> int:
        return len({at[: first + q + 1] for at in tile})

    for q, kind in enumerate(kinds):
        if "x" in kind:
            rows, cols = map(int, kind.split("x"))
            blocks = {(at[: first + q - 1], at[first + q - 1] // rows, at[first + q] // cols) for at in tile}
            strips = nodes // extent(q - 1) * math.ceil(extent(q - 1) / rows)
            metadata += (strips + 1) * p["pointer_bytes"] + len(blocks) * p["coordinate_bytes"]
            heights = (min(rows, extent(q - 1) - i * rows) for _, i, _ in blocks)
            widths = (min(cols, extent(q) - j * cols) for _, _, j in blocks)
            nodes = sum(h * w for h, w in zip(heights, widths, strict=True))
        elif kind == "dense":
            nodes *= extent(q)
        elif kind == "bitmask":
            metadata += math.ceil(nodes * extent(q) / 8)
            nodes = below(q)
        else:
            last = max(n for n in range(q, len(kinds)) if set(kinds[q + 1 : n + 1]) <= {"singleton"})
            if kind != "singleton":
                metadata += (nodes + 1) * p["pointer_bytes"]
            metadata += below(last) * p["coordinate_bytes"]
            nodes = below(q)
    return nodes * p["value_bytes"], metadata


def convert(u: Unit) -> Body:
    p, dram = u.params, u.host.dram
    sizes = {way: (p[f"{way}_value_bytes"], p[f"{way}_metadata_bytes"]) for way in ("read", "write")}
    piece = 16 * dram.burst_bytes if dram else max(1, *map(sum, sizes.values()))

    def pieces(way: str) -> list[tuple[int, int]]:
        total = sum(sizes[way])
        return [(at, min(piece, total - at)) for at in range(0, total, piece)]

    reads, writes = pieces("read"), pieces("write")
    there: dict[int, int] = {}
    written = 0
    for k in range(-16, max(len(reads), len(writes))):  # 16 pieces are read ahead of the one that is written
        if k + 16 < len(reads):
            there[k + 16] = yield from u.memory(*reads[k + 16], False)
        u.until(there.get(k, 0), "memory")
        if 0 <= k < len(writes):
            finish = yield from u.memory(*writes[k], True)
            written = max(written, finish)
    u.until(written, "memory")
    u.host.account(p["tensor"], "read", *sizes["read"], len(reads))
    u.host.account(p.get("result", p["tensor"]), "write", *sizes["write"], len(writes))
