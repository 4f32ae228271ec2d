"""Fixtures shared by the whole suite."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("SPARSELOOM_CACHE", "off")  # tests leave nothing in the user's cache


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real data sets, named by SPARSELOOM_DATA; absent: skip, or fail if data is required."""
    folder = os.environ.get("SPARSELOOM_DATA")
    if folder and Path(folder).is_dir():
        return Path(folder)
    reason = f"real data sets are needed: set SPARSELOOM_DATA to their folder (now {folder!r})"
    if os.environ.get("SPARSELOOM_REQUIRE_DATA") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
