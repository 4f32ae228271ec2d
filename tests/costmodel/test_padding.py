"""What products of operands that store zeros make, beside the exact counter."""

from __future__ import annotations

import numpy as np
import pytest
from random_mappings import RDA, random_tensor

from costmodel import Statistics, padding, predict_traffic
from costmodel.exact import count_traffic
from mapper.formats import parse_format
from mapper.notation import parse_program
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits
from mapper.workload import Workload

MACHINE = RDA.with_fields(accumulator_bytes=400)

PROGRAMS = {
    "Z(i,j) = A(i,k) * N(k,j)": {"A": (60, 70), "N": (70, 16)},
    "Z(i,j) = A(i,k) * B(k,j)": {"A": (60, 70), "B": (70, 50)},
    "Z(i,r) = X(i,j,k) * B(j,r) * C(k,r)": {"X": (20, 24, 22), "B": (24, 8), "C": (22, 8)},
    "T(i,j) = A(i,k) * B(k,j)\nZ(i,l) = T(i,j) * C(j,l)": {"A": (60, 70), "B": (70, 50), "C": (50, 40)},
    "T(i,j) = relu(A(i,k) * B(k,j))\nZ(j,l) = T(i,j) * C(i,l)": {"A": (40, 50), "B": (50, 40), "C": (40, 30)},
    "T(i,j) = A(i,j) + B(j,i)\nZ(i,l) = T(i,j) * C(j,l)": {"A": (40, 50), "B": (50, 40), "C": (50, 30)},
}


def moved(text: str, count: int) -> list[tuple[dict[str, float], dict[str, float]]]:
    """(predicted, counted) bytes by tensor and purpose of random mappings whose inputs may all be stored densely, or N
    with two of four places."""
    rng = np.random.default_rng(7)
    shapes = PROGRAMS[text]
    drawn = {n: rng.choice([0.03, 0.1]) if n != "N" else 0.01 for n in shapes}
    workload = Workload(parse_program(text), {n: random_tensor(rng, s, drawn[n]) for n, s in shapes.items()})
    named = {n: ("dense", "csf") if n != "N" else ("dense,2:4", "compressed,2:4") for n in shapes}
    formats = {n: tuple(parse_format(own, len(shapes[n])) for own in names) for n, names in named.items()}
    limits = SpaceLimits(variants=("",), residency=("none", "lru", "keep"), formats=formats, max_lanes=4)
    space, found = MappingSpace(workload, MACHINE, limits), []
    for _ in range(count):
        mapping = space.sample(rng)
        both = (
            predict_traffic(workload, mapping, MACHINE, statistics=Statistics()),
            count_traffic(workload, mapping, MACHINE),
        )
        predicted, counted = ({f"{t.purpose} {t.tensor} {t.direction}": t.bytes for t in own} for own in both)
        found.append((predicted, counted))
    return found


@pytest.mark.parametrize("text", PROGRAMS)
def test_traffic_of_padded_operands_is_counted(text: str) -> None:
    found = moved(text, 40)
    assert sum(any(key.startswith("spill") for key in counted) for _, counted in found) > 5
    for predicted, counted in found:  # of more than 40 scopes that spill the mean stands for some
        assert predicted.keys() == counted.keys()
        for key, moved_bytes in counted.items():
            near = (
                0.05 if key.startswith("spill") else 1e-9
            )  # of more than 40 scopes that spill the mean stands for some
            assert predicted[key] == pytest.approx(moved_bytes, rel=near), key


@pytest.mark.parametrize("text", [text for text in PROGRAMS if "N(" not in text])
def test_results_that_are_not_listed_are_near(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(padding, "MOST_LISTED", 0)
    errors = [abs(np.log(sum(p.values()) / sum(c.values()))) for p, c in moved(text, 40)]
    assert 0 < np.mean(errors) < np.log(1.1)
