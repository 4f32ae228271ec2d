"""First schema: studies, trials and what belongs to them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates every table."""
    op.create_table(
        "dse_machines",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("fields", sa.JSON, nullable=False),
    )
    op.create_table(
        "dse_studies",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(200), nullable=False, unique=True),
        sa.Column("origin", sa.String(200), nullable=False, index=True),
        sa.Column("identity", sa.JSON, nullable=False),
        sa.Column("identity_hash", sa.String(64), nullable=False, index=True),
        sa.Column("machine_key", sa.String(64), sa.ForeignKey("dse_machines.key")),
        sa.Column("batches", sa.Integer, nullable=False),
        sa.Column("finished", sa.Text),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("finished_at", sa.String(32)),
    )
    op.create_table(
        "dse_datasets",
        sa.Column("study_id", sa.Integer, sa.ForeignKey("dse_studies.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("tensor", sa.String(200), primary_key=True),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("shape", sa.JSON, nullable=False),
        sa.Column("nnz", sa.BigInteger, nullable=False),
        sa.Column("notes", sa.JSON, nullable=False),
    )
    op.create_table(
        "dse_mappings",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("mapping", sa.JSON, nullable=False),
    )
    op.create_table(
        "dse_trials",
        sa.Column("study_id", sa.Integer, sa.ForeignKey("dse_studies.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("batch", sa.Integer, nullable=False),
        sa.Column("state", sa.String(20), nullable=False, index=True),
        sa.Column("params", sa.JSON, nullable=False),
        sa.Column("distributions", sa.JSON, nullable=False),
        sa.Column("mapping_key", sa.String(64), sa.ForeignKey("dse_mappings.key"), index=True),
        sa.Column("objectives", sa.JSON),
        sa.Column("failure", sa.Text),
        sa.Column("duplicate_of", sa.Integer),
        sa.Column("model_version", sa.String(40), nullable=False),
        sa.Column("simulator_version", sa.String(40), nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
    )
    for table, column in (("dse_estimates", "estimate"), ("dse_profiles", "profile")):
        op.create_table(table, *_trial_key(), sa.Column(column, sa.JSON, nullable=False), _of_trial())
    op.create_table(
        "dse_verdicts",
        *_trial_key(),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("rule", sa.String(100), nullable=False, index=True),
        sa.Column("measured", sa.JSON, nullable=False),
        sa.Column("bound", sa.JSON, nullable=False),
        sa.Column("unit", sa.String(40), nullable=False),
        sa.Column("place", sa.Text, nullable=False),
        _of_trial(),
    )


def downgrade() -> None:
    """Drops every table."""
    for table in ("verdicts", "profiles", "estimates", "trials", "mappings", "datasets", "studies", "machines"):
        op.drop_table(f"dse_{table}")


def _trial_key() -> list[sa.Column[int]]:
    return [sa.Column("study_id", sa.Integer, primary_key=True), sa.Column("number", sa.Integer, primary_key=True)]


def _of_trial() -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["study_id", "number"], ["dse_trials.study_id", "dse_trials.number"], ondelete="CASCADE"
    )
