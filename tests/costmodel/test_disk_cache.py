from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from costmodel.disk_cache import CacheWarning, DiskCache, cache_folder
from costmodel.statistics import Statistics
from mapper.tensor import SparseTensor

ARRAY = np.arange(12).reshape(2, 6)
VIEW = ((0, 4), (1, 2))


def tensor(seed: int) -> SparseTensor:
    return SparseTensor.from_dense(np.random.default_rng(seed).random((20, 16)) < 0.2)


def test_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARSELOOM_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    for nowhere in ("off", ""):
        monkeypatch.setenv("SPARSELOOM_CACHE", nowhere)
        assert cache_folder() is None
    monkeypatch.delenv("SPARSELOOM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "sparseloom"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "sparseloom"


def test_node_lists_are_read_by_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("costmodel.statistics.KEPT_ENTRIES", 1)
    expected = [c.tolist() for c in Statistics(DiskCache(tmp_path)).of(tensor(6)).nodes(VIEW)]
    assert [p.suffix for p in tmp_path.rglob("*") if p.is_file()] == [".npy"]
    monkeypatch.setattr("costmodel.statistics.distinct_points", lambda *_: pytest.fail("counted again"))
    assert [c.tolist() for c in Statistics(DiskCache(tmp_path)).of(tensor(6)).nodes(VIEW)] == expected


def test_small_tensors_are_not_kept(tmp_path: Path) -> None:
    Statistics(DiskCache(tmp_path)).of(tensor(6)).nodes(VIEW)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damage", ["cut", "text", "empty", "shape", "type"])
def test_a_damaged_file_is_counted_anew_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setattr("costmodel.statistics.KEPT_ENTRIES", 1)
    expected = [c.tolist() for c in Statistics(DiskCache(tmp_path)).of(tensor(7)).nodes(VIEW)]
    (path,) = tmp_path.rglob("*.npy")
    whole = path.read_bytes()
    if damage in ("shape", "type"):
        np.save(path, np.zeros(3, np.int64) if damage == "shape" else np.zeros((2, 3)))
    else:
        path.write_bytes({"cut": whole[:-20], "text": b"no array at all", "empty": b""}[damage])
    with pytest.warns(CacheWarning, match="counted anew"):
        assert [c.tolist() for c in Statistics(DiskCache(tmp_path)).of(tensor(7)).nodes(VIEW)] == expected
    assert path.read_bytes() == whole  # and mended


def test_writers_side_by_side_leave_whole_files(tmp_path: Path) -> None:
    def write(n: int) -> bool:
        cache = DiskCache(tmp_path)
        cache.save("a/b", ARRAY)
        found = cache.load("a/b", 2)
        return found is not None and (found == ARRAY).all()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(write, range(64)))
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["b.npy"]


def test_a_folder_that_cannot_be_written_is_given_up_with_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = DiskCache(tmp_path / "file")
    with pytest.warns(CacheWarning, match="are not kept"):
        cache.save("a", ARRAY)
    cache.save("b", ARRAY)  # without another warning, which would be an error


def test_a_large_folder_loses_what_was_unused_for_longest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(6):
        DiskCache(tmp_path).save(str(n), ARRAY)
        os.utime(tmp_path / f"{n}.npy", (n, n))
    DiskCache(tmp_path).load("0", 2)
    size = (tmp_path / "0.npy").stat().st_size
    monkeypatch.setattr("costmodel.disk_cache.LARGEST_BYTES", 4 * size)
    DiskCache(tmp_path).save("new", ARRAY)
    assert sorted(p.stem for p in tmp_path.iterdir()) == ["0", "5", "new"]
