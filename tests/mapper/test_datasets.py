"""Names of data files: where they are looked for, and what an unknown one is told."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from mapper.datasets import find_data, load_tensor
from mapper.errors import InputError

TEXT = "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 2\n"


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A specification's folder and a data folder, named by SPARSELOOM_DATA."""
    here, data = tmp_path / "spec", tmp_path / "data"
    for name in ("spec/own.mtx", "data/top.mtx", "data/vote/vote.mtx", "data/cora/adj.mtx", "data/cora/features.mtx"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(TEXT)
    (data / "vote" / "readme.txt").write_text("one matrix")
    monkeypatch.setenv("SPARSELOOM_DATA", str(data))
    return here, data


def test_where_files_are_found(folders: tuple[Path, Path]) -> None:
    here, data = folders
    assert find_data("own.mtx", here) == here / "own.mtx"
    assert find_data("../data/top.mtx", here).samefile(data / "top.mtx")
    assert find_data("top.mtx", here) == data / "top.mtx"
    assert find_data("cora/adj.mtx", here) == data / "cora" / "adj.mtx"
    assert find_data("adj.mtx", here) == data / "cora" / "adj.mtx"
    assert find_data("vote", here) == data / "vote" / "vote.mtx"
    assert find_data(str(data / "top.mtx"), here) == data / "top.mtx"


def test_the_specification_comes_first(folders: tuple[Path, Path]) -> None:
    here, _ = folders
    (here / "top.mtx").write_text(TEXT)
    assert find_data("top.mtx", here) == here / "top.mtx"


def test_no_folder_means_the_current_one(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folders[0])
    assert find_data("own.mtx", None) == folders[0] / "own.mtx"


def test_folders_that_coincide_or_do_not_exist(folders: tuple[Path, Path], tmp_path: Path) -> None:
    _, data = folders
    assert find_data("vote", data) == data / "vote" / "vote.mtx"
    assert find_data("vote", tmp_path / "absent") == data / "vote" / "vote.mtx"
    with pytest.raises(InputError, match=r"no data file 'nothing'"):
        find_data("nothing", tmp_path / "absent")


def test_ambiguous_names(folders: tuple[Path, Path]) -> None:
    here, data = folders
    with pytest.raises(InputError, match=r"'cora' may be any of .*adj\.mtx, .*features\.mtx; name one of them"):
        find_data("cora", here)
    (data / "vote" / "adj.mtx").write_text(TEXT)
    with pytest.raises(InputError, match=r"'adj\.mtx' may be any of .*cora.*, .*vote"):
        find_data("adj.mtx", here)


def test_unknown_names(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    here, data = folders
    with pytest.raises(InputError) as error:
        find_data("vot", here)
    assert f"looked in {here} and below {data}" in str(error.value)
    assert "Did you mean 'vote'?" in str(error.value)
    monkeypatch.delenv("SPARSELOOM_DATA")
    with pytest.raises(InputError, match=r"SPARSELOOM_DATA is not set\)\. Did you mean 'own\.mtx'"):
        find_data("owm.mtx", here)


def test_load_by_suffix(folders: tuple[Path, Path]) -> None:
    here, _ = folders
    assert load_tensor(here / "own.mtx").values.tolist() == [2.0]
    with pytest.raises(InputError, match=r"own\.csv: the suffix of a data file must be one of \.mtx, \.mtx\.gz"):
        load_tensor(here / "own.csv")


def test_every_suffix(folders: tuple[Path, Path]) -> None:
    here, _ = folders
    (here / "a.tns").write_text("1 1 3\n")
    (here / "a.SMTX").write_text("1, 1, 1\n0 1\n0\n")
    np.savez(here / "a.npz", w=np.array([[5.0]]), v=np.array([6.0]))
    np.save(here / "a.npy", np.array([[7.0]]))
    found = [load_tensor(here / name).values.tolist() for name in ("a.tns", "a.SMTX", "a.npy")]
    assert found == [[3.0], [1.0], [7.0]]
    assert load_tensor(here / "a.npz", member="w").values.tolist() == [5.0]
    with pytest.raises(InputError, match=r"a\.tns: only an \.npz archive has members, got member 'w'"):
        load_tensor(here / "a.tns", member="w")


def test_every_real_file(data_dir: Path) -> None:
    rows = re.findall(r"^\| `([^`]+)` \| ([\d × ]+) \| (\d+) \|", (data_dir / "README.md").read_text(), re.MULTILINE)
    assert {name for name, *_ in rows} == {
        str(p.relative_to(data_dir)) for p in data_dir.rglob("*") if p.is_file() and p.name != "README.md"
    }
    for name, shape, nnz in rows:
        tensor = load_tensor(data_dir / name)
        assert (tensor.shape, tensor.nnz) == (tuple(map(int, shape.split(" × "))), int(nnz)), name


def test_real_set_by_its_name(data_dir: Path) -> None:
    tensor = load_tensor(find_data("wiki-Vote", None))
    assert tensor.shape == (8297, 8297) and tensor.nnz == 103_689
    assert find_data("cora_adj.mtx.gz", None).parent.name == "planetoid-cora"
