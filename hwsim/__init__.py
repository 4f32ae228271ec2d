"""The dataflow simulator: cycle-exact, token by token.

``simulate(graph)`` runs a :class:`mapper.graph.Graph` and gives a :class:`Profile`. A graph is contexts joined by
FIFO channels. Every context has a clock that moves only by waiting for a token, for a free slot, or for off-chip
memory, and by its own cost; so the result does not depend on the order in which the host runs them.

Where things are:

* ``simulate.py``    checks a graph, runs it, builds the profile; ``Limits``.
* ``parameters.py``  parameters and arrays of every kind of context.
* ``result.py``      ``Profile`` and its rows.
* ``deadlock.py``    the report of contexts that wait for one another.
* ``energy.py``      energy of a profile from the machine's table.
* ``core/``          the C++20 engine, built as the module ``_hwsim_core``:
  ``channel.hpp`` (time rules of a FIFO), ``engine.hpp`` and ``engine.cpp`` (contexts as coroutines, scheduling,
  order of memory requests), ``memory.hpp`` (DRAM, traffic accounts), ``contexts/`` (one short coroutine per unit),
  ``build.cpp`` and ``bindings.cpp`` (from records to coroutines and back).
"""

from .deadlock import Blocked, Deadlock
from .energy import energy_pj
from .result import ChannelProfile, ContextProfile, Profile, TrafficRow
from .simulate import SIMULATOR_VERSION, Limits, simulate

__all__ = [
    "SIMULATOR_VERSION", "Blocked", "ChannelProfile", "ContextProfile", "Deadlock", "Limits", "Profile", "TrafficRow",
    "energy_pj", "simulate",
]  # fmt: skip
