"""prune: drops elements whose value is smaller than a threshold, so that later units need not see them."""

from functools import partial

from hwsim import simulate
from hwsim.python_context import DONE, Advance, Moves, Peek, Pop, Push
from mapper.graph import Channel, Context, Graph


def prune(least: float) -> Moves:
    """Elements with |value| < ``least`` go, and those without a value. One token per cycle."""
    while True:
        crd, val = (yield Peek(0)), (yield Peek(1, float))
        yield Pop(0)
        yield Pop(1)
        if crd[0] != "val" or (val[0] == "val" and not abs(val[1]) < least):
            yield Push(0, crd)
            yield Push(1, val)
        if crd == DONE:
            return
        yield Advance(1)


crds = [("val", 0), ("val", 4), ("val", 7), ("stop", 0), DONE]
vals = [("val", 0.5), ("val", 0.01), ("val", -2.0), ("stop", 0), DONE]
graph = Graph(
    (
        Context("crds", "source", (), (0,), {"tokens": crds}),
        Context("vals", "source", (), (1,), {"tokens": vals}),
        Context("prune", "python", (0, 1), (2, 3), {"generator": partial(prune, 0.1)}),
        Context("kept crds", "sink", (2,)),
        Context("kept vals", "sink", (3,), (), {"dtype": "float"}),
    ),
    tuple(Channel(name, 8) for name in ("crd", "val", "kept crd", "kept val")),
)
profile = simulate(graph)
for token, cycle in profile.sinks["kept vals"]:
    print(cycle, *token)
