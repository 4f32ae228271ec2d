"""Operations that are taken apart before they are imported: their values are those of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch_modules import Function, agrees, pruned, torch

from mapper.errors import InputError
from mapper.torch_import import import_module

nn, F = torch.nn, torch.nn.functional


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "other views": lambda _, x, y: x.mT.swapaxes(0, 1).movedim(0, 1).T.view_as(y) + y,
    "parts": lambda _, x, y: (x.narrow(1, 1, 2), torch.tensor_split(x, 4, 1)[2], torch.hsplit(x, 2)[1]),
    "side by side": lambda _, x, y: (torch.hstack([x, y]), torch.vstack([x, y]), torch.concat([x, y], 1)),
    "repeat and tile": lambda _, x, y: (x.repeat(2, 3, 2), y.tile(2)),
    "flip and roll": lambda _, x, y: (x.flip(0, 1), y.roll(1, 0), x.roll(2)),
    "look-ups by known numbers": lambda s, x, y: (x.index_select(1, s.order), y.index_select(0, torch.arange(2))),
    "pad": lambda _, x, y: (
        F.pad(x, (1, 2)),
        F.pad(x[:, :1], (1, -1)),
        F.pad(y, (1, -2, 0, 1), value=2.0),
        F.pad(x[None], (0, 0, 1, 0)),
    ),
    "products": lambda _, x, y: (torch.outer(x[0], y[0]), torch.inner(x[0], y[0]), torch.kron(x[:2, :2], y)),
    "tensordot and addmv": lambda _, x, y: (torch.tensordot(x, y.t(), 1), torch.addmv(x[:, 0], x, y[0], beta=2)),
    "maximum and minimum": lambda _, x, y: (torch.maximum(x, y), torch.minimum(x, y), torch.max(x, y)),
    "clamp": lambda _, x, y: (x.clamp(-0.5, 1), x.clamp(max=0.2), y.clamp_min(0), x.clamp(min=y), x.clone().clamp_(0)),
    "limits far away": lambda _, x, y: (x.clamp(min=-3e38, max=3e38), y.clamp(-torch.inf, 0.3), x.clamp(max=torch.inf)),
    "piecewise linear": lambda _, x, y: (F.leaky_relu(x, 0.2), F.relu6(4 * x), F.hardtanh(y), F.prelu(x, y[0].abs())),
    "hard curves": lambda _, x, y: (F.hardsigmoid(3 * x), F.hardswish(3 * y)),
    "exponential units": lambda _, x, y: (F.elu(x, 0.3), F.selu(x), F.celu(y, 0.5)),
    "softplus": lambda _, x, y: (F.softplus(30 * x), F.softplus(y, 2.0), F.logsigmoid(x), F.mish(y)),
    "glu": lambda _, x, y: F.glu(x),
    "logarithms": lambda _, x, y: (x.abs().log1p(), (y.abs() + 0.1).log2(), (y.abs() + 0.1).log10()),
    "exponentials": lambda _, x, y: (x.expm1(), y.exp2()),
    "reciprocal": lambda _, x, y: (x.reciprocal(), 3 / y),
    "lerp, addcmul, addcdiv": lambda _, x, y: (x.lerp(y, 0.3), torch.addcmul(x, x, y), torch.addcdiv(x, y, y.exp())),
    "max, min, amin": lambda _, x, y: (x.max(), x.min(), y.amin(0, keepdim=True)),
    "variance": lambda _, x, y: (x.var(), x.var(1), y.std(0, keepdim=True), y.var((0, 1), unbiased=False)),
    "norms": lambda _, x, y: (x.norm(), x.norm(1, dim=0), y.norm(float("inf")), torch.linalg.vector_norm(x, dim=1)),
    "normalize": lambda _, x, y: (F.normalize(x, dim=1), F.cosine_similarity(x, y)),
    "logsumexp": lambda _, x, y: (x.logsumexp(1), (100 * y).logsumexp((0, 1), keepdim=True)),
    "cumsum": lambda _, x, y: (x.cumsum(0), y.cumsum(-1)),
    "triangles": lambda _, x, y: (x.tril(), y.triu(1)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation(name: str) -> None:
    agrees(Function(OPERATIONS[name], order=torch.tensor([2, 0, 0])), torch.randn(4, 6), torch.randn(4, 6) + 0.1)


@pytest.mark.parametrize("name", ["clamp", "pad", "variance", "norms", "piecewise linear", "softplus", "cumsum"])
def test_operation_on_sparse_data(name: str) -> None:
    agrees(Function(OPERATIONS[name]), pruned(4, 6), pruned(4, 6))


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.GroupNorm(2, 4), (3, 4, 5)),
        (nn.InstanceNorm1d(4, affine=True), (3, 4, 5)),
        (nn.InstanceNorm1d(4, track_running_stats=True), (3, 4, 5)),
        (nn.PReLU(4), (3, 4, 5)),
        (nn.MaxPool1d(2), (2, 3, 7)),
        (nn.MaxPool2d((2, 3), (2, 3)), (2, 3, 4, 6)),
        (nn.AvgPool1d(3), (3, 7)),
        (nn.AvgPool2d(2), (2, 3, 5, 4)),
        (nn.AvgPool3d(2), (1, 2, 4, 4)),
        (nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 4)), (2, 2, 4, 4)),
        (nn.GRUCell(4, 3), (2, 4)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_module(module: Any, shape: tuple[int, ...]) -> None:
    agrees(module, torch.randn(shape))


@pytest.mark.parametrize(
    "pool",
    [
        nn.MaxPool2d(3, 2),
        nn.MaxPool2d(3, 2, padding=1),
        nn.MaxPool2d((2, 3), (1, 2), (1, 0)),
        nn.MaxPool2d(2, dilation=2),
        nn.MaxPool2d(2, ceil_mode=True),
        nn.MaxPool2d(3, 2, 1, ceil_mode=True),
        nn.AvgPool2d(3, 2, padding=1),
        nn.AvgPool2d(3, 2, 1, ceil_mode=True),
        nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
        nn.AvgPool2d(2, 1, divisor_override=3),
    ],
    ids=str,
)
def test_pool(pool: Any) -> None:
    agrees(pool, torch.randn(2, 3, 5, 6))


def test_pool_of_windows_with_gaps_beyond_the_image() -> None:
    with pytest.raises(InputError, match="windows with gaps must not reach beyond the image"):
        import_module(nn.MaxPool2d(2, dilation=2, padding=1), torch.randn(1, 2, 5, 5))


def test_recurrent_layers_become_their_steps() -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.LSTM(4, 3, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.net(x)[0]

    found = agrees(Last(), torch.randn(2, 3, 4))
    assert sum("tanh(" in line for line in found.lines) >= 2 * 3


def test_what_nobody_can_take_apart_is_refused() -> None:
    with pytest.raises(InputError, match=r"aten._trilinear.default .* is not supported"):
        import_module(nn.Bilinear(3, 4, 1, bias=False), (torch.randn(2, 3), torch.randn(2, 4)))


@pytest.mark.filterwarnings("ignore:Sparse")  # torch on its own sparse layouts
def test_sparse_tensors_stay_sparse() -> None:
    graph = pruned(5, 5)
    layer = Function(lambda s, a, x: F.leaky_relu(a @ x) + F.elu(s.csr @ x), csr=graph.to_sparse_csr())
    found = agrees(layer, graph.to_sparse(), torch.randn(5, 4))
    assert sum(t.nnz == int((graph != 0).sum()) for t in found.tensors.values()) == 2


def test_the_others_keep_their_names_and_operations() -> None:
    net = nn.Sequential(nn.Linear(6, 5), nn.LeakyReLU(), nn.LayerNorm(5))
    found = agrees(net, torch.randn(4, 6))
    assert found.lines[0].startswith("_0(") and found.lines[-1].startswith("_2(")
    assert {origin.operation for origin in found.origins} >= {"aten.linear.default", "aten.layer_norm.default"}


def test_changed_buffers_are_refused() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x: Any) -> Any:
            self.seen.copy_(F.leaky_relu(x))
            return x + self.seen

    with pytest.raises(InputError, match="not where forward changes a buffer or an input"):
        import_module(Counts(), torch.randn(3))


def test_what_torch_cannot_take_apart_says_why() -> None:
    with pytest.raises(InputError, match=r"(?s)aten.t_.default .* is not supported.*torch cannot take it apart: "):
        import_module(Function(lambda _, x: x.t_() * 1), torch.randn(2, 3))
