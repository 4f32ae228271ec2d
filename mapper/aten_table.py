"""Every supported ATen operation with the function that writes it in index notation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from mapper.aten_arithmetic import ARITHMETIC
from mapper.aten_contractions import addmm, einsum, linear, matmul
from mapper.aten_layers import (
    attention,
    batch_norm,
    convolution,
    global_pool,
    layer_norm,
    log_softmax,
    native_batch_norm,
    reduction,
    rms_norm,
    softmax,
)
from mapper.aten_views import LOOKUP, PARTS, VIEWS

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
    "batch_norm": batch_norm,
    "_native_batch_norm_legit_no_training": native_batch_norm,
    "scaled_dot_product_attention": attention,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "conv1d.padding", "conv2d.padding", "conv3d.padding"), convolution),
    **dict.fromkeys(("adaptive_avg_pool1d", "adaptive_avg_pool2d"), global_pool),
}
"""Supported operations by the name torch gives them, without ``aten.`` and ``.default``."""

REFUSED: dict[str, str] = {
    **dict.fromkeys(
        [f"{name}.{kind}" for name in ("eq", "ne", "lt", "le", "gt", "ge") for kind in ("Scalar", "Tensor")],
        "what is compared must be known before the program runs (a parameter, buffer or input)",
    ),
    **dict.fromkeys(("embedding", "index.Tensor", "gather"), LOOKUP),
    **dict.fromkeys(
        ("max.dim", "min.dim", "argmax", "argmin", "topk", "sort", "median.dim"),
        "positions of entries have no meaning in index notation: use amax or amin for the values alone",
    ),
    **dict.fromkeys(
        [f"max_pool{rank}d" for rank in (1, 2, 3)],
        "windows with gaps must not reach beyond the image: pad before the pool, or cut the model before and after it",
    ),
    **dict.fromkeys(
        ("to_sparse_csr", "to_sparse_coo", "sparse_coo_tensor"),
        "tensors cannot become sparse inside forward: make them sparse outside and pass them as inputs or buffers",
    ),
}
"""Why some operations can never be supported, with what to do instead."""
