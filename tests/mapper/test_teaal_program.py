"""TeAAL einsum blocks as index notation."""

from __future__ import annotations

from typing import Any

import pytest

from mapper.errors import InputError
from mapper.notation import parse_program
from mapper.teaal_program import teaal_text

DECLARED: dict[str, Any] = {"A": ["K", "M"], "B": ["K", "N"], "F": ["S"], "I": ["W"], "T": ["K", "M", "N"]}
DECLARED |= {"Z": ["M", "N"], "O": ["Q"], "c": None}


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("Z[m, n] = A[k, m] * B[k, n]", "Z(m,n) = A(k,m) * B(k,n)"),
        ("Z[n, m] = A[m, k] * B[k, n]", "Z(m,n) = A(k,m) * B(k,n)"),  # ranks go by name
        ("T[k, m, n] = take(A[k, m], B[k, n], 0)", "T(k,m,n) = A(k,m) * pattern(B(k,n))"),
        ("T[k, m, n] = take(A[k, m], B[k, n], 1)", "T(k,m,n) = pattern(A(k,m)) * B(k,n)"),
        ("O[q] = I[q + s] * F[s]", "O(q) = I(q+s) * F(s)"),
        ("Z[m, n] = sum(k).(A[k, m] * B[k, n])", "Z(m,n) = sum(k, A(k,m) * B(k,n))"),
        ("Z[i, j] = A[k, i] * B[k, j] + T[k, i, j]", "Z(i,j) = A(k,i) * B(k,j) + T(k,i,j)"),
        ("c[] = F[s] * F[s]", "c() = F(s) * F(s)"),
    ],
)
def test_expressions(expression: str, text: str) -> None:
    assert teaal_text({"declaration": DECLARED, "expressions": [expression]}) == text


def test_a_cascade_is_one_program() -> None:
    block = {
        "declaration": DECLARED,
        "expressions": ["T[k, m, n] = take(A[k, m], B[k, n], 1)", "Z[m, n] = T[k, m, n] * A[k, m]"],
    }
    program = parse_program(teaal_text(block))
    assert (program.inputs, program.outputs) == (("A", "B"), ("Z",))


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"declaration": {}}, "needs the keys declaration and expressions"),
        ({"declaration": {"A": "K"}, "expressions": ["A[k] = A[k]"]}, "declaration must give every tensor a list"),
        ({"declaration": DECLARED, "expressions": []}, "expressions must be a list of statements"),
        (
            {"declaration": DECLARED, "expressions": ["Z[m, n] = Aa[k, m]"]},
            "tensor 'Aa' is not declared. Did you mean 'A'",
        ),
        ({"declaration": DECLARED, "expressions": ["Z[m] = A[k, m]"]}, "Z is declared with 2 ranks, but Z[m] has 1"),
        ({"declaration": DECLARED, "expressions": ["T[k,m,n] = take(A[k,m], B[k,n], 2)"]}, "take keeps operand 2"),
    ],
)
def test_errors(block: Any, message: str) -> None:
    with pytest.raises(InputError) as raised:
        teaal_text(block)
    assert message in str(raised.value)
