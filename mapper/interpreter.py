"""The functional oracle: evaluates programs on sparse tensors with numpy and scipy, one statement after the other.

Which entries a result stores is decided by structure alone, as in a sparse dataflow machine: a contraction stores
what at least one product of stored entries reaches (stored zeros count, cancellation keeps the entry), an addition
the union of its operands, a map the pattern of its operand or, where f(0) != 0, every position; ``sparse_relu``
alone looks at values. A scalar always stores its one value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse
import scipy.special

from mapper.entries import Entries, paired, product, reduced
from mapper.errors import InputError
from mapper.extents import bind_extents
from mapper.program import ZERO_PRESERVING, Access, Program, Statement
from mapper.tensor import Coords, SparseTensor, Values

MAX_ENTRIES = 2**28
"""Most entries that broadcasting or a map with f(0) != 0 may fill in."""

_MAPS: dict[str, Callable[[Values], Any]] = {
    "relu": lambda x: np.maximum(x, 0.0),
    "sparse_relu": lambda x: np.maximum(x, 0.0),
    "stored_exp": np.exp,
    "tanh": np.tanh,
    "abs": np.abs,
    "neg": np.negative,
    "sqrt": np.sqrt,
    "square": np.square,
    "gelu": lambda x: 0.5 * x * (1.0 + scipy.special.erf(x / math.sqrt(2.0))),
    "exp": np.exp,
    "log": np.log,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sigmoid": scipy.special.expit,
}

_COMBINE: dict[str, Callable[[Values, Values], Any]] = {"add": np.add, "sub": np.subtract, "div": np.divide}


Results = dict[tuple[Any, ...], tuple[int, SparseTensor]]
"""Results by what they are computed from, numbered: another program over the same inputs finds them here."""


def evaluate(
    program: Program, tensors: Mapping[str, SparseTensor], results: Results | None = None
) -> dict[str, SparseTensor]:
    """Every computed tensor by name; what ``results`` has is taken from there, the rest added to it. Raises InputError
    for missing tensors and extents that do not fit."""
    bound = bind_extents(program, {name: tensor.shape for name, tensor in tensors.items()})
    known, results = dict(tensors), {} if results is None else results
    origin: dict[str, int | str] = {name: name for name in tensors}
    for statement, extents in zip(program.statements, bound, strict=True):
        target, operands = replace(statement.target, tensor=""), statement.operands
        anonymous = replace(statement, target=target, operands=tuple(replace(o, tensor="") for o in operands))
        definition = (anonymous, tuple(sorted(extents.items())), *(origin[o.tensor] for o in operands))
        if definition not in results:
            results[definition] = len(results), result_of(statement, known, extents)
        origin[statement.target.tensor], known[statement.target.tensor] = results[definition]
    return {name: known[name] for name in program.producers}


def result_of(statement: Statement, tensors: Mapping[str, SparseTensor], extents: Mapping[str, int]) -> SparseTensor:
    """What one statement makes of its operands in ``tensors``; ``extents`` as ``bind_extents`` gives them."""
    return _STATEMENTS[statement.kind](statement, tensors, extents)


def effectual_multiplies(statement: Statement, tensors: Mapping[str, SparseTensor]) -> int:
    """Multiplications of a product whose operands are all stored and non-zero; 0 for other statements.

    ``tensors`` holds every operand; a pattern only selects. n operands with values take n - 1 multiplications for each
    full index tuple at which all of them are non-zero, as if nothing were reduced in between.
    """
    valued = sum(not o.pattern for o in statement.operands)
    if (statement.kind, statement.combine) != ("contract", "mul") or valued < 2:
        return 0
    ones = []
    for operand in statement.operands:
        tensor = tensors[operand.tensor]
        stored = (tensor.values != 0) | operand.pattern
        ones.append(Entries(operand.indices, tensor.coords[:, stored], np.ones(int(stored.sum()))))
    tuples = float(product(ones, ()).values.sum())
    if tuples >= 2**53:
        raise InputError(f"{statement} has about {tuples:.3g} products, more than can be counted exactly")
    return int(tuples) * (valued - 1)


def _read(operand: Access, known: Mapping[str, SparseTensor]) -> Entries:
    tensor = known[operand.tensor]
    return Entries(operand.indices, tensor.coords, np.ones(tensor.nnz) if operand.pattern else tensor.values)


def _contract(statement: Statement, known: Mapping[str, SparseTensor], extents: Mapping[str, int]) -> SparseTensor:
    operands = [_read(o, known) for o in statement.operands]
    target = statement.target.indices
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        if statement.combine == "mul" and statement.reduction != "max":
            entries = product(operands, target)
        else:
            entries = operands[0] if len(operands) == 1 else paired(_COMBINE[statement.combine], *operands)
            entries = reduced(entries, set(target), np.maximum if statement.reduction == "max" else np.add)
        if statement.reduction == "mean":
            share = 1.0 / math.prod(extents[i] for i in statement.reduced)
            entries = Entries(entries.indices, entries.coords, entries.values * share)
        return _tensor(statement, entries, extents)


def _add(statement: Statement, known: Mapping[str, SparseTensor], extents: Mapping[str, int]) -> SparseTensor:
    indices = statement.target.indices
    parts = []
    for sign, operand in zip(statement.signs, statement.operands, strict=True):
        stored = _read(operand, known)
        missing = [i for i in indices if i not in operand.indices]
        grid = [extents[i] for i in missing]
        copies = math.prod(grid)
        _check_size(statement, stored.values.size * copies)
        every = np.tile(np.indices(grid, dtype=np.int64).reshape(len(grid), copies), stored.values.size)
        coords = np.concatenate([np.repeat(stored.coords, copies, axis=1), every])
        entries = Entries((*operand.indices, *missing), coords, np.repeat(sign * stored.values, copies))
        parts.append(Entries(indices, entries.columns(indices), entries.values))
    coords = np.concatenate([p.coords for p in parts], axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        return _tensor(statement, Entries(indices, coords, np.concatenate([p.values for p in parts])), extents)


def _map(statement: Statement, known: Mapping[str, SparseTensor], extents: Mapping[str, int]) -> SparseTensor:
    entries, indices = _read(statement.operands[0], known), statement.target.indices
    if statement.function not in ZERO_PRESERVING:
        shape = tuple(extents[i] for i in indices)
        _check_size(statement, math.prod(shape))
        dense = SparseTensor(shape, entries.columns(indices), entries.values).to_dense()
        every = np.indices(shape, dtype=np.int64).reshape(len(shape), dense.size)
        entries = Entries(indices, every, dense.reshape(-1))
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        values = _mapped(statement, entries.values)
    if statement.function == "sparse_relu":
        kept = ~(values <= 0)  # what is not a number is no reason to hide it
        entries, values = Entries(entries.indices, entries.coords[:, kept], entries.values[kept]), values[kept]
    return _tensor(statement, Entries(entries.indices, entries.coords, values), extents)


def _mapped(statement: Statement, values: Values) -> Any:
    match statement.function:
        case "scale":
            return values * statement.factor
        case "shift":
            return values + statement.factor
        case _:
            return _MAPS[statement.function](values)


def _view(statement: Statement, known: Mapping[str, SparseTensor], extents: Mapping[str, int]) -> SparseTensor:
    """Every stored entry at each combination of indices whose coordinates meet it."""
    tensor = known[statement.operands[0].tensor]
    entry = np.arange(tensor.nnz)
    found: dict[str, Coords] = {}
    for window, column in zip(statement.windows, tensor.coords, strict=True):
        # the index with most positions follows from the coordinate and the others, which are all tried
        *others, last = sorted(window.terms, key=lambda term: extents[term[0]]) or [("", 1)]
        grid = [extents[index] for index, _ in others]
        copies = math.prod(grid)
        _check_size(statement, entry.size * copies)
        tried = np.indices(grid, dtype=np.int64).reshape(len(grid), copies)
        steps = np.array([coefficient for _, coefficient in others], np.int64) @ tried
        rest = np.subtract.outer(column[entry] - window.offset, steps).reshape(-1)
        position = rest // last[1]
        met = np.flatnonzero((rest >= 0) & (position * last[1] == rest) & (position < extents.get(last[0], 1)))
        found = {index: at[met // copies] for index, at in found.items()}
        found |= {index: at[met % copies] for (index, _), at in zip(others, tried, strict=True)}
        found[last[0]] = position[met]
        entry = entry[met // copies]
    indices = statement.target.indices
    shape = tuple(extents[i] for i in indices)
    coords = np.array([found[i] for i in indices], np.int64).reshape(len(indices), entry.size)
    return SparseTensor.from_coo(shape, coords, tensor.values[entry])


_STATEMENTS = {"contract": _contract, "add": _add, "map": _map, "view": _view}


def _tensor(statement: Statement, entries: Entries, extents: Mapping[str, int]) -> SparseTensor:
    """The result of ``statement``; entries at one position are summed."""
    indices = statement.target.indices
    summed = SparseTensor.from_coo(tuple(extents[i] for i in indices), entries.columns(indices), entries.values)
    return SparseTensor(summed.shape, summed.coords, summed.values)


def _check_size(statement: Statement, entries: int) -> None:
    if entries > MAX_ENTRIES:
        raise InputError(f"{statement} would store {entries} entries, at most {MAX_ENTRIES} can be evaluated")
