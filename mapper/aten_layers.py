"""ATen reductions, normalisations, attention and convolution in index notation."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from mapper.aten_arithmetic import add, kept_by, literal, masked, only_masks, unary
from mapper.aten_contractions import matmul
from mapper.aten_site import NEGLIGIBLE, Constant, Labelled, Site, array, axis_number, labels, without_repeats
from mapper.axis_split import leaves
from mapper.errors import InputError
from mapper.expression import EPSILON
from mapper.tensor_view import Dim, Value, Window


def reduction(at: Site, x: Any, dim: Any = None, keepdim: bool = False, *, function: str, suffix: str = "") -> Value:
    """Sum, mean or max over ``dim`` (None: all), over every position and not the stored ones alone."""
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
    """Over all positions, or over the stored ones of masked scores."""
    value = at.value(x, void=True)
    value = value if value.void else at.stored(value)
    mode = axis_number(dim, len(value.dims))
    if not _walked(value.dims[mode]):  # all weights are alike
        if value.void:
            raise InputError("a softmax over one masked position, or one that only repeats, is constant")
        return at.made(suffix, np.full(value.shape, 1 / value.dims[mode].extent))
    template = f"softmax({{d{mode}}}, {{0}})"
    if (copies := _copies(value.dims[mode])) > 1:  # each has its part of the weight
        template = f"{literal(1 / copies)} * {template}"
    return at.each(template, value, suffix=suffix, full=value.full, void=True).with_void(False)


def log_softmax(at: Site, x: Any, dim: int, *_: Any) -> Value:
    """Logarithm of the softmax."""
    return unary(at, softmax(at, at.value(x), dim, suffix="_weights"), function="log", dense=True)


def layer_norm(
    at: Site, x: Any, shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> Value:
    """Over the last dimensions, then times ``weight`` plus ``bias``."""
    value = at.value(x)
    names = labels(len(value.dims))
    inner = names[len(names) - len(shape) :]
    along = _along(value, len(shape))
    operands: list[Labelled] = [(value, names)]
    template = f"layernorm({along}, {{0}})"
    if not along:  # all that is normalised is alike
        operands, template = [(at.made("_normal", np.zeros(value.shape)), names)], "{0}"
    elif eps != EPSILON:
        outside = names[: len(names) - len(shape)]
        once = [(_once(value, shape), names)]
        mean = at.emit(f"mean({along}, {{0}})", once, outside, suffix="_mean", full=value.full)
        centred = at.emit("{0} - {1}", [*operands, (mean, outside)], names, suffix="_centred", full=value.full)
        spread = f"rsqrt(mean({along}, square({{0}})) + {float(eps)!r})"
        deviation = at.emit(spread, [(_once(centred, shape), names)], outside, suffix="_scale", full=True)
        operands = [(centred, names), (deviation, outside)]
        template = "{0} * {1}"
    elif any(_copies(dim) > 1 for dim in value.dims[len(names) - len(shape) :]):  # which only weights tell apart
        operands, template = [(at.emit(template, operands, names, suffix="_normal", full=value.full), names)], "{0}"
    return _affine(at, template, operands, names, weight, bias, inner, full=value.full)


def rms_norm(at: Site, x: Any, shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Value:
    """Divides by sqrt(mean(x^2) + eps) over the last dimensions."""
    value = at.value(x)
    names = labels(len(value.dims))
    inner, outside = names[len(names) - len(shape) :], names[: len(names) - len(shape)]
    along = _along(value, len(shape))
    padding = float(np.finfo(np.float32).eps) if eps is None else float(eps)
    squares = f"mean({along}, square({{0}}))" if along else "square({0})"  # the mean of one is itself
    bare = _once(value, shape)
    size = at.emit(f"rsqrt({squares} + {padding!r})", [(bare, names)], outside, suffix="_scale", full=True)
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
    value = at.value(x)
    names = labels(len(value.dims))
    operands: list[Labelled] = [(value, names), (at.made("_factor", factor), ["d1"])]
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


def native_batch_norm(at: Site, x: Any, *given: Any) -> tuple[Value, None, None]:
    """The same as torch writes it when it takes a program apart: without saying that it evaluates."""
    *numbers, momentum, eps = given
    return batch_norm(at, x, *numbers, False, momentum, eps), None, None


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
    batch = labels(max(len(q.dims), len(k.dims)) - 2)
    rows = [*batch, "i"]
    at_query, at_key = ([*batch[len(batch) + 2 - len(x.dims) :], row] for x, row in ((q, "i"), (k, "j")))
    factor = literal(1.0 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if is_causal:
        attn_mask = Constant("causal", np.tril(np.ones((q.shape[-2], k.shape[-2]), dtype=bool)), "created")
    keeps = isinstance(attn_mask, Constant) and (array(attn_mask).dtype == np.bool_ or only_masks(attn_mask))
    scores: list[Labelled] = [(q, [*at_query, "d"]), (k, [*at_key, "d"])]
    if keeps and at.product_full(scores, [*rows, "j"]):
        data = array(attn_mask)
        selected = at.pattern(kept_by(attn_mask, data if data.dtype == np.bool_ else data > NEGLIGIBLE))
        at_mask = [*rows, "j"][len(rows) + 1 - len(selected.dims) :]
        template = f"{factor} * pattern({{2}}) * {{0}} * {{1}}"
        operands = [*scores, (selected, at_mask)]
        masked_scores = at.emit(template, operands, [*rows, "j"], suffix="_scores", full=False).with_void(True)
    else:
        raw = at.emit(f"{factor} * {{0}} * {{1}}", scores, [*rows, "j"], suffix="_scores")
        masked_scores = raw
        if keeps:
            data = array(attn_mask)
            kept = kept_by(attn_mask, data if data.dtype == np.bool_ else data > NEGLIGIBLE)
            masked_scores = masked(at.named("_masked"), raw, kept)
        elif attn_mask is not None:
            masked_scores = add(at.named("_biased"), raw, attn_mask)
    weights = softmax(at, masked_scores, -1, suffix="_weights")
    return matmul(at, weights, v)


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
    edges = _edges(padding, sizes, spread)
    batch = ["n"] if len(value.dims) == rank + 2 else []
    inner, image = kernel.shape[1], value.shape[len(value.dims) - rank :]
    grouped = value.view([*value.shape[: len(batch)], groups, inner, *image])
    filters = kernel.view([groups, kernel.shape[0] // groups, inner, *sizes])
    out, taps = [f"p{n}" for n in range(rank)], [f"r{n}" for n in range(rank)]
    places: list[Any] = []
    extents: dict[Hashable, int] = dict(zip(out, at.shape[len(at.shape) - rank :], strict=True))
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


def _edges(padding: Any, sizes: Sequence[int], spread: Sequence[int]) -> list[int]:
    """Zeros in front of each dimension, and as many behind it."""
    if not isinstance(padding, str):
        return _per_dimension(padding, len(sizes))
    both = [d * (n - 1) if padding == "same" else 0 for d, n in zip(spread, sizes, strict=True)]
    if any(zeros % 2 for zeros in both):
        raise InputError(
            f"padding='same' of a kernel of {list(sizes)} with dilation {list(spread)} puts one more zero behind than "
            "in front; pad equally on both sides by a number, or use an odd kernel"
        )
    return [zeros // 2 for zeros in both]


def global_pool(at: Site, x: Any, size: Sequence[int]) -> Value:
    """Mean over all positions of an image."""
    if set(_per_dimension(size, len(size))) != {1}:
        raise InputError(f"adaptive pooling is supported to one position, not to {list(size)}")
    return reduction(at, x, list(range(-len(size), 0)), True, function="mean")


def _per_dimension(given: Any, rank: int) -> list[int]:
    values = [given] if isinstance(given, int) else list(given)
    return values * rank if len(values) == 1 else values


def _along(value: Value, last: int) -> str:
    """Template of the indices of the last dimensions."""
    named = list(zip(labels(len(value.dims)), value.dims, strict=True))[len(value.dims) - last :]
    return ", ".join(f"{{{name}}}" for name, dim in named if _walked(dim))


def _walked(dim: Dim) -> bool:
    return any(not axis.free for axis in leaves(dim.axes))


def _copies(dim: Dim) -> int:
    """How often a dimension repeats what is stored."""
    return math.prod(axis.extent for axis in leaves(dim.axes) if axis.free)


def _once(value: Value, last: Sequence[int]) -> Value:
    """``value`` without what its last dimensions repeat: the mean of equal entries is one of them."""
    return without_repeats(value, range(len(value.dims) - len(last), len(value.dims)))
