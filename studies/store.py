"""StudyStore: the one owner of the study database. A batch is written whole or not at all, in order.

The database may give the number of a deleted study to a new one: whoever writes names a study by its handle, and is
refused if that very study is not there any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from mapper.canonical import content_hash
from mapper.errors import StudyError, nearest
from studies import tables as t
from studies.database import Database
from studies.place import Place, matching, place_of
from studies.records import (
    BASELINE,
    DatasetRecord,
    StudyContents,
    StudyHandle,
    TransferRecord,
    TrialRecord,
    VerdictRecord,
)


class StudyStore:
    """Studies and their trials in the database at ``url`` (SQLite or PostgreSQL), created or upgraded as needed.

    With ``create=False`` a SQLite file must exist. Every method raises SparseLoomError when the database fails.
    """

    def __init__(self, url: str | sa.URL, *, create: bool = True) -> None:
        self._database = Database(url, create=create)

    @property
    def name(self) -> str:
        """The URL without password."""
        return self._database.name

    def close(self) -> None:
        """Returns all connections."""
        self._database.close()

    def place(self, identity: Mapping[str, Any], name: str, *, restart: bool = False, fork: bool = False) -> Place:
        """Where ``open`` would find or put a study; nothing is written."""
        return place_of(self.studies(), identity, name, restart=restart, fork=fork)

    def open(
        self,
        identity: Mapping[str, Any],
        name: str,
        *,
        datasets: Sequence[DatasetRecord] = (),
        restart: bool = False,
        fork: bool = False,
    ) -> StudyHandle:
        """The study ``name`` with this identity: resumed if it (or a fork of it) exists, else created.

        ``place_of`` says where, and when it is refused.
        """
        with self._database.write() as connection:
            place = place_of(_handles(connection), identity, name, restart=restart, fork=fork)
            if place.resumed:
                return place.resumed
            if place.replaced:
                _delete(connection, place.replaced.id)
            return _create(connection, place.name, name, identity, datasets)

    def find(self, name: str, identity: Mapping[str, Any] | None = None) -> StudyHandle:
        """The study called ``name``; before it the fork of it that has ``identity``, if one is given. Raises StudyError
        with the valid names otherwise."""
        handles = {h.name: h for h in self.studies()}
        if identity is not None and (same := matching([*handles.values()], identity, name)):
            return same
        if name not in handles:
            raise StudyError(f"unknown study {name!r} in {self.name}.{nearest(name, handles)}")
        return handles[name]

    def load(self, name: str) -> StudyContents:
        """The study called ``name`` with all its rows."""
        handle = self.find(name)
        trials, datasets = tuple(self.trials(handle.id)), tuple(self.datasets(handle.id))
        return StudyContents(handle, datasets, self.baseline(handle.id), trials)

    def studies(self) -> list[StudyHandle]:
        """All studies, oldest first."""
        with self._database.read() as connection:
            return _handles(connection)

    def counts(self, study_id: int) -> dict[str, int]:
        """Trials per state, baseline apart."""
        state, c = t.trials.c.state, t.trials.c
        query = sa.select(state, sa.func.count()).where(c.study_id == study_id, c.number >= 0).group_by(state)
        with self._database.read() as connection:
            return {name: int(count) for name, count in connection.execute(query.order_by(state))}

    def datasets(self, study_id: int) -> list[DatasetRecord]:
        """Inputs of a study, in the order of their names."""
        query = sa.select(t.datasets).where(t.datasets.c.study_id == study_id).order_by(t.datasets.c.tensor)
        with self._database.read() as connection:
            return [
                DatasetRecord(r.tensor, r.key, r.source, tuple(r.shape), r.nnz, tuple(r.notes))
                for r in connection.execute(query)
            ]

    def commit_batch(self, study: StudyHandle, batch: int, trials: Sequence[TrialRecord]) -> None:
        """Writes batch number ``batch`` (from 0) in one transaction.

        Raises StudyError, and writes nothing, unless it is the next batch and its trials are the next numbers.
        """
        values = {"batches": batch + 1, "finished": None, "finished_at": None}
        with self._writing(study) as connection:
            there = connection.execute(sa.select(t.studies.c.batches).where(t.studies.c.id == study.id)).scalar_one()
            if there != batch:
                text = f"batch {batch} of study {study.name!r} cannot be written: {there} batches are there"
                raise StudyError(f"{text}; is another process running it?")
            connection.execute(sa.update(t.studies).where(t.studies.c.id == study.id).values(values))
            first = connection.execute(
                sa.select(sa.func.count()).where(t.trials.c.study_id == study.id, t.trials.c.number >= 0)
            ).scalar_one()
            for number, trial in enumerate(trials, first):
                if (trial.number, trial.batch) != (number, batch):
                    got = f"trial {trial.number} of batch {trial.batch}"
                    raise StudyError(f"trial {number} of batch {batch} must come next, got {got}")
            _insert_trials(connection, study.id, trials)

    def set_transfers(self, study: StudyHandle, transfers: Sequence[TransferRecord]) -> StudyHandle:
        """Notes once and for all what a study starts with; the study as it is then."""
        c = t.studies.c
        noted = sa.update(t.studies).where(c.id == study.id, c.transfers.is_(None))
        with self._writing(study) as connection:
            connection.execute(noted.values(transfers=[asdict(each) for each in transfers]))
            return _handles(connection, c.id == study.id)[0]

    def set_baseline(self, study: StudyHandle, trial: TrialRecord) -> None:
        """Stores the default mapping's record, numbered BASELINE, in place of an earlier one."""
        if (trial.number, trial.batch) != (BASELINE, BASELINE):
            raise StudyError(f"the baseline has number and batch {BASELINE}, got {trial.number} and {trial.batch}")
        c = t.trials.c
        with self._writing(study) as connection:
            connection.execute(sa.delete(t.trials).where(c.study_id == study.id, c.number == BASELINE))
            _insert_trials(connection, study.id, [trial])

    def baseline(self, study_id: int) -> TrialRecord | None:
        """The default mapping's record."""
        return next(iter(self._trials(study_id, t.trials.c.number == BASELINE)), None)

    def trials(self, study_id: int) -> list[TrialRecord]:
        """All trials by number, baseline apart."""
        return self._trials(study_id, t.trials.c.number >= 0)

    def finish(self, study: StudyHandle, reason: str) -> None:
        """Notes why the search ended; a further batch takes the note away."""
        values = {"finished": reason, "finished_at": _now()}
        with self._writing(study) as connection:
            connection.execute(sa.update(t.studies).where(t.studies.c.id == study.id).values(values))

    def delete(self, study: StudyHandle) -> None:
        """Removes a study with everything that belongs to it alone."""
        with self._writing(study) as connection:
            _delete(connection, study.id)

    @contextmanager
    def _writing(self, study: StudyHandle) -> Iterator[sa.Connection]:
        """A transaction that writes to ``study``. Raises StudyError if it was deleted, or another has its number."""
        c = t.studies.c
        same = sa.and_(c.id == study.id, c.identity_hash == study.identity_hash, c.created_at == study.created_at)
        with self._database.write() as connection:
            if connection.execute(sa.select(c.id).where(same).with_for_update()).scalar() is None:
                raise StudyError(
                    f"study {study.name!r} was deleted or replaced meanwhile, so nothing is written to it; run the "
                    "command again for what is there now"
                )
            yield connection

    def _trials(self, study_id: int, which: sa.ColumnElement[bool]) -> list[TrialRecord]:
        c, v = t.trials.c, t.verdicts.c
        query = (
            sa.select(t.trials, t.mappings.c.mapping, t.estimates.c.estimate, t.profiles.c.profile)
            .outerjoin(t.mappings, t.mappings.c.key == c.mapping_key)
            .outerjoin(t.estimates, _same_trial(t.estimates))
            .outerjoin(t.profiles, _same_trial(t.profiles))
            .where(c.study_id == study_id, which)
            .order_by(c.number)
        )
        stopped = sa.select(t.verdicts).where(v.study_id == study_id).order_by(v.number, v.position)
        verdicts: dict[int, list[VerdictRecord]] = {}
        with self._database.read() as connection:
            for row in connection.execute(stopped):
                record = VerdictRecord(row.rule, row.measured, row.bound, row.unit, row.place)
                verdicts.setdefault(row.number, []).append(record)
            return [_trial(row, tuple(verdicts.get(row.number, ()))) for row in connection.execute(query)]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")  # fine enough to tell two studies apart


