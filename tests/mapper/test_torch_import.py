"""PyTorch modules as programs: their values are those of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch_modules import Function, agrees, pruned, torch

from mapper.errors import InputError
from mapper.torch_import import import_module

nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore:Sparse")  # torch on its own sparse layouts


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": lambda _, x, y: x + y,
    "add, scaled": lambda _, x, y: torch.add(x, y, alpha=-2.5),
    "add a number": lambda _, x, y: x + 1.5,
    "subtract a number": lambda _, x, y: x - 0.25,
    "broadcast": lambda _, x, y: x + y[0] * x[:, :1],
    "sub": lambda _, x, y: x - y,
    "rsub": lambda _, x, y: 2 - x,
    "mul": lambda _, x, y: x * y,
    "mul by a number": lambda _, x, y: -3 * x,
    "div": lambda _, x, y: x / y,
    "div by a number": lambda _, x, y: x / 8,
    "relu": lambda _, x, y: F.relu(x),
    "gelu": lambda _, x, y: F.gelu(x),
    "gelu, tanh form": lambda _, x, y: F.gelu(x, approximate="tanh"),
    "silu": lambda _, x, y: F.silu(x),
    "tanh": lambda _, x, y: x.tanh(),
    "sigmoid": lambda _, x, y: x.sigmoid(),
    "exp and log": lambda _, x, y: (x.exp() + 1.0).log(),
    "neg, abs, sqrt": lambda _, x, y: -x.abs().sqrt(),
    "rsqrt": lambda _, x, y: (x.abs() + 1).rsqrt(),
    "powers": lambda _, x, y: x**2 + x**3,
    "matmul": lambda _, x, y: x @ y.t(),
    "mm": lambda _, x, y: torch.mm(x, y.t()),
    "bmm": lambda _, x, y: torch.bmm(x.view(2, 2, 6), y.view(2, 2, 6).transpose(1, 2)),
    "matrix and vector": lambda _, x, y: (x @ y[0], x[0] @ y.t(), x[0] @ y[1]),
    "batched matmul, broadcast": lambda _, x, y: x.view(2, 2, 1, 6) @ y.t(),
    "addmm": lambda _, x, y: torch.addmm(x[:, :4], x, y.t(), beta=2, alpha=0.5),
    "einsum": lambda _, x, y: torch.einsum("ik,jk->ji", x, y),
    "einsum, three operands, implicit result": lambda _, x, y: torch.einsum("ai,bi,bj", x, y, y),
    "linear": lambda _, x, y: F.linear(x, y, y[:, 0]),
    "linear with a vector": lambda _, x, y: (F.linear(x, y[0]), F.linear(x[0], y[0], y[0, 0])),
    "sum": lambda _, x, y: (x.sum(), x.sum(0), x.sum(1, keepdim=True), x.sum((0, 1))),
    "mean": lambda _, x, y: (x.mean(), x.mean(-1), x.mean(0, keepdim=True)),
    "amax": lambda _, x, y: (x.amax(1), (-x.abs()).amax((0, 1), keepdim=True)),
    "softmax": lambda _, x, y: x.softmax(-1) + y.softmax(0),
    "softmax of two dimensions merged": lambda _, x, y: x.view(2, 2, 6).flatten(1).softmax(1),
    "log_softmax": lambda _, x, y: x.log_softmax(1),
    "layer_norm": lambda _, x, y: F.layer_norm(x, (6,)),
    "layer_norm, affine, own eps": lambda _, x, y: F.layer_norm(x, (6,), y[0], y[1], eps=1e-3),
    "layer_norm over two dimensions": lambda _, x, y: F.layer_norm(x.view(2, 2, 6), (2, 6)),
    "rms_norm": lambda _, x, y: F.rms_norm(x, (6,), y[0]),
    "rms_norm over one": lambda _, x, y: F.rms_norm(x.unsqueeze(-1), (1,)),
    "views": lambda _, x, y: x.view(2, 2, 6).permute(2, 0, 1).reshape(3, 8).unsqueeze(1).squeeze() * 2,
    "view cut again": lambda _, x, y: x.view(4, 2, 3).transpose(1, 2).flatten() + y.view(4, 3, 2).flatten(),
    "view of one side of a square": lambda _, x, y: (
        (q := x @ y.t()) @ q.view(4, 2, 2).transpose(1, 2).reshape(4, 4) @ x,
        x[:, :4] @ x[:, :4].view(4, 2, 2).sum(1),
    ),
    "expand": lambda _, x, y: (x.expand(3, 4, 6) * y).sum(0) + x[:1].expand(4, 6).sum(0),
    "mean and sum along repeats": lambda _, x, y: (x.expand(3, 4, 6).mean(0), x.expand(3, 4, 6).sum(0)),
    "repeats along what is normalised": lambda _, x, y: (
        (z := x.view(4, 1, 6).expand(4, 2, 6).reshape(4, 12)).softmax(1),
        z.log_softmax(1),
        F.layer_norm(z, (12,)),
        F.layer_norm(z, (12,), y.view(-1)[:12], y.view(-1)[1:13]),
        F.layer_norm(z, (12,), eps=0.1),
        F.rms_norm(z, (12,)),
    ),
    "one position along what is normalised": lambda _, x, y: (
        x[:, :1].softmax(1),
        x[:, :1].expand(4, 3).softmax(1),
        y[None].log_softmax(0),
        F.layer_norm(x[:, :1], (1,)),
        F.layer_norm(y[:, :1], (1,), x[0, :1], x[1, :1]),
        F.scaled_dot_product_attention(x, y[:1], y[:1]),
    ),
    "attention over repeated keys": lambda _, x, y: F.scaled_dot_product_attention(x, y.repeat(2, 1), y.repeat(2, 1)),
    "repeats merged": lambda _, x, y: x.view(4, 1, 6).expand(4, 2, 6).reshape(8, 6) @ y.t(),
    "select and slice": lambda _, x, y: (x[1] + y[-1], x[1:3], x[:, ::2] * 1.0),
    "chunk and split": lambda _, x, y: (x.chunk(2, 1)[1], x.split([1, 5], 1)[1] * y.split(5, 1)[0]),
    "cat and stack": lambda _, x, y: (torch.cat([x, y * 2], 1), torch.stack([x, y], 1)),
    "where": lambda _, x, y: torch.where(torch.ones(4, 6, dtype=torch.bool).tril(), x, 0.0),
    "mask times -1e9": lambda _, x, y: (x.softmax(0) + (1 - torch.ones(4, 6).tril()) * -1e9).softmax(1),
    "no effect": lambda s, x, y: F.dropout(x.clone().contiguous().to(torch.float32), training=s.training) + 0 * y,
    "views as results": lambda _, x, y: (x, x.t(), (x + y).t()),
    "one tensor, two results": lambda _, x, y: ((z := x + y), z, z * 2),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation(name: str) -> None:
    agrees(Function(OPERATIONS[name]), *_pair())


def _pair() -> tuple[Any, Any]:
    return torch.randn(4, 6), torch.randn(4, 6) + 0.1


def test_operations_beside_one_that_is_taken_apart() -> None:
    """Torch then rewrites some of the others as well."""

    def every(own: Any, *given: Any) -> tuple[Any, ...]:
        pairs = zip(OPERATIONS.values(), given[::2], given[1::2], strict=True)
        results = [operation(own, x, y) for operation, x, y in pairs]
        return tuple(torch.utils._pytree.tree_leaves([*results, F.leaky_relu(given[0])]))

    agrees(Function(every), *(tensor for _ in OPERATIONS for tensor in _pair()))


@pytest.mark.parametrize(
    "name", ["add", "sub", "mul", "matmul", "relu", "softmax", "layer_norm", "amax", "mean", "sigmoid", "views"]
)
def test_operation_on_sparse_data(name: str) -> None:
    """Zeros that are not stored count as zeros: in a softmax, a maximum and a mean too."""
    x, y = pruned(4, 6), pruned(4, 6)
    x[1] = 0
    found = agrees(Function(OPERATIONS[name]), x, y)
    assert found.tensors[found.program.inputs[0]].density < 0.5


class TestMask:
    def test_masked_softmax_reads_the_mask_as_given(self) -> None:
        mask = (torch.rand(5, 5) < 0.5).float() + torch.eye(5)
        module = Function(lambda _, q, k, m: (q @ k.t()).masked_fill(m == 0, float("-inf")).softmax(-1))
        found = agrees(module, torch.randn(5, 3), torch.randn(5, 3), mask)
        assert any("= pattern(inputs_2(i,j)) * matmul(i,j)" in line for line in found.lines)
        assert found.tensors["inputs_2"].nnz == int((mask != 0).sum())

    def test_scores_that_are_not_all_stored_count_as_zero(self) -> None:
        q, mask = pruned(5, 3), torch.ones(5, 5).tril()
        q[2] = 0
        agrees(Function(lambda s, q, k: (q @ k.t()).masked_fill(s.m == 0, float("-inf")).softmax(-1), m=mask), q, q)

    @pytest.mark.parametrize("kind", ["bool", "float", "causal", "none", "additive"])
    def test_scaled_dot_product_attention(self, kind: str) -> None:
        allowed = torch.ones(4, 4, dtype=torch.bool).tril()
        mask = {
            "bool": allowed,
            "float": torch.zeros(4, 4).masked_fill(~allowed, float("-inf")),
            "additive": torch.randn(4, 4),
        }.get(kind)
        q, k, v = (torch.randn(2, 3, 4, 5) for _ in range(3))
        module = Function(
            lambda s, q, k, v: F.scaled_dot_product_attention(q, k, v, s.m, is_causal=kind == "causal"), m=mask
        )
        found = agrees(module, q, k, v)
        assert ("pattern(" in found.text) == (kind in ("bool", "float", "causal"))

    def test_mask_comes_before_the_scores(self) -> None:
        allowed = torch.ones(4, 4, dtype=torch.bool).tril()
        module = Function(lambda _, q, m: F.scaled_dot_product_attention(q, q, q, m))
        found = import_module(module, (torch.randn(2, 4, 4), allowed))
        scores = found.program.statements[0]
        assert [a.tensor for a in scores.operands if a.pattern] == ["inputs_1"]
        assert len(scores.operands) == 3

    def test_only_softmax_follows_a_mask(self) -> None:
        module = Function(lambda _, x: x.masked_fill(torch.eye(3) == 0, float("-inf")).exp())
        with pytest.raises(InputError, match="masked with -inf; only scaling and softmax may follow"):
            import_module(module, (torch.randn(3, 3),))

    def test_fill_value(self) -> None:
        agrees(Function(lambda _, x: x.masked_fill(torch.eye(3) == 0, 7.0)), torch.randn(3, 3))

    def test_choice_between_tensors_and_numbers(self) -> None:
        """What is not chosen may be anything: here the logarithm of what is not positive."""
        x = pruned(3, 4)
        for function in (
            lambda _, x, m: torch.where(m, x, 1.5),
            lambda _, x, m: torch.where(m, -2.0, x.abs()),
            lambda _, x, m: torch.where(m, x.abs(), x + 1),
            lambda _, x, m: torch.where(m, 3.0, -0.5) * x,
            lambda _, x, m: torch.where(m[:1], x, x.exp()),
            lambda _, x, m: torch.where(m[0], x[0], torch.zeros(3, 4)),
            lambda _, x, m: torch.where(m[0], torch.ones(3, 4), x[0]),
            lambda s, x, m: torch.where(s.positive, (x + s.shift).log(), 0.25),
        ):
            module = Function(function, positive=x > 0, shift=torch.zeros(3, 4))
            agrees(module, x, torch.rand(3, 4) < 0.5)

    @pytest.mark.parametrize("chosen", [True, False])
    def test_masks_of_one_position(self, chosen: bool) -> None:
        mask = torch.tensor(chosen)
        for function in (
            lambda s, x: (torch.where(s.mask, x, 1.5), torch.where(s.mask[None, None], 1.5, x)),
            lambda s, x: (torch.where(s.mask, x[:1], x) + 1, x.sum().masked_fill(s.mask, 2.0) * x),
        ):
            agrees(Function(function, mask=mask), torch.randn(3, 4))

    def test_a_mask_of_one_position_hides_nothing(self) -> None:
        module = Function(lambda s, x: x.masked_fill(s.mask, -torch.inf), mask=torch.tensor(True))
        with pytest.raises(InputError, match="must be finite, got -inf"):
            import_module(module, torch.randn(3, 4))

    def test_queries_and_values_of_other_batches(self) -> None:
        q, v = torch.randn(4, 5), torch.randn(2, 3, 4, 5)
        agrees(Function(lambda _, q, v: F.scaled_dot_product_attention(q, q, v)), q, v)
        agrees(Function(lambda _, q, v: F.scaled_dot_product_attention(v, q, q)), q, v)


class TestSparse:
    @pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
    def test_layouts_stay_sparse(self, layout: Any) -> None:
        adjacency = pruned(6, 6).to_sparse(layout=layout)
        module = Function(lambda s, a, x: (torch.sparse.mm(a, x), s.fixed @ x), fixed=pruned(6, 6).to_sparse())
        found = agrees(module, adjacency, torch.randn(6, 2))
        assert found.tensors["inputs_0"].nnz == adjacency.to_dense().count_nonzero()
        assert found.tensors["fixed"].nnz == module.fixed.coalesce().values().numel()

    def test_duplicates_of_a_sparse_tensor_are_summed(self) -> None:
        doubled = torch.sparse_coo_tensor([[0, 0, 1], [1, 1, 0]], [1.0, 2.0, 3.0], (2, 2))
        found = agrees(Function(lambda _, a, x: a @ x), doubled, torch.randn(2, 2))
        assert found.tensors["inputs_0"].values.tolist() == [3.0, 3.0]

    def test_pruned_weights_become_sparse_and_others_keep_their_zeros(self) -> None:
        layer = nn.Linear(20, 10)
        with torch.no_grad():
            layer.weight *= torch.rand(10, 20) < 0.3
            layer.bias.zero_()
        found = agrees(layer, torch.randn(4, 20))
        assert found.tensors["weight"].nnz == int(layer.weight.count_nonzero())
        assert found.tensors["bias"].nnz == 10

    def test_arithmetic_on_weights_is_done_once(self) -> None:
        class Masked(nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.weight = nn.Parameter(torch.randn(4, 6))
                self.register_buffer("mask", (torch.rand(4, 6) < 0.3).float())

            def forward(self, x: Any) -> Any:
                return F.linear(x, self.weight * self.mask)

        found = agrees(Masked(), torch.randn(3, 6))
        assert len(found.lines) == 1
        assert found.tensors["weight"].density < 0.9


class TestReshape:
    def test_heads_cut_every_tensor_they_touch(self) -> None:
        class Heads(nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.up, self.down = nn.Linear(6, 12), nn.Linear(12, 6)

            def forward(self, x: Any) -> Any:
                heads = self.up(x).view(1, 5, 3, 4).transpose(1, 2)
                return self.down((heads * 2).transpose(1, 2).reshape(1, 5, 12))

        found = agrees(Heads(), torch.randn(1, 5, 6))
        assert found.text.splitlines() == [
            "up(i,j,k) = x(i,l) * up_weight(j,k,l) + up_bias(j,k)",
            "mul(j,i,k) = 2.0 * up(i,j,k)",
            "down(i,l) = mul(j,i,k) * down_weight(l,j,k) + down_bias(l)",
        ]
        assert found.tensors["up_weight"].shape == (3, 4, 6)
        assert found.tensors["x"].shape == (5, 6)

    def test_what_cannot_be_regrouped(self) -> None:
        with pytest.raises(InputError, match=r"aten.view.default .*extent of 6 cannot be split into runs of 4"):
            import_module(Function(lambda _, x: (x * 2).view(6, 4) + 1), (torch.randn(4, 6),))


class TestModels:
    def test_mlp(self) -> None:
        found = agrees(nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 1)), torch.randn(5, 12))
        assert list(found.tensors) == ["input", "_0_weight", "_0_bias", "_3_weight", "_3_bias"]

    def test_gcn(self) -> None:
        class Gcn(nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.first, self.second = nn.Linear(7, 4), nn.Linear(4, 3)

            def forward(self, adjacency: Any, x: Any) -> Any:
                hidden = F.relu(self.first(adjacency @ x))
                return F.log_softmax(self.second(adjacency @ hidden), dim=1)

        found = agrees(Gcn(), pruned(9, 9).to_sparse(), torch.randn(9, 7))
        assert found.lines[0] == "matmul(i,j) = adjacency(i,k) * x(k,j)"
        assert found.tensors["adjacency"].density < 0.6

    def test_graphsage(self) -> None:
        class Sage(nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.own, self.neighbour = nn.Linear(5, 4), nn.Linear(5, 4)
                self.last = nn.Linear(9, 3)

            def forward(self, adjacency: Any, x: Any) -> Any:
                mean = (adjacency @ x) / (adjacency @ torch.ones(8, 1) + 1.0)
                hidden = F.relu(self.own(x) + self.neighbour(mean))
                return self.last(torch.cat([hidden, x], 1))

        agrees(Sage(), (torch.rand(8, 8) < 0.3).float().to_sparse(), torch.randn(8, 5))

    def test_sparse_autoencoder(self) -> None:
        encoder, decoder = nn.Linear(30, 10), nn.Linear(10, 30)
        with torch.no_grad():
            for layer in (encoder, decoder):
                layer.weight *= torch.rand_like(layer.weight) < 0.5
        found = agrees(nn.Sequential(encoder, nn.ReLU(), decoder), torch.randn(4, 30))
        assert found.tensors["_0_weight"].density < 0.7

    @pytest.mark.parametrize("norm_first", [True, False])
    def test_torchs_own_transformer_layer(self, norm_first: bool) -> None:
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first)
        agrees(layer, torch.randn(2, 4, 8))

    def test_decoder_block(self) -> None:
        class Block(nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.norm1, self.norm2 = nn.LayerNorm(12), nn.LayerNorm(12, eps=1e-6)
                self.qkv, self.out = nn.Linear(12, 36), nn.Linear(12, 12)
                self.grow, self.shrink = nn.Linear(12, 24), nn.Linear(24, 12)
                self.register_buffer("mask", torch.tril(torch.ones(6, 6)))

            def forward(self, x: Any) -> Any:
                batch, length, width = x.shape
                q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, 3, 4).permute(2, 0, 3, 1, 4)
                scores = q @ k.transpose(-1, -2) / 2.0
                weights = scores.masked_fill(self.mask == 0, float("-inf")).softmax(-1)
                x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
                return x + self.shrink(F.gelu(self.grow(self.norm2(x))))

        found = agrees(Block(), torch.randn(2, 6, 12))
        assert found.tensors["mask"].nnz == 21
        sources = {o.operation: o.source for o in found.origins}
        assert sources["aten.softmax.int"].endswith('scores.masked_fill(self.mask == 0, float("-inf")).softmax(-1)')
        assert "test_torch_import.py:" in sources["aten.softmax.int"]

    def test_batch_norm_and_global_pool(self) -> None:
        norm = nn.BatchNorm2d(3)
        norm.running_mean.copy_(torch.randn(3))
        norm.running_var.copy_(torch.rand(3) + 0.5)
        agrees(nn.Sequential(norm, nn.AdaptiveAvgPool2d(1), nn.Flatten()), torch.randn(2, 3, 4, 5))

    def test_pointwise_convolution(self) -> None:
        agrees(nn.Conv2d(4, 6, 1), torch.randn(2, 4, 5, 5))

    def test_training_mode_is_given_back(self) -> None:
        module = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
        module[1].eval()
        import_module(module, torch.randn(1, 2))
        assert (module.training, module[1].training) == (True, False)

    def test_arguments_by_name(self) -> None:
        class Named(nn.Module):  # type: ignore[misc]
            def forward(self, left: Any, right: Any) -> Any:
                return left - right

        found = import_module(Named(), {"right": torch.randn(3), "left": torch.zeros(3)})
        assert found.text == "sub(i) = left(i) - right(i)"
        assert found.tensors["left"].values.tolist() == [0, 0, 0]
