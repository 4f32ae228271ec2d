"""Study specifications: what they mean, and where each mistake is found."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import sqlalchemy as sa

from mapper.document import parse_document
from mapper.errors import InputError
from mapper.formats import parse_format
from mapper.machine import load_machine
from mapper.space_limits import SpaceLimits
from studies.spec import StudySpec, TensorSource, load_spec, read_spec, spec_from_values
from studies.store import StudyStore

GCN = """\
program: |
  H(i,k) = A(i,j) * X(j,k)
  Z(i,m) = relu(H(i,k) * W(k,m) + b(m))
tensors:
  A: {file: adjacency.mtx.gz, format: [csr, dcsr]}
  X: {file: features.mtx, duplicates: error}
  W: {random: {kind: dense, shape: [14, 16], seed: 1}}
  b: {random: {shape: [16], density: 1.0, seed: 2}}
machine: {preset: rda, fifo_depth: [16, 64, 16], buffer_bytes: 32768}
mapping:
  parallel: {max: 4, index: i}
  residency: lru
  orders: {H: [ikj, "i,j,k", [k, i, j]]}
  tiles: {i: [32, none], m: 8}
  fuse: {H: true}
objectives: [latency_cycles, energy_pj]
constraints: {traffic_bytes: 1e9}
search: {sampler: random, simulations: 12, seed: 3, batch: 4, workers: 1}
limits: {cycles: 1000000}
report: out.html
"""

SMALL = "program: Z(i) = A(i,k) * B(k)\ntensors: {A: {file: a.mtx}, B: {file: b.mtx}}\n"


def read(text: str) -> StudySpec:
    return read_spec(parse_document(text, "gcn.yaml"), folder=Path("/studies"), name="gcn")


def test_formats_of_every_kind(tmp_path: Path) -> None:
    text = GCN.replace("format: [csr, dcsr]", "format: [coo, 2:4, bitmap:fp16, bcsr(4x4), 'compressed,1:2:int8']")
    spec = read_spec(parse_document(text, "gcn.yaml"), folder=tmp_path, name="gcn")
    names = ["coo", "2:4", "bitmap:fp16", "bcsr(4x4)", "compressed,1:2:int8"]
    assert [str(form) for form in spec.space.formats["A"]] == names
    assert spec.identity()["space"]["formats"]["A"] == names
    with pytest.raises(InputError, match=r"gcn.yaml:5:\d+: unknown format 'coos' for 2 modes. Did you mean 'coo'"):
        read_spec(parse_document(GCN.replace("dcsr", "coos"), "gcn.yaml"), folder=tmp_path, name="gcn")


def test_everything_is_read() -> None:
    spec = read(GCN)
    assert [s.target.tensor for s in spec.program.statements] == ["H", "T1", "T2", "Z"]
    assert spec.sources == (
        TensorSource("A", "adjacency.mtx.gz"),
        TensorSource("X", "features.mtx", "error"),
        TensorSource("W", kind="dense", params=(("seed", 1), ("shape", (14, 16)))),
        TensorSource("b", kind="uniform", params=(("density", 1.0), ("seed", 2), ("shape", (16,)))),
    )
    assert spec.machine == load_machine("rda").with_fields(buffer_bytes=32768)
    assert spec.space == SpaceLimits(
        formats={"A": (parse_format("csr", 2), parse_format("dcsr", 2))},
        orders={"H": (("i", "k", "j"), ("i", "j", "k"), ("k", "i", "j"))},
        tiles={"i": (32, 0), "m": (8,)},
        fuse={"H": True},
        max_lanes=4,
        parallel_indices=("i",),
        residency=("lru",),
        machine={"fifo_depth": (16, 64)},
    )
    assert spec.objectives == ("latency_cycles", "energy_pj")
    assert spec.budgets == (("traffic_bytes", 1e9),)
    assert (spec.search.sampler, spec.search.simulations, spec.search.seed) == ("random", 12, 3)
    assert (spec.limits.cycles, spec.limits.tokens) == (1_000_000, None)
    assert (spec.name, spec.report) == ("gcn", Path("/studies/out.html"))
    assert str(spec.storage) == "sqlite:////studies/studies.db"


def test_what_is_not_said_is_left_to_the_defaults() -> None:
    spec = read(SMALL)
    assert spec.space == SpaceLimits()
    assert spec.machine == load_machine("rda")
    assert spec.objectives == ("latency_cycles", "traffic_bytes")
    assert spec.report is None


@pytest.mark.parametrize(
    ("said", "url"),
    [
        ("sqlite:///sub/s.db", "sqlite:////studies/sub/s.db"),
        ("sqlite:////data/s.db", "sqlite:////data/s.db"),
        ("sqlite:///:memory:", "sqlite:///:memory:"),
        ("postgresql://host/name", "postgresql://host/name"),
    ],
)
def test_storage_resolves_against_the_folder(said: str, url: str) -> None:
    assert read(SMALL + f"storage: '{said}'\n").storage == sa.make_url(url)


@pytest.mark.parametrize("name", ["q?dir", "p%20dir", "h#dir", "a b"])
def test_storage_in_folders_that_a_url_would_escape(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "small.yaml").write_text(SMALL + "storage: sqlite:///s.db\n")
    store = StudyStore(load_spec(folder / "small.yaml").storage)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert (folder / "s.db").exists()
    assert StudyStore(store.name, create=False).studies() == []  # the name that is printed may be given to --storage


def test_one_order_may_be_written_as_a_list_of_indices() -> None:
    assert read(SMALL + "mapping: {orders: {Z: [k, i]}}").space.orders == {"Z": (("k", "i"),)}
    assert read(SMALL + "mapping: {orders: {Z: ki}}").space.orders == {"Z": (("k", "i"),)}
    assert read(SMALL + "mapping: {orders: {Z: [[k, i], [i, k]]}}").space.orders == {"Z": (("k", "i"), ("i", "k"))}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("machine:", "machin:", "9:1: unknown key 'machin'. Did you mean 'machine'?"),
        ("duplicates", "duplicate", "6:27: unknown key 'duplicate' in tensors.X. Did you mean 'duplicates'?"),
        ("max: 4", "maxx: 4", "11:14: unknown key 'maxx' in mapping.parallel. Did you mean 'max'?"),
        ("seed: 3", "seed: three", '18:50: search.seed must be a valid integer, got "three"'),
        (
            "duplicates",
            "values: {sed: 1}, duplicates",
            "6:36: unknown key 'sed' in tensors.X.values. Did",
        ),
        ("duplicates", "member: m, values: {seed: -1}, duplicates", "6:53: tensors.X.values.seed must be"),
        ("max: 4", "max: true", "11:19: mapping.parallel.max must be a valid integer, got true"),
        ("max: 4", "max: 0", "11:19: mapping.parallel.max must be greater than or equal to 1, got 0"),
        ("preset: rda", "preset: rad", "9:19: unknown machine 'rad'. Did you mean 'rda'?"),
        ("fifo_depth", "fifo_deph", "9:24: unknown name 'fifo_deph' in machine. Did you mean 'fifo_depth'?"),
        ("[16, 64, 16]", "[16, deep]", "9:41: machine field 'fifo_depth' must be an integer, got 'deep'"),
        ("[16, 64, 16]", "[16, [64]]", "9:41: machine field 'fifo_depth' must be an integer, got [64]"),
        ("[16, 64, 16]", "[]", "9:36: machine field 'fifo_depth' needs at least one value"),
        ("buffer_bytes: 32768", "buffer_bytes: 0", "9:64: machine field 'buffer_bytes' must be positive, got 0"),
        ("[csr, dcsr]", "[csr, dcrs]", "5:45: unknown format 'dcrs' for 2 modes. Did you mean 'dcsr'?"),
        ("b: {random", "b: {format: csr, random", "8:15: format 'csr' is for matrices"),
        ("energy_pj]", "energy]", "16:30: unknown name 'energy' in objectives. Did you mean 'energy_pj'?"),
        ("energy_pj]", "latency_cycles]", "16:30: objective 'latency_cycles' is given twice"),
        ("[latency_cycles, energy_pj]", "[]", "16:13: at least one objective is needed"),
        ("traffic_bytes: 1e9", "traffic_byte: 1e9", "17:15: unknown name 'traffic_byte' in constraints."),
        ("traffic_bytes: 1e9", "traffic_bytes: -1", "17:30: constraints.traffic_bytes must be greater than 0, got -1"),
        ("sampler: random", "sampler: rnadom", "18:19: unknown name 'rnadom' in search.sampler. Did you mean"),
        ("residency: lru", "residency: lur", "12:14: unknown name 'lur' in mapping.residency. Did you mean 'lru'?"),
        ("index: i", "index: [i, q]", "11:33: unknown name 'q' in mapping.parallel.index. Valid: i, j, k, m."),
        ("tiles: {i", "tiles: {ii", "14:11: unknown name 'ii' in mapping.tiles. Did you mean 'i'?"),
        ("fuse: {H", "fuse: {Z", "15:10: unknown name 'Z' in mapping.fuse. Valid: H, T1, T2."),
        ("orders: {H", "orders: {HH", "13:12: unknown name 'HH' in mapping.orders. Did you mean 'H'?"),
        ('"i,j,k"', '"i,j"', "13:21: a loop order of 'H' must hold each of its indices i, k, j once, got 'i,j'"),
        ("[k, i, j]]", "[k, i, i]]", "13:30: a loop order of 'H' must hold each"),
        ("  A: {file", "  Adj: {file", "5:3: unknown name 'Adj' in tensors. Valid: A, H, T1, T2, W, X, Z, b."),
        ("  b: {random: {shape: [16], density: 1.0, seed: 2}}\n", "", "3:35: tensor 'b' has no data. Valid: A, W, X."),
        ("{file: features.mtx, duplicates: error}", "{}", "6:3: tensor 'X' needs either a file or random"),
        ("X: {file", "X: {random: {}, file", "6:3: tensor 'X' needs either a file or random"),
        ("  b: {random", "  Z: {file: z.mtx}\n  b: {random", "8:3: 'Z' is computed by the program"),
        ("duplicates: error", "duplicates: drop", "6:39: unknown name 'drop' in tensors.X.duplicates. Valid: error"),
        ("kind: dense", "kind: dnese", "7:22: unknown name 'dnese' in tensors.W.random.kind. Did you mean 'dense'?"),
        ("density: 1.0", "desnity: 1.0", "8:29: unknown name 'desnity' in tensors.b.random. Did you mean 'density'?"),
        ("shape: [16]", "shape: [16, 1]", "8:23: shape of 'b' must be a list of 1 extents"),
        ("shape: [16]", "shape: 16", "8:23: shape of 'b' must be a list of 1 extents"),
        ("relu(", "rleu(", "3:12: unknown function 'rleu'. Did you mean 'relu'?"),
        ("X(j,k)", "X(j,k", "2:22:"),
        ("cycles: 1000000", f"cycles: {2**63}", f"19:18: limits.cycles must be less than or equal to {2**63 - 1}"),
        ("cycles: 1000000", f"tokens: {10**23}", f"19:18: limits.tokens must be less than or equal to {2**63 - 1}"),
        ("report:", "name: a b\nreport:", "20:7: name must hold neither white space nor slashes"),
        ("report:", "storage: mysql://x\nreport:", "20:10: storage must be a URL"),
        ("report:", "storage: sqlite://x\nreport:", "20:10: storage must be a URL"),
        ("report:", "storage: postgresql://host:port/x\nreport:", "20:10: storage must be a URL"),
        ("report:", "storage: sqlite+aiosqlite:///x\nreport:", "20:10: storage must be a URL"),
    ],
)
def test_mistakes_are_placed(old: str, new: str, message: str) -> None:
    assert GCN.count(old) == 1, old
    with pytest.raises(InputError) as caught:
        read(GCN.replace(old, new))
    assert str(caught.value).startswith(f"gcn.yaml:{message}"), caught.value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1\n", "f:1:1: a study must be a mapping of keys to values"),
        ("tensors: {}\n", "f:1:1: key 'program' is required"),
        ("program: Z(i) = A(i)\n", "f:1:17: tensor 'A' has no data. Valid: none."),
        ("program: 7\ntensors: {}\n", "f:1:10: program.notation must be a valid string, got 7"),
        (SMALL + "mapping:\n", "f:3:9: mapping must be a mapping of keys to values, got null"),
        (SMALL + "search: {seeds: 1, batch: x}\nlimits: 3\n", "f:3:10: unknown key 'seeds' in search."),
    ],
)
def test_wrong_shapes_are_placed(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_spec(parse_document(text, "f"), folder=Path(), name="f")
    assert str(caught.value).startswith(message)


def test_files_are_named_and_names_come_from_files(tmp_path: Path) -> None:
    file = tmp_path / "spmv.yaml"
    file.write_text(SMALL)
    spec = load_spec(file)
    assert (spec.name, spec.folder) == ("spmv", tmp_path)
    file.write_text(SMALL + "nmae: x")
    with pytest.raises(InputError, match=r"spmv\.yaml:3:1: unknown key 'nmae'. Did you mean 'name'"):
        load_spec(file)


class TestIdentity:
    def test_does_not_depend_on_how_the_study_is_run(self) -> None:
        same = GCN.replace("workers: 1", "workers: 7").replace("out.html", "x.html")
        same += "storage: sqlite:///o.db\nname: y\n"
        assert read(GCN).identity_hash == read(same).identity_hash

    def test_does_not_depend_on_spelling(self) -> None:
        spelt = GCN.replace("H(i,k) = A(i,j) * X(j,k)", "H(i, k)=A(i,j)*X(j,k)  # gather")
        assert read(GCN).identity_hash == read(spelt).identity_hash

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("relu", "tanh"),
            ("[csr, dcsr]", "csr"),
            ("[16, 64, 16]", "[16, 64, 256]"),
            ("32768", "32769"),
            ("max: 4", "max: 2"),
            ("residency: lru", "residency: none"),
            ("[32, none]", "[32]"),
            ("fuse: {H: true}", "fuse: {H: false}"),
            ("[latency_cycles, energy_pj]", "latency_cycles"),
            ("1e9", "1e8"),
            ("sampler: random", "sampler: tpe"),
            ("simulations: 12", "simulations: 13"),
            ("seed: 3", "seed: 4"),
            ("batch: 4", "batch: 5"),
            ("cycles: 1000000", "cycles: 1000001"),
        ],
    )
    def test_depends_on_what_decides_the_rows(self, old: str, new: str) -> None:
        assert GCN.count(old) == 1
        assert read(GCN).identity_hash != read(GCN.replace(old, new)).identity_hash

    def test_holds_the_hashes_of_the_data(self) -> None:
        assert read(GCN).identity({"": {"A": "k1"}})["data"] == {"A": "k1"}


class TestPythonValues:
    def test_tensors_may_be_in_memory(self) -> None:
        spec = spec_from_values(
            {"program": "Z(i) = A(i,k) * B(k)", "tensors": {"A": {"format": "csr"}}, "machine": "comal"},
            folder=Path("/x"),
            name="spmv",
            in_memory=("A", "B"),
        )
        assert spec.sources == (TensorSource("A"), TensorSource("B"))
        assert spec.machine == load_machine("comal")
        assert list(spec.space.formats) == ["A"]

    def test_errors_name_the_path(self) -> None:
        values = {"program": "Z(i) = A(i)", "tensors": {}, "search": {"seed": -1}}
        with pytest.raises(InputError, match=r"^study: search\.seed: search\.seed must be greater"):
            spec_from_values(values, folder=Path(), name="x", in_memory=("A",))
        values["search"] = {}
        with pytest.raises(InputError, match="unknown name 'Q' in tensors"):
            spec_from_values(values, folder=Path(), name="x", in_memory=("A", "Q"))


def test_a_spec_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        read(SMALL).name = "other"  # type: ignore[misc]
