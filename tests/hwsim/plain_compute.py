"""Contexts of the plain simulator that compute and reduce."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special
from plain_contexts import one_to_one
from plain_unit import DONE, EMPTY, Body, Token, Unit, is_stop, is_val, number, stop_token, val_token

_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "relu": lambda x: np.maximum(x, 0.0), "exp": np.exp, "tanh": np.tanh, "sigmoid": scipy.special.expit,
    "gelu": lambda x: 0.5 * x * (1.0 + scipy.special.erf(x / math.sqrt(2.0))), "abs": np.abs, "neg": np.negative,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1.0 / np.sqrt(x), "square": np.square, "log": np.log,
    "one": np.ones_like, "sparse_relu": lambda x: np.maximum(x, 0.0),
}  # fmt: skip


def map_values(u: Unit) -> Body:
    factor = u.params.get("factor", 1.0)
    scaled: dict[str, Callable[[Any], Any]] = {"scale": lambda x: x * factor, "shift": lambda x: x + factor}
    function = (_FUNCTIONS | scaled)[u.params["op"]]

    def apply(token: Token) -> Token:
        if is_stop(token) or token == DONE:
            return token
        with np.errstate(all="ignore"):
            result = float(function(np.float64(number(token))))
        return EMPTY if u.params["op"] == "sparse_relu" and result <= 0.0 else val_token(result)

    return one_to_one(u, apply, done_costs=True)


_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "mul": np.multiply, "add": np.add, "sub": np.subtract, "div": np.divide, "max": np.maximum, "min": np.minimum,
}  # fmt: skip


def alu(u: Unit) -> Body:
    operation = _OPERATIONS[u.params["op"]]
    while True:
        for port in u.ins:
            yield from u.peek(port)
        a = yield from u.pop(u.ins[0])
        b = yield from u.pop(u.ins[1])
        result, effectual = a, False
        if is_val(a) or a == EMPTY:
            x, y = number(a), number(b)
            effectual = u.params["op"] == "mul" and is_val(a) and is_val(b) and x != 0 and y != 0
            with np.errstate(all="ignore"):
                result = val_token(float(operation(np.float64(x), np.float64(y))))
        else:
            assert a == b
        yield from u.push(u.outs[0], result)
        u.counts["multiplies"] += effectual
        u.cost()
        if result == DONE:
            return


def reduce(u: Unit) -> Body:
    val_in, outer_in = u.ins[0], u.ins[1] if len(u.ins) > 1 else None
    fold = sum if u.params["op"] == "sum" else max
    nothing = EMPTY if u.params["empty"] == "empty" else val_token(0.0)
    fiber: list[float] = []
    while True:
        token = yield from u.pop(val_in)
        if token == DONE:
            if outer_in:
                yield from u.pop(outer_in)
            yield from u.push(u.outs[0], DONE)
            return
        if token == EMPTY:
            continue
        if is_val(token):
            fiber = [fold([*fiber, token[1]])]
        else:
            closes_fiber, level = True, token[1]
            if outer_in:
                outer = yield from u.pop(outer_in)
                closes_fiber = is_val(outer)
                if closes_fiber and level > 0:
                    outer = yield from u.pop(outer_in)
                assert level == 0 or outer == stop_token(level - 1)
            if closes_fiber:
                yield from u.push(u.outs[0], val_token(float(fiber[0])) if fiber else nothing)
            if level > 0:
                yield from u.push(u.outs[0], stop_token(level - 1))
            fiber = []
        u.cost()
