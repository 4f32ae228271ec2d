"""Operations that the table lacks, written with operations that it has.

Torch knows most of them (``torch.export.default_decompositions``; views it always takes apart). Those that torch keeps,
or that it writes with comparisons of values, which index notation has not, are written here, with ``relu`` as a rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from mapper.errors import InputError


def decomposed(torch: Any, exported: Any, operation: Any, refusal: InputError) -> Any:
    """The exported program with ``operation`` written with others; operations in place become others, too. Raises the
    ``refusal`` if neither torch nor this module knows how."""
    known = {**torch.export.default_decompositions().materialize(), **_own(torch)}
    try:
        found = exported.run_decompositions({operation: known[operation]} if operation in known else {})
    except Exception as error:  # of torch, on what the user's code does
        reason = str(error).strip().split("\n")[0]
        raise InputError(f"{refusal}\n  torch cannot take it apart: {type(error).__name__}: {reason}") from error
    same = any(node.target is operation for node in found.graph.nodes)
    if same or any(spec.kind.name != "USER_OUTPUT" for spec in found.graph_signature.output_specs):  # changed buffers
        raise refusal
    return found


def _own(torch: Any) -> dict[Any, Callable[..., Any]]:
    aten, functional = torch.ops.aten, torch.nn.functional
    relu = torch.relu

    def maximum(x: Any, y: Any) -> Any:
        return y + relu(x - y)

    def minimum(x: Any, y: Any) -> Any:
        return x - relu(x - y)

    def clamp(x: Any, low: Any = None, high: Any = None) -> Any:
        if low is not None:
            x = relu(x) if isinstance(low, int | float) and low == 0 else low + relu(x - low)
        return x if high is None else x - relu(x - high)

    def elu(x: Any, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Any:
        return scale * relu(x) + alpha * scale * (torch.exp(-input_scale * relu(-x)) - 1)

    def softplus(x: Any, beta: float = 1.0, _: float = 20.0) -> Any:
        return relu(x) + torch.log(1 + torch.exp(-beta * x.abs())) / beta

    def prelu(x: Any, weight: Any) -> Any:
        channels = weight if x.ndim < 2 else weight.reshape(-1, *[1] * (x.ndim - 2))
        return relu(x) - channels * relu(-x)

    def norm(x: Any, order: float = 2, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
        dims = list(range(x.ndim)) if dim is None else dim
        if order == 2:
            return x.square().sum(dims, keepdim).sqrt()
        sizes = x.abs()
        if order not in (1, math.inf):
            return NotImplemented  # which leaves the operation as it is
        return sizes.sum(dims, keepdim) if order == 1 else sizes.amax(dims, keepdim)

    def var(x: Any, dim: Any = None, *, correction: float | None = None, keepdim: bool = False) -> Any:
        dims = list(range(x.ndim)) if dim is None else dim
        count = x.numel() // x.sum(dims).numel()
        free = count - (1 if correction is None else correction)
        return (x - x.mean(dims, keepdim=True)).square().sum(dims, keepdim) / free

    def logsumexp(x: Any, dim: Any, keepdim: bool = False) -> Any:
        most = x.amax(dim, keepdim=True)
        found = torch.log(torch.exp(x - most).sum(dim, keepdim=True)) + most
        return found if keepdim else found.squeeze(dim)

    def repeat(x: Any, times: Any) -> Any:
        extents = [1] * (len(times) - x.ndim) + list(x.shape)
        apart = [n for extent in extents for n in (1, extent)]
        wide = [n for many, extent in zip(times, extents, strict=True) for n in (many, extent)]
        return x.reshape(apart).expand(wide).reshape([m * e for m, e in zip(times, extents, strict=True)])

    def flip(x: Any, dims: Any) -> Any:
        for dim in dims:
            x = x.index_select(dim, torch.arange(x.shape[dim] - 1, -1, -1))
        return x

    def pad(x: Any, amounts: Any, value: float = 0) -> Any:
        for n, (before, after) in enumerate(zip(amounts[::2], amounts[1::2], strict=True)):
            dim = x.ndim - 1 - n
            x = x.narrow(dim, max(-before, 0), x.shape[dim] - max(-before, 0) - max(-after, 0))
            parts = [x.new_full([*x.shape[:dim], m, *x.shape[dim + 1 :]], value) for m in (before, after) if m > 0]
            x = torch.cat([*parts[: before > 0], x, *parts[before > 0 :]], dim) if parts else x
        return x

    def cumsum(x: Any, dim: int, **_: Any) -> Any:
        steps = torch.ones(x.shape[dim], x.shape[dim]).triu()
        return torch.matmul(x.transpose(dim, -1), steps).transpose(dim, -1)

    def affine(x: Any, weight: Any, bias: Any) -> Any:
        place = [-1, *[1] * (x.ndim - 2)]  # of the channels
        x = x if weight is None else x * weight.reshape(place)
        return x if bias is None else x + bias.reshape(place)

    def group_norm(x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, _: bool = True) -> Any:
        parts = x.reshape(x.shape[0], groups, -1)
        found = functional.layer_norm(parts, parts.shape[2:], eps=eps).reshape(x.shape)
        return affine(found, weight, bias)

    def instance_norm(
        x: Any, weight: Any, bias: Any, mean: Any, variance: Any, use_input: bool, _: float, eps: float, *__: Any
    ) -> Any:
        if use_input:
            return group_norm(x, x.shape[1], weight, bias, eps)
        place = [-1, *[1] * (x.ndim - 2)]
        found = (x - mean.reshape(place)) * (variance + eps).rsqrt().reshape(place)
        return affine(found, weight, bias)

    return {
        **dict.fromkeys((aten.maximum.default, aten.max.other), maximum),
        **dict.fromkeys((aten.minimum.default, aten.min.other), minimum),
        **dict.fromkeys((aten.clamp.default, aten.clamp.Tensor), clamp),
        aten.clamp_min.default: clamp,
        aten.clamp_max.default: lambda x, high: clamp(x, None, high),
        aten.hardtanh.default: lambda x, low=-1.0, high=1.0: clamp(x, low, high),
        aten.leaky_relu.default: lambda x, slope=0.01: relu(x) - slope * relu(-x),
        aten.prelu.default: prelu,
        aten.elu.default: elu,
        aten.celu.default: lambda x, alpha=1.0: elu(x, alpha, 1.0, 1.0 / alpha),
        aten.softplus.default: softplus,
        aten.log_sigmoid.default: lambda x: -softplus(-x),
        aten.mish.default: lambda x: x * torch.tanh(softplus(x)),
        aten.log1p.default: lambda x: torch.log(x + 1),
        aten.log2.default: lambda x: torch.log(x) / math.log(2),
        aten.log10.default: lambda x: torch.log(x) / math.log(10),
        aten.exp2.default: lambda x: torch.exp(x * math.log(2)),
        aten.expm1.default: lambda x: torch.exp(x) - 1,
        aten.reciprocal.default: lambda x: torch.ones_like(x) / x,
        aten.lerp.Scalar: lambda x, y, weight: x + weight * (y - x),
        aten.lerp.Tensor: lambda x, y, weight: x + weight * (y - x),
        aten.max.default: lambda x: x.amax(),
        aten.min.default: lambda x: -(-x).amax(),
        aten.amin.default: lambda x, dim=(), keepdim=False: -(-x).amax(dim, keepdim),
        aten.linalg_vector_norm.default: norm,
        aten.var.correction: var,
        aten.logsumexp.default: logsumexp,
        aten.cumsum.default: cumsum,
        aten.repeat.default: repeat,
        aten.flip.default: flip,
        aten.constant_pad_nd.default: pad,
        aten.addmv.default: lambda x, y, z, *, beta=1, alpha=1: beta * x + alpha * torch.mv(y, z),
        aten.group_norm.default: group_norm,
        aten.instance_norm.default: instance_norm,
    }
