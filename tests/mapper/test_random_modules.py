"""Random modules: what is imported has the values of torch, or is refused for a reshape that cuts nothing evenly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from torch_modules import Function, agrees, torch

from mapper.errors import InputError

F = torch.nn.functional

Step = Callable[[Any, Any], Any]


def _steps(rng: np.random.Generator, x: Any) -> list[Step]:
    """What may be done with a tensor like ``x`` and another one."""
    rank = x.ndim
    d, e = (int(n) for n in rng.integers(-rank, rank, 2))
    order, part = [int(n) for n in rng.permutation(rank)], int(rng.integers(2))
    masked = torch.from_numpy(rng.random(tuple(x.shape)) < 0.5)
    return [
        lambda x, _: F.leaky_relu(x) + x.abs().sqrt(),
        lambda x, _: F.gelu(x).tanh() * 0.5 - 0.25,
        lambda x, _: x.clamp(-0.5, 1).sigmoid(),
        lambda x, y: x + y,
        lambda x, y: x * y,
        lambda x, y: x / (y.abs() + 1),
        torch.maximum,
        lambda x, y: x @ y,
        lambda x, y: x @ y.transpose(-1, -2),
        F.linear,
        lambda x, y: torch.tensordot(x, y, 1),
        lambda x, y: F.scaled_dot_product_attention(x, x, y),
        lambda x, _: x.sum(d, keepdim=bool(part)),
        lambda x, _: x.mean((d, e)) if d % rank != e % rank else x.amax(d),
        lambda x, _: x.softmax(d),
        lambda x, _: x.log_softmax(d),
        lambda x, _: x.var(d) + x.norm(dim=d),
        lambda x, _: F.layer_norm(x, x.shape[-1:]),
        lambda x, _: F.rms_norm(x, x.shape[-1:]),
        lambda x, _: x.cumsum(d).flip(e),
        lambda x, _: x.permute(order),
        lambda x, _: x.flatten(min(d % rank, e % rank), max(d % rank, e % rank)),
        lambda x, _: x.unflatten(d, (-1, 2)),
        lambda x, _: x.unsqueeze(d),
        lambda x, _: x.repeat(*(1 + n % 2 for n in order)),
        lambda x, _: x.expand(2, *x.shape),
        lambda x, y: torch.cat([x, y], d),
        lambda x, y: torch.stack([x, y], d),
        lambda x, _: x.chunk(2, d)[-part],
        lambda x, _: x[..., part::2],
        lambda x, _: F.pad(x, (1, -part)),
        lambda x, y: torch.where(masked, x, y),
        lambda x, _: x.masked_fill(masked, 2.0),
    ]


def random_module(seed: int) -> tuple[Any, list[Any]]:
    """Up to eight steps that torch can take, on up to three inputs, some of them sparse; two results."""
    rng = np.random.default_rng(seed)
    extents = rng.choice([1, 2, 3, 4, 6], 3)
    inputs = []
    for _ in range(int(rng.integers(1, 4))):
        shape = tuple(int(n) for n in rng.choice(extents, int(rng.integers(1, 4))))
        inputs.append(
            torch.from_numpy((rng.normal(size=shape) * (rng.random(shape) < rng.choice([0.4, 1.0]))).astype("f"))
        )
    values, taken = list(inputs), list[tuple[Step, int, int]]()
    while len(taken) < 8 and rng.random() < 0.9:
        a, b = (int(n) for n in rng.integers(len(values), size=2))
        if not values[a].ndim:
            continue
        choices = _steps(rng, values[a])
        step = choices[int(rng.integers(len(choices)))]
        try:
            made = step(values[a], values[b])
        except (RuntimeError, IndexError, ValueError):  # shapes that do not fit
            continue
        if 0 < made.numel() <= 300 and made.isfinite().all():
            values.append(made)
            taken.append((step, a, b))

    def forward(_: Any, *given: Any) -> tuple[Any, Any]:
        known = list(given)
        for step, a, b in taken:
            known.append(step(known[a], known[b]))
        return known[-1] * 1.0, known[len(known) // 2] + 1.0

    return Function(forward), inputs


@pytest.mark.parametrize("seed", range(60))
def test_values(seed: int) -> None:
    module, inputs = random_module(seed)
    try:
        agrees(module, *inputs)
    except InputError as error:
        assert "cannot be split into runs" in str(error) or "cannot be regrouped" in str(error), error