def _same_trial(table: sa.Table) -> sa.ColumnElement[bool]:
    return sa.and_(table.c.study_id == t.trials.c.study_id, table.c.number == t.trials.c.number)


def _handles(connection: sa.Connection, which: sa.ColumnElement[bool] | None = None) -> list[StudyHandle]:
    query = sa.select(t.studies).order_by(t.studies.c.id)
    rows = connection.execute(query if which is None else query.where(which))
    return [
        StudyHandle(
            r.id, r.name, r.identity, r.identity_hash, r.batches, r.finished, r.created_at,
            None if r.transfers is None else tuple(TransferRecord(**each) for each in r.transfers), r.origin,
        )
        for r in rows
    ]  # fmt: skip


def _create(
    connection: sa.Connection,
    name: str,
    origin: str,
    identity: Mapping[str, Any],
    datasets: Sequence[DatasetRecord],
) -> StudyHandle:
    row: dict[str, Any] = {"name": name, "origin": origin, "batches": 0}
    row |= {"identity": dict(identity), "identity_hash": content_hash(identity)}
    fields = identity.get("machine", {}).get("fields")
    if fields:
        row["machine_key"] = content_hash(fields)
        _insert_new(connection, t.machines, [{"key": row["machine_key"], "name": fields["name"], "fields": fields}])
    inserted = connection.execute(sa.insert(t.studies).values(**row, created_at=_now()))
    assert inserted.inserted_primary_key is not None
    study_id = int(inserted.inserted_primary_key[0])
    if datasets:
        connection.execute(sa.insert(t.datasets), [{"study_id": study_id, **asdict(d)} for d in datasets])
    return _handles(connection, t.studies.c.id == study_id)[0]


