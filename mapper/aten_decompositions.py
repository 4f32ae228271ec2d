"""Operations that the table lacks, written with operations that it has.

Torch knows most of them (``torch.export.default_decompositions``; views it always takes apart). Those that torch keeps,
or that it writes with comparisons of values, which index notation has not, are written here, with ``relu`` as a rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from mapper.aten_node import operation
from mapper.aten_table import REFUSED, TABLE
from mapper.errors import InputError


def decomposed(exported: Any, unknown: Any, refusal: InputError) -> Any:
    """The exported program with operation ``unknown`` written with others, and those in place as well. Raises the
    ``refusal`` if neither torch nor this module knows how."""
    import torch

    rules, theirs = dict[Any, Any](), torch.export.default_decompositions().materialize()
    for node in exported.graph.nodes:  # all that make numbers in one go: each takes its time
        name, made = operation(node), node.meta.get("val")
        numbers = isinstance(made, torch.Tensor) and made.is_floating_point()
        if node.target is unknown or (numbers and name not in TABLE and name not in REFUSED):
            rules[node.target] = OWN.get(name) or theirs.get(node.target)
    rules = {target: rule for target, rule in rules.items() if rule}
    try:
        found = exported.run_decompositions(rules)
    except Exception as error:  # of torch, on what the user's code does
        reason = str(error).strip().split("\n")[0]
        raise InputError(f"{refusal}\n  torch cannot take it apart: {type(error).__name__}: {reason}") from error
    if any(node.target is unknown for node in found.graph.nodes):
        raise refusal
    if any(spec.kind.name != "USER_OUTPUT" for spec in found.graph_signature.output_specs):
        raise InputError(f"{refusal}\n  it is, but not where forward changes a buffer or an input: return what is new")
    return found


def clamp(x: Any, low: Any = None, high: Any = None) -> Any:
    """Numbers or tensors as limits. What is within them stays exactly as it is."""
    if _limits(low):
        x = x.relu() if isinstance(low, int | float) and low == 0 else x + (low - x).relu()
    return x - (x - high).relu() if _limits(high) else x


def _limits(limit: Any) -> bool:
    """Whether there is a limit at all."""
    return limit is not None and not (isinstance(limit, float) and math.isinf(limit))


def elu(x: Any, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Any:
    """Linear above zero, an exponential below."""
    return scale * x.relu() + alpha * scale * ((-input_scale * (-x).relu()).exp() - 1)


def softplus(x: Any, beta: float = 1.0, _: float = 20.0) -> Any:
    """The logarithm of 1 + exp(beta x), over beta; beyond its threshold torch's differs by less than exp(-20)."""
    return x.relu() + (1 + (-beta * x.abs()).exp()).log() / beta


def prelu(x: Any, weight: Any) -> Any:
    """A slope below zero for each channel."""
    return x.relu() - (weight if x.ndim < 2 else _by_channel(x, weight)) * (-x).relu()


