"""The search and every door into it: Python API, command line.

``from tuner import tune`` runs a study; ``sparseloom`` (``cli.py`` and ``cli_*.py``) is the console script.

* ``problem.py``    a specification with its data and mapping space.
* ``loop.py``       ask, screen, simulate, tell, commit; ``session.py`` opens it on a database with a progress bar.
* ``search.py``     proposals from an in-memory Optuna study; ``samplers.py`` names and seeds the samplers.
* ``model_sampler.py``  our own sampler, over ``mapping_domain.py``.
* ``optimizer.py``  the same search by ask and tell for outside evaluators: ``Optimizer`` over a ``ParameterSpace`` of
  ``parameters.py`` with ``constraints.py``. Both are ``proposer.py`` over a ``surrogate.py``: ``gp.py``,
  ``feasibility.py``, ``acquisition.py``.
* ``work.py``       what worker processes do: screening and simulation (``evaluate.py``).
* ``selection.py``  which screened candidates are simulated.
* ``forecast.py``   ``--dry-run``; ``outcome.py`` the closing table.
* ``calibration.py``  fits machine fields to measured cycles (``measurement.py`` reads them).
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "tune": "api",
    "Optimizer": "optimizer",
    "ParameterSpace": "parameter_space",
    "Ingredients": "surrogate",
    **dict.fromkeys(("Categorical", "Integer", "Ordinal", "Permutation", "Real"), "parameters"),
}

__all__ = [
    "Categorical",
    "Ingredients",
    "Integer",
    "Optimizer",
    "Ordinal",
    "ParameterSpace",
    "Permutation",
    "Real",
    "tune",
]


def __getattr__(name: str) -> Any:
    """What is exported, on first use, so that the console script starts without the libraries behind it."""
    if name in _HOMES:
        return getattr(import_module(f"tuner.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'tuner' has no attribute {name!r}")