def _delete(connection: sa.Connection, study_id: int) -> None:
    connection.execute(sa.delete(t.studies).where(t.studies.c.id == study_id))
    for table, user in ((t.mappings, t.trials.c.mapping_key), (t.machines, t.studies.c.machine_key)):
        used = sa.select(user).where(user == table.c.key).exists()
        connection.execute(sa.delete(table).where(~used))


def _insert_new(connection: sa.Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    """Inserts the rows whose key is not there yet."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    connection.execute(dialect.insert(table).on_conflict_do_nothing(), rows)


def _insert_trials(connection: sa.Connection, study_id: int, trials: Sequence[TrialRecord]) -> None:
    stamp = _now()
    mappings = {r.mapping_key: {"key": r.mapping_key, "mapping": r.mapping} for r in trials if r.mapping_key}
    if mappings:
        _insert_new(connection, t.mappings, list(mappings.values()))
    keys = {r.number: {"study_id": study_id, "number": r.number} for r in trials}
    same = "batch state params distributions mapping_key failure duplicate_of model_version simulator_version seconds"
    same += " fidelity gain origin"
    rows: dict[sa.Table, list[dict[str, Any]]] = {
        t.trials: [
            {**keys[r.number], **{f: getattr(r, f) for f in same.split()}, "objectives": r.values, "created_at": stamp}
            for r in trials
        ],
        t.estimates: [{**keys[r.number], "estimate": r.estimate} for r in trials if r.estimate is not None],
        t.profiles: [{**keys[r.number], "profile": r.profile} for r in trials if r.profile is not None],
        t.verdicts: [
            {**keys[r.number], "position": n, "rule": v.rule, "measured": v.measured, "bound": v.limit}
            | {"unit": v.unit, "place": v.where}
            for r in trials
            for n, v in enumerate(r.verdicts)
        ],
    }
    for table, values in rows.items():
        if values:
            connection.execute(sa.insert(table), values)


def _trial(row: Any, verdicts: tuple[VerdictRecord, ...]) -> TrialRecord:
    return TrialRecord(
        number=row.number,
        batch=row.batch,
        state=row.state,
        params=row.params,
        distributions=row.distributions,
        mapping=row.mapping,
        mapping_key=row.mapping_key,
        estimate=row.estimate,
        verdicts=verdicts,
        profile=row.profile,
        values=row.objectives,
        failure=row.failure,
        duplicate_of=row.duplicate_of,
        model_version=row.model_version,
        simulator_version=row.simulator_version,
        seconds=row.seconds,
        fidelity=row.fidelity,
        gain=row.gain,
        origin=row.origin,
    )
