"""What narrow value types do to results: the values to expect, how close to come to them, and the energy they save."""

from __future__ import annotations

import dataclasses

from mapper.dtypes import FP32, SPACING, rounded, value_width
from mapper.interpreter import result_of
from mapper.machine import Machine
from mapper.mapping import Mapping
from mapper.program import Program
from mapper.tensor import SparseTensor
from mapper.workload import Workload

RELATIVE_TOLERANCE = 1e-9
"""Sums may be taken in another order than the oracle's; both use float64."""


def expected_outputs(workload: Workload, mapping: Mapping) -> dict[str, SparseTensor]:
    """The outputs as the oracle computes them, every tensor rounded where the mapping stores it in a narrow type and
    not where it is streamed to a fused reader."""
    program = workload.program
    if not mapping.dtypes:
        return {name: workload.computed[name] for name in program.outputs}
    computed: dict[str, SparseTensor] = {}
    stored = {name: _rounded(tensor, mapping.dtype(name)) for name, tensor in workload.tensors.items()}
    for number, statement in enumerate(program.statements):
        fused = _streamed(program, mapping, number)
        operands = {o.tensor: (computed if o.tensor in fused else stored)[o.tensor] for o in statement.operands}
        target = statement.target.tensor
        computed[target] = result_of(statement, operands, workload.extents[number])
        stored[target] = _rounded(computed[target], mapping.dtype(target))
    return {name: stored[name] for name in program.outputs}


def viewed(workload: Workload, mapping: Mapping, number: int, tensor: SparseTensor) -> SparseTensor:
    """What view ``number`` stores of its operand ``tensor``, both in the types that the mapping gives them."""
    statement = workload.program.statements[number]
    name = statement.operands[0].tensor
    read = {name: _rounded(tensor, mapping.dtype(name))}
    made = result_of(statement, read, workload.extents[number])
    return _rounded(made, mapping.dtype(statement.target.tensor))


def tolerance(workload: Workload, mapping: Mapping) -> float:
    """Difference to allow between simulated and expected outputs, over one plus the largest magnitude expected.

    Inputs round alike in both; a computed value may lie so close to the middle of two stored ones that another order
    of its sum rounds it to the other: one spacing for every computed tensor of a narrow type.
    """
    narrow = (dtype for name, dtype in mapping.dtypes if name in workload.program.producers)
    return RELATIVE_TOLERANCE + sum(SPACING[dtype] for dtype in narrow)


def multiply_scale(program: Program, mapping: Mapping, statements: tuple[int, ...], machine: Machine) -> float:
    """Energy of a multiplication in a region over that in fp32, which alone the machine's table has: in proportion to
    the bytes of the widest operand. Conservative: at 45 nm an fp16 multiply takes 0.3 and an 8-bit one 0.05 of it
    (Horowitz, ISSCC 2014). Streams between fused statements are fp32."""
    types = [FP32]
    for number in statements:
        operands, fused = program.statements[number].operands, _streamed(program, mapping, number)
        if program.statements[number].kind == "contract" and len(operands) > 1:
            types += [FP32 if o.tensor in fused else mapping.dtype(o.tensor) for o in operands]
    widths = [value_width(dtype, machine.value_bytes) for dtype in types[1:] or types]
    return max(widths) / machine.value_bytes


def _streamed(program: Program, mapping: Mapping, consumer: int) -> set[str]:
    """Tensors that a statement takes from fused producers."""
    edges = zip(program.edges, mapping.cuts, strict=True)
    return {edge.tensor for edge, cut in edges if edge.consumer == consumer and not cut}


def _rounded(tensor: SparseTensor, dtype: str) -> SparseTensor:
    return tensor if dtype == FP32 else dataclasses.replace(tensor, values=rounded(tensor.values, dtype))
