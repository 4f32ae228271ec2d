"""The dataflow simulator: cycle-exact, token by token.

``simulate(graph)`` runs a :class:`mapper.graph.Graph` and gives a :class:`Profile`. A graph is contexts joined by
FIFO channels. Every context has a clock that moves only by waiting for a token, for a free slot, or for off-chip
memory, and by its own cost; so the result does not depend on the order in which the host runs them.

Where things are:

* ``simulate.py``    checks a graph, runs it, builds the profile; ``Limits``.
* ``parameters.py``  the kinds of contexts, and the parameters and arrays of each.
* ``ports.py``       names of ports, and whether every stream carries what its reader takes.
* ``result.py``      ``Profile`` and its rows.
* ``deadlock.py``    the report of contexts that wait for one another.
* ``energy.py``      energy of a profile from the machine's table.
* ``fifo_depth.py``  the smallest FIFO depth at which a graph finishes.
* ``critical.py``    what bounds a run, the next bound, and the chain of waits.
* ``efficiency.py``  the sparse efficiency gap.
* ``dot.py``          a graph for Graphviz, coloured by utilisation.
* ``profile_html.py``  a profile for a notebook.
* ``trace.py``       a run as a Chrome trace, for Perfetto.
* ``python_context.py``  contexts written in Python, and real kernels whose measured time is their latency.
* ``core/``          the C++20 engine, built as the module ``_hwsim_core``:
  ``channel.hpp`` (time rules of a FIFO), ``engine.hpp`` and ``engine.cpp`` (contexts as coroutines, scheduling,
  order of memory requests), ``memory.hpp`` (DRAM, traffic accounts), ``contexts/`` (one short coroutine per unit),
  ``build.cpp`` and ``bindings.cpp`` (from records to coroutines and back). ``watch.hpp`` is compiled into a second
  module, ``_hwsim_core_watched``, which also keeps a timeline and checks values.
"""

from .critical import CriticalChain, Link, Resource, critical_chain
from .deadlock import Blocked, Deadlock
from .dot import to_dot
from .efficiency import Efficiency, dense_multiplies, peak_multiplies_per_cycle, sparse_efficiency
from .energy import energy_pj
from .fifo_depth import FifoDepth, smallest_depth, with_depth
from .python_context import Advance, HostKernel, Peek, Pop, Push
from .result import ChannelProfile, ContextProfile, Profile, Timeline, TrafficRow
from .simulate import SIMULATOR_VERSION, Limits, simulate
from .trace import chrome_trace, write_trace

__all__ = [
    "SIMULATOR_VERSION",
    "Advance",
    "Blocked",
    "ChannelProfile",
    "ContextProfile",
    "CriticalChain",
    "Deadlock",
    "Efficiency",
    "FifoDepth",
    "HostKernel",
    "Limits",
    "Link",
    "Peek",
    "Pop",
    "Profile",
    "Push",
    "Resource",
    "Timeline",
    "TrafficRow",
    "chrome_trace",
    "critical_chain",
    "dense_multiplies",
    "energy_pj",
    "peak_multiplies_per_cycle",
    "simulate",
    "smallest_depth",
    "sparse_efficiency",
    "to_dot",
    "with_depth",
    "write_trace",
]
