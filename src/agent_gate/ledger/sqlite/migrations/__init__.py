"""Alembic migrations of the ledger; branch `core`, one further branch for each service that owns tables."""
