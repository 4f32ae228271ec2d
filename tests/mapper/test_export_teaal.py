"""TeAAL specifications of mappings: whole texts, and einsum blocks that are read back as the same program."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import yaml
from small_spaces import space, workload

from mapper.errors import InputError
from mapper.export_teaal import teaal_export
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.synthetic import generate
from mapper.teaal_program import teaal_text
from mapper.workload import Workload

CSF, CSR = ("compressed", "compressed"), ("dense", "compressed")
GUSTAVSON = Mapping((), (Loops(("i", "k", "j")),), (("A", CSR), ("B", CSF), ("Z", CSF)))


def test_plain_loops() -> None:
    assert teaal_export(workload("product"), GUSTAVSON) == (
        """\
# formats: A dense,compressed, B csf, Z csf
# residency of tiles: none
einsum:
  declaration:
    A: [I, K]
    B: [K, J]
    Z: [I, J]
  expressions:
  - Z[i, j] = A[i, k] * B[k, j]
mapping:
  rank-order:
    A: [I, K]
    B: [K, J]
    Z: [I, J]
  loop-order:
    Z: [I, K, J]
  spacetime:
    Z:
      space: []
      time: [I, K, J]
"""
    )


def test_tiles_and_lanes() -> None:
    """i (40) in tiles of 8 makes 5 steps, in ranges of 2 for 4 lanes: 16 coordinates; k is dealt out in turn."""
    loops = Loops(("j", "k", "i"), (("k", 4), ("i", 8)), (("i", 4, "block"), ("k", 2, "cyclic"), ("j", 2, "balanced")))
    mapping = dataclasses.replace(GUSTAVSON, loops=(loops,), residency="lru", machine=(("fifo_depth", None),))
    text = teaal_export(workload("product"), mapping)
    assert text.startswith(
        "# lanes balanced by stored entries are written as equal ranges\n# formats: A dense,compressed, B csf, Z csf\n"
        "# residency of tiles: lru\n# machine fifo_depth = null\neinsum:\n"
    )
    assert text[text.index("mapping:") :] == (
        """\
mapping:
  rank-order:
    A: [K, I]
    B: [J, K]
    Z: [J, I]
  partitioning:
    Z:
      J: [uniform_shape(10)]
      K: [uniform_shape(8), uniform_shape(4)]
      I: [uniform_shape(16), uniform_shape(8)]
  loop-order:
    Z: [J1, I2, K2, K1, I1, J0, K0, I0]
  spacetime:
    Z:
      space: [J1, K1, I2]
      time: [K2, I1, J0, K0, I0]
"""
    )


def test_patterns_and_streams() -> None:
    program = parse_program("T(i,j) = pattern(M(i,j)) * Q(i,j)\nZ(i,j) = T(i,j) + Q(i,j)")
    tensors = {name: generate("uniform", shape=(8, 8), density=0.5, seed=seed) for seed, name in enumerate("MQ")}
    mapping = Mapping((False,), (Loops(("i", "j")),) * 2, (("M", CSF), ("Q", CSF), ("Z", CSF)))
    text = teaal_export(Workload(program, tensors), mapping)
    assert text.startswith("# T streams from S0 to S1 and is never stored\n")
    spec = yaml.safe_load(text)
    assert spec["einsum"]["expressions"] == ["T[i, j] = take(M[i, j], Q[i, j], 1)", "Z[i, j] = T[i, j] + Q[i, j]"]
    assert parse_program(teaal_text(spec["einsum"])) == program


@pytest.mark.parametrize("name", ["product", "masked", "tensor", "total"])
def test_samples_read_back(name: str) -> None:
    """The program is the same, and every rank of a loop order is made by its partitioning."""
    found = space(name)
    rng = np.random.default_rng(2)
    for _ in range(40):
        mapping = found.sample(rng)
        if "pattern" in mapping.variant or "recompute" in mapping.variant:
            continue
        spec = yaml.safe_load(teaal_export(found.workload, mapping))
        program = found.workload.variant(mapping.variant).program
        assert parse_program(teaal_text(spec["einsum"])) == program
        for statement, loops in zip(program.statements, mapping.loops, strict=True):
            target = statement.target.tensor
            parts = spec["mapping"].get("partitioning", {}).get(target, {})
            made = []
            for index in statement.indices:
                depth = len(parts.get(index.upper(), []))
                made += [f"{index.upper()}{n}" for n in range(depth + 1)] if depth else [index.upper()]
            order = spec["mapping"]["loop-order"][target]
            assert sorted(made) == sorted(order)
            stamps = spec["mapping"]["spacetime"][target]
            assert sorted(stamps["space"] + stamps["time"]) == sorted(order)
            assert len(stamps["space"]) == len(loops.parallel)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Z(i,j) = relu(A(i,j))", r"sums and products alone, not relu \(S0: Z\(i,j\) = relu\(A\(i,j\)\)\)"),
        ("Z(i,j) = A(i,j) - B(i,j)", r"no differences \(S0"),
        ("Z(i) = max(j, A(i,j))", r"not max \(S0"),
        ("Z(i,j) = A(i,j) / B(i,j)", r"not div \(S0"),
        ("Z(i,j) = A(i,j) + A(j,i)", r"cannot read A\(j,i\), declared with ranks I, J: rename"),
        ("Z(i,j) = pattern(A(i,j)) * B(i,j) * C(i,j)", "patterns cannot stand beside a product"),
        ("Z(i,I) = A(i,I)", "two indices would have the TeAAL rank I"),
    ],
)
def test_what_teaal_cannot_say(text: str, told: str) -> None:
    program = parse_program(text)
    tensors = {name: generate("uniform", shape=(6, 6), density=0.5, seed=1) for name in program.inputs}
    loops = tuple(Loops(s.indices) for s in program.statements)
    with pytest.raises(InputError, match=told):
        teaal_export(Workload(program, tensors), Mapping((), loops, ()))
