"""Softmax attention on a dataflow machine: cycles against FIFO depth, of two graphs that compute the same.

Row i of the result is ``sum_j exp(s_ij) v_j / sum_j exp(s_ij)`` with scores ``s_ij = q_i . k_j``.

* *naive* divides every weight by the sum of its row before it meets ``v_j``. The sum is known only when the row is
  over, so a whole row must wait in the FIFOs: below a depth that grows with the sequence length the graph deadlocks.
* *running* keeps the weighted sum of the ``v_j`` and the sum of the weights as the row streams by, and divides once at
  the end: local memory is one result row, whatever the sequence length.

Neither can overflow: from the scores of row i both subtract ``|q_i| max_j |k_j|``, which bounds them all (softmax does
not change) and, unlike the largest score of the row, is known before the row starts.

    python examples/attention_fifo.py [--length 64] [--width 4] [--html attention_fifo.html]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hwsim import simulate, smallest_depth, with_depth
from mapper.graph import Graph
from mapper.graph_builder import GraphBuilder, Stream
from mapper.machine import load_machine

if TYPE_CHECKING:
    import plotly.graph_objects as go

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """Queries, keys and values, float64[length, width] each."""

    queries: Matrix
    keys: Matrix
    values: Matrix

    def expected(self) -> Matrix:
        """The result by numpy, float64[length, width]."""
        scores = self.queries @ self.keys.T
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(weights @ self.values / weights.sum(axis=1, keepdims=True))


def random_attention(length: int, width: int, seed: int = 0) -> Attention:
    """Standard normal operands, the queries divided by the root of the width as usual."""
    draw = np.random.default_rng(seed).standard_normal((3, length, width))
    return Attention(draw[0] / np.sqrt(width), draw[1], draw[2])


def attention_graph(attention: Attention, running: bool) -> Graph:
    """The graph of one of the two programs, with unbounded channels. Its value writer is named ``values``."""
    length, width = attention.keys.shape
    machine = load_machine("rda").with_fields(fifo_depth=None)
    build = GraphBuilder(machine)
    rows = {"pos": np.array([0, length])}  # a dense level of one fiber
    vectors = {"pos": np.arange(0, length * width + 1, width)}  # and one of a fiber per row

    def repeat(name: str, what: Stream, over: Stream) -> Stream:
        (signal,) = build.add("repeat_signal", f"signal {name}", [over])
        return build.add("repeat", f"repeat {name}", [what, signal])[0]

    def alu(name: str, op: str, left: Stream, right: Stream) -> Stream:
        return build.add("alu", name, [left, right], params={"op": op})[0]

    def array(name: str, ref: Stream, data: Matrix) -> Stream:
        return build.add("array", name, [ref], arrays={"values": np.ascontiguousarray(data.ravel())})[0]

    (q_root,) = build.add("root", "root Q")
    (k_root,) = build.add("root", "root K")
    i, q_row = build.add("scan", "scan i", [q_root], 2, arrays=rows)
    j, k_row = build.add("scan", "scan j", [repeat("K", k_root, i)], 2, arrays=rows)

    q_rows = repeat("q", q_row, j)
    _, q_ref = build.add("scan", "scan q", [q_rows], 2, arrays=vectors)
    _, k_ref = build.add("scan", "scan k", [k_row], 2, arrays=vectors)
    products = alu("q * k", "mul", array("array Q", q_ref, attention.queries), array("array K", k_ref, attention.keys))
    (score,) = build.add("reduce", "score", [products], params={"op": "sum", "empty": "zero"})
    largest = np.linalg.norm(attention.queries, axis=1) * np.linalg.norm(attention.keys, axis=1).max()
    shifted = alu("shift", "sub", score, array("array bound", q_rows, largest))
    (weight,) = build.add("map", "exp", [shifted], params={"op": "exp"})
    (total,) = build.add("reduce", "row sum", [weight], params={"op": "sum", "empty": "zero"})
    if not running:
        weight = alu("divide", "div", weight, repeat("row sum", total, j))

    c, v_ref = build.add("scan", "scan v", [k_row], 2, arrays=vectors)
    weighted = alu("weight * v", "mul", repeat("weight", weight, c), array("array V", v_ref, attention.values))
    plan = {
        "depth": 2, "levels": (2,), "sizes": (width,), "drain_cycles_per_entry": machine.drain_cycles_per_entry,
    }  # fmt: skip
    column, result = build.add("accumulate", "accumulate", [j, c, weighted], 2, params=plan)
    if running:
        result = alu("divide", "div", result, repeat("row sum", total, column))
    build.add("crd_write", "columns", [column], 0)
    build.add("value_write", "values", [result], 0)
    return build.build()


def cycles_by_depth(graph: Graph, depths: list[int]) -> list[int | None]:
    """Cycles at each FIFO depth; ``None``: deadlock."""
    profiles = [simulate(with_depth(graph, depth)) for depth in depths]
    return [profile.cycles if profile.status == "done" else None for profile in profiles]


def figure(length: int, width: int) -> go.Figure:
    """Cycles against FIFO depth; a dotted line marks the depth below which a graph deadlocks."""
    import plotly.graph_objects as go

    attention = random_attention(length, width)
    drawing = go.Figure()
    for name, colour, running in (("naive", "#f06543", False), ("running", "#0b6bcb", True)):
        graph = attention_graph(attention, running)
        least = smallest_depth(graph)
        if least.depth is None:
            raise SystemExit(f"{name}: {least}")
        depths = sorted({2**n for n in range((4 * length).bit_length())} | {least.depth})
        cycles = cycles_by_depth(graph, depths)
        drawing.add_scatter(x=depths, y=cycles, name=name, mode="lines+markers", line_color=colour)
        drawing.add_vline(x=least.depth, line_dash="dot", line_color=colour)
        print(f"{name}: finishes from FIFO depth {least.depth} on, in {least.profile.cycles} cycles there")
    drawing.update_layout(
        title=f"Attention of {length} rows, width {width}: a graph deadlocks left of its dotted line",
        xaxis={"title": "FIFO depth, tokens", "type": "log", "dtick": "D2", "range": [0, np.log10(5 * length)]},
        yaxis={"title": "cycles", "rangemode": "tozero"},
        template="plotly_white",
    )
    return drawing


def main() -> None:
    """Simulates both graphs and writes the figure as one HTML file."""
    parser = argparse.ArgumentParser(description="Cycles of two attention programs against FIFO depth.")
    parser.add_argument("--length", type=int, default=64, help="rows of queries, keys and values")
    parser.add_argument("--width", type=int, default=4, help="columns of each")
    parser.add_argument("--html", type=Path, default=Path("attention_fifo.html"), help="file to write")
    options = parser.parse_args()
    figure(options.length, options.width).write_html(options.html, include_plotlyjs=True)
    print(f"figure: {options.html}")


if __name__ == "__main__":
    main()
