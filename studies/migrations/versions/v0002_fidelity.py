"""What gave a row its numbers, what was expected of it, and where its mapping came from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the columns; of older rows a simulation gave what has a profile, the model what has an estimate."""
    op.add_column("dse_trials", sa.Column("fidelity", sa.String(20), nullable=False, server_default="none"))
    op.add_column("dse_trials", sa.Column("gain", sa.Float))
    op.add_column("dse_trials", sa.Column("origin", sa.Text))
    op.add_column("dse_studies", sa.Column("transfers", sa.JSON))
    for table, fidelity in (("dse_estimates", "estimate"), ("dse_profiles", "full")):
        op.execute(
            f"UPDATE dse_trials SET fidelity = '{fidelity}' WHERE EXISTS (SELECT 1 FROM {table} AS x "  # noqa: S608
            "WHERE x.study_id = dse_trials.study_id AND x.number = dse_trials.number)"
        )
    op.execute("UPDATE dse_trials SET fidelity = 'full' WHERE state = 'failed' OR objectives IS NOT NULL")


def downgrade() -> None:
    """Drops the columns."""
    for table, column in (("trials", "fidelity"), ("trials", "gain"), ("trials", "origin"), ("studies", "transfers")):
        op.drop_column(f"dse_{table}", column)
