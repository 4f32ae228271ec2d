"""Graphs as the mapping compiler makes them: regions of random mappings of one sparse product, with off-chip memory."""

from __future__ import annotations

import numpy as np

from mapper.graph import Graph
from mapper.lowering import lower_conversion, lower_region
from mapper.machine import Machine, load_machine
from mapper.notation import parse_program
from mapper.schedule import Conversion, schedule
from mapper.space import MappingSpace
from mapper.storage import Layout, Storage, store_tensor
from mapper.tensor import SparseTensor
from mapper.workload import Workload

PRODUCT, SQUARE = "Z(i,j) = A(i,k) * B(k,j)", "Z(i,j) = A(i,k) * A(k,j)"


def lowered_graphs(count: int, seed: int, program: str = PRODUCT) -> list[Graph]:
    """``count`` graphs that have a tile_load, or a convert: SQUARE may read one tensor in two layouts."""
    rng = np.random.default_rng(seed)
    machine = load_machine("rda").with_fields(buffer_bytes=256, accumulator_bytes=128, dram_latency_cycles=20)
    dense = {name: rng.integers(1, 9, (9, 9)) * (rng.random((9, 9)) < 0.3) * 1.0 for name in "AB"}
    tensors = {name: SparseTensor.from_dense(values) for name, values in dense.items() if f"{name}(" in program}
    workload = Workload(parse_program(program), tensors)
    space = MappingSpace(workload, machine)

    def stored(tensor: str, layout: Layout, on: Machine = machine) -> Storage:
        return store_tensor(workload.tensor(tensor), layout, on)

    graphs: list[Graph] = []
    while len(graphs) < count:
        mapping = space.sample(rng)
        for step in schedule(workload.program, mapping).steps:
            if isinstance(step, Conversion):
                graphs.append(lower_conversion(step, machine, stored))
                continue
            graph = lower_region(workload, mapping, machine, step, stored)
            graphs += [graph] * any(c.kind == "tile_load" for c in graph.contexts)
    return graphs[:count]
