"""Operations of a module that have no fixed meaning in numbers: casts and draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mapper.errors import InputError
from mapper.torch_import import Imported, import_module

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install '.[torch]')")
nn, F = torch.nn, torch.nn.functional


def read(function: Callable[..., Any], *inputs: Any) -> Imported:
    class Function(nn.Module):  # type: ignore[misc]
        def forward(self, *given: Any) -> Any:
            return function(*given)

    return import_module(Function(), inputs)


@pytest.mark.parametrize(
    "cast",
    [
        lambda x: (x * 1.0).to(torch.int32) * 1.0,
        lambda x: (x * 1.0).long(),
        lambda x: (x * 1.0).bool().float(),
        lambda x: (x * 1.0).type_as(torch.ones(1, dtype=torch.int64)),
        lambda x: x.long() * 2,
        lambda x: x.sum(1, dtype=torch.int64),
    ],
)
def test_casts_that_drop_fractions(cast: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match=r"a cast from torch.float32 to torch.(int|bool)\d* drops .*; cast before"):
        read(cast, torch.randn(3, 4))


def test_whole_numbers_are_no_truth_values() -> None:
    with pytest.raises(InputError, match=r"from torch.int64 to torch.bool .* write a mask as a comparison"):
        read(lambda x, n: x * n.bool(), torch.randn(3), torch.tensor([0, 1, 2]))


def test_casts_that_keep_values() -> None:
    def forward(x: Any, n: Any) -> Any:
        return x.double() * n.float() + n.to(torch.int32) + torch.eye(4).bool().float()

    found = read(forward, torch.randn(4, 4), torch.tensor([[1, 2, 3, 4]]))
    assert found.text.splitlines()[0] == "mul(i,j) = given_0(i,j) * given_1(j)"


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: x + torch.rand(3, 4),
        lambda x: x + torch.randn(3, 4),
        lambda x: x + torch.rand_like(x),
        lambda x: x + torch.randn_like(x * 2),
        lambda x: x * torch.bernoulli(torch.full((3, 4), 0.5)),
        lambda x: x * torch.zeros(3, 4).uniform_(),
    ],
)
def test_draws_would_be_frozen(draw: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match=r"draws at random, .* pass the result as an input or a buffer"):
        read(draw, torch.randn(3, 4))


def test_dropout_in_training() -> None:
    for function in (
        lambda x: F.dropout(x, training=True),
        lambda x: x * F.dropout(torch.ones(3, 4), training=True),
        lambda x: F.alpha_dropout(x, training=True),
        lambda x: F.dropout1d(x, training=True),
    ):
        with pytest.raises(InputError, match=r"dropout in training draws at random; pass training=self.training"):
            read(function, torch.randn(3, 4))
    found = read(lambda x: F.dropout(x, 0.0, training=True) * 2, torch.randn(3, 4))
    assert found.text == "mul(i,j) = 2.0 * given_0(i,j)"
