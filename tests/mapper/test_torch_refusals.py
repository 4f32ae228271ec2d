"""Changes in place as torch sees them, and what cannot be read: errors say what and where."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from torch_modules import Function, agrees, torch

from mapper.errors import InputError
from mapper.torch_import import _Importer, import_module

nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore:Sparse")  # torch on its own sparse layouts


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


class TestInPlace:
    def test_later_uses_see_the_change(self) -> None:
        def forward(_: Any, x: Any) -> Any:
            y = x * 2
            y += 1
            z = F.relu(y, inplace=True)
            return y - 3 * z.masked_fill_(torch.eye(4) == 0, 0.0)

        agrees(Function(forward), torch.randn(4, 4))

    @pytest.mark.parametrize("shared", [lambda x: (x * 2).t(), lambda x: x])
    def test_a_shared_tensor_cannot_be_changed(self, shared: Callable[..., Any]) -> None:
        def forward(_: Any, x: Any) -> Any:
            y = shared(x)
            view = y.t()
            y += 1
            return view * 2

        with pytest.raises(InputError, match="in place on a tensor that others share"):
            import_module(Function(forward), torch.randn(4, 4))

    @pytest.mark.parametrize("changed", ["part", "whole"])
    @pytest.mark.parametrize(
        "part",
        [
            lambda y: y[0],
            lambda y: y[1:3],
            lambda y: y[:, ::2],
            lambda y: y.chunk(2, 1)[0],
            lambda y: y.split(3)[1],
            lambda y: y.split([1, 3], 1)[1],
            lambda y: y.unbind(1)[2],
            lambda y: y.t()[1:].unbind()[0],
        ],
    )
    def test_a_part_shares_its_tensor(self, part: Callable[..., Any], changed: str) -> None:
        def forward(_: Any, x: Any) -> Any:
            whole = x * 2
            picked = part(whole)
            (picked if changed == "part" else whole).mul_(3.0)
            return whole + 1, picked + 1

        with pytest.raises(InputError, match="in place on a tensor that others share"):
            import_module(Function(forward), torch.randn(4, 4))

    def test_clones_share_nothing(self) -> None:
        agrees(Function(lambda _, x: (x.clone().relu_() + x, (y := 2 * x).clone().add_(1) * y)), torch.randn(4, 4))

    def test_joined_tensors_are_copies(self) -> None:
        def forward(_: Any, x: Any) -> Any:
            y = x * 2
            both = torch.cat([y, x])
            y.relu_()
            return both * 3, y * 1.0

        agrees(Function(forward), torch.randn(4, 4))

    def test_a_created_tensor_that_becomes_computed(self) -> None:
        def forward(_: Any, x: Any) -> Any:
            total = torch.zeros(4, 4)
            total += x
            return total * 2

        def shared(_: Any, x: Any) -> Any:
            total = torch.zeros(4, 4)
            first = total[0]
            total += x
            return first + total

        agrees(Function(forward), torch.randn(4, 4))
        with pytest.raises(InputError, match="in place on a tensor that others share"):
            import_module(Function(shared), torch.randn(4, 4))


class TestErrors:
    def fails(self, function: Callable[..., Any], *inputs: Any) -> str:
        with pytest.raises(InputError) as raised:
            import_module(Function(function), inputs)
        return str(raised.value)

    def test_unknown_operation_names_itself_and_its_line(self) -> None:
        message = self.fails(lambda _, x: torch.erf(x), torch.randn(3))
        assert "aten.erf.default (erf): this operation is not supported" in message
        assert "torch_modules.py:" in message
        assert "scaled_dot_product_attention" in message  # one of those listed

    def test_pooling_and_look_ups_say_what_to_do(self) -> None:
        message = self.fails(lambda _, x: F.max_pool1d(x, 2, 1, 1, 2), torch.randn(1, 2, 4))
        assert "pad before the pool" in message
        table = torch.randn(5, 2)
        message = self.fails(lambda _, i: F.embedding(i, table), torch.tensor([1, 2]))
        assert "give the looked-up rows as an input" in message

    def test_branch_on_values(self) -> None:
        message = self.fails(lambda _, x: x if x.sum() > 0 else -x, torch.randn(3))
        assert "torch.export cannot capture Function" in message

    def test_shapes_that_do_not_match(self) -> None:
        message = self.fails(lambda _, x, y: x @ y, torch.randn(3, 4), torch.randn(3, 4))
        assert "torch.export cannot capture Function" in message
        assert "test_torch_refusals.py:" in message

    def test_input_that_is_no_tensor(self) -> None:
        """torch 2.13 exports a token where operators have effects; a program has no such thing."""
        reader = _Importer(torch, SimpleNamespace(state_dict={}, constants={}), (), set())
        spec = SimpleNamespace(kind=SimpleNamespace(name="TOKEN"), target=None, arg="token")
        with pytest.raises(InputError, match="must be a tensor, a parameter or a buffer, got token of kind TOKEN"):
            reader._placeholder(spec)

    @pytest.mark.parametrize(("output", "shown"), [(3, "3"), ("name", "'name'")])
    def test_output_that_is_no_tensor(self, output: Any, shown: str) -> None:
        message = self.fails(lambda _, x: (x * 2, output), torch.randn(3))
        assert message == f"every output of forward must be a tensor, got {shown}; return tensors alone"

    @pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
    def test_numbers_that_are_not_finite(self, number: float) -> None:
        x, y = torch.randn(3, 4), torch.randn(4, 3)
        for function in (
            lambda _, x, y: x + number,
            lambda _, x, y: number - x,
            lambda _, x, y: x * number,
            lambda _, x, y: torch.add(x, y.t(), alpha=number),
            lambda _, x, y: torch.addmm(x[:, :3], x, y, beta=number),
            lambda _, x, y: F.scaled_dot_product_attention(x, x, x, scale=number),
        ):
            assert "must be finite, got " in self.fails(function, x, y)

    def test_masked_by_nan(self) -> None:
        message = self.fails(lambda _, x: x.masked_fill(torch.eye(3) == 1, float("nan")).softmax(1), torch.randn(3, 3))
        assert "a number in an operation must be finite, got nan" in message

    def test_nothing_computed(self) -> None:
        with pytest.raises(InputError, match=r"torch.nn.Module is needed, got int"):
            import_module(3, ())
