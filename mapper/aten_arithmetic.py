"""ATen operations that work position by position, and masks, in index notation."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mapper.aten_site import NEGLIGIBLE, Constant, Site, array
from mapper.aten_views import expand
from mapper.errors import InputError
from mapper.tensor_view import Value


def add(at: Site, x: Any, y: Any, alpha: float = 1, *, sign: int = 1) -> Value:
    """The sum x + alpha * y, subtracted for ``sign`` -1; adding a tensor of zeros and -inf masks."""
    factor = sign * alpha
    if isinstance(y, int | float):
        return at.each(f"{{0}} {_signed(factor * y)}", x, full=True)
    for score, mask in ((x, y), (y, x)):
        if sign == 1 and alpha == 1 and isinstance(mask, Constant) and only_masks(mask):
            return masked(at, score, kept_by(mask, array(mask) > NEGLIGIBLE))
    both = at.value(x), at.value(y)
    term = "{1}" if abs(factor) == 1 else f"{literal(abs(factor))} * {{1}}"
    return at.each(f"{{0}} {'-' if factor < 0 else '+'} {term}", *both, full=both[0].full or both[1].full)


def rsub(at: Site, x: Any, y: Any, alpha: float = 1) -> Value:
    """The difference y - alpha * x."""
    if isinstance(y, int | float):
        scaled = "-{0}" if alpha == 1 else f"{literal(-alpha)} * {{0}}"
        return at.each(f"{scaled} {_signed(y)}", x, full=True)
    return add(at, y, x, alpha, sign=-1)


def mul(at: Site, x: Any, y: Any) -> Value:
    """A product by a number or position by position."""
    if isinstance(x, int | float):
        x, y = y, x
    return scale(at, x, float(y)) if isinstance(y, int | float) else at.each("{0} * {1}", x, y)


def div(at: Site, x: Any, y: Any, rounding_mode: str | None = None) -> Value:
    """A quotient; where y stores nothing the result stores nothing, where torch has inf or nan."""
    if rounding_mode is not None:
        raise InputError(f"division rounded by {rounding_mode!r} has no meaning here; only true division has")
    if isinstance(y, int | float):
        if y == 0:
            raise InputError("division by zero")
        return scale(at, x, 1.0 / y)
    if isinstance(x, int | float):
        raise InputError("a number divided by a tensor is not supported; divide a tensor")
    both = at.value(x), at.value(y)
    return at.each("{0} / {1}", *both, full=both[0].full and both[1].full)


def scale(at: Site, x: Any, factor: float) -> Value:
    """Times a number; a positive one keeps a mask."""
    value = at.value(x, void=factor > 0)
    return at.each(f"{literal(factor)} * {{0}}", value, full=value.full, void=value.void)


def unary(at: Site, x: Any, *_: Any, function: str, dense: bool = False) -> Value:
    """One of the maps of index notation; ``dense``: it gives every position a value."""
    value = at.value(x)
    return at.each(f"{function}({{0}})", value, full=dense or value.full)


def gelu(at: Site, x: Any, approximate: str = "none") -> Value:
    """Exact, or with torch's tanh formula."""
    if approximate == "none":
        return unary(at, x, function="gelu")
    cube = "{0} + 0.044715 * {0} * {0} * {0}"
    return at.each(f"0.5 * {{0}} * (tanh({math.sqrt(2 / math.pi)!r} * ({cube})) + 1.0)", x, full=at.value(x).full)


def power(at: Site, x: Any, exponent: Any) -> Value:
    """A fixed power."""
    named = {2: "square", 0.5: "sqrt", -0.5: "rsqrt"}
    if exponent in named:
        return unary(at, x, function=named[exponent], dense=exponent < 0)
    if not (isinstance(exponent, int | float) and float(exponent).is_integer() and 1 <= exponent <= 8):
        raise InputError(f"the exponent must be -0.5, 0.5 or a whole number from 1 to 8, got {exponent!r}")
    return at.each(" * ".join(["{0}"] * int(exponent)), x)


def masked(at: Site, x: Any, kept: Constant, *, void: bool = True) -> Value:
    """``x`` where ``kept`` is true; elsewhere nothing is stored, which means -inf (``void``) or 0."""
    value = at.stored(at.value(x)) if void else at.value(x)
    return at.each("pattern({0}) * {1}", at.pattern(kept), value, full=False).with_void(void)


