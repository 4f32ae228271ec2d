"""Random programs of three statements with their values in plain numpy: sums, products, maps, reductions, pairs, read
in any order of modes, several outputs, tensors read more than once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mapper.notation import parse_program
from mapper.tensor import SparseTensor
from mapper.workload import Workload

EXTENT = 5
STATEMENTS = 3

MAPS = {"relu": lambda x: np.maximum(x, 0.0), "neg": np.negative, "square": np.square, "tanh": np.tanh}
DENSE_MAPS = {"sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)), "exp": np.exp}


@dataclass(frozen=True, slots=True)
class Dense:
    """Values, zero where nothing is stored, and where something is."""

    values: np.ndarray
    stored: np.ndarray

    @property
    def modes(self) -> int:
        return self.values.ndim


def random_dag(seed: int) -> tuple[Workload, dict[str, np.ndarray]]:
    """A program over sparse and full inputs, and its outputs."""
    rng = np.random.default_rng([7, seed])
    return _Writer(rng).written()


class _Writer:
    """Writes statement after statement, mostly over what it wrote last."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.known: dict[str, Dense] = {}
        self.inputs: dict[str, SparseTensor] = {}
        for name, modes, density in (("A", 2, 0.4), ("B", 2, 0.6), ("C", 2, 1.0), ("u", 1, 1.0), ("v", 1, 0.6)):
            stored = rng.random((EXTENT,) * modes) < density
            values = np.where(stored, rng.integers(-8, 9, stored.shape) / 8, 0.0)
            self.known[name] = Dense(values, stored)
            coords = np.array(np.nonzero(stored), np.int64)
            self.inputs[name] = SparseTensor.from_coo(stored.shape, coords, values[stored])
        self.made: list[str] = []

    def written(self) -> tuple[Workload, dict[str, np.ndarray]]:
        lines = []
        for name in ("R", "S", "T")[:STATEMENTS]:
            kind = self.rng.choice(["product", "sum", "map", "reduce", "pair"])
            indices, text, result = getattr(self, f"_{kind}")()
            lines.append(f"{name}({','.join(indices)}) = {text}")
            self.known[name] = result
            self.made.append(name)
        program = parse_program("\n".join(lines))
        workload = Workload(program, {name: self.inputs[name] for name in program.inputs})
        return workload, {name: self.known[name].values for name in program.outputs}

    def _pick(self, modes: int | None = None) -> str:
        """A tensor, one made before in two cases of three."""
        made = [n for n in self.made if modes in (None, self.known[n].modes)]
        names = made if made and self.rng.random() < 2 / 3 else self.inputs
        return str(self.rng.choice([n for n in names if modes in (None, self.known[n].modes)]))

    def _access(self, name: str, letters: str) -> tuple[str, Dense]:
        """The tensor read with these indices, whose modes are then in the order of the alphabet."""
        order = list(self.rng.permutation(list(letters)))
        tensor = self.known[name]
        axes = [order.index(i) for i in sorted(letters)]
        return f"{name}({','.join(order)})", Dense(tensor.values.transpose(axes), tensor.stored.transpose(axes))

    def _product(self) -> tuple[str, str, Dense]:
        first, second = self._pick(2), self._pick()
        letters = {1: ("i", "j"), 2: ("ij", "jk")}[self.known[second].modes]
        right = str(self.rng.choice(letters))
        left_text, left = self._access(first, "ij")
        right_text, other = self._access(second, right)
        everywhere = sorted({*"ij", *right})
        indices = "".join(self.rng.choice(everywhere, int(self.rng.integers(1, 3)), replace=False))
        spec = f"ij,{''.join(sorted(right))}->{indices}"
        values = other.values
        if self.rng.random() < 0.25:
            right_text, values = f"pattern({right_text})", other.stored.astype(float)
        stored = np.einsum(spec, left.stored.astype(int), other.stored.astype(int)) > 0
        return indices, f"{left_text} * {right_text}", Dense(np.einsum(spec, left.values, values), stored)

    def _sum(self) -> tuple[str, str, Dense]:
        first, second = self._pick(2), self._pick()
        letters = "ij" if self.known[second].modes == 2 else str(self.rng.choice(["i", "j"]))
        sign = str(self.rng.choice(["+", "-"]))
        left_text, left = self._access(first, "ij")
        right_text, right = self._access(second, letters)
        values, stored = self._spread(right, letters)
        total = left.values + (values if sign == "+" else -values)
        return "ij", f"{left_text} {sign} {right_text}", Dense(total, left.stored | stored)

    def _pair(self) -> tuple[str, str, Dense]:
        first, second = self._pick(2), self._pick()
        letters = "ij" if self.known[second].modes == 2 else str(self.rng.choice(["i", "j"]))
        left_text, left = self._access(first, "ij")
        right_text, right = self._access(second, letters)
        values, other = self._spread(right, letters)
        stored = left.stored & other
        if np.abs(values[stored]).min(initial=1.0) > 1e-3:
            quotient = np.divide(left.values, values, out=np.zeros_like(values), where=stored)
            return "ij", f"{left_text} / {right_text}", Dense(quotient, stored)
        return "ij", f"{left_text} .- {right_text}", Dense(np.where(stored, left.values - values, 0.0), stored)

    def _map(self) -> tuple[str, str, Dense]:
        name = self._pick()
        letters = "ij"[: self.known[name].modes]
        text, read = self._access(name, letters)
        function = str(self.rng.choice([*MAPS, *DENSE_MAPS]))
        if function in DENSE_MAPS:
            return letters, f"{function}({text})", Dense(DENSE_MAPS[function](read.values), np.ones_like(read.stored))
        return letters, f"{function}({text})", Dense(MAPS[function](read.values), read.stored)

    def _reduce(self) -> tuple[str, str, Dense]:
        text, read = self._access(self._pick(2), "ij")
        if self.rng.random() < 0.5:
            return "i", f"sum(j, {text})", Dense(read.values.sum(axis=1), read.stored.any(axis=1))
        stored = read.stored.any(axis=1)
        largest = np.max(read.values, axis=1, initial=-np.inf, where=read.stored)
        return "i", f"max(j, {text})", Dense(np.where(stored, largest, 0.0), stored)

    def _spread(self, tensor: Dense, letters: str) -> tuple[np.ndarray, np.ndarray]:
        """Over i and j."""
        at = tuple(slice(None) if i in letters else None for i in "ij")
        shape = (EXTENT, EXTENT)
        return np.broadcast_to(tensor.values[at], shape), np.broadcast_to(tensor.stored[at], shape)
