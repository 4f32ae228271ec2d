"""What each ATen operation says in index notation: one short function per operation, its arguments as torch has them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from mapper.aten_site import NEGLIGIBLE, Constant, Labelled, Site, array, axis_number, labels, without_repeats
from mapper.aten_views import PARTS, VIEWS
from mapper.axis_split import leaves
from mapper.errors import InputError
from mapper.program_writer import Dim, Value, Window

LAYERNORM_EPSILON = 1e-5
"""That of ``layernorm`` in index notation."""


# Position by position


def add(at: Site, x: Any, y: Any, alpha: float = 1, *, sign: int = 1) -> Value:
    factor = sign * alpha
    if isinstance(y, int | float):
        return at.each(f"{{0}} {_signed(factor * y)}", x, full=True)
    for score, mask in ((x, y), (y, x)):
        if sign == 1 and alpha == 1 and isinstance(mask, Constant) and _masks(mask):
            return masked(at, score, _kept(mask, array(mask) > NEGLIGIBLE))
    both = at.value(x), at.value(y)
    term = "{1}" if abs(factor) == 1 else f"{abs(factor)!r} * {{1}}"
    return at.each(f"{{0}} {'-' if factor < 0 else '+'} {term}", *both, full=both[0].full or both[1].full)


def rsub(at: Site, x: Any, y: Any, alpha: float = 1) -> Value:
    if isinstance(y, int | float):
        scaled = "-{0}" if alpha == 1 else f"{-float(alpha)!r} * {{0}}"
        return at.each(f"{scaled} {_signed(y)}", x, full=True)
    return add(at, y, x, alpha, sign=-1)


def mul(at: Site, x: Any, y: Any) -> Value:
    if isinstance(x, int | float):
        x, y = y, x
    return scale(at, x, float(y)) if isinstance(y, int | float) else at.each("{0} * {1}", x, y)


def div(at: Site, x: Any, y: Any, rounding_mode: str | None = None) -> Value:
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
    value = at.value(x, void=factor > 0)
    return at.each(f"{factor!r} * {{0}}", value, full=value.full, void=value.void)


def unary(at: Site, x: Any, *_: Any, function: str, dense: bool = False) -> Value:
    value = at.value(x)
    return at.each(f"{function}({{0}})", value, full=dense or value.full)


def gelu(at: Site, x: Any, approximate: str = "none") -> Value:
    if approximate == "none":
        return unary(at, x, function="gelu")
    cube = "{0} + 0.044715 * {0} * {0} * {0}"
    return at.each(f"0.5 * {{0}} * (tanh({math.sqrt(2 / math.pi)!r} * ({cube})) + 1.0)", x, full=at.value(x).full)


def power(at: Site, x: Any, exponent: Any) -> Value:
    named = {2: "square", 0.5: "sqrt", -0.5: "rsqrt"}
    if exponent in named:
        return unary(at, x, function=named[exponent], dense=exponent < 0)
    if not (isinstance(exponent, int | float) and float(exponent).is_integer() and 1 <= exponent <= 8):
        raise InputError(f"the exponent must be -0.5, 0.5 or a whole number from 1 to 8, got {exponent!r}")
    return at.each(" * ".join(["{0}"] * int(exponent)), x)


# Masks


def masked(at: Site, x: Any, kept: Constant, *, void: bool = True) -> Value:
    """``x`` where ``kept`` is true; elsewhere nothing is stored, which means -inf (``void``) or 0."""
    value = at.stored(at.value(x)) if void else at.value(x)
    return at.each("pattern({0}) * {1}", at.pattern(kept), value, full=False).with_void(void)


def masked_fill(at: Site, x: Any, mask: Any, fill: Any) -> Value:
    number = float(array(fill)) if isinstance(fill, Constant) else fill
    if not isinstance(number, int | float) or (number != 0 and number > NEGLIGIBLE):
        raise InputError(f"a mask can fill with 0, -inf or a number below {NEGLIGIBLE:g}, got {number!r}")
    return masked(at, x, _kept(mask, array(mask) == 0), void=number != 0)


def where(at: Site, mask: Any, x: Any, y: Any) -> Value:
    for value, fill, kept in ((x, y, array(mask) != 0), (y, x, array(mask) == 0)):
        number = array(fill) if isinstance(fill, Constant) else fill
        if np.ndim(number) and np.unique(number).size == 1:
            number = np.ravel(number)[0]
        if isinstance(number, int | float | np.generic | np.ndarray) and not np.ndim(number):
            if float(number) == 0 or float(number) <= NEGLIGIBLE:
                return masked(at, value, _kept(mask, kept), void=float(number) != 0)
    raise InputError("where must choose between a tensor and 0 or -inf; add two masked tensors for other choices")


def _masks(constant: Constant) -> bool:
    """Whether adding this tensor only masks."""
    data = array(constant)
    return bool(((data == 0) | (data <= NEGLIGIBLE)).all() and (data <= NEGLIGIBLE).any())


def _kept(mask: Constant, kept: Any) -> Constant:
    return Constant(f"{mask.name}_kept", np.asarray(kept), "created", mask)


# Contractions


def linear(at: Site, x: Any, weight: Any, bias: Any = None) -> Value:
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
    operands, out = _matmul_labels(at.value(x), at.value(y))
    return at.emit("{0} * {1}", operands, out)


def addmm(at: Site, bias: Any, x: Any, y: Any, beta: float = 1, alpha: float = 1) -> Value:
    operands, out = _matmul_labels(at.value(x), at.value(y))
    offset = at.value(bias)
    product = "{0} * {1}" if alpha == 1 else f"{float(alpha)!r} * {{0}} * {{1}}"
    added = "{2}" if beta == 1 else f"{float(beta)!r} * {{2}}"
    full = offset.full or at.product_full(operands, out)
    return at.emit(f"{product} + {added}", [*operands, (offset, out[len(out) - len(offset.dims) :])], out, full=full)


def einsum(at: Site, equation: str, tensors: Sequence[Any], path: Any = None) -> Value:
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if "." in equation or any(len(set(term)) < len(term) for term in terms):
        raise InputError(f"einsum {equation!r}: ellipses and diagonals are not supported; write every index once")
    once = sorted(c for c in set(left) - {","} if left.count(c) == 1)
    operands: list[Labelled] = [(at.value(x), list(term)) for x, term in zip(tensors, terms, strict=True)]
    return at.emit(" * ".join(f"{{{n}}}" for n in range(len(terms))), operands, list(right) if arrow else once)


# Reductions and normalisations


def reduction(
    at: Site, x: Any, dim: Any = None, keepdim: bool = False, *, function: str, dtype: Any = None, suffix: str = ""
) -> Value:
    value = at.value(x) if function != "max" else at.stored(at.value(x))
    rank = len(value.dims)
    dims = range(rank) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim
    over = {axis_number(n, rank) for n in dims}
    if function != "sum":  # a mean or maximum of equal entries is one of them
        value = without_repeats(value, sorted(over))
    names = labels(rank)
    out = [name for n, name in enumerate(names) if n not in over]
    along = ", ".join(f"{{{names[n]}}}" for n in sorted(over) if _walked(value.dims[n]))
    if along or function == "sum":
        template = f"{function}({along}, {{0}})" if along else "{0}"
        full = value.full or at.product_full([(value, names)], out)
        made = at.emit(template, [(value, names)], out, suffix=suffix, full=full)
        value = made.with_dims([made.dims[out.index(n)] if n in out else Dim(1) for n in names])
    return value.with_dims([dim for n, dim in enumerate(value.dims) if keepdim or n not in over])


def softmax(at: Site, x: Any, dim: int, *_: Any, suffix: str = "", **__: Any) -> Value:
    value = at.value(x, void=True)
    value = value if value.void else at.stored(value)
    mode = axis_number(dim, len(value.dims))
    if not _walked(value.dims[mode]):
        raise InputError("softmax along a dimension of extent one, or one that only repeats, is constant")
    template = f"softmax({{d{mode}}}, {{0}})"
    return at.each(template, value, suffix=suffix, full=value.full, void=True).with_void(False)


def log_softmax(at: Site, x: Any, dim: int, *_: Any) -> Value:
    return unary(at, softmax(at, at.value(x), dim, suffix="_weights"), function="log", dense=True)


def layer_norm(
    at: Site, x: Any, shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> Value:
    value = at.value(x)
    names = labels(len(value.dims))
    inner = names[len(names) - len(shape) :]
    along = ", ".join(f"{{{name}}}" for name, dim in zip(names, value.dims, strict=True) if name in inner and _walked(dim))
    if not along:
        raise InputError("layer_norm over dimensions of extent one, or ones that only repeat, is constant")
    operands: list[Labelled] = [(value, names)]
    template = f"layernorm({along}, {{0}})"
    if eps != LAYERNORM_EPSILON:
        outside = names[: len(names) - len(shape)]
        mean = at.emit(f"mean({along}, {{0}})", operands, outside, suffix="_mean", full=value.full)
        centred = at.emit("{0} - {1}", [*operands, (mean, outside)], names, suffix="_centred", full=value.full)
        spread = f"rsqrt(mean({along}, square({{0}})) + {float(eps)!r})"
        deviation = at.emit(spread, [(centred, names)], outside, suffix="_scale", full=True)
        operands = [(centred, names), (deviation, outside)]
        template = "{0} * {1}"
    return _affine(at, template, operands, names, weight, bias, inner, full=value.full)


def rms_norm(at: Site, x: Any, shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Value:
    value = at.value(x)
    names = labels(len(value.dims))
    inner, outside = names[len(names) - len(shape) :], names[: len(names) - len(shape)]
    along = ", ".join(f"{{{name}}}" for name, dim in zip(names, value.dims, strict=True) if name in inner and _walked(dim))
    padding = float(np.finfo(np.float32).eps) if eps is None else float(eps)
    size = at.emit(
        f"rsqrt(mean({along}, square({{0}})) + {padding!r})", [(value, names)], outside, suffix="_scale", full=True
    )
    operands: list[Labelled] = [(value, names), (size, outside)]
    return _affine(at, "{0} * {1}", operands, names, weight, None, inner, full=value.full)


def batch_norm(
    at: Site, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, _: float, eps: float, *__: Any
) -> Value:
    """In evaluation a scale and an offset per channel, both worked out here."""
    if training or mean is None:
        raise InputError("batch_norm must use running statistics: evaluate the module with track_running_stats")
    factor = (1.0 if weight is None else array(weight)) / np.sqrt(array(variance) + eps)
    offset = (0.0 if bias is None else array(bias)) - array(mean) * factor
    names = labels(len(at.shape))
    operands: list[Labelled] = [(at.value(x), names), (at.made("_factor", factor), ["d1"])]
    return at.emit("{0} * {1} + {2}", [*operands, (at.made("_offset", offset), ["d1"])], names, full=True)


def _affine(
    at: Site,
    template: str,
    operands: list[Labelled],
    names: list[str],
    weight: Any,
    bias: Any,
    inner: list[str],
    *,
    full: bool,
) -> Value:
    if weight is not None:
        template = f"{template} * {{{len(operands)}}}"
        operands = [*operands, (at.value(weight), inner)]
        full = full and operands[-1][0].full
    if bias is not None:
        template = f"{template} + {{{len(operands)}}}"
        operands = [*operands, (at.value(bias), inner)]
        full = full or operands[-1][0].full
    return at.emit(template, operands, names, full=full)


# Attention and convolution


def attention(
    at: Site,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    """softmax(query key^T * scale) value; a mask selects scores before they are computed."""
    q, k, v = at.value(query), at.value(key), at.value(value)
    if dropout_p or enable_gqa:
        raise InputError("attention with dropout or grouped queries is not supported; repeat the keys and values")
    batch = labels(len(at.shape) - 2)
    rows, columns = [*batch, "i"], [*batch, "j"]
    factor = 1.0 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    if is_causal:
        attn_mask = Constant("causal", np.tril(np.ones((q.shape[-2], k.shape[-2]), dtype=bool)), "created")
    keeps = isinstance(attn_mask, Constant) and (array(attn_mask).dtype == np.bool_ or _masks(attn_mask))
    scores: list[Labelled] = [(q, [*rows, "d"]), (k, [*columns, "d"])]
    if keeps and at.product_full(scores, [*rows, "j"]):
        data = array(attn_mask)
        selected = at.pattern(_kept(attn_mask, data if data.dtype == np.bool_ else data > NEGLIGIBLE))
        at_mask = [*rows, "j"][len(rows) + 1 - len(selected.dims) :]
        template = f"{factor!r} * pattern({{2}}) * {{0}} * {{1}}"
        operands = [*scores, (selected, at_mask)]
        masked_scores = at.emit(template, operands, [*rows, "j"], suffix="_scores", full=False).with_void(True)
    else:
        raw = at.emit(f"{factor!r} * {{0}} * {{1}}", scores, [*rows, "j"], suffix="_scores")
        masked_scores = raw
        if keeps:
            data = array(attn_mask)
            kept = _kept(attn_mask, data if data.dtype == np.bool_ else data > NEGLIGIBLE)
            masked_scores = masked(at.named("_masked"), raw, kept)
        elif attn_mask is not None:
            masked_scores = add(at.named("_biased"), raw, attn_mask)
    weights = softmax(at, masked_scores, -1, suffix="_weights")
    return at.emit("{0} * {1}", [(weights, [*rows, "j"]), (v, [*columns, "e"])], [*rows, "e"])


def convolution(
    at: Site,
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Value:
    """Affine indices stand for the windows; grouped channels are a dimension of their own."""
    value, kernel = at.value(x), at.value(weight)
    rank = len(kernel.dims) - 2
    steps, spread = (_per_dimension(given, rank) for given in (stride, dilation))
    sizes = kernel.shape[2:]
    if isinstance(padding, str):
        edges = [d * (n - 1) // 2 if padding == "same" else 0 for d, n in zip(spread, sizes, strict=True)]
    else:
        edges = _per_dimension(padding, rank)
    batch = ["n"] if len(value.dims) == rank + 2 else []
    inner, image = kernel.shape[1], value.shape[len(value.dims) - rank :]
    grouped = value.view([*value.shape[: len(batch)], groups, inner, *image])
    filters = kernel.view([groups, kernel.shape[0] // groups, inner, *sizes])
    out, taps = [f"p{n}" for n in range(rank)], [f"r{n}" for n in range(rank)]
    places: list[Any] = []
    extents = dict(zip(out, at.shape[len(at.shape) - rank :], strict=True))
    for n in range(rank):
        plain = (sizes[n], steps[n], edges[n]) == (1, 1, 0)
        places.append(out[n] if plain else Window(out[n], taps[n], steps[n], spread[n], -edges[n]))
        if plain or extents[out[n]] == 1:
            del extents[out[n]]
        if not plain and not value.dims[len(value.dims) - rank + n].axes:
            raise InputError("a convolution along a dimension of extent one is not supported; squeeze it")
    operands: list[Labelled] = [(grouped, [*batch, "g", "c", *places]), (filters, ["g", "m", "c", *taps])]
    result = [*batch, "g", "m", *out]
    full = at.product_full(operands, result)
    template = "{0} * {1}"
    if bias is not None:
        offset = at.value(bias).view([groups, kernel.shape[0] // groups])
        operands, template, full = [*operands, (offset, ["g", "m"])], "{0} * {1} + {2}", full or offset.full
    return at.emit(template, operands, result, full=full, extents=extents).view(at.shape)


def global_pool(at: Site, x: Any, size: Sequence[int]) -> Value:
    if set(_per_dimension(size, len(size))) != {1}:
        raise InputError(f"adaptive pooling is supported to one position, not to {list(size)}")
    return reduction(at, x, list(range(-len(size), 0)), True, function="mean")


def _per_dimension(given: Any, rank: int) -> list[int]:
    values = [given] if isinstance(given, int) else list(given)
    return values * rank if len(values) == 1 else values


def _walked(dim: Dim) -> bool:
    return any(not axis.free for axis in leaves(dim.axes))


def _signed(number: float) -> str:
    return f"{'-' if number < 0 else '+'} {abs(float(number))!r}"


_UNARY = {
    **{f: False for f in ("relu", "tanh", "abs", "neg", "sqrt", "square")},
    **{f: True for f in ("exp", "sigmoid", "rsqrt", "log")},
}
_MATMULS = "matmul mm bmm mv dot _sparse_mm"

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
    **dict.fromkeys(("embedding", "index_select", "index.Tensor", "gather"), "rows looked up by number have no meaning"
    " in index notation: give the looked-up rows as an input, or multiply by a sparse matrix of ones"),
    **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool2d"), "pooling over windows is not"
    " supported: use a strided convolution, or cut the model before and after the pool"),
    **dict.fromkeys(("to_sparse_csr", "to_sparse_coo", "sparse_coo_tensor"), "tensors cannot become sparse inside"
    " forward: make them sparse outside and pass them as inputs or buffers"),
}
"""Why some operations can never be supported, with what to do instead."""