def masked_fill(at: Site, x: Any, mask: Any, fill: Any) -> Value:
    """``x`` where ``mask`` is false."""
    return where(at, mask, fill, x)


def where(at: Site, mask: Any, x: Any, y: Any) -> Value:
    """``x`` where ``mask`` is true, ``y`` elsewhere; chosen over 0 or -inf a tensor stores nothing there."""
    x, y = _number(x), _number(y)
    if array(mask).size == 1:  # a scalar always stores its value, so that there are no masks of one position
        chosen = x if array(mask).all() else y
        return at.made("", np.full(at.shape, finite(chosen))) if isinstance(chosen, float) else expand(at, chosen)
    for value, fill, kept in ((x, y, array(mask) != 0), (y, x, array(mask) == 0)):
        if isinstance(fill, float) and (fill == 0 or fill <= NEGLIGIBLE) and not isinstance(value, float):
            return expand(at, masked(at, value, kept_by(mask, kept), void=fill != 0))
    terms, operands = [], list[Any]()
    for value, kept in ((x, array(mask) != 0), (y, array(mask) == 0)):
        factor = literal(value) if isinstance(value, float) else f"{{{len(operands) + 1}}}"
        terms.append(f"pattern({{{len(operands)}}}) * {factor}")
        operands += [at.pattern(kept_by(mask, kept)), *([] if isinstance(value, float) else [value])]
    full = all(isinstance(value, float) or at.value(value).full for value in (x, y))
    return expand(at, at.each(" + ".join(terms), *operands, full=full))


def _number(given: Any) -> Any:
    """The number of a constant that has the same one everywhere; what it is of anything else."""
    if isinstance(given, Constant) and given.kind != "input" and np.unique(array(given)).size == 1:
        given = np.ravel(array(given))[0]
    return float(given) if isinstance(given, int | float | np.generic) else given


def only_masks(constant: Constant) -> bool:
    """Whether adding this tensor only masks."""
    data = array(constant)
    return bool(((data == 0) | (data <= NEGLIGIBLE)).all() and (data <= NEGLIGIBLE).any())


def kept_by(mask: Constant, kept: Any) -> Constant:
    """The Boolean constant ``kept``, computed from ``mask``."""
    return Constant(f"{mask.name}_kept", np.asarray(kept), "created", mask)


def literal(number: float) -> str:
    """``number`` as index notation writes it. Raises InputError if it is not finite: names stand for tensors there."""
    return repr(finite(number))


def finite(number: float) -> float:
    """``number`` as a float. Raises InputError if it is not finite."""
    if not math.isfinite(number):
        raise InputError(f"a number in an operation must be finite, got {number}; to mask, use masked_fill or where")
    return float(number)


def _signed(number: float) -> str:
    return f"{'-' if number < 0 else '+'} {literal(abs(number))}"


_UNARY = {
    **dict.fromkeys(("relu", "tanh", "abs", "neg", "sqrt", "square"), False),
    **dict.fromkeys(("exp", "sigmoid", "rsqrt", "log"), True),
}
ARITHMETIC: dict[str, Callable[..., Any]] = {
    **{name: partial(unary, function=name, dense=dense) for name, dense in _UNARY.items()},
    "relu_": partial(unary, function="relu"),
    "gelu": gelu,
    "silu": lambda at, x: at.each("{0} * sigmoid({0})", x),
    "pow.Tensor_Scalar": power,
    **dict.fromkeys(("add.Tensor", "add.Scalar", "add_.Tensor"), add),
    **dict.fromkeys(("sub.Tensor", "sub.Scalar"), partial(add, sign=-1)),
    **dict.fromkeys(("rsub.Scalar", "rsub.Tensor"), rsub),
    **dict.fromkeys(("mul.Tensor", "mul.Scalar", "mul_.Tensor"), mul),
    **dict.fromkeys(("div.Tensor", "div.Scalar", "div_.Tensor", "div.Tensor_mode"), div),
    **dict.fromkeys(("masked_fill.Scalar", "masked_fill.Tensor", "masked_fill_.Scalar"), masked_fill),
    **dict.fromkeys(("where.self", "where.ScalarOther", "where.ScalarSelf"), where),
}
"""Position by position; on parameters and buffers alone they are done while importing."""
