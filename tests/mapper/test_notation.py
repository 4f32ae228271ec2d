"""Index notation: what it accepts, and errors that point at the exact column."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mapper.errors import InputError, NotationError
from mapper.extents import bind_extents
from mapper.notation import locate, parse_einsum, parse_program


def test_lines_comments_and_semicolons() -> None:
    text = "\n# two statements\nT(i) = a(i) * b(i)  # the product\n\n ; Z(i) = relu(T(i)); ;Y(i)=T(i)\r\n"
    assert str(parse_program(text)) == "T(i) = a(i) * b(i)\nZ(i) = relu(T(i))\nY(i) = T(i)"


def test_names_may_be_long_and_not_ascii() -> None:
    program = parse_program("Out_1(row,β) = In2(row, κ) * Gewicht(κ, β)")
    assert program.inputs == ("In2", "Gewicht")
    assert program.statements[0].reduced == ("κ",)


# The caret stands under the character that the error names.
ERRORS = [
    # characters and parentheses
    ("Z(i) = [A(i)]", "       ^", "unexpected character '['"),
    ("Z(i) = A(i) @ B(i)", "            ^", "unexpected character '@'"),
    ("Z(i) = relu(A(i)", "           ^", "never closed"),
    ("Z(i) = (A(i) + B(i)", "       ^", "never closed"),
    ("Z(i) = A(i, ", "        ^", "never closed"),
    ("Z(i) = A(i,k * B(k,i)", "        ^", "never closed"),
    ("Z(i,j = A(i,j)", " ^", "never closed"),
    ("Z(i) = A(i)) ", "           ^", "')' closes nothing"),
    ("Z(i) = (A(i) B(i))", "             ^", "expected an operator or ')', got 'B'"),
    ("Z(i) = A(i) B(i)", "            ^", "an operator is missing"),
    ("Z(i) = 2A(i)", "        ^", "an operator is missing"),
    ("Z(i) = A(i) = B(i)", "            ^", "an operator is missing"),
    # operands
    ("Z(i) = A(i) *   # B(i)", "             ^", "an operand is missing after '*', got 'end of the line'"),
    ("Z(i) = A(i) + * B(i)", "              ^", "an operand is missing after '+', got '*'"),
    ("Z(i) = ", "      ^", "an operand is missing after '='"),
    ("Z(i) = ()", "        ^", "an operand is missing after '(', got ')'"),
    ("Z(i) A(i)", "     ^", "expected '=' after Z(i), got 'A'"),
    ("Z(i) += A(i)", "     ^", "expected '=' after Z(i), got '+'"),
    ("= A(i)", "^", "a statement starts with the tensor it assigns"),
    ("2 = A(i)", "^", "a statement starts with the tensor it assigns"),
    # accesses
    ("Z(i) = A(i j)", "           ^", "expected ',' or ')' after index 'i', got 'j'"),
    ("Z(i) = A(i,,j)", "           ^", "expected the name of an index in 'A', got ','"),
    ("Z(i) = A(,i)", "         ^", "expected the name of an index in 'A', got ','"),
    (
        "Z(i) = A(i+k*2)",
        "            ^",
        "coordinates are sums such as 2*p+r-1, of indices, multiples and numbers, got 'i",
    ),
    ("Z(i+1) = A(i)", "  ^", "the target takes an index per mode, got i+1; read windows on the right side"),
    ("Z(i) = A(7-i)", "          ^", "index 'i' cannot be subtracted"),
    ("Z(i) = A(0*i+1)", "         ^", "the coefficient of 'i' must be at least 1"),
    ("Z(i) = A(1.5*i)", "         ^", "numbers in coordinates are integers below"),
    ("Z(i) = A(i, i+k)", "            ^", "index 'i' is repeated in A(i,i+k)"),
    ("Z(i) = A(i+i)", "         ^", "index 'i' is repeated in A(i+i)"),
    ("Z(i) = A(2*)", "           ^", "coordinates are sums"),
    ("Z(i) = A(i+)", "           ^", "coordinates are sums"),
    ("Z(i) = B(i) * A(i,i)", "                  ^", "index 'i' is repeated in A(i,i); diagonals are not supported"),
    ("Z(i,i) = A(i)", "    ^", "index 'i' is repeated in Z(i,i)"),
    # indices
    ("Z(i,row) = A(i,rows)", "    ^", "'row' of the target appears nowhere on the right side. Did you mean 'rows'"),
    ("Z(i) = sum(k, A(i,j))", "           ^", "sum over 'k', which its argument does not use"),
    ("Z(i) = sum(j, j, A(i,j))", "              ^", "index 'j' is named twice"),
    ("Z(i) = sum(j, A(i,j)) * c(j)", "           ^", "index 'j' is bound by this sum but also used outside"),
    ("Z(i,j) = sum(j, A(i,j))", "    ^", "index 'j' of the target appears nowhere on the right side"),
    ("Z(i) = sum(A(i,k))", "       ^", "sum needs its indices first"),
    # tensors
    ("Z(i) = A(i) * A(i,j)", "              ^", "'A' has 2 indices here, but 1 index on line 1, column 8"),
    ("Z(i) = Z(i) + A(i)", "       ^", "'Z' cannot be read by the statement that assigns it"),
    # functions
    ("Z(i) = rleu(A(i) * B(i))", "       ^", "unknown function 'rleu'. Did you mean 'relu'"),
    ("s = rleu(a * b)", "    ^", "unknown function 'rleu'. Did you mean 'relu'"),
    ("Z(i) = foo(A(i))", "       ^", "unknown function 'foo'. Valid: abs, exp"),
    ("Z(i) = scale(A(i))", "       ^", "unknown function 'scale'"),
    ("Z(i) = relu", "       ^", "function 'relu' needs its argument in parentheses"),
    ("Z(i) = relu(A(i), B(i))", "                ^", "expected an operator or ')', got ','"),
    ("Z(i) = relu(2)", "            ^", "'relu' needs a tensor, not a number"),
    ("relu(i) = A(i)", "^", "'relu' is a function and cannot name a tensor"),
    ("Z(i) = min(j, A(i,j))", "       ^", "'min' is not supported; sum, max, mean, softmax, layernorm are"),
    ("Z(i) = softmax(A(i,j))", "       ^", "softmax needs its indices first, as softmax(k, A(i,k))"),
    ("Z(i) = pattern(relu(A(i)))", "       ^", "pattern needs one tensor"),
    # numbers
    ("Z(i) = A(i) / 0", "            ^", "division by zero"),
    ("Z(i) = 2 / A(i)", "         ^", "'/' needs a tensor on both sides"),
    ("Z(i) = A(i) .- 1", "            ^", "'.-' needs a tensor on both sides"),
    ("Z(i) = 1 + 2", "       ^", "a sum must read a tensor"),
    ("Z(i) = 2 * 3", "       ^", "the right side must read a tensor"),
    ("Z(i) = 1e999 * A(i)", "       ^", "too large for a float64"),
    ("Z(i) = " + "(" * 100 + "A(i)" + ")" * 100, " " * 107 + "^", "nested 100 deep"),
    ("", "^", "a program needs at least one statement"),
]


@pytest.mark.parametrize(("text", "caret", "message"), ERRORS)
def test_errors_name_the_column(text: str, caret: str, message: str) -> None:
    for above in ("", "Y(i) = X(i)  # a line above\n\n") if text else ("",):
        with pytest.raises(NotationError) as error:
            parse_program(above + text)
        assert message.replace("on line 1", f"on line {above.count(chr(10)) + 1}") in error.value.reason
        assert (error.value.line, error.value.column) == (above.count("\n") + 1, len(caret))
        assert str(error.value).endswith(f"\n  {text}\n  {caret}")


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("Z(i) = A(i)\n Z(i) = B(i)", (2, 2), "tensor 'Z' is already assigned on line 1"),
        ("Y(i) = B(i) * Z(i)\nZ(i) = A(i)", (1, 15), "tensor 'Z' is read before line 2 assigns it"),
        ("Y(i) = Z(i)\nZ(i) = Y(i)", (1, 8), "tensor 'Z' is read before line 2 assigns it"),
        ("Y(i,j) = Z(i,j)\nX(i) = Z(i)", (2, 8), "'Z' has 1 index here, but 2 indices on line 1, column 10"),
    ],
)
def test_errors_across_lines(text: str, place: tuple[int, int], message: str) -> None:
    with pytest.raises(NotationError) as error:
        parse_program(text)
    assert message in error.value.reason
    assert (error.value.line, error.value.column) == place


def test_depth_that_is_allowed() -> None:
    assert str(parse_program("Z(i) = " + "(" * 99 + "A(i)" + ")" * 99)) == "Z(i) = A(i)"


@given(st.text(alphabet="ABij(),*+-=;# 0.5relusum\n", max_size=60))
def test_any_text_is_a_program_or_a_placed_error(text: str) -> None:
    try:
        program = parse_program(text)
    except NotationError as error:
        lines = text.splitlines() or [""]
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1
    else:
        assert parse_program(str(program)) == program


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ("ik,kj->ij", ["A", "B"], "Z(i,j) = A(i,k) * B(k,j)"),
        (" ik , kj -> ij ", ["A", "B"], "Z(i,j) = A(i,k) * B(k,j)"),
        ("ik,kj", ["A", "B"], "Z(i,j) = A(i,k) * B(k,j)"),
        ("ba", ["A"], "Z(a,b) = A(b,a)"),
        ("ij->", ["A"], "Z() = A(i,j)"),
        (",i->i", ["s", "A"], "Z(i) = s() * A(i)"),
        ("ik,kj,jl->il", ["A", "A", "C"], "Z(i,l) = A(i,k) * A(k,j) * C(j,l)"),
    ],
)
def test_einsum(text: str, names: list[str], expected: str) -> None:
    assert str(parse_einsum(text, names)) == expected


@pytest.mark.parametrize(
    ("text", "names", "column", "message"),
    [
        ("ik,k1->ij", "AB", 5, "unexpected '1'"),
        ("...i->i", "A", 1, "unexpected '.'"),
        ("ik,kj->ij->k", "AB", 10, "unexpected '-'"),
        ("i->i,j", "A", 5, "unexpected ','"),
        ("ik,kj->iq", "AB", 9, "index 'q' of the target appears nowhere"),
        ("ik,kk->ik", "AB", 5, "index 'k' is repeated in B(k,k)"),
        ("ik,kj->ii", "AB", 9, "index 'i' is repeated in Z(i,i)"),
        ("ik,k->i", "AA", 4, "'A' has 1 index here, but 2 indices on line 1, column 1"),
        ("ik,kj->ij", "AZ", 4, "'Z' cannot be read by the statement that assigns it"),
    ],
)
def test_einsum_errors(text: str, names: str, column: int, message: str) -> None:
    with pytest.raises(NotationError) as error:
        parse_einsum(text, list(names))
    assert message in error.value.reason and error.value.column == column


def test_einsum_names_must_match() -> None:
    with pytest.raises(InputError, match="'ik,kj->ij' has 2 operands, got 1 names: A"):
        parse_einsum("ik,kj->ij", ["A"])


def test_locate() -> None:
    text = "H(i,k) = A(i,j) * X(j,k)\nZ(i,m) = H(i,k) * W(k,m)"
    assert locate(text, "X") == (1, 19)
    assert locate(text, "H") == (1, 1)
    assert locate(text, "W") == (2, 19)
    with pytest.raises(InputError, match=r"no tensor 'w'\. Did you mean 'W'\? Valid: A, H, W, X, Z"):
        locate(text, "w")


def test_bind_extents() -> None:
    program = parse_program("H(i,k) = A(i,j) * X(j,k)\nZ(m,i) = relu(H(i,k) * W(k,m) + b(m))")
    extents = bind_extents(program, {"A": (2, 3), "X": (3, 4), "W": (4, 5), "b": (5,)})
    assert extents[0] == {"i": 2, "j": 3, "k": 4}
    assert extents[1] == {"i": 2, "k": 4, "m": 5}
    assert extents[-1] == {"m": 5, "i": 2}


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"A": (2, 3), "X": (4, 4)}, "index 'j' has extent 3 by mode 1 of 'A', but mode 0 of 'X' has 4"),
        ({"A": (2, 3, 1), "X": (3, 4)}, r"A\(i,j\) needs a tensor of 2 modes, got shape \(2, 3, 1\)"),
        ({"A": (2, 3)}, "tensor 'X' has no data"),
        ({"A": (2, 3), "x": (3, 4)}, "tensor 'X' has no data.*Valid: A, x"),
        ({"A": (2, 3), "X": (3, 4), "b": (5,)}, "index 'k' has extent 4 by mode 1 of 'H', but mode 0 of 'b' has 5"),
    ],
)
def test_bind_extents_errors(shapes: dict[str, tuple[int, ...]], message: str) -> None:
    program = parse_program("H(i,k) = A(i,j) * X(j,k)\nZ(i) = H(i,k) * b(k)")
    with pytest.raises(InputError, match=message):
        bind_extents(program, shapes)
