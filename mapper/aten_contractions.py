"""ATen products that sum over a dimension, in index notation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mapper.aten_arithmetic import literal
from mapper.aten_site import Labelled, Site, labels
from mapper.errors import InputError
from mapper.tensor_view import Value


def linear(at: Site, x: Any, weight: Any, bias: Any = None) -> Value:
    """The product x weight^T + bias over the last dimension; of a weight vector the dot products."""
    value, factor = at.value(x), at.value(weight)
    columns = ["m"][: len(factor.dims) - 1]
    out = [*labels(len(value.dims) - 1), *columns]
    product: list[Labelled] = [(value, [*labels(len(value.dims) - 1), "k"]), (factor, [*columns, "k"])]
    if bias is None:
        return at.emit("{0} * {1}", product, out)
    offset = at.value(bias)
    full = offset.full or at.product_full(product, out)
    return at.emit("{0} * {1} + {2}", [*product, (offset, out[len(out) - len(offset.dims) :])], out, full=full)


def _matmul_labels(x: Value, y: Value) -> tuple[list[Labelled], list[str]]:
    batch = labels(max(len(x.dims), len(y.dims), 2) - 2)
    left = [*batch[len(batch) - max(len(x.dims) - 2, 0) :], *["i", "k"][-min(len(x.dims), 2) :]]
    right = [*batch[len(batch) - max(len(y.dims) - 2, 0) :], *(["k", "j"] if len(y.dims) > 1 else ["k"])]
    out = [*batch, *(["i"] if len(x.dims) > 1 else []), *(["j"] if len(y.dims) > 1 else [])]
    return [(x, left), (y, right)], out


def matmul(at: Site, x: Any, y: Any) -> Value:
    """Matrices, vectors or batches of them, as torch broadcasts."""
    operands, out = _matmul_labels(at.value(x), at.value(y))
    return at.emit("{0} * {1}", operands, out)


def addmm(at: Site, bias: Any, x: Any, y: Any, beta: float = 1, alpha: float = 1) -> Value:
    """The sum beta * bias + alpha * x y."""
    operands, out = _matmul_labels(at.value(x), at.value(y))
    offset = at.value(bias)
    product = "{0} * {1}" if alpha == 1 else f"{literal(alpha)} * {{0}} * {{1}}"
    added = "{2}" if beta == 1 else f"{literal(beta)} * {{2}}"
    full = offset.full or at.product_full(operands, out)
    return at.emit(f"{product} + {added}", [*operands, (offset, out[len(out) - len(offset.dims) :])], out, full=full)


def einsum(at: Site, equation: str, tensors: Sequence[Any]) -> Value:
    """The same letters as indices."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if "." in equation or any(len(set(term)) < len(term) for term in terms):
        raise InputError(f"einsum {equation!r}: ellipses and diagonals are not supported; write every index once")
    once = sorted(c for c in set(left) - {","} if left.count(c) == 1)
    operands: list[Labelled] = [(at.value(x), list(term)) for x, term in zip(tensors, terms, strict=True)]
    return at.emit(" * ".join(f"{{{n}}}" for n in range(len(terms))), operands, list(right) if arrow else once)
