"""Convolutions of PyTorch as products of windows."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
from torch_modules import agrees, torch

from mapper.errors import InputError
from mapper.torch_import import Imported, import_module

nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore:Sparse")  # torch on its own sparse layouts


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def _literally(found: Imported) -> Any:
    """A line ``Z(...) = X(...) * W(...) [+ b(...)]`` summed over every index; outside its shape a tensor is zero."""
    left, _, right = found.text.partition(" = ")
    read = {name: indices.split(",") for name, indices in re.findall(r"(\w+)\(([^()]*)\)", right)}
    out = re.findall(r"\w+", left)[1:]
    extents = dict(zip(out, found.results[0].leaves, strict=True))
    for name, indices in read.items():
        extents |= {i: n for i, n in zip(indices, found.tensors[name].shape, strict=True) if i.isidentifier()}
    dense = {name: found.tensors[name].to_dense() for name in read}
    total = np.zeros([extents[i] for i in out])
    for point in itertools.product(*map(range, extents.values())):
        at = dict(zip(extents, point, strict=True))
        place = tuple(at[i] for i in out)
        factors = []
        for name, indices in read.items():
            where = tuple(eval(i, {}, at) for i in indices)
            inside = all(0 <= w < n for w, n in zip(where, dense[name].shape, strict=True))
            factors.append(dense[name][where] if inside else 0.0)
        total[place] += factors[0] * factors[1]
        if len(factors) == 3 and all(at[i] == 0 for i in extents if i not in out):
            total[place] += factors[2]
    return total


class TestConvolution:
    def test_windows(self) -> None:
        found = import_module(nn.Conv2d(3, 4, 3, stride=2, padding=1), torch.randn(2, 3, 8, 8))
        assert found.text == "conv2d(i,j,k,l) = input(i,m,2*k+n-1,2*l+p-1) * weight(j,m,n,p) + bias(j)"

    def test_groups_and_dilation(self) -> None:
        found = import_module(nn.Conv1d(4, 6, 3, groups=2, dilation=2, bias=False), torch.randn(4, 9))
        assert found.text == "conv1d(i,j,k) = input(i,l,k+2*m) * weight(i,j,l,m)"
        assert found.tensors["weight"].shape == (2, 3, 2, 3)

    @pytest.mark.parametrize(
        ("module", "shape"),
        [
            (nn.Conv1d(2, 3, 3, padding=1, stride=2), (2, 2, 7)),
            (nn.Conv1d(4, 6, 3, groups=2, dilation=2, padding="same"), (4, 6)),
            (nn.Conv1d(3, 3, 2, groups=3, bias=False), (2, 3, 5)),
            (nn.Conv2d(2, 3, (3, 1), padding=(1, 0), stride=(2, 3)), (1, 2, 5, 4)),
            (nn.Conv2d(2, 2, (2, 3), bias=False), (2, 4, 3)),
            (nn.Conv2d(2, 2, 1, stride=(2, 5)), (2, 2, 5, 5)),
            (nn.Conv1d(2, 2, 2, stride=4, padding=3), (2, 2, 6)),
        ],
    )
    def test_the_text_means_the_convolution(self, module: Any, shape: tuple[int, ...]) -> None:
        x = torch.randn(*shape)
        found = agrees(module, x)
        want = module(x).detach().numpy()
        np.testing.assert_allclose(_literally(found).reshape(want.shape), want, rtol=1e-5, atol=1e-5)

    def test_residual_block(self) -> None:
        class Residual(nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.conv1, self.conv2 = (nn.Conv2d(3, 3, 3, padding=1, bias=False) for _ in range(2))
                self.norm1, self.norm2 = nn.BatchNorm2d(3), nn.BatchNorm2d(3)
                self.relu = nn.ReLU(inplace=True)
                with torch.no_grad():
                    self.conv1.weight *= torch.rand(3, 3, 3, 3) < 0.3

            def forward(self, x: Any) -> Any:
                out = self.norm2(self.conv2(self.relu(self.norm1(self.conv1(x)))))
                out += x
                return self.relu(out)

        found = import_module(Residual(), torch.randn(2, 3, 5, 4))
        assert [line.partition("(")[0] for line in found.lines] == [
            "conv1", "norm1", "relu_0", "conv2", "norm2", "add_", "relu_1"
        ]  # fmt: skip
        assert found.tensors["conv1_weight"].density < 0.6
        agrees(Residual(), torch.randn(2, 3, 5, 4))

    def test_padding_on_both_sides_alike(self) -> None:
        agrees(nn.Conv1d(2, 3, 4, padding="same", dilation=2), torch.randn(1, 2, 9))
        for module in (nn.Conv2d(2, 3, 4, padding="same"), nn.Conv2d(2, 3, (3, 2), padding="same")):
            with pytest.raises(InputError, match=r"one more zero behind than in front; pad .* or use an odd kernel"):
                import_module(module, torch.randn(1, 2, 5, 5))

    def test_a_convolved_dimension_cannot_be_split(self) -> None:
        class Patches(nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.conv = nn.Conv1d(2, 2, 3, padding=1)

            def forward(self, x: Any) -> Any:
                return self.conv(x).view(2, 4, 2)

        with pytest.raises(InputError, match="cannot be split into runs of 2: a convolution walks it"):
            import_module(Patches(), torch.randn(2, 8))
