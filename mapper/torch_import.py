"""PyTorch modules as programs: ``torch.export`` gives ATen operations, ``aten_table`` says each in index notation.

The graph is taken without decompositions, in evaluation mode, with the shapes of the given inputs. Parameters, buffers
and inputs become tensors of the program; sparse ones stay sparse, and dense ones with many exact zeros become so.
Operations on parameters and buffers alone, and on masks, are carried out while importing.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mapper.aten_arithmetic import ARITHMETIC
from mapper.aten_decompositions import OWN, decomposed
from mapper.aten_node import check_random, check_types, draws, is_users, is_view, operation, source_line
from mapper.aten_site import Constant, Site
from mapper.aten_table import REFUSED, TABLE
from mapper.aten_views import PARTS, VIEWS
from mapper.errors import InputError, nearest
from mapper.notation import parse_program
from mapper.program import Program
from mapper.program_writer import ProgramWriter
from mapper.tensor import SparseTensor, Values
from mapper.tensor_view import Value

_COMPARISONS = frozenset(
    {"eq", "ne", "lt", "le", "gt", "ge", "logical_not", "logical_and", "logical_or", "logical_xor"}
    | {"bitwise_not", "bitwise_and", "bitwise_or", "isinf"}
)
_CREATIONS = frozenset(
    {"zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty"}
)
_CASTS = frozenset({"to", "_to_copy", "clone"})
_IGNORED = frozenset({"_assert_tensor_metadata", "_assert_async.msg", "sym_constrain_range_for_size"})
_SILENT = frozenset(
    {"dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking", "copy", "generator", "path"}
)

MOST_ROUNDS = 32
"""How often what is unknown is taken apart, which leaves what is unknown again."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a line of the program comes from: the ATen operation and the user's ``file:line: code``."""

    operation: str
    source: str


@dataclass(frozen=True, slots=True)
class Result:
    """How a computed tensor holds an output of the module: mode of each leaf of the output, None where it repeats."""

    tensor: str
    shape: tuple[int, ...]
    leaves: tuple[int, ...]
    modes: tuple[int | None, ...]

    def array(self, tensor: SparseTensor) -> Values:
        """The output as torch shapes it; ``tensor`` is the evaluated one."""
        dense = tensor.to_dense().transpose([m for m in self.modes if m is not None])
        grown = dense.reshape([1 if m is None else n for m, n in zip(self.modes, self.leaves, strict=True)])
        return np.broadcast_to(grown, self.leaves).reshape(self.shape)


@dataclass(frozen=True)
class Imported:
    """A module as index notation. ``lines`` and ``origins`` go together, ``tensors`` holds data of every input."""

    lines: tuple[str, ...]
    tensors: dict[str, SparseTensor]
    origins: tuple[Origin, ...]
    results: tuple[Result, ...]

    @property
    def text(self) -> str:
        """The program in index notation."""
        return "\n".join(self.lines)

    @property
    def program(self) -> Program:
        """The parsed text."""
        return parse_program(self.text)


def import_module(module: Any, inputs: Any) -> Imported:
    """The program that ``module`` (a ``torch.nn.Module``) computes on ``inputs`` and tensors shaped like them.

    ``inputs``: a tensor, a tuple of positional or a dict of named arguments of ``forward``. Raises InputError, with
    the line of the user's code, for operations that have no meaning in index notation.
    """
    torch = require_torch()
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"a torch.nn.Module is needed, got {type(module).__name__}")
    positional = () if isinstance(inputs, dict) else tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    named = inputs if isinstance(inputs, dict) else {}
    exported = _exported(torch, module, positional, named)
    given = torch.utils._pytree.tree_leaves((positional, named))
    simple = {path for path, part in module.named_modules() if path and not any(part.children())}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # torch calls its sparse layouts beta
        rounds = 0
        while True:
            importer = _Importer(torch, exported, given, simple)
            try:
                return importer.run()
            except InputError as refusal:
                rounds += 1
                if importer.unknown is None or rounds > MOST_ROUNDS:
                    raise
                exported = decomposed(exported, importer.unknown, refusal)


def require_torch() -> Any:
    """The torch package. Raises InputError with the remedy if it is not installed."""
    try:
        import torch
    except ImportError as error:
        raise InputError(f'a PyTorch model needs PyTorch: pip install "sparseloom[torch]" ({error})') from error
    return torch


