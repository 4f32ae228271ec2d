"""The text of a mapping: readable, read back as the same mapping, errors at their place."""

from __future__ import annotations

import numpy as np
import pytest
from small_spaces import PROGRAMS, space

from mapper.errors import InputError
from mapper.mapping import Loops, Mapping
from mapper.mapping_text import format_mapping, mapping_changes, parse_mapping
from mapper.notation import parse_program

CHAIN = parse_program("T(i,j) = A(i,k) * B(k,j)\nZ(i,j) = relu(T(i,j))")
FUSED = Mapping(
    cuts=(False,),
    loops=(
        Loops(("i", "k", "j"), (("i", 8), ("k", 4)), (("i", 4, "balanced"), ("j", 2, "balanced"))),
        Loops(("i", "j"), (("i", 8),), (("i", 4, "balanced"), ("j", 2, "balanced"))),
    ),
    formats=(("A", ("dense", "compressed")), ("B", ("compressed", "compressed")), ("Z", ("dense", "dense"))),
    residency="lru",
    machine=(("dram_bytes_per_cycle", 8.5), ("fifo_depth", None)),
    dtypes=(("A", "fp16"),),
)
TEXT = """\
edges:
  T>S1.0: fused
loops:
  # T(i,j) = A(i,k) * B(k,j)
  T: i.tile(8) > k.tile(4) > i > k > j
  # Z(i,j) = relu(T(i,j))
  Z: i.tile(8) > i > j
lanes:
  T: 4 over i (balanced), 2 over j (balanced)
  Z: 4 over i (balanced), 2 over j (balanced)
formats:
  A: dense,compressed:fp16
  B: csf
  Z: dense
residency: lru
machine:
  dram_bytes_per_cycle: 8.5
  fifo_depth: null
"""


def test_the_text() -> None:
    assert format_mapping(CHAIN, FUSED) == TEXT
    assert parse_mapping(TEXT, CHAIN) == FUSED


@pytest.mark.parametrize("name", PROGRAMS)
def test_samples_come_back(name: str) -> None:
    found = space(name)
    rng = np.random.default_rng(len(name))
    program = found.workload.program
    for _ in range(60):
        mapping = found.sample(rng)
        text = format_mapping(program, mapping)
        assert parse_mapping(text, program).key == mapping.key, text


def test_an_edited_text() -> None:
    """Other white space, another order of sections and entries, a name instead of level kinds."""
    text = """
    machine: {fifo_depth: null, dram_bytes_per_cycle: 8.5}
    residency: lru
    lanes: {Z: '4 over i (balanced),2 over j (balanced)', T: "4  over i (balanced), 2 over j (balanced)"}
    formats: {Z: dense, B: dcsr, A: "csr:fp16"}
    loops:
      Z: i.tile(8)>i>j
      T: |
        i.tile(8) > k.tile(4)
        > i > k > j
    edges: {T>S1.0: fused}
    """
    assert parse_mapping(text, CHAIN) == FUSED


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("edges:", "edge:", "mapping:1:1: unknown section 'edge'. Did you mean 'edges'"),
        ("T>S1.0", "T>S1.1", "mapping:2:3: unknown name 'T>S1.1' in edges. Did you mean 'T>S1.0'"),
        (": fused", ": fuse", "mapping:2:11: unknown choice 'fuse' of T>S1.0. Did you mean 'fused'"),
        ("> k > j", "> q > j", "mapping:5:34: unknown index 'q'. Valid: i, j, k."),
        ("> k > j", "> k", "mapping:5:6: T also needs a loop over j"),
        ("> k > j", "> k > k > j", "mapping:5:38: a second loop over k"),
        ("> k > j", "> k.tile(2) > k > j", "mapping:5:34: a second tile loop over k"),
        ("> k > j", "> k > j.tile(2) > j", "mapping:5:38: tile loops stand above all others, but j.tile follows k"),
        ("k.tile(4)", "k.tile", "mapping:5:18: 'k.tile' is no loop: write i or i.tile(64)"),
        ("4 over i (balanced)", "4 over q (balanced)", "mapping:9:6: unknown index 'q'. Valid: i, j, k."),
        ("2 over j (balanced)", "2 over j (blocks)", "mapping:9:27: unknown partition 'blocks'. Did you mean 'block'"),
        ("2 over j (balanced)", "2 j", "mapping:9:27: '2 j' are no lanes: write 4 over i (balanced)"),
        ("B: csf", "B: csff", "mapping:13:6: unknown format 'csff' for 2 modes. Did you mean 'csf'"),
        ("B: csf", "B: csc", "mapping:13:6: csc fixes the order of modes, but the loops of T walk 0,1"),
        ("  B: csf\n", "", "mapping:11:1: section formats must also say B"),
        ("  B: csf\n", "  B: csf\n  T: csf\n", "mapping:14:3: 'T' has no place here: it is fused, so never stored"),
        ("residency: lru", "residency: mru", "mapping:15:12: unknown choice 'mru' of residency. Did you mean 'lru'"),
        ("residency: lru\n", "", "a mapping must say its residency: none, lru, keep, overbooked"),
        ("fifo_depth", "fifo_dept", "mapping:18:3: unknown machine field 'fifo_dept'. Did you mean 'fifo_depth'"),
        ("edges:", "rewrite: A*B\nedges:", "mapping:1:10: the program has no rewriting 'A*B'"),
    ],
)  # fmt: skip
def test_errors_are_placed(old: str, new: str, told: str) -> None:
    with pytest.raises(InputError) as error:
        parse_mapping(TEXT.replace(old, new, 1), CHAIN)
    assert told in str(error.value)


def test_a_mapping_of_another_program() -> None:
    with pytest.raises(InputError, match="has 1 edges and 2 statements, not 0 and 1"):
        format_mapping(parse_program("Z(i,j) = A(i,k) * B(k,j)"), FUSED)


def test_changes_in_words() -> None:
    other = parse_mapping(TEXT.replace("B: csf", "B: dense").replace("  fifo_depth: null\n", ""), CHAIN)
    assert mapping_changes(CHAIN, FUSED, other) == ("formats B: csf -> dense", "machine fifo_depth: null -> none")
    assert mapping_changes(CHAIN, FUSED, FUSED) == ()
