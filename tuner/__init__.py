"""The search and every door into it: Python API, command line.

``from tuner import tune`` runs a study; ``sparseloom`` (``cli.py`` and ``cli_*.py``) is the console script.

* ``problem.py``    a specification with its data and mapping space.
* ``loop.py``       ask, screen, simulate, tell, commit; ``session.py`` opens it on a database with a progress bar.
* ``search.py``     proposals from an in-memory Optuna study; ``samplers.py`` names and seeds the samplers.
* ``work.py``       what worker processes do: screening and simulation (``evaluate.py``).
* ``selection.py``  which screened candidates are simulated.
* ``forecast.py``   ``--dry-run``; ``outcome.py`` the closing table.
* ``calibration.py``  fits machine fields to measured cycles (``measurement.py`` reads them).
"""

from typing import Any

__all__ = ["tune"]


def __getattr__(name: str) -> Any:
    """``tune`` on first use, so that the console script starts without the libraries behind it."""
    if name == "tune":
        from tuner.api import tune

        return tune
    raise AttributeError(f"module 'tuner' has no attribute {name!r}")
