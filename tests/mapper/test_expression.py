"""The normal form: one statement per operator, indices summed in the smallest product that holds all their uses."""

from __future__ import annotations

import pytest

from mapper.expression import free, nodes, reads
from mapper.notation import _Parser, parse_program

NORMAL_FORMS = {
    # contractions
    "Z(i,j) = A(i,k) * B(k,j)": "Z(i,j) = A(i,k) * B(k,j)",
    "Z(i,m) = A(i,j)*X(j,k)*W(k,m)": "Z(i,m) = A(i,j) * X(j,k) * W(k,m)",
    "Z(i,m) = (A(i,j)*X(j,k))*W(k,m)": "T1(i,k) = A(i,j) * X(j,k)\nZ(i,m) = T1(i,k) * W(k,m)",
    "Z(i,m) = A(i,j)*(X(j,k)*W(k,m))": "T1(m,j) = X(j,k) * W(k,m)\nZ(i,m) = A(i,j) * T1(m,j)",
    "B(j,i) = A(i,j)": "B(j,i) = A(i,j)",
    "s = a(i) * b(i)": "s() = a(i) * b(i)",
    "s() = a(i)": "s() = a(i)",
    "Z(i,j) = ((A(i,j)))": "Z(i,j) = A(i,j)",
    "Z(i,j) = a(i) * b(j)": "Z(i,j) = a(i) * b(j)",
    "y(i) = A(i,j) * s": "y(i) = A(i,j) * s()",
    # one statement per operator, the last of which writes the target
    "Z(i,m) = relu((A(i,j)*X(j,k))*W(k,m) + b(m))": (
        "T1(i,k) = A(i,j) * X(j,k)\nT2(i,m) = T1(i,k) * W(k,m)\nT3(i,m) = T2(i,m) + b(m)\nZ(i,m) = relu(T3(i,m))"
    ),
    # additions
    "Z(i) = a(i) - b(i) + c(i)": "Z(i) = a(i) - b(i) + c(i)",
    "Z(i) = -a(i) + b(i)": "Z(i) = - a(i) + b(i)",
    "Z(i) = a(i) - (b(i) + c(i))": "T1(i) = b(i) + c(i)\nZ(i) = a(i) - T1(i)",
    # a join takes eight operands
    "Z(i) = a(i) + b(i) + c(i) + d(i) + e(i) + f(i) + g(i) - h(i) - k(i) + l(i)": (
        "T1(i) = a(i) + b(i) + c(i) + d(i) + e(i) + f(i) + g(i) - h(i)\nZ(i) = T1(i) - k(i) + l(i)"
    ),
    "z = a(i) * b(i) * c(i) * d(i) * e(i) * f(i,j) * g(i) * h(i) * k(i) * l(j)": (
        "T1(i,j) = a(i) * b(i) * c(i) * d(i) * e(i) * f(i,j) * g(i) * h(i)\nz() = T1(i,j) * k(i) * l(j)"
    ),
    # terms are reduced first
    "z(i) = A(i,j) + b(i)": "T1(i) = A(i,j)\nz(i) = T1(i) + b(i)",
    "z(i) = A(i,j)*c(j) + B(i,j)": "T1(i) = A(i,j) * c(j)\nT2(i) = B(i,j)\nz(i) = T1(i) + T2(i)",
    "s = a(i) + b(j)": "T1() = a(i)\nT2() = b(j)\ns() = T1() + T2()",
    # ... unless a surrounding product needs the index
    "z(i) = (A(i,j) + b(i)) * c(j)": "T1(i,j) = A(i,j) + b(i)\nz(i) = T1(i,j) * c(j)",
    "s = (a(i) + b(i)) * (c(i) - d(i))": "T1(i) = a(i) + b(i)\nT2(i) = c(i) - d(i)\ns() = T1(i) * T2(i)",
    # maps
    "y(i) = relu(A(i,j))": "T1(i) = A(i,j)\ny(i) = relu(T1(i))",
    "y(i) = relu(A(i,j)) * c(j)": "T1(i,j) = relu(A(i,j))\ny(i) = T1(i,j) * c(j)",
    "y(i) = exp(tanh(a(i)))": "T1(i) = tanh(a(i))\ny(i) = exp(T1(i))",
    # numbers and signs
    "Z(i,j) = 0.5 * A(i,j)": "Z(i,j) = 0.5 * A(i,j)",
    "Z(i,j) = A(i,j) * 2 * 3": "Z(i,j) = 6.0 * A(i,j)",
    "Z(i,j) = .5e1*A(i,k)*B(k,j)": "T1(i,j) = A(i,k) * B(k,j)\nZ(i,j) = 5.0 * T1(i,j)",
    "Z(i) = -a(i)": "Z(i) = neg(a(i))",
    "Z(i) = -0.5 * a(i)": "Z(i) = -0.5 * a(i)",
    "Z(i) = -(2 * a(i))": "Z(i) = -2.0 * a(i)",
    "Z(i) = a(i) * -b(i)": "T1(i) = neg(b(i))\nZ(i) = a(i) * T1(i)",
    "Z(i) = 2*a(i) - 3*b(i)": "T1(i) = 2.0 * a(i)\nT2(i) = 3.0 * b(i)\nZ(i) = T1(i) - T2(i)",
    # explicit sums
    "y(i) = sum(k, A(i,k))": "y(i) = A(i,k)",
    "y(i) = sum(k, A(i,k) * x(k))": "y(i) = A(i,k) * x(k)",
    "y(i) = sum(k, relu(A(i,k)))": "T1(i,k) = relu(A(i,k))\ny(i) = T1(i,k)",
    "y(i) = sum(k, 2*A(i,k))": "T1(i,k) = 2.0 * A(i,k)\ny(i) = T1(i,k)",
    "y(i) = sum(j, A(i,j) + b(i))": "T1(i,j) = A(i,j) + b(i)\ny(i) = T1(i,j)",
    "y(i) = sum(j, a(i) * relu(B(i,j)))": "T1(i,j) = relu(B(i,j))\ny(i) = a(i) * T1(i,j)",
    "s = sum(i, j, relu(A(i,j)))": "T1(i,j) = relu(A(i,j))\ns() = T1(i,j)",
    "y(i) = sum(j, A(i,j)) * sum(j, B(i,j))": "T1(i) = A(i,j)\nT2(i) = B(i,j)\ny(i) = T1(i) * T2(i)",
    # temporaries keep clear of the user's names and order their indices as the target does
    "T1(i) = relu(T2(i) + b(i))": "T3(i) = T2(i) + b(i)\nT1(i) = relu(T3(i))",
    "Z(j,i) = relu(A(i,k) * B(k,j))": "T1(j,i) = A(i,k) * B(k,j)\nZ(j,i) = relu(T1(j,i))",
}


@pytest.mark.parametrize("text", NORMAL_FORMS)
def test_normal_form(text: str) -> None:
    assert str(parse_program(text)) == NORMAL_FORMS[text]


@pytest.mark.parametrize("text", NORMAL_FORMS)
def test_normal_form_is_stable(text: str) -> None:
    program = parse_program(text)
    assert parse_program(str(program)) == program


def test_lines_share_temporaries_numbers() -> None:
    program = parse_program("H(i) = relu(2 * a(i))\nZ(i) = relu(3 * H(i))")
    assert list(program.producers) == ["T1", "H", "T2", "Z"]
    assert program.inputs == ("a",) and program.outputs == ("Z",)


def test_walks() -> None:
    (line,) = _Parser("y(i) = sum(k, A(i,k) * x(k)) + b(i)").lines()
    assert [str(read.access) for read in reads(line)] == ["A(i,k)", "x(k)", "b(i)"]
    assert free(line.value) == {"i"}
    assert sum(1 for _ in nodes(line.value)) == 6
