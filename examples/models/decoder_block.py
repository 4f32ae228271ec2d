"""A small transformer decoder block with causal attention and a feed-forward layer pruned to 20 % of its weights.

sparseloom import examples/models/decoder_block.py:Block
"""

from __future__ import annotations

import torch
from torch import nn

WIDTH, HEADS, LENGTH = 32, 4, 16


class Block(nn.Module):
    """Attention and feed-forward layer, each behind a layer norm and with a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.grow, self.shrink = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        with torch.no_grad():
            weight = self.grow.weight
            weight[weight.abs() < weight.abs().quantile(0.8)] = 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x``: batch, position, feature."""
        x = x + self.out(self.attention(self.norm1(x)))
        return x + self.shrink(torch.relu(self.grow(self.norm2(x))))

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        """Every position looks at itself and the ones before it."""
        query, key, value = (
            part(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
        later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(later, float("-inf")).softmax(-1)
        return (weights @ value).transpose(1, 2).flatten(2)


def example_inputs() -> tuple[torch.Tensor]:
    """One sequence."""
    return (torch.randn(1, LENGTH, WIDTH),)
