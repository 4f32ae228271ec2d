"""Traffic that the model predicts equals what the simulator's tile loads count, on real data.

The model works from marginal counts of tile coordinates; the simulator adds up the bytes of the level arrays it
fetches. They share no function.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from costmodel import predict_traffic
from hwsim import Limits
from mapper.datasets import find_data, load_tensor
from mapper.machine import load_machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.workload import Workload
from tuner.evaluate import evaluate

RDA = load_machine("rda")

DATA = {  # file: tile extents of the row and inner index; rectangular matrices are multiplied by their transpose
    "bcsstm02.mtx": (16, 12),
    "airfoil.mtx.gz": (50, 64),
    "recirc_flow.mtx.gz": (32, 48),
    "e05r0500.mtx.gz": (40, 59),
    "lp_scsd1.mtx": (16, 150),
    "lp_ship04l.mtx.gz": (100, 500),
    "cage8.mtx.gz": (200, 250),
    "qh1484.mtx.gz": (300, 128),
    "n1024-l1.mtx.gz": (256, 200),
    "ex6.mtx.gz": (400, 300),
}


@pytest.mark.parametrize("file", DATA)
@pytest.mark.parametrize("kinds", [("dense", "compressed"), ("compressed", "compressed")])
def test_inner_product_payload(file: str, kinds: tuple[str, str], data_dir: Path) -> None:
    matrix = load_tensor(find_data(file, data_dir))
    rows, inner = DATA[file]
    assert -(-matrix.shape[0] // rows) >= 4 and -(-matrix.shape[1] // inner) >= 4
    workload = Workload(parse_program("Z(i,j) = A(i,k) * A(j,k)"), {"A": matrix})
    loops = Loops(("i", "j", "k"), (("i", rows), ("j", rows), ("k", inner)))
    mapping = Mapping((), (loops,), (("A", kinds), ("Z", ("compressed", "compressed"))), "none")
    predicted = [t for t in predict_traffic(workload, mapping, RDA, level="L2") if t.purpose == "load"]
    result = evaluate(workload, mapping, RDA, Limits())
    assert result.failure is None
    counted = [t for t in result.summary["traffic"] if t["direction"] == "read" and t["tensor"] == "A"]
    assert sum(t.values_bytes for t in predicted) == sum(t["values_bytes"] for t in counted)
    assert sum(t.metadata_bytes for t in predicted) == sum(t["metadata_bytes"] for t in counted)
