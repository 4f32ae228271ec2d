"""Lowering: a region or a conversion of a schedule becomes a dataflow graph. Knows statements, no kernel names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping as MappingABC

import numpy as np

from mapper.block_lowering import BlockLowering
from mapper.blocks import block_plan, elements_of
from mapper.dtypes import rounded
from mapper.graph import Graph
from mapper.graph_builder import GraphBuilder
from mapper.lanes import Slice, lane_slices
from mapper.machine import Machine
from mapper.mapping import Mapping
from mapper.program import Edge
from mapper.region_lowering import RegionLowering, StorageOf
from mapper.regions import stream_nest
from mapper.schedule import Conversion, Region
from mapper.tensor import SparseTensor
from mapper.workload import Workload

Written = tuple[np.ndarray, np.ndarray]
"""(coords[levels, n], values[n]) that a ``store`` wrote."""


def lower_region(
    workload: Workload, mapping: Mapping, machine: Machine, region: Region, storage_of: StorageOf
) -> Graph:
    """Graph of a region, all its lanes side by side."""
    workload = workload.variant(mapping.variant)
    slices: dict[int, tuple[tuple[Slice, ...], ...]] = {}
    if any(mapping.loops[n].parallel for n in region.statements):
        slices = lane_slices(workload, mapping, region.statements)
    build = GraphBuilder(machine)
    _lowering(workload, mapping, machine, region, storage_of, build, slices).run()
    return build.build()


def lane_units(
    workload: Workload, mapping: Mapping, machine: Machine, fused: tuple[Edge, ...], number: int
) -> Counter[str]:
    """Contexts of each kind that one lane of a statement takes, stores and forks apart. Needs no data: the lane is
    lowered with streams from nowhere. ``fused``: the fused edges of its region."""
    return _counting(workload, mapping, machine, fused, number).lane_units(number)


def sum_units(
    workload: Workload, mapping: Mapping, machine: Machine, fused: tuple[Edge, ...], number: int, parts: int
) -> Counter[str]:
    """Contexts of each kind that add so many partial results of a statement."""
    return _counting(workload, mapping, machine, fused, number).sum_units(number, parts)


def _counting(
    workload: Workload, mapping: Mapping, machine: Machine, fused: tuple[Edge, ...], number: int
) -> RegionLowering:
    workload, alone = workload.variant(mapping.variant), Region((number,), fused, ())
    return _lowering(workload, mapping, machine, alone, None, GraphBuilder(machine), {})


def _lowering(
    workload: Workload, mapping: Mapping, machine: Machine, region: Region, storage_of: StorageOf | None,
    build: GraphBuilder, slices: dict[int, tuple[tuple[Slice, ...], ...]],
) -> RegionLowering:  # fmt: skip
    if len(region.statements) == 1 and (plan := block_plan(workload, mapping, machine, region.statements[0])):
        return BlockLowering(workload, mapping, machine, region, storage_of, build, slices, plan)
    return RegionLowering(workload, mapping, machine, region, storage_of, build, slices)


def lower_conversion(conversion: Conversion, machine: Machine, storage_of: StorageOf) -> Graph:
    """Graph of one context that reads a tensor in one layout and writes it, or its windows, in another."""
    build = GraphBuilder(machine)
    source = storage_of(conversion.tensor, conversion.source)
    result = storage_of(conversion.made, conversion.result)
    accounts = {"tensor": build.account(conversion.tensor), "result": build.account(conversion.made)}
    params = {
        "read_value_bytes": source.value_bytes,
        "read_metadata_bytes": source.metadata_bytes,
        "write_value_bytes": result.value_bytes,
        "write_metadata_bytes": result.metadata_bytes,
    }
    if machine.dram_channels is None or conversion.in_place:
        params = dict.fromkeys(params, 0)
    build.add("convert", conversion.name, outputs=0, params=accounts | params)
    return build.build()


def written_elements(graph: Graph, outputs: MappingABC[str, Written]) -> dict[str, Written]:
    """What the stores of a graph wrote, by name: of those that store blocks, their elements."""
    found = dict(outputs)
    for context in graph.contexts:
        if context.kind == "block_store" and context.name in found:
            coords, numbers = found[context.name]
            params, at = context.params, coords.reshape(len(context.inputs) - 1, numbers.size)
            tiles = context.arrays["tiles"].reshape(-1, params["rows"], params["cols"])
            modes = zip(params["dims"][-2:], params["tiles"][-2:], params["tile_level_of"][-2:], strict=True)
            rows, cols = (np.minimum(tile, dim - tile * at[n] * (n >= 0)) for dim, tile, n in modes)
            found[context.name] = elements_of(numbers.view(np.int64), at, tiles, (rows, cols))
    return found


def collect_output(workload: Workload, mapping: Mapping, statement: int, parts: list[Written]) -> SparseTensor:
    """The tensor that the ``store`` contexts of a statement's lanes wrote: (coords[levels, n], values[n]) each;
    values are rounded to the type in which the tensor is stored."""
    workload = workload.variant(mapping.variant)
    target = workload.program.statements[statement].target
    loops = mapping.loops[statement]
    shape = workload.shape(target, statement)
    nest, tiles = stream_nest(workload.program, statement, loops), dict(loops.tiles)
    levels = np.concatenate([crds.reshape(len(nest), values.size) for crds, values in parts], axis=1)
    coords = np.zeros((len(shape), levels.shape[1]), np.int64)
    for (index, part), column in zip(nest, levels, strict=True):
        coords[target.indices.index(index)] += column * (tiles[index] if part == "tile" else 1)
    values = rounded(np.concatenate([values for _, values in parts]), mapping.dtype(target.tensor))
    return SparseTensor.from_coo(shape, coords, values)
