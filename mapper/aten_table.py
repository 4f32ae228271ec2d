"""Every supported ATen operation with the function that writes it in index notation, contractions here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mapper.aten_arithmetic import ARITHMETIC, literal
from mapper.aten_layers import (
    attention,
    batch_norm,
    convolution,
    global_pool,
    layer_norm,
    log_softmax,
    reduction,
    rms_norm,
    softmax,
)
from mapper.aten_site import Labelled, Site, labels
from mapper.aten_views import PARTS, VIEWS
from mapper.errors import InputError
from mapper.tensor_view import Value


def linear(at: Site, x: Any, weight: Any, bias: Any = None) -> Value:
    """The product x weight^T + bias over the last dimension."""
    value = at.value(x)
    rows = labels(len(value.dims) - 1)
    product: list[Labelled] = [(value, [*rows, "k"]), (at.value(weight), ["m", "k"])]
    if bias is None:
        return at.emit("{0} * {1}", product, [*rows, "m"])
    offset = at.value(bias)
    full = offset.full or at.product_full(product, [*rows, "m"])
    return at.emit("{0} * {1} + {2}", [*product, (offset, ["m"])], [*rows, "m"], full=full)


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


_MATMULS = "matmul mm bmm mv dot _sparse_mm"

TABLE: dict[str, Callable[..., Any]] = {
    **VIEWS,
    **PARTS,
    **ARITHMETIC,
    "linear": linear,
    **dict.fromkeys(_MATMULS.split(), matmul),
    **dict.fromkeys(("addmm", "baddbmm"), addmm),
    "einsum": einsum,
    **dict.fromkeys(("sum", "sum.dim_IntList"), partial(reduction, function="sum")),
    **dict.fromkeys(("mean", "mean.dim"), partial(reduction, function="mean")),
    "amax": partial(reduction, function="max"),
    **dict.fromkeys(("softmax.int", "_softmax"), softmax),
    "log_softmax.int": log_softmax,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    **dict.fromkeys(("batch_norm", "_native_batch_norm_legit_no_training"), batch_norm),
    "scaled_dot_product_attention": attention,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "conv1d.padding", "conv2d.padding", "conv3d.padding"), convolution),
    **dict.fromkeys(("adaptive_avg_pool1d", "adaptive_avg_pool2d"), global_pool),
}
"""Supported operations by the name torch gives them, without ``aten.`` and ``.default``."""

REFUSED: dict[str, str] = {
    **dict.fromkeys(
        ("embedding", "index_select", "index.Tensor", "gather"),
        "rows looked up by number have no meaning"
        " in index notation: give the looked-up rows as an input, or multiply by a sparse matrix of ones",
    ),
    **dict.fromkeys(
        ("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool2d"),
        "pooling over windows is not supported: use a strided convolution, or cut the model before and after the pool",
    ),
    **dict.fromkeys(
        ("to_sparse_csr", "to_sparse_coo", "sparse_coo_tensor"),
        "tensors cannot become sparse inside forward: make them sparse outside and pass them as inputs or buffers",
    ),
}
"""Why some operations can never be supported, with what to do instead."""
