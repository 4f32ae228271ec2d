"""The ``einsum`` block of a TeAAL specification as index notation.

    einsum:
      declaration:
        A: [K, M]
        B: [K, N]
        Z: [M, N]
      expressions:
        - Z[m, n] = A[k, m] * B[k, n]

Ranks are in upper case, indices in lower case. ``take(A[k], B[k], n)``, which keeps operand n where all are stored,
becomes a product with the patterns of the others. Other blocks (mapping, format, architecture) are not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mapper.errors import InputError, nearest

_ACCESS = re.compile(r"(?P<tensor>[^\W\d]\w*)\s*\[(?P<indices>[^\[\]]*)\]")
_TAKE = re.compile(r"\btake\s*\((?P<operands>(?:[^()]|\([^()]*\))*),\s*(?P<kept>\d+)\s*\)")
_DOTTED_SUM = re.compile(r"\bsum\s*\(\s*(?P<indices>[\w\s,]*)\)\s*\.\s*\((?P<argument>[^()]*)\)")
_TERM = re.compile(r"[^\W\d]\w*\([^()]*\)")


def teaal_text(block: Any) -> str:
    """Index notation of an ``einsum`` block with its ``declaration`` and ``expressions``.

    Raises InputError where keys are missing, a tensor is not declared or an access does not fit its ranks.
    """
    if not isinstance(block, Mapping) or not {"declaration", "expressions"} <= set(block):
        raise InputError("a TeAAL einsum block needs the keys declaration and expressions")
    declared, expressions = block["declaration"], block["expressions"]
    if not isinstance(declared, Mapping) or not all(isinstance(r, list) or r is None for r in declared.values()):
        raise InputError("declaration must give every tensor a list of ranks, as A: [K, M]")
    if not isinstance(expressions, list) or not all(isinstance(e, str) for e in expressions) or not expressions:
        raise InputError("expressions must be a list of statements, as Z[m, n] = A[k, m] * B[k, n]")
    ranks = {str(name): [str(rank) for rank in given or []] for name, given in declared.items()}
    return "\n".join(_statement(" ".join(expression.split()), ranks) for expression in expressions)


def _statement(expression: str, ranks: Mapping[str, Sequence[str]]) -> str:
    def access(match: re.Match[str]) -> str:
        return _access(match["tensor"], match["indices"], ranks, expression)

    text = _DOTTED_SUM.sub(lambda m: f"sum({m['indices'].strip()}, {m['argument']})", expression)
    return _TAKE.sub(lambda m: _take(m, expression), _ACCESS.sub(access, text))


def _access(tensor: str, written: str, ranks: Mapping[str, Sequence[str]], expression: str) -> str:
    if tensor not in ranks:
        raise InputError(f"{expression!r}: tensor {tensor!r} is not declared.{nearest(tensor, ranks)}")
    declared = ranks[tensor]
    indices = [index.replace(" ", "") for index in written.split(",") if index.strip()]
    if len(indices) != len(declared):
        got = f"{tensor}[{written}] has {len(indices)}"
        raise InputError(f"{expression!r}: {tensor} is declared with {len(declared)} ranks, but {got}")
    by_rank = {index.upper(): index for index in indices}
    if len(by_rank) == len(declared) and set(by_rank) == set(declared):  # in any order: the declaration is the storage
        indices = [by_rank[rank] for rank in declared]
    return f"{tensor}({','.join(indices)})"


def _take(match: re.Match[str], expression: str) -> str:
    operands, kept = _TERM.findall(match["operands"]), int(match["kept"])
    if kept >= len(operands):
        raise InputError(f"{expression!r}: take keeps operand {kept}, but has only {len(operands)}, counted from 0")
    return " * ".join(term if n == kept else f"pattern({term})" for n, term in enumerate(operands))
