"""numpy and scipy archives: round trips through every format, and malformed content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from mapper.errors import InputError
from mapper.numpy_files import read_npy, read_npz
from mapper.synthetic import uniform

DENSE = uniform((6, 8), 0.3, 1).to_dense()


def archive(folder: Path, **arrays: Any) -> Path:
    path = folder / "data.npz"
    np.savez_compressed(path, **arrays)
    return path


@pytest.mark.parametrize("container", ["array", "matrix"])
@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
def test_what_scipy_saves(tmp_path: Path, kind: str, container: str) -> None:
    path = tmp_path / "data.npz"
    sparse.save_npz(path, getattr(sparse, f"{kind}_{container}")(DENSE))
    assert np.array_equal(read_npz(path).to_dense(), DENSE)
    assert read_npz(path, member="matrix").key == read_npz(path).key


@pytest.mark.parametrize("separator", ["_", "."])
def test_members_of_a_graph_archive(tmp_path: Path, separator: str) -> None:
    adjacency, attributes = sparse.csr_matrix(np.eye(3)), sparse.csr_matrix(np.arange(6.0).reshape(3, 2))
    arrays = {
        f"{name}{separator}{part}": getattr(matrix, part)
        for name, matrix in (("adj", adjacency), ("attr", attributes))
        for part in ("data", "indices", "indptr", "shape")
    }
    path = archive(tmp_path, **arrays, labels=np.array([0, 2, 1]))
    assert read_npz(path, member="adj").to_dense().tolist() == np.eye(3).tolist()
    assert read_npz(path, member="attr").to_dense().tolist() == [[0, 1], [2, 3], [4, 5]]
    assert read_npz(path, member="labels").to_dense().tolist() == [0, 2, 1]
    with pytest.raises(InputError, match=r"data\.npz: the archive holds adj, attr, labels; name one of them"):
        read_npz(path)
    with pytest.raises(InputError, match=r"no member 'adjj'\. Did you mean 'adj'\? Valid: adj, attr, labels"):
        read_npz(path, member="adjj")


def test_one_member_needs_no_name(tmp_path: Path) -> None:
    tensor = read_npz(archive(tmp_path, weights=DENSE))
    assert np.array_equal(tensor.to_dense(), DENSE) and "zeros are not stored" in tensor.notes[0]
    with pytest.raises(InputError, match="holds nothing"):
        read_npz(archive(tmp_path))


def test_unsorted_entries_and_duplicates(tmp_path: Path) -> None:
    path = archive(tmp_path, data=[1.0, 2.0, np.inf], row=[1, 1, 0], col=[0, 0, 1], shape=[2, 2], format="coo")
    tensor = read_npz(path)
    assert tensor.coords.tolist() == [[0, 1], [1, 0]] and tensor.values.tolist() == [np.inf, 3.0]
    assert tensor.notes == ("1 duplicate entries were summed", "values that are not finite: 1")
    with pytest.raises(InputError, match="the first in entry 1 and entry 2"):
        read_npz(path, duplicates="error")


CSR = {"data": [1.0, 2.0], "indices": [0, 1], "indptr": [0, 1, 2], "shape": [2, 2]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indices": [0, 2]}, "must be a .npz archive of arrays"),
        ({"indices": [0, -1]}, "must be a .npz archive of arrays"),
        ({"indptr": [0, 2, 1]}, "must be a .npz archive of arrays"),
        ({"indptr": [0, 5, 2]}, "must be a .npz archive of arrays"),
        ({"indptr": [0, 2]}, "must be a .npz archive of arrays"),
        ({"data": [1.0]}, "must be a .npz archive of arrays"),
        ({"data": ["a", "b"]}, "data.npz: .*"),
        ({"data": [1j, 2.0]}, "data.npz: values must be real numbers"),
        ({"indices": [0, 1.7]}, r"data\.npz: 'indices' must hold whole numbers of 64 bits, got 1\.7"),
        ({"indices": [0, np.nan]}, "'indices' must hold whole numbers of 64 bits, got nan"),
        ({"indptr": [0, 1, 2.5]}, r"'indptr' must hold whole numbers of 64 bits, got 2\.5"),
        ({"shape": [2.5, 2]}, r"'shape' must hold whole numbers of 64 bits, got 2\.5"),
        ({"format": "coo", "row": [0, 1.7], "col": [0, 1]}, r"'row' must hold whole numbers of 64 bits, got 1\.7"),
        ({"format": "coo", "row": [0, 1], "col": [np.inf, 1]}, "'col' must hold whole numbers of 64 bits, got inf"),
        ({"format": "coo", "coords": [[0, 1], [0, 0.5]]}, r"'coords' must hold whole numbers of 64 bits, got 0\.5"),
        ({"format": "dia", "data": [[1.0, 2.0]], "offsets": [0.5]}, "'offsets' must hold whole numbers of 64 bits"),
        ({"indptr": [0, 1, 1]}, r"data\.npz: the last entry of 'indptr' must be the length of 'data', 2, got 1"),
        ({"format": "csc", "indptr": [0, 1, 1]}, "the last entry of 'indptr' must be the length of 'data', 2, got 1"),
        ({"shape": [2, -2]}, "must be a .npz archive of arrays"),
        ({"format": "lil"}, r"unknown sparse format 'lil'\. .*Valid: bsr, coo, csc, csr, dia"),
        ({"format": "coo"}, "row is missing"),
        ({"data": np.array([{}, {}])}, "holds Python objects, which are never loaded"),
    ],
)
def test_mistakes(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = archive(tmp_path, **{**CSR, **change})
    with pytest.raises(InputError, match=message):
        read_npz(path)


def test_whole_numbers_stored_as_floats(tmp_path: Path) -> None:
    path = archive(tmp_path, **{**CSR, "indices": [0.0, 1.0], "shape": [2.0, 2.0]})
    assert read_npz(path).to_dense().tolist() == [[1, 0], [0, 2]]
    path = archive(tmp_path, data=[], row=[], col=[], shape=[2, 3], format="coo")
    assert read_npz(path).nnz == 0


def test_arrays(tmp_path: Path) -> None:
    path = tmp_path / "data.npy"
    np.save(path, DENSE.astype(np.float32))
    assert np.array_equal(read_npy(path).to_dense(), DENSE)
    np.save(path, np.array([object()]), allow_pickle=True)
    with pytest.raises(InputError, match=r"data\.npy: must be a \.npy file of one array: it holds Python objects"):
        read_npy(path)
    np.save(path, np.array(["a"]))
    with pytest.raises(InputError, match=r"data\.npy: values must be real numbers"):
        read_npy(path)


def test_other_content(tmp_path: Path) -> None:
    path = archive(tmp_path, **CSR)
    with pytest.raises(InputError, match=r"data\.npz: the file is an archive; name it \.npz"):
        read_npy(path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match=r"data\.npz: must be a \.npz archive"):
        read_npz(path)
    path.write_bytes(b"cposix\nsystem\n")
    with pytest.raises(InputError, match=r"data\.npz: the file is not in numpy's format"):
        read_npz(path)
    with pytest.raises(InputError, match=r"absent\.npz: cannot be read"):
        read_npz(tmp_path / "absent.npz")
    np.save(tmp_path / "a.npy", DENSE)
    path.write_bytes((tmp_path / "a.npy").read_bytes())
    with pytest.raises(InputError, match=r"holds a single array; name it \.npy"):
        read_npz(path)
    (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-8])
    with pytest.raises(InputError, match=r"a\.npy: must be a \.npy file"):
        read_npy(tmp_path / "a.npy")
