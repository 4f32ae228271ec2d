"""Random programs as a user might write them, nested as notation allows, with data."""

from __future__ import annotations

import numpy as np

from mapper.notation import parse_program
from mapper.tensor import SparseTensor
from mapper.workload import Workload

MAPS = (
    "relu", "tanh", "abs", "neg", "square", "gelu", "stored_exp", "sparse_relu", "exp", "sigmoid", "sqrt",
)  # fmt: skip
INDICES = "ijkl"


class RandomNotation:
    """Draws expressions over indices i to l and tensors A, B, ..., which may occur again."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self.extents = {index: int(rng.integers(5, 13)) for index in INDICES}
        self.tensors: dict[str, tuple[str, ...]] = {}

    def program(self) -> str:
        """One line; what the target lacks is summed."""
        text, indices = self._expression(int(self._rng.integers(1, 4)))
        kept = sorted(indices)
        if len(kept) > 1 and self._rng.random() < 0.6:
            kept = self._chosen(kept, int(self._rng.integers(1, len(kept))))
        return f"Z({','.join(kept)}) = {text}"

    def workload(self) -> Workload:
        """A program with tensors of few distinct values, some of them dense. Raises InputError for what is refused."""
        program = parse_program(self.program())
        return Workload(program, {name: self._data(indices) for name, indices in self.tensors.items()})

    def _data(self, indices: tuple[str, ...]) -> SparseTensor:
        shape, density = tuple(self.extents[i] for i in indices), self._rng.choice([0.1, 0.4, 1.0])
        return SparseTensor.from_dense(self._rng.choice([1, 2, -1, 0.5], shape) * (self._rng.random(shape) < density))

    def _chosen(self, names: list[str], count: int) -> list[str]:
        return [str(name) for name in self._rng.permutation(names)[:count]]

    def _tensor(self) -> tuple[str, set[str]]:
        if len(self.tensors) == len("ABCDEFGH") or (self.tensors and self._rng.random() < 0.25):
            name = self._chosen(list(self.tensors), 1)[0]
        else:
            name = "ABCDEFGH"[len(self.tensors)]
            self.tensors[name] = tuple(self._chosen(list(INDICES), int(self._rng.integers(1, 3))))
        return f"{name}({','.join(self.tensors[name])})", set(self.tensors[name])

    def _expression(self, depth: int) -> tuple[str, set[str]]:
        kind = self._rng.random()
        if depth == 0 or kind < 0.05:
            return self._tensor()
        if kind < 0.6:
            parts = [self._expression(depth - 1) for _ in range(int(self._rng.integers(2, 4)))]
            operator = " * " if kind < 0.35 else self._rng.choice([" + ", " - "])
            return f"({operator.join(text for text, _ in parts)})", set[str]().union(*(own for _, own in parts))
        text, indices = self._expression(depth - 1)
        if kind < 0.78:
            return f"{self._rng.choice(MAPS)}({text})", indices
        index = self._chosen(sorted(indices), 1)[0]
        if kind < 0.86:
            return f"{self._rng.choice(['softmax', 'layernorm'])}({index}, {text})", indices
        if kind < 0.94 and len(indices) > 1:
            return f"{self._rng.choice(['sum', 'max', 'mean'])}({index}, {text})", indices - {index}
        other, further = self._tensor()
        return f"({text} {self._rng.choice(['/', '.-', '.+'])} {other})", indices | further
