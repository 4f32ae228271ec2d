"""The kinds of contexts, and the parameters and arrays that each takes."""

from __future__ import annotations

import _hwsim_core as core

from mapper.errors import GraphError, nearest
from mapper.graph import CONTEXT_KINDS, Context

PARAMETERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "scan": (
        (),
        (
            "lo", "hi", "phase", "step", "storage", "size", "word_bits", "n", "m",
            "tensor", "pos_address", "pos_bits", "crd_address", "crd_bits",
        ),
    ),
    "array": (
        (),
        ("tensor", "address", "value_bits", "banks", "value_bytes", "bank_bytes_per_cycle"),
    ),
    "intersect": ((), ("strategy",)),
    "alu": (("op",), ()),
    "map": (("op",), ("factor",)),
    "reduce": (("op", "empty"), ()),
    "accumulate": (
        ("depth", "levels", "sizes"),
        ("drain_cycles_per_entry", "capacity_entries", "entry_value_bytes", "entry_metadata_bytes", "tensor", "op"),
    ),
    "stream_scan": ((), ("aligned",)),
    "tile_load": (("tensor", "residency"), ("capacity_bytes", "streaming_bytes", "fill_bytes_per_cycle")),
    "store": (
        (
            "tensor", "tile_levels", "kinds", "dims", "tiles", "tile_level_of",
            "value_bytes", "coordinate_bytes", "pointer_bytes", "descriptor_bytes",
        ),
        (),
    ),
    "convert": (
        ("tensor", "read_value_bytes", "read_metadata_bytes", "write_value_bytes", "write_metadata_bytes"),
        ("result",),
    ),
    "source": (("tokens",), ("times",)),
    "sink": ((), ("times", "dtype")),
    "scatter": (("by",), ()),
    "gather": (("by",), ()),
    "block_alu": (("op", "rows", "cols", "operations_per_cycle"), ("inner", "latency_cycles")),
    "block_mac": (("rows", "cols", "operations_per_cycle"), ("inner", "ring")),
    "python": (("generator",), ()),
}  # fmt: skip
PARAMETERS["block_store"] = ((*PARAMETERS["store"][0], "rows", "cols"), ())
PARAMETERS["block_accumulate"] = (
    (*PARAMETERS["accumulate"][0], "rows", "cols", "operations_per_cycle"),
    (*(name for name in PARAMETERS["accumulate"][1] if name != "op"), "inner"),
)
"""Required and optional parameters of each kind; kinds not named take none."""

ARRAYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "scan": (("pos",), ("crd", "mask", "length")),
    "intersect": ((), tuple(f"{array}_{side}" for side in range(2, 9) for array in ("pos", "crd"))),
    "locate": (("pos",), ()),
    "block_alu": (("a", "b", "out"), ()),
    "block_mac": (("a", "b", "out"), ()),
    "block_accumulate": (("a", "out"), ("b",)),
    "block_store": (("tiles",), ()),
    "array": (("values",), ()),
    "tile_load": (("value_bytes", "metadata_bytes", "address"), ()),
}
"""Required and optional arrays of each kind: int64 (``values`` and those of ``block_alu``: float64), one-dimensional,
C-contiguous."""

CHOICES: dict[tuple[str, str], tuple[str, ...]] = {
    ("scan", "storage"): ("bitmask", "run_length", "n_of_m", "repeated"),
    ("intersect", "strategy"): ("two_finger", "galloping", "leader_follower"),
    ("scatter", "by"): ("element", "fiber"),
    ("gather", "by"): ("element", "fiber"),
    ("block_alu", "op"): ("matmul", "mul", "add", "sub"),
    ("alu", "op"): ("mul", "add", "sub", "div", "max", "min"),
    ("map", "op"): (
        "relu", "exp", "tanh", "sigmoid", "gelu", "abs", "neg", "sqrt", "rsqrt", "square", "log", "scale",
        "shift", "one", "sparse_relu",
    ),
    ("reduce", "op"): ("sum", "max"),
    ("accumulate", "op"): ("sum", "max"),
    ("reduce", "empty"): ("zero", "empty"),
    ("tile_load", "residency"): ("none", "lru", "keep", "overbooked"),
    ("sink", "dtype"): ("int", "float"),
}  # fmt: skip
"""Parameters that are one of a few names."""

_NONE: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

KINDS = dict(CONTEXT_KINDS)
"""Ports of every kind: those that lowering knows, and those that a file of the core declares by itself."""


def _named(names: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Required and optional names of a declaration: ``"least scale?"``."""
    words = names.split()
    return tuple(w for w in words if w[-1] != "?"), tuple(w[:-1] for w in words if w[-1] == "?")


def _declare(kind: str, ports: str, parameters: str, arrays: str) -> None:
    inputs, _, outputs = ports.partition("->")
    KINDS[kind] = tuple(inputs.split()), tuple(outputs.split())
    PARAMETERS[kind], ARRAYS[kind] = _named(parameters), _named(arrays)


for _declaration in core.kinds():
    _declare(*_declaration)


def check_parameters(context: Context, accounts: int) -> None:
    """Raises ``GraphError`` for an unknown kind, name or choice, for what is missing, and for a ``tensor`` or
    ``result`` that is not one of the graph's traffic accounts (their number is ``accounts``)."""
    where = f"context {context.name!r} ({context.kind})"
    if context.kind not in KINDS:
        raise GraphError(f"{where}: unknown kind {context.kind!r}.{nearest(context.kind, KINDS)}")
    for what, given, (required, optional) in (
        ("parameter", context.params, PARAMETERS.get(context.kind, _NONE)),
        ("array", context.arrays, ARRAYS.get(context.kind, _NONE)),
    ):
        for name in given:
            if name not in required and name not in optional:
                raise GraphError(f"{where}: unknown {what} {name!r}.{nearest(name, required + optional)}")
        for name in required:
            if name not in given:
                raise GraphError(f"{where}: {what} {name!r} is missing; it needs {', '.join(required)}.")
    for name, value in context.params.items():
        choices = CHOICES.get((context.kind, name))
        if choices and value not in choices:
            raise GraphError(f"{where}: unknown {name} {value!r}.{nearest(str(value), choices)}")
    for name in ("tensor", "result"):
        account = context.params.get(name, 0)
        if account not in range(max(accounts, 1)) or (name in context.params and not accounts):
            raise GraphError(
                f"{where}: {name!r} must be the number of a traffic account below {accounts}, got {account!r}."
            )
