"""One operation of an exported graph: its name, its line, and why it may have no fixed meaning.

Nothing here imports torch: nodes, types and tags are handled through their own attributes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mapper.aten_table import TABLE
from mapper.aten_views import SHARING
from mapper.errors import InputError

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in [^\n]+\n(?P<code>[^\n]*)')


def operation(node: Any) -> str:
    """The name under which ``TABLE`` has it."""
    return str(node.target).removeprefix("aten.").removesuffix(".default")


def source_line(trace: str) -> str:
    """``file:line: code`` of the user's innermost line in a stack trace that torch recorded."""
    frames = [frame for frame in _FRAME.finditer(trace) if is_users(frame["file"])]
    return f"{frames[-1]['file']}:{frames[-1]['line']}: {frames[-1]['code'].strip()}" if frames else "unknown line"


def is_users(file: str) -> bool:
    """Whether code of ``file`` is the user's own, neither of a library nor of this package."""
    parts = Path(file).parts
    return "site-packages" not in parts and Path(__file__).parent != Path(file).parent and not file.startswith("<")


def is_view(node: Any) -> bool:
    """Whether the result may share memory with what the operation is given."""
    if getattr(node.target, "__name__", "") == "getitem":  # one of several parts
        return is_view(node.args[0])
    return operation(node) in SHARING


def draws(node: Any) -> bool:
    """Whether the operation can draw at random."""
    return any(tag.name == "nondeterministic_seeded" for tag in getattr(node.target, "tags", ()))


def check_random(node: Any) -> None:
    """Raises InputError for operations that draw at random; those of the table refuse themselves where they would."""
    if draws(node) and operation(node) not in TABLE:
        raise InputError(
            "this operation draws at random, and a program has the same values in every run; draw outside of forward "
            "and pass the result as an input or a buffer"
        )


def check_types(node: Any) -> None:
    """Raises InputError where the result has a type that cannot hold the operands: the program would keep fractions."""
    made = getattr(node.meta.get("val"), "dtype", None)
    given = [getattr(n.meta.get("val"), "dtype", None) for n in node.all_input_nodes]
    for dtype in given:
        if made is not None and dtype is not None and _width(made) < _width(dtype):
            raise InputError(
                f"a cast from {dtype} to {made} drops what {made} cannot hold, which has no meaning in index notation; "
                "cast before forward, or write a mask as a comparison (x != 0)"
            )


def _width(dtype: Any) -> int:
    """Order of the types by what they hold: truth values, whole numbers, any numbers."""
    return 2 if dtype.is_floating_point or dtype.is_complex else int(str(dtype) != "torch.bool")