def _exported(torch: Any, module: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
    training = [(m, m.training) for m in module.modules()]
    module.eval()
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            return torch.export.export(module, positional, named)
    except Exception as error:  # whatever the user's code or torch raises is the user's to see, without our frames
        where = _last_frame(error)
        reason = str(error).strip().split("\n")[0]
        name = type(module).__name__
        message = f"{where}torch.export cannot capture {name}: {type(error).__name__}: {reason}"
        raise InputError(f"{message}; forward must run on the inputs given and not branch on values") from error
    finally:
        for part, mode in training:
            part.training = mode


def _last_frame(error: BaseException) -> str:
    """``file:line: `` of the innermost frame outside libraries, or nothing."""
    trace, found = error.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if is_users(file):
            found = f"{file}:{trace.tb_lineno}: "
        trace = trace.tb_next
    return found


class _Importer:
    """Walks one exported graph."""

    def __init__(self, torch: Any, exported: Any, given: Sequence[Any], simple: set[str]) -> None:
        self._torch = torch
        self._exported = exported
        self._writer = ProgramWriter()
        self._known: dict[Constant, Value] = {}
        self._values: dict[Any, Any] = {}
        self._origins: dict[str, Origin] = {}
        self._given = iter(given)
        self._simple = simple
        self.unknown: Any = None  # the operation being read, if the table has it not

    def run(self) -> Imported:
        specs = iter(self._exported.graph_signature.input_specs)
        results: list[Value] = []
        for node in self._exported.graph.nodes:
            if node.op == "placeholder":
                self._values[node] = self._placeholder(next(specs))
            elif node.op == "get_attr":
                data = getattr(self._exported.graph_module, node.target)
                self._values[node] = Constant(node.target, data, "created")
            elif node.op == "call_function":
                self._values[node] = self._call(node)
            elif node.op == "output":
                results = self._results(node)
        self._writer.keep([value.tensor for value in results])
        lines = self._writer.text()
        if not lines:
            raise InputError("the module computes nothing: its outputs are its inputs")
        found = [
            Result(v.tensor, v.shape, tuple(a.extent for a in self._writer.leaves(v)), self._writer.layout(v))
            for v in results
        ]
        origins = tuple(self._origins[name] for name in lines)
        return Imported(tuple(lines.values()), self._writer.tensors(), origins, tuple(found))

    def _placeholder(self, spec: Any) -> Any:
        if spec.kind.name == "USER_INPUT":
            data, name = next(self._given), spec.arg.name
            return Constant(name, data, "input") if isinstance(data, self._torch.Tensor) else data
        if spec.target in self._exported.state_dict:
            return Constant(spec.target, self._exported.state_dict[spec.target], "parameter")
        if spec.target in self._exported.constants:
            return Constant(spec.target, self._exported.constants[spec.target], "parameter")
        raise InputError(
            f"an input of the exported module must be a tensor, a parameter or a buffer, got {spec.arg} of kind "
            f"{spec.kind.name}: pass it as a plain argument or make it a buffer"
        )

    def _call(self, node: Any) -> Any:
        args, kwargs = (
            self._torch.fx.node.map_arg(given, self._values.__getitem__) for given in (node.args, node.kwargs)
        )
        if getattr(node.target, "__name__", "") == "getitem":
            return args[0][args[1]]
        name = operation(node)
        if name in _IGNORED:
            return None
        self.unknown = None if name in TABLE or name in REFUSED.keys() - OWN.keys() else node.target
        origin = Origin(str(node.target), source_line(node.meta.get("stack_trace") or ""))
        try:
            check_random(node)
            result = self._folded(node, name, args, kwargs) or self._written(node, name, args, kwargs, origin)
            if name.split(".")[0].endswith("_"):
                self._change(node.args[0], result)
        except InputError as error:
            raise InputError(f"{origin.source}\n  {node.target} ({node.name}): {error}") from error
        self.unknown = None
        return result

    def _written(self, node: Any, name: str, args: Any, kwargs: Any, origin: Origin) -> Any:
        rule = TABLE.get(name)
        if rule is None:
            advice = REFUSED.get(name, "")
            text = f"this operation is not supported{': ' + advice if advice else ''}"
            raise InputError(f"{text}.{nearest(name, TABLE)}")
        meta = node.meta.get("val")
        shape = tuple(getattr(meta, "shape", ()))
        if any(not isinstance(extent, int) for extent in shape):
            raise InputError(f"the result has shape {list(shape)}, which depends on values; shapes must be fixed")
        check_types(node)
        before = self._writer.made()
        site = Site(self._writer, self._named(node), shape, self._known)
        try:
            result = rule(site, *args, **{k: v for k, v in kwargs.items() if k not in _SILENT})
        except TypeError as error:
            raise InputError(f"called in a way that is not supported: {error}") from error
        self._origins |= dict.fromkeys(self._writer.made()[len(before) :], origin)
        return result

    def _change(self, node: Any, result: Any) -> None:
        """Lets the operand of an operation in place stand for its result, in later uses too."""
        known = self._values[node]
        created = isinstance(known, Constant) and known.kind == "created"
        if created and not isinstance(result, Value):
            return  # changed itself, with all its views
        if (isinstance(known, Constant) and not created) or any(is_view(n) for n in (node, *node.users)):
            raise InputError("an operation in place on a tensor that others share; write x = x + y for x += y")
        self._values[node] = result

    def _named(self, node: Any) -> str:
        """The path of the innermost module if that has no parts, as ``fc1``; else what torch calls the operation."""
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        path = str(stack[-1][0]).removeprefix("L['self'].") if stack else ""
        return path if path in self._simple else str(node.name).replace("scaled_dot_product_attention", "attention")

    def _folded(self, node: Any, name: str, args: Any, kwargs: Any) -> Any:
        """The result of an operation whose tensors are all known and that is to be done now; else None."""
        base = name.split(".", maxsplit=1)[0]
        used = [x for x in _flat((args, kwargs)) if isinstance(x, Constant | Value)]
        if base in _CREATIONS and used and isinstance(used[0], Value):
            like = self._torch.zeros(used[0].shape, dtype=node.args[0].meta["val"].dtype)
            args, used = (Constant(node.name, like, "created"), *args[1:]), []
        known = [x for x in used if isinstance(x, Constant)]
        if len(known) < len(used) or draws(node) or not self._folds(name, base, known):
            return None
        if base.endswith("_") and known and known[0].kind != "created":
            self._change(node.args[0], None)
        with self._torch.no_grad():
            data = node.target(*_data(args), **_data(kwargs))
        first = known[0] if known else Constant(node.name, None, "created")
        masks = base in _COMPARISONS or all(self._is_mask(x) for x in known)
        derived = first.kind != "created" or base in _COMPARISONS or name in VIEWS
        kind, named = "created" if masks else "parameter", first.name if derived else node.name
        origin = first if known and base in _COMPARISONS | _CASTS else None
        if isinstance(data, self._torch.Tensor):
            return Constant(named, data, kind, origin)
        return [Constant(f"{named}_{n}", part, kind) for n, part in enumerate(data)]

    def _folds(self, name: str, base: str, known: Sequence[Constant]) -> bool:
        if base in _COMPARISONS or base in _CREATIONS or all(self._is_mask(x) for x in known):
            return True
        if any(x.kind == "input" for x in known):
            return False
        return name not in TABLE or name in PARTS or name in ARITHMETIC

    def _is_mask(self, constant: Constant) -> bool:
        """Whether it says which positions, not what is there: truth values, whole numbers, what forward makes."""
        counts = constant.kind == "parameter" and not constant.data.is_floating_point()
        return constant.kind == "created" or constant.data.dtype == self._torch.bool or counts

    def _results(self, node: Any) -> list[Value]:
        """Outputs, each as a tensor that no statement reads."""
        results: list[Value] = []
        for n, given in enumerate(x for x in _flat(node.args) if x is not None):
            found = self._values.get(given) if isinstance(given, self._torch.fx.Node) else given
            if not isinstance(found, Constant | Value):
                raise InputError(f"every output of forward must be a tensor, got {found!r}; return tensors alone")
            name = found.name if isinstance(found, Constant) else self._named(given)
            site = Site(self._writer, name, tuple(given.meta["val"].shape), self._known)
            value = site.value(found)
            again = any(value.tensor == other.tensor for other in results)
            if self._writer.is_input(value.tensor) or self._writer.is_read(value.tensor) or again:
                before = self._writer.made()
                value = site.named(f"_out{n}").each("{0}", value, full=value.full)
                self._origins |= dict.fromkeys(
                    self._writer.made()[len(before) :], Origin("output", "returned by forward")
                )
            results.append(value)
        return results


def _flat(nested: Any) -> Iterator[Any]:
    if isinstance(nested, Mapping):
        nested = nested.values()
    elif not isinstance(nested, list | tuple):
        yield nested
        return
    for item in nested:
        yield from _flat(item)


def _data(nested: Any) -> Any:
    """Arguments with the data of constants in place of the constants."""
    match nested:
        case Constant():
            return nested.data
        case dict():
            return {name: _data(item) for name, item in nested.items()}
        case list() | tuple():
            return type(nested)(_data(item) for item in nested)
        case _:
            return nested
