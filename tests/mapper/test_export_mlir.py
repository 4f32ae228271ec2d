"""MLIR encodings of stored tensors: whole texts, in the syntax of the sparse_tensor dialect's own tests."""

from __future__ import annotations

import dataclasses

import pytest
from small_spaces import RDA, workload

from mapper.errors import InputError
from mapper.export_mlir import mlir_export
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.synthetic import generate
from mapper.workload import Workload

CSF, CSR = ("compressed", "compressed"), ("dense", "compressed")
GUSTAVSON = Mapping((), (Loops(("i", "k", "j")),), (("A", CSR), ("B", CSF), ("Z", CSF)), dtypes=(("A", "fp16"),))


def maps(mapping: Mapping) -> list[str]:
    """The maps alone."""
    lines = mlir_export(workload("product"), mapping, RDA).splitlines()
    return [line.strip().removesuffix(",") for line in lines if "map" in line]


def of_a(kinds: tuple[str, ...], loops: Loops = GUSTAVSON.loops[0]) -> Mapping:
    return dataclasses.replace(GUSTAVSON, loops=(loops,), formats=(("A", kinds), ("B", CSF), ("Z", CSF)))


def test_whole_text() -> None:
    assert mlir_export(workload("product"), GUSTAVSON, RDA) == (
        """\
#A = #sparse_tensor.encoding<{
  map = (d0, d1) -> (d0 : dense, d1 : compressed),
  posWidth = 32,
  crdWidth = 32
}>
// A : tensor<40x30xf16, #A>

#B = #sparse_tensor.encoding<{
  map = (d0, d1) -> (d0 : compressed, d1 : compressed),
  posWidth = 32,
  crdWidth = 32
}>
// B : tensor<30x20xf32, #B>

#Z = #sparse_tensor.encoding<{
  map = (d0, d1) -> (d0 : compressed, d1 : compressed),
  posWidth = 32,
  crdWidth = 32
}>
// Z : tensor<40x20xf32, #Z>
"""
    )


def test_orders_and_tiles() -> None:
    """CSC where the loops walk columns; tile levels, always compressed, above inner ones."""
    assert maps(of_a(CSR, Loops(("k", "i", "j"))))[0] == "map = (d0, d1) -> (d1 : dense, d0 : compressed)"
    assert maps(of_a(CSR, Loops(("i", "k", "j"), (("k", 8), ("i", 16)))))[0] == (
        "map = (d0, d1) -> (d1 floordiv 8 : compressed, d0 floordiv 16 : compressed, "
        "d0 mod 16 : dense, d1 mod 8 : compressed)"
    )
    assert maps(of_a(CSR, Loops(("i", "k", "j"), (("k", 8),))))[0] == (
        "map = (d0, d1) -> (d1 floordiv 8 : compressed, d0 : dense, d1 mod 8 : compressed)"
    )


@pytest.mark.parametrize(
    ("kinds", "levels"),
    [
        (("nonunique", "singleton"), "d0 : compressed(nonunique), d1 : singleton"),
        (("dense", "2:4"), "d0 : dense, d1 floordiv 4 : dense, d1 mod 4 : structured[2, 4]"),
        (("dense", "4x2"), "d0 floordiv 4 : dense, d1 floordiv 2 : compressed, d0 mod 4 : dense, d1 mod 2 : dense"),
    ],
)
def test_level_kinds(kinds: tuple[str, ...], levels: str) -> None:
    assert maps(of_a(kinds))[0] == f"map = (d0, d1) -> ({levels})"


def test_three_coordinates() -> None:
    kinds = ("nonunique", "singleton", "singleton")
    formats = (("B", CSF), ("C", CSF), ("X", kinds), ("Z", CSF))
    text = mlir_export(workload("tensor"), Mapping((), (Loops(("i", "j", "k", "r")),), formats), RDA)
    levels = "d0 : compressed(nonunique), d1 : singleton(nonunique), d2 : singleton"
    assert f"map = (d0, d1, d2) -> ({levels})" in text
    assert "// X : tensor<12x10x9xf32, #X>" in text


def test_layouts_after_a_conversion_and_scalars() -> None:
    program = parse_program("t = A(i,j) * A(j,i)\nZ(i,j) = t * A(i,j)")
    tensors = {"A": generate("uniform", shape=(6, 6), density=0.5, seed=1)}
    mapping = Mapping((True,), (Loops(("i", "j")),) * 2, (("A", CSR), ("Z", CSF), ("t", ())))
    text = mlir_export(Workload(program, tensors), mapping, RDA)
    assert [line for line in text.splitlines() if line.startswith("//")] == [
        "// A : tensor<6x6xf32, #A>",
        "// A_2 : tensor<6x6xf32, #A_2>",
        "// t : tensor<f32>",
        "// Z : tensor<6x6xf32, #Z>",
    ]
    assert text.count("#A_2 = #sparse_tensor.encoding<{\n  map = (d0, d1) -> (d1 : dense, d0 : compressed),") == 1


@pytest.mark.parametrize(
    ("kinds", "tiles", "told"),
    [
        (("dense", "bitmask"), (), r"no level like level 1 \(bitmask\) of tensor A; it has dense, compressed"),
        (("dense", "rle"), (), r"no level like level 1 \(rle\) of tensor A"),
        (("2:4", "dense"), (), r"structured levels below dense ones and last alone, not level 0 \(2:4\) of tensor A"),
        (("compressed", "2:4"), (), r"last alone, not level 1 \(2:4\) of tensor A"),
        (("dense", "2:4"), (("i", 8),), r"last alone, not level 1 \(2:4\) of tensor A"),
        (
            ("dense", "2:4"),
            (("k", 8),),
            r"splits a mode once, but level 1 \(2:4\) of tensor A splits mode 1",
        ),
        (("dense", "4x4"), (("i", 8),), r"splits a mode once, but level 0 \(dense\) of tensor A splits mode 0"),
    ],
)
def test_what_mlir_lacks(kinds: tuple[str, ...], tiles: tuple[tuple[str, int], ...], told: str) -> None:
    with pytest.raises(InputError, match=told):
        mlir_export(workload("product"), of_a(kinds, Loops(("i", "k", "j"), tiles)), RDA)


def test_widths() -> None:
    text = mlir_export(workload("product"), GUSTAVSON, RDA.with_fields(coordinate_bytes=2, pointer_bytes=8))
    assert "posWidth = 64,\n  crdWidth = 16\n" in text
    with pytest.raises(InputError, match="crdWidth of 8, 16, 32, 64 bits, machine rda of 24"):
        mlir_export(workload("product"), GUSTAVSON, RDA.with_fields(coordinate_bytes=3))