def vector_norm(x: Any, order: float = 2, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
    """Of order 1, 2 and infinity; NotImplemented leaves others as they are."""
    dims = list(range(x.ndim)) if dim is None else dim
    if order == 2:
        return x.square().sum(dims, keepdim).sqrt()
    if order == 1:
        return x.abs().sum(dims, keepdim)
    return x.abs().amax(dims, keepdim) if order == math.inf else NotImplemented


def variance(x: Any, dim: Any = None, *, correction: float | None = None, keepdim: bool = False) -> Any:
    """Squared deviations over their number less ``correction`` (1)."""
    dims = list(range(x.ndim)) if dim is None else dim
    mean = x.mean(dims, keepdim=True)
    free = x.numel() // mean.numel() - (1 if correction is None else correction)
    return (x - mean).square().sum(dims, keepdim) / free


def logsumexp(x: Any, dim: Any, keepdim: bool = False) -> Any:
    """Of differences to the maximum, so that nothing overflows."""
    most = x.amax(dim, keepdim=True)
    found = (x - most).exp().sum(dim, keepdim=True).log() + most
    return found if keepdim else found.squeeze(dim)


def cumsum(x: Any, dim: int, **_: Any) -> Any:
    """A product with a triangle of ones."""
    steps = x.new_ones(x.shape[dim], x.shape[dim]).triu()
    return x.transpose(dim, -1).matmul(steps).transpose(dim, -1)


def repeat(x: Any, times: Sequence[int]) -> Any:
    """Dimensions of extent one before each, expanded and merged."""
    extents = [1] * (len(times) - x.ndim) + list(x.shape)
    wide = list(zip(times, extents, strict=True))
    apart = x.reshape([n for extent in extents for n in (1, extent)]).expand([n for pair in wide for n in pair])
    return apart.reshape([many * extent for many, extent in wide])


def flip(x: Any, dims: Sequence[int]) -> Any:
    """Coordinates from the last to the first."""
    import torch

    for dim in dims:
        x = x.index_select(dim, torch.arange(x.shape[dim] - 1, -1, -1))
    return x


def pad(x: Any, amounts: Sequence[int], value: float = 0) -> Any:
    """A number before and after each of the last dimensions, the last first; negative amounts cut off."""
    import torch

    for n, (before, after) in enumerate(zip(amounts[::2], amounts[1::2], strict=True)):
        dim = x.ndim - 1 - n
        x = x.narrow(dim, max(-before, 0), x.shape[dim] + min(before, 0) + min(after, 0))
        first, last = (x.new_full([*x.shape[:dim], max(m, 0), *x.shape[dim + 1 :]], value) for m in (before, after))
        parts = [part for part in (first, x, last) if part.shape[dim]]
        x = torch.cat(parts, dim) if len(parts) > 1 else parts[0]
    return x


def max_pool(
    x: Any, size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False, *, rank: int
) -> Any:
    """The largest of each window. Positions beyond the image are those at its edge, which a window that reaches beyond
    has as well; NotImplemented where it may leave them out."""
    import torch

    spread, edges = (_per_dimension(given, rank) for given in (dilation, padding))
    if any(d > 1 and edge for d, edge in zip(spread, edges, strict=True)) or (ceil and {*spread} != {1}):
        return NotImplemented
    for n, window in enumerate(_windows(x, size, stride, edges, spread, ceil, rank)):
        dim = x.ndim - rank + n
        taps = torch.arange(window.number)[:, None] * window.stride + torch.arange(window.size) * window.dilation
        place = (taps - window.padding).clamp(0, x.shape[dim] - 1).flatten()
        x = x.index_select(dim, place).unflatten(dim, (window.number, window.size)).amax(dim + 1)
    return x


def avg_pool(
    x: Any, size: Any, stride: Any = (), padding: Any = 0, ceil: bool = False, padded: bool = True,
    divisor: int | None = None, *, rank: int,
) -> Any:  # fmt: skip
    """The mean of each window, a product with a matrix; where ``padded`` the zeros around the image count."""
    import torch

    for n, window in enumerate(_windows(x, size, stride, _per_dimension(padding, rank), [1] * rank, ceil, rank)):
        extent = x.shape[x.ndim - rank + n]
        first = torch.arange(window.number) * window.stride - window.padding
        last = (first + window.size).clamp(max=extent + window.padding)
        place = torch.arange(extent)[:, None]
        within = torch.logical_and(place >= first, place < last)
        share = 1 if divisor else 1 / (last - first if padded else within.sum(0))
        x = x.transpose(x.ndim - rank + n, -1).matmul(within.to(x.dtype) * share).transpose(x.ndim - rank + n, -1)
    return x / divisor if divisor else x


class _Window(NamedTuple):
    """The windows along one dimension."""

    size: int
    stride: int
    padding: int
    dilation: int
    number: int


def _windows(
    x: Any, size: Any, stride: Any, padding: Sequence[int], dilation: Sequence[int], ceil: bool, rank: int
) -> list[_Window]:
    sizes = _per_dimension(size, rank)
    steps = _per_dimension(stride, rank) if stride else sizes
    found = []
    for extent, own, step, edge, spread in zip(x.shape[x.ndim - rank :], sizes, steps, padding, dilation, strict=True):
        room = extent + 2 * edge - spread * (own - 1) - 1
        count = (room + (step - 1 if ceil else 0)) // step + 1
        count -= ceil and (count - 1) * step >= extent + edge  # a window must not begin behind the image
        found.append(_Window(own, step, edge, spread, count))
    return found


def _per_dimension(given: Any, rank: int) -> list[int]:
    values = [given] if isinstance(given, int) else list(given)
    return values * rank if len(values) == 1 else values


def group_norm(x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, _: bool = True) -> Any:
    """A layer norm over each group of channels."""
    import torch

    parts = x.reshape(x.shape[0], groups, -1)
    return _affine(torch.nn.functional.layer_norm(parts, parts.shape[2:], eps=eps).reshape(x.shape), weight, bias)


def instance_norm(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, use_input: bool, _: float, eps: float, *__: Any
) -> Any:
    """A group norm of single channels, or with running statistics."""
    if use_input:
        return group_norm(x, x.shape[1], weight, bias, eps)
    return _affine((x - _by_channel(x, mean)) * _by_channel(x, (variance + eps).rsqrt()), weight, bias)


def _affine(x: Any, weight: Any, bias: Any) -> Any:
    x = x if weight is None else x * _by_channel(x, weight)
    return x if bias is None else x + _by_channel(x, bias)


def _by_channel(x: Any, numbers: Any) -> Any:
    return numbers.reshape(-1, *[1] * (x.ndim - 2))


OWN: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("clamp", "clamp.Tensor", "clamp_min", "maximum", "max.other"), clamp),
    **dict.fromkeys(("clamp_max", "minimum", "min.other"), lambda x, high: clamp(x, None, high)),
    "hardtanh": lambda x, low=-1.0, high=1.0: clamp(x, low, high),
    "hardsigmoid": lambda x: clamp(x / 6 + 0.5, 0, 1),
    "hardswish": lambda x: x * clamp(x / 6 + 0.5, 0, 1),
    "relu6": lambda x: clamp(x, 0, 6),
    "leaky_relu": lambda x, slope=0.01: x.relu() - slope * (-x).relu(),
    "prelu": prelu,
    "elu": elu,
    "celu": lambda x, alpha=1.0: elu(x, alpha, 1.0, 1.0 / alpha),
    "softplus": softplus,
    "log_sigmoid": lambda x: -softplus(-x),
    "mish": lambda x: x * softplus(x).tanh(),
    "log1p": lambda x: (x + 1).log(),
    "log2": lambda x: x.log() / math.log(2),
    "log10": lambda x: x.log() / math.log(10),
    "exp2": lambda x: (x * math.log(2)).exp(),
    "expm1": lambda x: x.exp() - 1,
    "reciprocal": lambda x: x.new_ones(x.shape) / x,
    **dict.fromkeys(("lerp.Scalar", "lerp.Tensor"), lambda x, y, weight: x + weight * (y - x)),
    "max": lambda x: x.amax(),
    "min": lambda x: -(-x).amax(),
    "amin": lambda x, dim=(), keepdim=False: -(-x).amax(dim, keepdim),
    "linalg_vector_norm": vector_norm,
    "var.correction": variance,
    "logsumexp": logsumexp,
    "cumsum": cumsum,
    "addmv": lambda x, y, z, *, beta=1, alpha=1: beta * x + alpha * y.mv(z),
    "repeat": repeat,
    "flip": flip,
    "constant_pad_nd": pad,
    **{f"max_pool{rank}d": partial(max_pool, rank=rank) for rank in (1, 2, 3)},
    **{f"avg_pool{rank}d": partial(avg_pool, rank=rank) for rank in (1, 2, 3)},
    "group_norm": group_norm,
    "instance_norm": instance_norm,
}
"""Operations as torch names them, without ``aten.`` and ``.default``, in terms of others."""
