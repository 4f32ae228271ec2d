"""A PyTorch model in a Python file: ``model.py:Net`` names the file and what in it makes the module.

``Net`` is a module class or function that needs no arguments, or a module. ``example_inputs()``, of the class or of
the file, returns the arguments of ``forward``: a tensor, a tuple of them or a dict by name.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from mapper.errors import InputError, SparseLoomError, nearest
from mapper.torch_import import Imported, import_module, require_torch

SEED = 0
"""Seed of torch while a file runs, so that weights which the file leaves to chance are the same in every run."""


def import_file(target: str, folder: Path | None = None) -> Imported:
    """The program of ``model.py:Net``; a relative path starts at ``folder`` (None: the current one).

    Raises InputError for a missing file or name, for whatever the file raises, and as ``import_module`` does.
    """
    name, colon, attribute = target.rpartition(":")
    if not colon or not name or not attribute:
        raise InputError(f"a PyTorch model is given as file.py:Name, got {target!r}")
    path = (folder or Path.cwd()) / name
    if not path.is_file():
        raise InputError(f"no file {path}; a PyTorch model is given as file.py:Name")
    torch = require_torch()
    with torch.random.fork_rng(devices=[]), _importable(path.parent):
        torch.manual_seed(SEED)
        module = _run(path)
        net, owner = _module(torch, module, path, attribute)
        return import_module(net, _inputs(module, owner, path, attribute))


def _run(path: Path) -> ModuleType:
    """The executed file."""
    spec = spec_from_file_location(f"_sparseloom_model_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is no Python file; a PyTorch model is given as file.py:Name")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # classes of the file look their module up by name
    loader = spec.loader
    with _blamed(path, "the file"):
        loader.exec_module(module)
    return module


def _module(torch: Any, module: ModuleType, path: Path, attribute: str) -> tuple[Any, Any]:
    """The module that ``attribute`` is or makes, and the attribute itself."""
    makers = {
        name: item
        for name, item in vars(module).items()
        if isinstance(item, torch.nn.Module)
        or (getattr(item, "__module__", "") == module.__name__ and callable(item) and name != "example_inputs")
    }
    if attribute not in vars(module):
        raise InputError(f"{path} has no {attribute!r}.{nearest(attribute, makers)}")
    found = getattr(module, attribute)
    if isinstance(found, torch.nn.Module):
        return found, found
    if not callable(found):
        raise InputError(f"{path}: {attribute} must be a torch.nn.Module or make one, got {type(found).__name__}")
    needed = [
        p.name
        for p in inspect.signature(found).parameters.values()
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if needed:
        advice = f"add a function without arguments that returns {attribute}(...) and name that"
        raise InputError(f"{path}: {attribute} needs arguments ({', '.join(needed)}); {advice}")
    with _blamed(path, f"{attribute}()"):
        net = found()
    if not isinstance(net, torch.nn.Module):
        raise InputError(f"{path}: {attribute}() must return a torch.nn.Module, got {type(net).__name__}")
    return net, found


def _inputs(module: ModuleType, owner: Any, path: Path, attribute: str) -> Any:
    maker = getattr(owner, "example_inputs", None) or getattr(module, "example_inputs", None)
    if not callable(maker):
        advice = "define example_inputs() in it, or as a static method of the class, to return the arguments of forward"
        raise InputError(f"{path}: the inputs of {attribute} are not known; {advice}")
    with _blamed(path, "example_inputs()"):
        return maker()


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Lets the file import its neighbours."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


@contextmanager
def _blamed(path: Path, what: str) -> Iterator[None]:
    """Turns whatever the user's code raises into an InputError at its innermost line in ``path``."""
    try:
        yield
    except SparseLoomError:
        raise
    except Exception as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path]
        if isinstance(error, SyntaxError):
            lines = [error.lineno]
        where = f"{path}:{lines[-1]}" if lines else f"{path}"
        raise InputError(f"{where}: {what} raised {type(error).__name__}: {error}") from error
