"""The study database: batches whole and in order, resumption, many processes, schema versions."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from sample_study import BATCH, DATASETS, baseline, batch, fill, identity
from store_writers import commit_until_killed, race

from mapper.errors import SparseLoomError, StudyError
from studies import tables
from studies.database import Database
from studies.identity import identity_diff
from studies.records import StudyHandle, TransferRecord
from studies.store import StudyStore


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'studies.db'}"


@pytest.fixture
def store(url: str) -> StudyStore:
    return StudyStore(url)


Write = Callable[[StudyStore, StudyHandle], object]
WRITES: list[Write] = [
    lambda store, study: store.commit_batch(study, 1, batch(1)),
    lambda store, study: store.set_baseline(study, baseline()),
    lambda store, study: store.finish(study, "simulation budget used"),
    lambda store, study: store.set_transfers(study, ()),
    lambda store, study: store.delete(study),
]


class TestBatches:
    def test_rows_come_back_as_they_went_in(self, store: StudyStore) -> None:
        study = fill(store, batches=2)
        assert store.trials(study.id) == [*batch(0), *batch(1)]
        assert {t.state for t in store.trials(study.id)} == {"simulated", "screened", "rejected", "failed", "duplicate"}
        assert store.baseline(study.id) == baseline()
        assert tuple(store.datasets(study.id)) == DATASETS
        assert sum(store.counts(study.id).values()) == 2 * BATCH

    def test_types_survive(self, store: StudyStore) -> None:
        study = store.open(identity(), "types")
        trial = dataclasses.replace(
            batch(0)[0],
            params={"i": 3, "f": 0.5, "whole": 2.0, "s": "csr", "b": True},
            values={"latency_cycles": 4_542_805_123_456.0, "traffic_bytes": 0.1, "energy_pj": 1e-9},
        )
        store.commit_batch(study, 0, [trial])
        (back,) = store.trials(study.id)
        assert back == trial
        assert [type(v) for v in back.params.values()] == [type(back.params[k]) for k in back.params]
        assert {k: type(v) for k, v in back.params.items()} == {k: type(v) for k, v in trial.params.items()}

    @pytest.mark.parametrize("number", [0, 2, 3])
    def test_only_the_next_batch_is_taken(self, store: StudyStore, number: int) -> None:
        study = fill(store, batches=1)
        message = f"batch {number} of study 'sample' cannot be written: 1 batches are there"
        with pytest.raises(StudyError, match=message):
            store.commit_batch(study, number, [])
        assert store.find("sample").batches == 1

    def test_a_refused_batch_leaves_nothing(self, store: StudyStore) -> None:
        study = fill(store, batches=1)
        wrong = [*batch(1)[:-1], dataclasses.replace(batch(1)[-1], number=7)]
        with pytest.raises(StudyError, match="trial 39 of batch 1 must come next, got trial 7 of batch 1"):
            store.commit_batch(study, 1, wrong)
        assert store.trials(study.id) == batch(0)
        store.commit_batch(study, 1, batch(1))
        assert len(store.trials(study.id)) == 2 * BATCH

    def test_a_failing_insert_leaves_nothing(self, store: StudyStore) -> None:
        study = fill(store, batches=1)
        unwritable = dataclasses.replace(batch(1)[0], profile={"cycles": float("nan")})
        with pytest.raises(sa.exc.StatementError):
            store.commit_batch(study, 1, [unwritable])
        assert store.trials(study.id) == batch(0)
        assert store.find("sample").batches == 1

    def test_an_empty_batch_counts(self, store: StudyStore) -> None:
        study = store.open(identity(), "empty")
        store.commit_batch(study, 0, [])
        store.commit_batch(study, 1, [dataclasses.replace(batch(0)[0], batch=1)])
        assert [t.batch for t in store.trials(study.id)] == [1]

    @pytest.mark.parametrize("replaced", [None, "same", "other"])
    @pytest.mark.parametrize("write", WRITES)
    def test_nothing_goes_to_a_study_that_was_deleted_or_replaced(
        self, store: StudyStore, write: Write, replaced: str | None
    ) -> None:
        """A new study gets the number of the deleted one, and may have its name, specification and batches."""
        study = fill(store, batches=1)
        store.delete(study)
        new = None
        if replaced:
            new = store.open(identity(seed=0 if replaced == "same" else 1), "sample")
            store.commit_batch(new, 0, [])
            assert new.id == study.id
            new = store.find("sample")
        with pytest.raises(
            StudyError, match=r"study 'sample' was deleted or replaced meanwhile.*run the command again"
        ):
            write(store, study)
        assert store.studies() == [new] * (new is not None)
        assert store.trials(study.id) == []
        assert store.baseline(study.id) is None

    def test_baseline_is_replaced_and_checked(self, store: StudyStore) -> None:
        study = fill(store, batches=0)
        other = dataclasses.replace(baseline(), values={"latency_cycles": 1.0})
        store.set_baseline(study, other)
        assert store.baseline(study.id) == other
        assert store.trials(study.id) == []
        with pytest.raises(StudyError, match="the baseline has number and batch -1"):
            store.set_baseline(study, batch(0)[0])

    def test_a_batch_reopens_a_finished_study(self, store: StudyStore) -> None:
        study = fill(store, batches=1)
        assert study.finished == "simulation budget used"
        store.commit_batch(study, 1, batch(1))
        assert store.find("sample").finished is None


class TestOpening:
    def test_the_same_specification_resumes(self, store: StudyStore) -> None:
        study = fill(store, batches=2)
        assert store.open(identity(), "sample", datasets=DATASETS) == study
        assert len(store.studies()) == 1

    def test_a_changed_specification_is_refused_with_the_difference(self, store: StudyStore) -> None:
        fill(store)
        changed = identity(seed=5)
        changed["constraints"] = {"traffic_bytes": 1e9}
        with pytest.raises(StudyError) as caught:
            store.open(changed, "sample")
        message = str(caught.value)
        assert "search.seed: 0 -> 5" in message
        assert "constraints.traffic_bytes: absent -> 1000000000.0" in message
        assert "--restart" in message
        assert "--fork" in message

    def test_restart_deletes(self, store: StudyStore) -> None:
        fill(store)
        study = store.open(identity(seed=5), "sample", restart=True)
        assert (study.name, study.batches) == ("sample", 0)
        assert store.trials(study.id) == []
        assert [h.name for h in store.studies()] == ["sample"]

    def test_restart_of_an_unchanged_study(self, store: StudyStore) -> None:
        fill(store)
        assert store.open(identity(), "sample", restart=True).batches == 0

    def test_fork_keeps_and_both_resume(self, store: StudyStore) -> None:
        old = fill(store)
        new = store.open(identity(seed=5), "sample", fork=True)
        assert (new.name, new.batches) == ("sample-2", 0)
        assert store.open(identity(), "sample") == old
        assert store.open(identity(seed=5), "sample") == new
        assert store.open(identity(seed=5), "sample", fork=True) == new
        assert store.open(identity(seed=6), "sample", fork=True).name == "sample-3"

    def test_restart_deletes_the_study_that_is_meant(self, store: StudyStore) -> None:
        """The one of this specification; else the one of this name, never a fork that was to be kept."""
        fill(store)
        fork = store.open(identity(seed=5), "sample", fork=True)
        third = store.open(identity(seed=6), "sample", restart=True)
        assert third.name == "sample"
        assert (store.find("sample"), store.find("sample-2")) == (third, fork)
        again = store.open(identity(seed=5), "sample", restart=True)
        assert (again.name, again.origin) == ("sample-2", "sample")
        assert sorted(h.name for h in store.studies()) == ["sample", "sample-2"]
        assert store.find("sample") == third

    def test_a_refusal_lists_the_forks(self, store: StudyStore) -> None:
        fill(store)
        store.open(identity(seed=5), "sample", fork=True)
        store.open(identity(seed=6), "sample", fork=True)
        with pytest.raises(StudyError, match=r"search\.seed: 0 -> 7\n(.|\n)*Its forks sample-2, sample-3 differ"):
            store.open(identity(seed=7), "sample")

    def test_the_name_of_a_deleted_study_is_free(self, store: StudyStore) -> None:
        old = fill(store)
        fork = store.open(identity(seed=5), "sample", fork=True)
        store.delete(old)
        assert store.open(identity(seed=6), "sample").name == "sample"
        assert store.find("sample-2") == fork

    def test_a_fork_is_found_by_its_specification(self, store: StudyStore) -> None:
        old = fill(store)
        fork = store.open(identity(seed=5), "sample", fork=True)
        assert store.find("sample") == old
        assert store.find("sample", identity(seed=5)) == fork
        assert store.find("sample", identity()) == store.find("sample", identity(seed=6)) == old

    def test_restart_and_fork_exclude_each_other(self, store: StudyStore) -> None:
        with pytest.raises(StudyError, match="exclude each other"):
            store.open(identity(), "sample", restart=True, fork=True)

    def test_another_name_is_another_study(self, store: StudyStore) -> None:
        first, second = fill(store, "one", 1), fill(store, "two", 2)
        assert (first.batches, second.batches) == (1, 2)
        assert store.trials(first.id) == store.trials(second.id)[:BATCH]

    def test_unknown_names_are_hinted(self, store: StudyStore) -> None:
        fill(store)
        with pytest.raises(StudyError, match=r"unknown study 'smaple'.* Did you mean 'sample'\? Valid: sample\."):
            store.find("smaple")

    def test_delete_keeps_what_others_use(self, store: StudyStore, url: str) -> None:
        first, second = fill(store, "one"), fill(store, "two", 1)
        store.delete(first)
        assert store.trials(second.id) == batch(0)
        store.delete(second)
        with sa.create_engine(url).connect() as connection:
            for table in tables.metadata.sorted_tables:
                left = connection.execute(sa.select(sa.func.count()).select_from(table)).scalar()
                assert left == 0, table.name


def test_differences_are_sorted_and_flat() -> None:
    old = {"a": {"b": 1, "c": {}}, "d": [1, 2], "e": None}
    new = {"a": {"b": 2, "c": {"x": 1}}, "d": [1], "f": "y"}
    assert identity_diff(old, new) == [
        "a.b: 1 -> 2",
        "a.c: {} -> absent",
        "a.c.x: absent -> 1",
        "d: [1,2] -> [1]",
        "e: null -> absent",
        'f: absent -> "y"',
    ]


class TestSchema:
    def test_migrations_make_exactly_the_tables(self, url: str) -> None:
        from alembic.autogenerate import compare_metadata
        from alembic.migration import MigrationContext

        Database(url).close()
        with sa.create_engine(url).connect() as connection:
            context = MigrationContext.configure(connection, opts={"version_table": tables.VERSION_TABLE})
            assert compare_metadata(context, tables.metadata) == []
            assert context.get_current_heads() == (tables.SCHEMA_VERSION,)

    def test_every_table_has_the_prefix(self, url: str) -> None:
        Database(url).close()
        assert {n for n in sa.inspect(sa.create_engine(url)).get_table_names() if not n.startswith("dse_")} == set()

    def test_the_last_migration_is_the_schema_version(self) -> None:
        from alembic.config import Config
        from alembic.script import ScriptDirectory

        import studies.migrations

        config = Config()
        config.set_main_option("script_location", str(Path(studies.migrations.__file__).parent))
        assert ScriptDirectory.from_config(config).get_heads() == [tables.SCHEMA_VERSION]

    def test_a_newer_schema_is_refused(self, store: StudyStore, url: str) -> None:
        store.close()
        with sa.create_engine(url).begin() as connection:
            connection.execute(sa.text(f"UPDATE {tables.VERSION_TABLE} SET version_num = '9999'"))
        with pytest.raises(StudyError, match="has a schema that this version does not know"):
            StudyStore(url)

    def test_rows_of_the_first_schema_learn_their_fidelity(self, url: str) -> None:
        """Rows written before there were fidelities get what a study writes today."""
        from alembic import command
        from alembic.config import Config

        import studies.migrations

        study = fill(StudyStore(url), batches=2)
        config = Config()
        config.set_main_option("script_location", str(Path(studies.migrations.__file__).parent))
        with Database(url).write() as connection:
            config.attributes["connection"] = connection
            command.downgrade(config, "0001")
        columns = {c["name"] for c in sa.inspect(sa.create_engine(url)).get_columns("dse_trials")}
        assert not columns & {"fidelity", "gain", "origin"}
        back = StudyStore(url).trials(study.id)
        assert back == [dataclasses.replace(t, gain=None, origin=None) for t in [*batch(0), *batch(1)]]
        assert {t.fidelity for t in back} == {"none", "estimate", "full"}

    def test_transfers_are_noted_once(self, store: StudyStore) -> None:
        study = fill(store)
        assert study.transfers is None
        taken = (TransferRecord("other", 3, {"cuts": []}),)
        assert store.set_transfers(study, taken).transfers == taken
        assert store.set_transfers(study, ()).transfers == taken
        assert store.find("sample").transfers == taken

    def test_downgrade_leaves_nothing(self, url: str) -> None:
        from alembic import command
        from alembic.config import Config

        import studies.migrations

        database = Database(url)
        config = Config()
        config.set_main_option("script_location", str(Path(studies.migrations.__file__).parent))
        with database.write() as connection:
            config.attributes["connection"] = connection
            command.downgrade(config, "base")
        assert sa.inspect(sa.create_engine(url)).get_table_names() == [tables.VERSION_TABLE]


class TestDatabase:
    def test_sqlite_is_in_wal_mode(self, store: StudyStore, tmp_path: Path) -> None:
        connection = sqlite3.connect(tmp_path / "studies.db")
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        connection.close()

    def test_reading_does_not_create(self, url: str, tmp_path: Path) -> None:
        with pytest.raises(StudyError, match=r"there is no study database .*studies\.db; name another with --storage"):
            StudyStore(url, create=False)
        assert list(tmp_path.iterdir()) == []

    def test_missing_folder(self, tmp_path: Path) -> None:
        with pytest.raises(StudyError, match="the folder of the study database must exist"):
            StudyStore(f"sqlite:///{tmp_path / 'none' / 's.db'}")

    def test_other_files_are_not_databases(self, tmp_path: Path) -> None:
        (tmp_path / "s.db").write_text("plain text, long enough to be read as the header of a database file" * 20)
        with pytest.raises(SparseLoomError, match="file is not a database"):
            StudyStore(f"sqlite:///{tmp_path / 's.db'}")

    def test_a_file_that_cannot_be_opened_comes_with_advice(self, tmp_path: Path) -> None:
        with pytest.raises(
            SparseLoomError, match=r"unable to open database file\. .*the folder must be one that can be"
        ):
            StudyStore(f"sqlite:///{tmp_path}")

    @pytest.mark.parametrize("bad", ["mysql://host/x", "nonsense", "studies.db", "postgresql://host:port/x"])
    def test_other_urls_are_refused(self, bad: str) -> None:
        with pytest.raises(StudyError, match="sqlite"):
            StudyStore(bad)

    def test_passwords_are_not_shown(self) -> None:
        with pytest.raises(SparseLoomError) as caught:
            StudyStore("postgresql://user:secret@localhost:1/none")
        assert "secret" not in str(caught.value)

    def test_a_reader_does_not_wait_for_a_writer(self, store: StudyStore) -> None:
        study = fill(store, batches=1)
        with store._database.write():
            started = time.perf_counter()
            assert len(store.trials(study.id)) == BATCH
            assert time.perf_counter() - started < 5

    def test_a_writer_waits_for_another(self, store: StudyStore) -> None:
        study = fill(store, batches=1)
        writing, done = threading.Event(), threading.Event()

        def hold() -> None:
            with store._database.write():
                writing.set()
                time.sleep(0.3)
                done.set()

        thread = threading.Thread(target=hold)
        thread.start()
        writing.wait()
        store.commit_batch(study, 1, batch(1))
        assert done.is_set()
        thread.join()


class TestProcesses:
    def test_many_processes_create_and_write_one_file(self, url: str) -> None:
        context = multiprocessing.get_context("spawn")
        workers = [context.Process(target=race, args=(url, n)) for n in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(120)
        assert [w.exitcode for w in workers] == [0, 0, 0, 0]
        store = StudyStore(url)
        assert sorted(h.name for h in store.studies()) == [f"study-{n}" for n in range(4)]
        assert all(store.trials(h.id) == [*batch(0), *batch(1)] for h in store.studies())

    def test_a_killed_writer_leaves_whole_batches(self, store: StudyStore, url: str) -> None:
        process = multiprocessing.get_context("spawn").Process(target=commit_until_killed, args=(url,))
        process.start()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not any(h.batches >= 3 for h in store.studies()):
            time.sleep(0.01)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        study = store.open(identity(), "sample")
        assert study.batches >= 3
        expected = [t for number in range(study.batches) for t in batch(number, pool=20)]
        assert store.trials(study.id) == expected
        store.commit_batch(study, study.batches, batch(study.batches, pool=20))


def test_rows_are_equal_byte_for_byte_apart_from_time_stamps(tmp_path: Path) -> None:
    dumps = []
    for name in ("a.db", "b.db"):
        fill(StudyStore(f"sqlite:///{tmp_path / name}"))
        with sa.create_engine(f"sqlite:///{tmp_path / name}").connect() as connection:
            rows = {}
            for table in tables.metadata.sorted_tables:
                columns = [c.name for c in table.columns if c.name not in ("created_at", "finished_at", "seconds")]
                names = ", ".join(f'"{c}"' for c in columns)
                rows[table.name] = connection.execute(sa.text(f"SELECT {names} FROM {table.name} ORDER BY 1, 2")).all()
            dumps.append(rows)
    assert dumps[0] == dumps[1]
    assert len(dumps[0]["dse_trials"]) == 3 * BATCH + 1
