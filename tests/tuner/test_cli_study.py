"""The reading half of the command line, run as a user runs it."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sample_study import BATCH, batch, fill, identity

from studies.store import StudyStore
from tuner.cli import main

SLOW = ("numpy", "pandas", "plotly", "sqlalchemy", "optuna", "pydantic", "jinja2", "scipy", "hwsim", "costmodel")


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with two studies, in the variable that names it."""
    url = f"sqlite:///{tmp_path / 'studies.db'}"
    store = StudyStore(url)
    fill(store)
    fill(store, "other", 1)
    monkeypatch.setenv("SPARSELOOM_STORAGE", url)
    monkeypatch.setenv("TERMINAL_WIDTH", "100")
    monkeypatch.chdir(tmp_path)
    return url


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of ``sparseloom WORDS``."""
    monkeypatch.setattr(sys, "argv", ["sparseloom", *words])
    with pytest.raises(SystemExit) as done:
        main()
    code = done.value.code
    out, err = capsys.readouterr()
    assert isinstance(code, int) or code is None
    return code or 0, out, err


@pytest.mark.usefixtures("storage")
class TestReading:
    def test_list(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = run(monkeypatch, capsys, "study", "list")
        assert code == 0
        assert "sample" in out
        assert "simulation budget used" in out
        _, out, _ = run(monkeypatch, capsys, "study", "list", "--json")
        assert [(s["study"], s["trials"], s["batches"]) for s in json.loads(out)] == [
            ("sample", 3 * BATCH, 3),
            ("other", BATCH, 1),
        ]

    def test_show(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = run(monkeypatch, capsys, "study", "show", "sample")
        assert code == 0
        for text in ("T(i,j) = A(i,k) * B(k,j)", "60 asked", "tile-over-capacity", "stale:"):
            assert text in out
        _, out, _ = run(monkeypatch, capsys, "study", "show", "sample", "--json")
        shown = json.loads(out)
        assert shown["funnel"]["asked"] == 3 * BATCH
        assert shown["winners"][0]["mapping"] == "default"

    def test_query_as_table_json_and_csv(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        words = (
            "study",
            "query",
            "sample",
            "--where",
            "state == 'simulated'",
            "--sort",
            "traffic_bytes",
            "--limit",
            "3",
        )
        code, out, _ = run(monkeypatch, capsys, *words)
        assert code == 0
        assert "traffic_bytes" in out
        _, out, _ = run(monkeypatch, capsys, *words, "--columns", "number,traffic_bytes,failure", "--json")
        rows = json.loads(out)
        assert [r["traffic_bytes"] for r in rows] == sorted(r["traffic_bytes"] for r in rows)
        assert [list(r) for r in rows] == [["number", "traffic_bytes", "failure"]] * 3
        assert {r["failure"] for r in rows} == {None}
        _, out, _ = run(monkeypatch, capsys, *words, "--columns", "all", "--csv")
        table = list(csv.DictReader(io.StringIO(out)))
        assert [int(r["number"]) for r in table] == [r["number"] for r in rows]
        assert "tile_S0_i" in table[0]

    def test_query_best(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        _, out, _ = run(monkeypatch, capsys, "study", "query", "sample", "--best", "energy_pj", "--json")
        (row,) = json.loads(out)
        _, out, _ = run(monkeypatch, capsys, "study", "query", "sample", "--json", "--where", "state == 'simulated'")
        assert row["energy_pj"] == min(r["energy_pj"] for r in json.loads(out))

    def test_what_breaks_a_constraint_is_not_best(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], storage: str
    ) -> None:
        measured = sorted((t.values or {})["latency_cycles"] for t in batch(0) if t.state == "simulated")
        store = StudyStore(storage)
        for name, limit in (("limited", measured[3]), ("hopeless", 1.0)):
            study = store.open({**identity(), "constraints": {"latency_cycles": limit}}, name)
            store.commit_batch(study, 0, batch(0))
        words = ("--best", "traffic_bytes", "--json")
        (row,) = json.loads(run(monkeypatch, capsys, "study", "query", "limited", *words)[1])
        assert row["latency_cycles"] <= measured[3]
        rows = json.loads(run(monkeypatch, capsys, "study", "query", "limited", "--where", "over_budget", "--json")[1])
        assert sorted(r["latency_cycles"] for r in rows if r["state"] == "simulated") == measured[4:]
        assert json.loads(run(monkeypatch, capsys, "study", "query", "hopeless", *words)[1]) == []
        _, out, _ = run(monkeypatch, capsys, "study", "show", "hopeless")
        assert "no best mapping:" in out

    def test_query_why_pruned(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        words = ("study", "query", "sample", "--why-pruned", "--json")
        _, out, _ = run(monkeypatch, capsys, *words)
        rules = {r["rule"]: r["trials"] for r in json.loads(out)}
        assert set(rules) == {"ranked-below", "tile-over-capacity", "units"}
        _, out, _ = run(monkeypatch, capsys, *words, "--where", f"number < {BATCH}")
        assert json.loads(out)[0]["trials"] < rules["ranked-below"]

    def test_report(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        code, out, _ = run(monkeypatch, capsys, "report", "sample")
        assert (code, out) == (0, "wrote sample.html\n")
        assert (tmp_path / "sample.html").read_text().startswith("<!DOCTYPE html>")
        code, _, _ = run(monkeypatch, capsys, "report", "sample", "-o", str(tmp_path / "r.html"))
        assert code == 0
        assert (tmp_path / "r.html").exists()

    def test_report_that_cannot_be_written(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        code, _, err = run(monkeypatch, capsys, "report", "sample", "-o", "no/such/folder/r.html")
        assert code == 2
        assert "no/such/folder/r.html" in err

    def test_delete(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], storage: str) -> None:
        code, out, _ = run(monkeypatch, capsys, "study", "delete", "other", "--yes")
        assert (code, out) == (0, f"deleted other ({BATCH} trials)\n")
        assert [h.name for h in StudyStore(storage).studies()] == ["sample"]

    def test_delete_asks(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], storage: str
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
        code, _, _ = run(monkeypatch, capsys, "study", "delete", "other")
        assert code == 1
        assert len(StudyStore(storage).studies()) == 2


@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["study", "show", "smaple"], "error: unknown study 'smaple'"),
        (["study", "query", "sample", "--where", "latncy_cycles < 1"], "Did you mean 'latency_cycles'?"),
        (["study", "query", "sample", "--columns", "numbr"], "Did you mean 'number'?"),
        (["study", "query", "sample", "--best", "energy"], "Did you mean 'energy_pj'?"),
        (["study", "query", "sample", "--sort", "lat"], "error: unknown column 'lat'"),
        (["study", "query", "sample", "--limit", "-1"], "--limit"),
        (["study", "list", "--storage", "sqlite:///none.db"], "error: there is no study database none.db"),
        (["study", "list", "--storage", "mysql://x"], "error: a study database must be sqlite or postgresql"),
        (["machine", "show", "rad"], "Did you mean 'rda'?"),
        (["study", "shw"], "No such command 'shw'"),
        (["report"], "Missing argument"),
    ],
)
def test_wrong_input_is_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    code, out, err = run(monkeypatch, capsys, *words)
    assert code == 2
    assert message in err
    assert "Traceback" not in out + err


def test_a_broken_database_is_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "s.db").write_text("not a database, but long enough for a header to be looked for in it " * 20)
    code, _, err = run(monkeypatch, capsys, "study", "list", "--storage", f"sqlite:///{tmp_path / 's.db'}")
    assert code == 1
    assert "file is not a database" in err


def test_machines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(monkeypatch, capsys, "machine", "list", "--json")
    machines = {m["name"]: m for m in json.loads(out)}
    assert machines["rda"]["fifo_depth"] == 64
    assert machines["comal"]["fifo_depth"] is None
    code, out, _ = run(monkeypatch, capsys, "machine", "show", "rda")
    assert code == 0
    assert "* fifo_depth" in out
    assert "energy.dram_pj_per_byte" in out
    _, out, _ = run(monkeypatch, capsys, "machine", "show", "comal", "--json")
    assert json.loads(out)["dram_channels"] is None


def test_help_loads_nothing_slow() -> None:
    script = (
        "import sys, time\n"
        "from tuner import cli\n"
        "sys.argv = ['sparseloom', '--help']\n"
        "try: cli.main()\n"
        "except SystemExit: pass\n"
        f"loaded = [m for m in {SLOW!r} if m in sys.modules]\n"
        "print('loaded', loaded, 'seconds', time.process_time())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "100"}
    )
    last = done.stdout.splitlines()[-1]
    assert last.startswith("loaded [] "), last
    assert float(last.rpartition(" ")[2]) < 0.5
