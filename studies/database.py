"""Connections to the study database and the upgrade of its schema.

SQLite runs in WAL mode so that readers never wait; a writer takes its lock when its transaction begins and waits
up to a minute for another writer. PostgreSQL needs none of this.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.pool import NullPool

from mapper.canonical import canonical_json
from mapper.errors import SparseLoomError, StudyError
from studies.tables import SCHEMA_VERSION, VERSION_TABLE

BUSY_TIMEOUT_MS = 60_000
WAL_ATTEMPTS, WAL_PAUSE_SECONDS = 200, 0.05
_WRITES = "sparseloom_writes"

_PLACE = (
    " SQLite keeps a log beside the file, so even to read it the folder must be one that can be written: copy the file "
    "to such a folder and name the copy with --storage."
)
HINTS = {
    "locked": " Many writers at once are better served by PostgreSQL.",
    "unable to open": _PLACE,
    "readonly": _PLACE,
}
"""What to do about an error of the database, by words in it."""


class Database:
    """One database by URL, at the current schema. ``create=False`` refuses a SQLite file that does not exist.

    Raises StudyError for a URL, file or schema version that cannot be used, SparseLoomError whenever the database
    itself fails.
    """

    def __init__(self, url: str | sa.URL, *, create: bool = True) -> None:
        self._engine = _engine(url)
        self.name = self._engine.url.render_as_string(hide_password=True)
        self._on_file = _is_file(self._engine.url)
        if self._on_file:
            self._check_file(create)
        with self.read() as connection:
            version = _schema_version(connection)
        if version != SCHEMA_VERSION:
            self._upgrade()

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A transaction that sees one state of the database."""
        with self._named_errors(), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A transaction that holds the write lock from its beginning; it commits whole or not at all."""
        with self._named_errors(), self._engine.connect() as plain:
            connection = plain.execution_options(**{_WRITES: True})
            with connection.begin():
                yield connection

    def close(self) -> None:
        """Returns all connections."""
        self._engine.dispose()

    def _check_file(self, create: bool) -> None:
        file = Path(str(self._engine.url.database))
        if not file.exists() and not create:
            raise StudyError(f"there is no study database {file}; name another with --storage, or run a study first")
        if not file.parent.is_dir():
            raise StudyError(f"the folder of the study database must exist: {file.parent}")

    def _upgrade(self) -> None:
        from alembic import command
        from alembic.config import Config
        from alembic.util import CommandError

        if self._on_file:
            self._enable_wal()
        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
        try:
            with self.write() as connection:
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
        except CommandError as error:
            raise StudyError(
                f"study database {self.name} has a schema that this version does not know ({error}); update sparseloom"
            ) from error

    def _enable_wal(self) -> None:
        """WAL is kept in the file. Switching needs the file alone and does not wait by itself: try again."""
        for attempt in range(WAL_ATTEMPTS):
            try:
                with self._engine.connect() as connection:
                    driver = connection.connection.dbapi_connection
                    assert driver is not None
                    driver.execute("PRAGMA journal_mode=WAL")
                return
            except sa.exc.OperationalError:
                if attempt == WAL_ATTEMPTS - 1:
                    raise
                time.sleep(WAL_PAUSE_SECONDS)

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.DatabaseError as error:
            hint = next((hint for text, hint in HINTS.items() if text in str(error.orig)), "")
            raise SparseLoomError(f"study database {self.name}: {error.orig}.{hint}") from error


def _engine(url: str | sa.URL) -> sa.Engine:
    options: dict[str, Any] = {"json_serializer": canonical_json}
    try:
        parsed = sa.make_url(url)
        shown = parsed.render_as_string(hide_password=True)
        if parsed.get_backend_name() not in ("sqlite", "postgresql"):
            raise StudyError(f"a study database must be sqlite or postgresql, got {shown!r}")
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        if _is_file(parsed):
            options["poolclass"] = NullPool
        engine = sa.create_engine(parsed, **options)
    except (sa.exc.ArgumentError, ValueError) as error:  # ValueError: of a port that is no number
        raise StudyError(f"storage must be a URL such as sqlite:///studies.db, got {url!r}") from error
    except ModuleNotFoundError as error:
        raise StudyError(f"storage {shown!r} needs the Python package {error.name}; install it") from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _is_file(url: sa.URL) -> bool:
    return url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")


def _configure_sqlite(driver: Any, _record: Any) -> None:
    driver.isolation_level = None  # transactions begin where _begin_sqlite says, not where the driver guesses
    for pragma in (f"busy_timeout={BUSY_TIMEOUT_MS}", "foreign_keys=ON", "synchronous=NORMAL"):
        driver.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _schema_version(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    version: sa.ColumnClause[str] = sa.column("version_num")
    return connection.execute(sa.select(version).select_from(sa.table(VERSION_TABLE))).scalar()
