"""Random graphs woven by hand: sources, forks, branches of unequal length, joins, and every kind of unit.

All streams over one loop nest fit each other; a branch keeps its nest or makes a new one below, above or beside it. So
whatever is combined fits, and only FIFOs that are too short can stop a run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from unit_harness import done

from mapper.graph import Graph
from mapper.graph_builder import GraphBuilder, Stream
from mapper.machine import Machine

EXTENT = 6
"""Extent of every coordinate."""

ROWS = 400
"""References that arrays and tiles know: more than any stream numbers."""


@dataclass(eq=False)
class _Nest:
    """Loop nest of ``depth`` levels, the streams that run over it, and how many elements it can have."""

    depth: int
    parent: _Nest | None
    crd: Stream
    most: int
    refs: list[Stream] = field(default_factory=list)
    vals: list[Stream] = field(default_factory=list)
    numbered: list[Stream] = field(default_factory=list)  # running numbers of the elements of this very nest

    @property
    def chain(self) -> list[_Nest]:
        """The nests of all its levels, outermost first."""
        return [*(self.parent.chain if self.parent else []), self]


def random_weave(rng: np.random.Generator, machine: Machine, steps: int) -> Graph:
    """A graph of about ``steps`` random moves."""
    weave = _Weave(rng, GraphBuilder(machine))
    for _ in range(int(rng.integers(1, 3))):
        weave.start()
    for _ in range(steps):
        weave.move()
    weave.finish()
    return weave.build.build()


class _Weave:
    def __init__(self, rng: np.random.Generator, build: GraphBuilder) -> None:
        self.rng, self.build = rng, build
        self.nests: list[_Nest] = []
        self.sinks: list[tuple[Stream, str]] = []
        self.moves = [
            (getattr(self, name), weight)
            for name, weight in (
                ("scan", 3), ("number", 2), ("load", 2), ("look_up", 3), ("apply", 2), ("combine", 4), ("join", 4),
                ("repeat", 3), ("reduce", 2), ("accumulate", 3), ("drop", 2), ("rescan", 3), ("store", 1), ("write", 1),
            )
        ]  # fmt: skip

    def add(self, kind: str, reads: list[Any], outputs: int = 1, **more: Any) -> tuple[Stream, ...]:
        return self.build.add(kind, f"{kind} {self.rng.integers(2**40):x}", reads, outputs, **more)

    def pick(self, options: list[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))] if options else None

    def move(self) -> None:
        weights = np.array([weight for _, weight in self.moves], dtype=float)
        move, _ = self.moves[int(self.rng.choice(len(self.moves), p=weights / weights.sum()))]
        nest = self.pick(self.nests[-6:] if self.rng.random() < 0.7 else self.nests)
        if move.__name__ in ("apply", "combine", "reduce", "accumulate", "drop", "store") and not nest.vals:
            nest = self.pick([n for n in self.nests if n.vals]) or nest
        move(nest)

    def start(self) -> None:
        """A stream of random nested lists from a source, or the reference of a root, scanned."""
        if self.rng.random() < 0.3:
            (ref,) = self.add("root", [])
            self._scan(ref, None, 1)
            return
        parent = None
        depth = int(self.rng.integers(1, 4))
        whole = self._random_lists(depth)
        for level in range(1, depth + 1):
            cut = _cut(whole, level)
            crd = self._source(done(cut, level))
            nest = _Nest(level, parent, crd, _count(cut))
            numbers = iter(range(10**6))
            (ref,) = self.add("number", [crd]) if self.rng.random() < 0.5 else (
                self._source(done(_each(cut, level, lambda _, n=numbers: next(n)), level)),
            )  # fmt: skip
            nest.numbered.append(ref)
            nest.refs.append(ref)
            self.nests.append(nest)
            parent = nest
        value = lambda _: None if self.rng.random() < 0.2 else float(self.rng.integers(-8, 9)) / 4  # noqa: E731
        parent.vals.append(self._source(done(_each(_cut(whole, depth), depth, value), depth)))  # type: ignore[union-attr]

    def _source(self, tokens: list[Any]) -> Stream:
        params: dict[str, Any] = {"tokens": tokens}
        if self.rng.random() < 0.3:
            params["times"] = np.cumsum(self.rng.integers(0, 4, len(tokens))).tolist()
        return self.add("source", [], params=params)[0]

    def _random_lists(self, depth: int) -> dict[int, Any]:
        size = int(self.rng.integers(0, 5))
        names = sorted(self.rng.choice(EXTENT, size, replace=False).tolist())
        return {name: self._random_lists(depth - 1) if depth > 1 else {} for name in names}

    def _scan(self, ref: Stream, parent: _Nest | None, rows: int) -> None:
        rows_known = max(rows, ROWS)
        lengths = self.rng.integers(0, 5 if rows < 20 else 3, rows_known)
        pos = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        arrays, params = {"pos": pos}, {}
        if self.rng.random() < 0.7:
            fibers = [np.sort(self.rng.choice(EXTENT, n, replace=False)) for n in lengths]
            arrays["crd"] = np.ascontiguousarray(np.concatenate(fibers), dtype=np.int64)
        if self.rng.random() < 0.25:
            params = {"lo": int(self.rng.integers(0, 3)), "hi": int(self.rng.integers(2, EXTENT + 1))}
        elif "crd" in arrays and self.rng.random() < 0.3:
            params = {"tensor": self.account(), "pos_address": int(self.rng.integers(0, 99)), "pos_bits": 32,
                      "crd_address": int(self.rng.integers(0, 999)), "crd_bits": self.pick([3, 16, 32])}  # fmt: skip
        crd, below = self.add("scan", [ref], 2, params=params, arrays=arrays)
        most = min(int(np.sort(lengths)[-rows:].sum()) if rows < 20 else rows * 3, 4 * rows)
        nest = _Nest(parent.depth + 1 if parent else 1, parent, crd, most)
        if pos[-1] <= ROWS:
            nest.refs.append(below)
        else:
            self.sinks.append((below, "int"))
        self.nests.append(nest)

    def scan(self, nest: _Nest) -> None:
        """Looks the fibers of references up in a stored level."""
        if nest.depth < 4 and nest.most < 120 and nest.refs:
            self._scan(self.pick(nest.refs), nest, nest.most)

    def number(self, nest: _Nest) -> None:
        (ref,) = self.add("number", [nest.crd])
        if nest.most <= ROWS:
            nest.refs.append(ref)
            nest.numbered.append(ref)

    def load(self, nest: _Nest) -> None:
        """A buffer of tiles; below a repeat it sees the same tile again and again."""
        if self.rng.random() < 0.7:
            self.repeat(nest)
        if nest.refs:
            sizes = self.rng.integers(0, 60, (2, ROWS)) * (self.rng.random(ROWS) < 0.8)
            arrays = {"value_bytes": sizes[0], "metadata_bytes": sizes[1], "address": np.cumsum(sizes.sum(axis=0))}
            residency, capacity = self.pick(["none", "lru", "keep", "overbooked"]), self.pick([0, 50, 200])
            params = {"tensor": self.account(), "residency": residency, "capacity_bytes": capacity,
                      "streaming_bytes": self.pick([0, capacity // 4, capacity])}  # fmt: skip
            if self.rng.random() < 0.3:
                params["fill_bytes_per_cycle"] = self.pick([0.5, 3.0, 16.0])
            arrays = {name: np.ascontiguousarray(a, dtype=np.int64) for name, a in arrays.items()}
            nest.refs += self.add("tile_load", [self.pick(nest.refs[-2:])], params=params, arrays=arrays)

    def account(self) -> int:
        return self.build.account(self.pick(["A", "B", "C"]))

    def look_up(self, nest: _Nest) -> None:
        if nest.refs:
            values = self.rng.integers(-8, 9, ROWS) / 4
            params: dict[str, Any] = {}
            match self.pick(["free", "free", "off-chip", "banked"]):
                case "off-chip":
                    address, bits = int(self.rng.integers(0, 99)), self.pick([4, 16, 32, 64])
                    params = {"tensor": self.account(), "address": address, "value_bits": bits}
                case "banked":
                    params = {"banks": int(self.rng.integers(1, 5)), "value_bytes": 4, "bank_bytes_per_cycle":
                              self.pick([0.7, 1.0, 2.0, 4.0])}  # fmt: skip
            nest.vals += self.add("array", [self.pick(nest.refs)], params=params, arrays={"values": values})

    def apply(self, nest: _Nest) -> None:
        if nest.vals:
            op = self.pick(["relu", "abs", "neg", "square", "tanh", "gelu", "sigmoid", "scale"])
            params = {"op": op} | ({"factor": 0.5} if op == "scale" else {})
            nest.vals += self.add("map", [self.pick(nest.vals)], params=params)

    def combine(self, nest: _Nest) -> None:
        """Two value streams; equal ones make a fork whose branches meet at once."""
        if nest.vals:
            params = {"op": self.pick(["mul", "mul", "add", "sub", "max", "min"])}
            nest.vals += self.add("alu", [self.pick(nest.vals), self.pick(nest.vals)], params=params)

    def join(self, nest: _Nest) -> None:
        """Nests below the same parent, or one nest with itself: a diamond."""
        beside = [n for n in self.nests if n.parent is nest.parent and n.depth == nest.depth and (n.refs or n.vals)]
        if not (nest.refs or nest.vals) or (nest.parent is None and beside != [nest]):
            beside = [nest] if nest.refs or nest.vals else []
        if not beside:
            return
        sides = [nest, *(self.pick(beside) for _ in range(int(self.rng.integers(1, 3))))]
        floats = [not side.refs or bool(side.vals and self.rng.random() < 0.3) for side in sides]
        payloads = [self.pick(s.vals if f else s.refs) for s, f in zip(sides, floats, strict=True)]
        kind = self.pick(["intersect", "union"])
        crd, *outs = self.add(kind, [*(s.crd for s in sides), *payloads], len(sides) + 1)
        most = min(s.most for s in sides) if kind == "intersect" else sum(s.most for s in sides)
        joined = _Nest(nest.depth, nest.parent, crd, most)
        for out, is_float in zip(outs, floats, strict=True):
            (joined.vals if is_float else joined.refs).append(out)
        self.nests.append(joined)

    def repeat(self, nest: _Nest) -> None:
        above = nest.parent
        if above and (above.refs or above.vals):
            is_val = not above.refs or bool(above.vals and self.rng.random() < 0.5)
            (signal,) = self.add("repeat_signal", [nest.crd])
            repeated = self.add("repeat", [self.pick(above.vals if is_val else above.refs), signal])
            if is_val:
                nest.vals += repeated
            else:
                nest.refs += repeated

    def reduce(self, nest: _Nest) -> None:
        if nest.vals:
            params = {"op": self.pick(["sum", "max"]), "empty": self.pick(["zero", "empty"])}
            if nest.parent and self.rng.random() < 0.8:
                reads = [self.pick(nest.vals), nest.parent.crd]
                nest.parent.vals += self.add("reduce", reads, params=params)
            else:  # without the outer stream an empty group yields a value too: fit for a writer only
                self.add("value_write", list(self.add("reduce", [self.pick(nest.vals)], params=params)), 0)

    def accumulate(self, nest: _Nest) -> None:
        chain = nest.chain
        if len(chain) < 2 or not nest.vals:
            return
        scope = int(self.rng.integers(0, len(chain) - 1))
        depth = len(chain) - scope
        inside = [q for q in range(2, depth) if self.rng.random() < 0.5]
        levels = (*inside, depth)
        params: dict[str, Any] = {
            "depth": depth, "levels": levels, "sizes": (EXTENT,) * len(levels),
            "drain_cycles_per_entry": int(self.rng.integers(0, 3)),
        }  # fmt: skip
        if self.rng.random() < 0.6:
            params |= {"capacity_entries": int(self.rng.integers(1, 5)), "entry_value_bytes": 4,
                       "entry_metadata_bytes": int(self.rng.integers(0, 9)), "tensor": self.account()}  # fmt: skip
        reads = [chain[scope + q - 1].crd for q in (1, *levels)]
        *crds, val = self.add("accumulate", [*reads, self.pick(nest.vals)], len(levels) + 1, params=params)
        at = chain[scope - 1] if scope else None
        for crd in crds:
            at = _Nest(at.depth + 1 if at else 1, at, crd, nest.most)
            self.nests.append(at)
        at.vals.append(val)  # type: ignore[union-attr]

    def drop(self, nest: _Nest) -> None:
        if nest.vals:
            crd, val = self.add("drop_empty", [nest.crd, self.pick(nest.vals)], 2)
            self.nests.append(_Nest(nest.depth, nest.parent, crd, nest.most, vals=[val]))

    def rescan(self, nest: _Nest) -> None:
        """Fibers of a nest on the fly, asked for by the numbers of its parent or by what a join left of them."""
        parent = nest.parent
        if parent is None or not parent.numbered:
            return
        ref, asking = self.pick(parent.numbered), parent
        if self.rng.random() < 0.6:
            beside = [n for n in self.nests if n.depth == parent.depth and n.parent is parent.parent and n.refs]
            other = self.pick(beside) if parent.parent else parent
            if other.refs:
                reads = [parent.crd, other.crd, ref, self.pick(other.refs)]
                crd, ref, _ = self.add(self.pick(["intersect", "union"]), reads, 3)
                asking = _Nest(parent.depth, parent.parent, crd, parent.most + other.most)
                self.nests.append(asking)
        payload = self.pick([None, *nest.vals])
        aligned = len(self.nests) % 3  # 2: not said
        params = {"aligned": aligned} if aligned < 2 else {}
        crd, out = self.add("stream_scan", [ref, nest.crd, payload, parent.crd], 2, params=params)
        below = _Nest(nest.depth, asking, crd, nest.most)
        (below.vals if payload else below.refs).append(out)
        self.nests.append(below)

    def store(self, nest: _Nest) -> None:
        if not nest.vals:
            return
        n = len(nest.chain)
        tiles = int(self.rng.integers(0, n))
        inner = n - tiles
        homes = [-1] * inner
        params = {
            "tensor": self.account(), "tile_levels": tiles, "dims": [EXTENT] * inner, "tiles": [EXTENT] * inner,
            "kinds": [self.pick(["dense", "compressed"]) for _ in range(inner)], "tile_level_of": homes,
            "value_bytes": 4, "coordinate_bytes": 2, "pointer_bytes": 4, "descriptor_bytes": self.pick([0, 8]),
        }  # fmt: skip
        self.add("store", [*(level.crd for level in nest.chain), self.pick(nest.vals)], 0, params=params)

    def write(self, nest: _Nest) -> None:
        if nest.vals and self.rng.random() < 0.5:
            self.add("value_write", [self.pick(nest.vals)], 0)
        else:
            self.add("crd_write", [nest.crd], 0)

    def finish(self) -> None:
        """Sinks for most streams at the end of a branch; now and then a re-layout beside it all."""
        for nest in self.nests:
            self.sinks += [(nest.crd, "int")] * bool(self.rng.random() < 0.3)
            self.sinks += [(stream, "int") for stream in nest.refs[-1:]] + [(s, "float") for s in nest.vals[-1:]]
        for stream, dtype in self.sinks:
            params: dict[str, Any] = {"dtype": dtype}
            if self.rng.random() < 0.2:
                params["times"] = np.cumsum(self.rng.integers(0, 6, 20)).tolist()
            self.add("sink", [stream], 0, params=params)
        if self.rng.random() < 0.15:
            sizes = {f"{way}_{what}_bytes": int(self.rng.integers(0, 4000)) for way in ("read", "write")
                     for what in ("value", "metadata")}  # fmt: skip
            result = {"result": self.account()} if self.rng.random() < 0.5 else {}
            self.add("convert", [], 0, params={"tensor": self.account(), **result, **sizes})


def _cut(nest: dict[int, Any], level: int) -> Any:
    """Coordinates of a level as nested lists."""
    return list(nest) if level == 1 else [_cut(below, level - 1) for below in nest.values()]


def _count(nested: Any) -> int:
    return sum(_count(x) if isinstance(x, list) else 1 for x in nested)


def _each(nested: Any, level: int, f: Any) -> Any:
    return [f(x) if level == 1 else _each(x, level - 1, f) for x in nested]
