"""Modules for the tests of the import of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mapper.interpreter import evaluate
from mapper.torch_import import Imported, import_module

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install '.[torch]')")
nn = torch.nn


class Function(nn.Module):  # type: ignore[misc]
    """A module around a function of its inputs."""

    def __init__(self, function: Callable[..., Any], **tensors: Any) -> None:
        super().__init__()
        self._function = function
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)

    def forward(self, *inputs: Any) -> Any:
        return self._function(self, *inputs)


def agrees(module: Any, *inputs: Any) -> Imported:
    """Imports, evaluates and compares with torch in float64, within 1e-5 of the largest entry."""
    found = import_module(module, inputs)
    assert set(found.program.inputs) == set(found.tensors)
    assert len(found.lines) == len(found.origins)
    computed = evaluate(found.program, found.tensors)
    assert {r.tensor for r in found.results} == set(found.program.outputs)
    module.eval()
    with torch.no_grad():
        expected = module(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for result, tensor in zip(found.results, expected, strict=True):
        want = tensor.detach().to_dense().double().numpy()
        got = result.array(computed[result.tensor])
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * max(np.abs(want).max(), 1e-3))
    return found


def pruned(*shape: int, density: float = 0.3) -> Any:
    return torch.randn(*shape) * (torch.rand(*shape) < density)
