"""Contexts of the plain simulator that walk levels, join streams and copy tokens."""

from __future__ import annotations

import math
from collections.abc import Callable

from plain_unit import DONE, EMPTY, Body, Fifo, Token, Unit, is_stop, is_val, stop_token, val_token


def root(u: Unit) -> Body:
    for token in (val_token(0), DONE):
        yield from u.push(u.outs[0], token)
        u.cost()


def source(u: Unit) -> Body:
    times = u.params.get("times", ())
    for k, token in enumerate(u.params["tokens"]):
        u.until(times[k] if k < len(times) else 0, "starved")
        yield from u.push(u.outs[0], tuple(token))
        if token[0] == "done":
            return
        u.cost()


def sink(u: Unit) -> Body:
    times, token = u.params.get("times", ()), EMPTY
    while token != DONE:
        u.until(times[len(u.seen)] if len(u.seen) < len(times) else 0, "starved")
        token = yield from u.pop(u.ins[0])
        u.seen.append((token, u.t))


def closing_stop(u: Unit, ref: Fifo | None) -> Body:
    """The Stop that ends a fiber: it takes a Stop of the references along."""
    following = yield from u.peek(ref)
    if not is_stop(following):
        return stop_token(0)
    yield from u.pop(ref)
    return stop_token(following[1] + 1)


