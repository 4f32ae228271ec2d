"""The database schema: every table starts with ``dse_`` so that other tools may share the database.

Changing a table takes a new file in ``migrations/versions`` and a new SCHEMA_VERSION.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

SCHEMA_VERSION = "0002"
VERSION_TABLE = "dse_schema_version"

metadata = MetaData()


def _trial_key() -> list[Column[int]]:
    return [Column("study_id", Integer, primary_key=True), Column("number", Integer, primary_key=True)]


def _of_trial() -> ForeignKeyConstraint:
    target = ["dse_trials.study_id", "dse_trials.number"]
    return ForeignKeyConstraint(["study_id", "number"], target, ondelete="CASCADE")


machines = Table(
    "dse_machines",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("fields", JSON, nullable=False),
)

studies = Table(
    "dse_studies",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(200), nullable=False, unique=True),
    Column("origin", String(200), nullable=False, index=True),
    Column("identity", JSON, nullable=False),
    Column("identity_hash", String(64), nullable=False, index=True),
    Column("machine_key", String(64), ForeignKey("dse_machines.key")),
    Column("batches", Integer, nullable=False),
    Column("transfers", JSON(none_as_null=True)),
    Column("finished", Text),
    Column("created_at", String(32), nullable=False),
    Column("finished_at", String(32)),
)
"""``origin`` is the name that the specification asked for: a fork has another ``name`` and the same origin."""

datasets = Table(
    "dse_datasets",
    metadata,
    Column("study_id", Integer, ForeignKey("dse_studies.id", ondelete="CASCADE"), primary_key=True),
    Column("tensor", String(200), primary_key=True),
    Column("key", String(64), nullable=False),
    Column("source", Text, nullable=False),
    Column("shape", JSON, nullable=False),
    Column("nnz", BigInteger, nullable=False),
    Column("notes", JSON, nullable=False),
)

mappings = Table(
    "dse_mappings",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("mapping", JSON, nullable=False),
)

trials = Table(
    "dse_trials",
    metadata,
    Column("study_id", Integer, ForeignKey("dse_studies.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("batch", Integer, nullable=False),
    Column("state", String(20), nullable=False, index=True),
    Column("params", JSON, nullable=False),
    Column("distributions", JSON, nullable=False),
    Column("mapping_key", String(64), ForeignKey("dse_mappings.key"), index=True),
    Column("objectives", JSON(none_as_null=True)),
    Column("failure", Text),
    Column("duplicate_of", Integer),
    Column("model_version", String(40), nullable=False),
    Column("simulator_version", String(40), nullable=False),
    Column("seconds", Float, nullable=False),
    Column("created_at", String(32), nullable=False),
    Column("fidelity", String(20), nullable=False),
    Column("gain", Float),
    Column("origin", Text),
)

estimates = Table("dse_estimates", metadata, *_trial_key(), Column("estimate", JSON, nullable=False), _of_trial())

profiles = Table("dse_profiles", metadata, *_trial_key(), Column("profile", JSON, nullable=False), _of_trial())

verdicts = Table(
    "dse_verdicts",
    metadata,
    *_trial_key(),
    Column("position", Integer, primary_key=True),
    Column("rule", String(100), nullable=False, index=True),
    Column("measured", JSON, nullable=False),
    Column("bound", JSON, nullable=False),
    Column("unit", String(40), nullable=False),
    Column("place", Text, nullable=False),
    _of_trial(),
)
