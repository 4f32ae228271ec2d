"""Node lists on disk: counted once for all processes and later runs.

The folder is what SPARSELOOM_CACHE names, else ``sparseloom`` below XDG_CACHE_HOME, else ``~/.cache/sparseloom``;
SPARSELOOM_CACHE=off keeps nothing. Files are named by content, written beside their place and renamed, so that any
number of processes may share a folder; one that cannot be read is counted anew, with a warning.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

FOLDER_VARIABLE = "SPARSELOOM_CACHE"

LARGEST_BYTES = 1 << 30
"""Size beyond which the files unused for longest are removed, down to half of it."""

Ints = npt.NDArray[np.int64]


class CacheWarning(UserWarning):
    """A file or folder of the cache that is of no use."""


def cache_folder() -> Path | None:
    """Where this process keeps statistics, None for nowhere."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named is not None:
        return None if named in ("", "off") else Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sparseloom"


class DiskCache:
    """Arrays int64[rows, n] by name."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._usable = folder, True

    def load(self, name: str, rows: int) -> Ints | None:
        """The array called ``name``, None if there is none of ``rows`` rows."""
        path = self.folder / f"{name}.npy"
        try:
            found = np.load(path, allow_pickle=False)
            os.utime(path)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, EOFError) as error:
            self._useless(path, str(error))
            return None
        if found.dtype != np.int64 or found.ndim != 2 or found.shape[0] != rows:
            self._useless(path, f"it holds {found.dtype} of shape {found.shape}")
            return None
        return np.asarray(found)

    def save(self, name: str, array: Ints) -> None:
        """Keeps ``array``; a folder that cannot be written is given up, with a warning."""
        if not self._usable:
            return
        path = self.folder / f"{name}.npy"
        try:
            _ = self._pruned
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as draft:
                np.save(draft, array)
            Path(draft.name).replace(path)
        except OSError as error:
            self._usable = False
            warnings.warn(f"statistics are not kept in {self.folder}: {error}", CacheWarning, stacklevel=2)

    def _useless(self, path: Path, reason: str) -> None:
        warnings.warn(f"{path} is counted anew, as it cannot be read: {reason}", CacheWarning, stacklevel=3)

    @cached_property
    def _pruned(self) -> int:
        """Bytes removed, once per process."""
        files = []
        for path in self.folder.rglob("*.*"):
            try:
                files.append((path.stat(), path))
            except FileNotFoundError:  # another process was faster
                continue
        total, removed = sum(s.st_size for s, _ in files), 0
        if total <= LARGEST_BYTES:
            return 0
        for status, path in sorted(files, key=lambda f: f[0].st_mtime):
            if total - removed <= LARGEST_BYTES // 2:
                break
            path.unlink(missing_ok=True)  # others may prune too
            removed += status.st_size
        return removed
