"""Alembic environment and versions of the study database; ``store`` runs them."""