def _fiber(u: Unit, r: int) -> list[tuple[int, int, int]]:
    """(cycles before it, coordinate, reference) of what a fiber holds between ``lo`` and ``hi``; the cycles after the
    last come with coordinate -1."""
    arrays, params, idle = u.arrays, u.params, 0
    low, high = params.get("lo", 0), params.get("hi", math.inf)
    begin, end = int(arrays["pos"][r]), int(arrays["pos"][r + 1])
    found = []
    match params.get("storage"):
        case "bitmask":
            width, words = params.get("word_bits", 64), (params["size"] + 63) // 64
            bits = [int(w) >> b & 1 for w in arrays["mask"][r * words : (r + 1) * words] for b in range(64)]
            stop, ref = min(params["size"], high), begin + sum(bits[:low])
            for first in range(min(low, stop) // width * width, stop, width):
                group = [c for c in range(max(first, low), min(first + width, stop)) if bits[c]]
                idle += not group and max(first, low) < stop
                for c in group:
                    found.append((idle, c, ref))
                    idle, ref = 0, ref + 1
        case "run_length":
            for q in range(begin, end):
                run = range(int(arrays["crd"][q]), int(arrays["crd"][q] + arrays["length"][q]))
                found += [(0, c, q) for c in run if low <= c < high]
        case "n_of_m":
            n, m = params["n"], params["m"]
            listed = [((p - begin) // n * m + int(arrays["crd"][p]), p) for p in range(begin, end)]
            found += [(0, c, p) for c, p in listed if low <= c < high]
        case "repeated":
            for g in range(begin, end):
                if low <= arrays["crd"][g] < high:
                    found.append((idle, int(arrays["crd"][g]), g))
                    idle = int(arrays["length"][g]) - 1
        case _:
            crd = arrays.get("crd")
            listed = [(int(crd[p]) if crd is not None else p - begin, p) for p in range(begin, end)]
            found += [(0, c, p) for c, p in listed if low <= c < high]
    phase, step = params.get("phase", 0), params.get("step", 1)
    kept, passed = [], 0
    for before, c, p in found:
        passed += before
        if c % step == phase:
            kept.append((passed, c, p))
            passed = 0
    return [*kept, (passed + idle, -1, -1)]


def scan(u: Unit) -> Body:
    while True:
        ref = yield from u.peek(u.ins[0])
        holds = is_val(ref) and u.ins[0].from_memory  # a tile keeps its buffer until it was walked
        if not holds:
            yield from u.pop(u.ins[0])
        if ref == DONE:
            yield from u.push_all(u.outs, DONE)
            return
        if is_val(ref):
            for idle, c, p in _fiber(u, ref[1]):
                if idle:
                    u.cost(idle)
                if c >= 0:
                    yield from u.push(u.outs[0], val_token(c))
                    yield from u.push(u.outs[1], val_token(p))
                    u.cost()
        if holds:
            yield from u.pop(u.ins[0])
        closing = stop_token(ref[1] + 1) if is_stop(ref) else (yield from closing_stop(u, u.ins[0]))
        yield from u.push_all(u.outs, closing)
        u.cost()


def locate(u: Unit) -> Body:
    pos = u.arrays["pos"]
    while True:
        crd = yield from u.peek(u.ins[0])
        ref = yield from u.peek(u.ins[1])
        yield from u.pop(u.ins[0])
        yield from u.pop(u.ins[1])
        found = crd
        if is_val(crd) or crd == EMPTY:
            found = val_token(int(pos[ref[1]]) + crd[1]) if is_val(crd) and is_val(ref) else EMPTY
        yield from u.push(u.outs[0], found)
        if crd == DONE:
            return
        u.cost()


def stream_scan(u: Unit) -> Body:
    ref_in, crd_in, payload_in, parent_in = u.ins
    fiber = element = 0
    open_group = True  # its closing raw Stop has not been seen

    def raw() -> Body:
        crd = yield from u.pop(crd_in)
        payload = (yield from u.pop(payload_in)) if payload_in else val_token(element) if is_val(crd) else crd
        return crd, payload

    aligned = u.params.get("aligned", math.inf)
    while True:
        ref = yield from u.pop(ref_in)
        goal, reading = ref, is_val(ref) or ref == DONE or (is_stop(ref) and ref[1] >= aligned)
        while reading or not (is_stop(goal) or goal == DONE):
            if not reading:
                following = yield from u.peek(ref_in)
                if not is_stop(following):
                    break
                goal = yield from u.pop(ref_in)
                reading = goal[1] >= aligned
                continue
            parent = yield from u.peek(parent_in)
            if parent == DONE:
                assert goal == DONE
                break
            if is_stop(parent):
                if open_group:  # a group without fibers: its raw Stop takes a turn
                    crd, _ = yield from raw()
                    assert crd == stop_token(parent[1] + 1)
                    u.cost()
                yield from u.pop(parent_in)
                open_group = True
                if is_stop(goal) and parent[1] >= aligned:
                    assert parent == goal
                    reading = False
                continue
            wanted = is_val(goal) and fiber == goal[1]
            crd, payload = yield from raw()
            if is_val(crd):
                element += 1
                if wanted:
                    yield from u.push(u.outs[0], crd)
                    yield from u.push(u.outs[1], payload)
            else:
                yield from u.pop(parent_in)
                fiber, open_group = fiber + 1, crd[1] == 0
                if wanted:
                    reading = False
                    continue
            u.cost()
        if ref == DONE:
            yield from u.push_all(u.outs, DONE)
            return
        yield from u.push_all(u.outs, stop_token(goal[1] + 1 if is_stop(goal) else 0))
        u.cost()


def one_to_one(u: Unit, f: Callable[[Token], Token], done_costs: bool = False) -> Body:
    while True:
        token = yield from u.pop(u.ins[0])
        yield from u.push(u.outs[0], f(token))
        if token == DONE:
            u.cost(int(done_costs))
            return
        u.cost()


def repeat_signal(u: Unit) -> Body:
    return one_to_one(u, lambda token: token if is_stop(token) or token == DONE else val_token(0))


def number_fibers(u: Unit) -> Body:
    numbers = iter(range(2**62))
    return one_to_one(u, lambda token: val_token(next(numbers)) if is_val(token) else token)


def array(u: Unit) -> Body:
    return one_to_one(u, lambda ref: value_of(u, ref))


def value_of(u: Unit, ref: Token) -> Token:
    """What an array has at a reference."""
    return val_token(u.arrays["values"][ref[1]]) if is_val(ref) else val_token(0.0) if ref == EMPTY else ref


def repeat(u: Unit) -> Body:
    ref_in, signal_in = u.ins
    while True:
        ref = yield from u.peek(ref_in)
        signal = yield from u.pop(signal_in)
        if is_val(signal):
            yield from u.push(u.outs[0], ref)
        elif signal == DONE:
            yield from u.push(u.outs[0], DONE)
            return
        else:
            yield from u.pop(ref_in)
            closing = stop_token(ref[1] + 1) if is_stop(ref) else (yield from closing_stop(u, ref_in))
            assert signal == closing
            yield from u.push(u.outs[0], closing)
        u.cost()


def fork(u: Unit) -> Body:
    token = EMPTY
    while token != DONE:
        token = yield from u.pop(u.ins[0])
        for out in u.outs:
            yield from u.room(out)
        yield from u.push_all(u.outs, token)


def join(u: Unit, is_union: bool) -> Body:
    assert u.params.get("strategy", "two_finger") == "two_finger", "the plain simulator joins with two fingers alone"
    n = len(u.ins) // 2
    held: list[int] = []  # sides whose pops wait for the next turn
    while True:
        for side in held:
            yield from u.pop(u.ins[side])
            yield from u.pop(u.ins[n + side])
        held = []
        for port in u.ins:
            yield from u.arrived(port)
        for side in range(n):
            yield from u.peek(u.ins[side])
            yield from u.peek(u.ins[n + side])
        heads = [port.items[0][0] for port in u.ins if port]
        crds, refs = heads[:n], heads[n:]
        if crds[0] == DONE:
            yield from u.push_all(u.outs, DONE)
            return
        present = [side for side in range(n) if is_val(crds[side])]
        if not present:
            assert len(set(crds)) == 1
            taken, emits = list(range(n)), True
        else:
            names = [crds[side][1] for side in present]
            if is_union:
                taken, emits = [s for s in present if crds[s][1] == min(names)], True
            elif len(present) < n:
                taken, emits = present, False
            else:
                emits = min(names) == max(names)
                taken = [s for s in present if emits or crds[s][1] < max(names)]
        if emits:
            yield from u.push(u.outs[0], crds[taken[0]])
            for side in range(n):
                yield from u.push(u.outs[1 + side], refs[side] if side in taken else EMPTY)
        if is_union:
            held = taken
        else:
            for side in taken:
                yield from u.pop(u.ins[side])
                yield from u.pop(u.ins[n + side])
        u.cost()


def drop_empty(u: Unit) -> Body:
    while True:
        for port in u.ins:
            yield from u.peek(port)
        crd = yield from u.pop(u.ins[0])
        val = yield from u.pop(u.ins[1])
        if val != EMPTY:
            yield from u.push(u.outs[0], crd)
            yield from u.push(u.outs[1], val)
        if crd == DONE:
            return
        u.cost()


def crd_write(u: Unit) -> Body:
    u.coords, after_value = [[]], False
    while True:
        token = yield from u.pop(u.ins[0])
        if token == DONE:
            return
        if is_val(token):
            u.coords[0].append(token[1])
        if is_val(token) or (is_stop(token) and after_value):
            u.cost()
        after_value = is_val(token) or (token == EMPTY and after_value)


def value_write(u: Unit) -> Body:
    token = EMPTY
    while token != DONE:
        token = yield from u.pop(u.ins[0])
        if is_val(token):
            u.values.append(token[1])
        u.cost(int(is_val(token) or token == DONE))
